"""Members that were killed because their node ran out of memory, although they kept within their request (rule 7).

In a Pod's status, a container that exceeded its limit and one that the kernel chose when the machine ran out of memory
look the same: OOMKilled. In the second case the kubelet also writes an event `SystemOOM` about its node at that time.
The events are read once for all such members, and only if a member's request equals its limit: how much memory other
members used beyond their request is not known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

from kajitori.cluster.mirror.usage import memory_limit, memory_request
from kajitori.cluster.objects import Event, Pod
from kajitori.cluster.runs.members import main_container
from kajitori.core.formats.quantities import parse_memory_bytes
from kajitori.core.formats.times import parse_time
from kajitori.errors import Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import EVENTS

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0
"""Longest time that the event may come after the Pod's status."""

NEAR = timedelta(seconds=10)
"""Longest time between the end of a container and the event, both by the node's clock."""

NAMESPACE = "default"
"""Namespace of events about nodes, which have no namespace of their own."""

_FIELDS = "involvedObject.kind=Node,reason=SystemOOM"
_REMEMBERED = 10_000


class NodeMemoryKills:
    """Finds out, once for each killed Pod, whether its node ran out of memory."""

    def __init__(self, client: KubeClient, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._client = client
        self._patience_seconds = patience_seconds
        self._verdicts: dict[str, bool] = {}
        self._first_seen: dict[str, float] = {}

    async def among(self, pods: Iterable[Pod]) -> tuple[Collection[str], float]:
        """Return the UIDs of Pods that were killed for their node's memory, and the seconds after which to ask again.

        The seconds are 0 if all Pods are decided.
        """
        killed = [pod for pod in pods if _may_be_a_victim(pod)]
        open_ones = [pod for pod in killed if pod.metadata.uid not in self._verdicts]
        wait = 0.0
        if open_ones:
            now = asyncio.get_running_loop().time()
            events = await self._out_of_memory_events()
            for pod in open_ones:
                uid = pod.metadata.uid
                left = self._first_seen.setdefault(uid, now) + self._patience_seconds - now
                _drop_oldest(self._first_seen)
                node_victims = any(_is_about(event, pod) for event in events)
                if node_victims or left <= 0:
                    self._record_verdict(uid, node_victims)
                else:
                    wait = max(wait, left)
        return {pod.metadata.uid for pod in killed if self._verdicts.get(pod.metadata.uid)}, wait

    async def _out_of_memory_events(self) -> list[Event]:
        try:
            return (await self._client.list(EVENTS, NAMESPACE, field_selector=_FIELDS, type=Event)).items
        except Forbidden as error:
            log.info("events about nodes that ran out of memory can't be read: %s", error.message)
            return []

    def _record_verdict(self, uid: str, node_victims: bool) -> None:
        self._first_seen.pop(uid, None)
        self._verdicts[uid] = node_victims
        _drop_oldest(self._verdicts)


def _drop_oldest(remembered: dict[str, Any]) -> None:
    while len(remembered) > _REMEMBERED:
        del remembered[next(iter(remembered))]


def _may_be_a_victim(pod: Pod) -> bool:
    """Whether the Pod was killed for memory and its request equals its limit."""
    container = main_container(pod)
    ended = container.state.terminated if container is not None else None
    if ended is None or ended.reason != "OOMKilled" or pod.status.phase != "Failed":
        return False
    limit, request = memory_limit(pod.spec), memory_request(pod.spec)
    try:
        return bool(limit) and parse_memory_bytes(request or limit) == parse_memory_bytes(limit)
    except ValueError:
        return False


def _is_about(event: Event, pod: Pod) -> bool:
    if event.involved_object.name != pod.spec.node_name:
        return False
    container = main_container(pod)
    ended = container.state.terminated if container is not None else None
    moment = parse_time(ended.finished_at) if ended is not None else None
    first = _parse_time_or_none(event.first_timestamp or event.event_time)
    last = _parse_time_or_none(event.last_timestamp or event.event_time) or first
    if moment is None or first is None or last is None:
        return False
    return first - NEAR <= moment <= last + NEAR


def _parse_time_or_none(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None
