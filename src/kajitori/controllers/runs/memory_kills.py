"""Who was killed for memory though he had kept to what he had asked for: the node ran out of it (rule 7).

A container that its own limit killed and one that the kernel chose when the whole machine had nothing left look the
same in a Pod's status: OOMKilled. But of the latter a kubelet says `SystemOOM` in an event about its node, at that
time. It is asked for once for all members that ended so, and only of those who had asked for all that they may use: of
others nobody can tell what they used at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

from kajitori.cluster.members import main_container
from kajitori.core.words.quantities import parse_memory_bytes
from kajitori.core.words.times import parse_time
from kajitori.errors import Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror.usage import memory_limit, memory_request
from kajitori.kube.objects import Event, Pod
from kajitori.kube.resources import EVENTS

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0
"""How long the event may take to come after the Pod's status."""

NEAR = timedelta(seconds=10)
"""Between the end of a container and the event, both by the clock of one machine."""

NAMESPACE = "default"
"""Where events about nodes lie, which have no namespace."""

_FIELDS = "involvedObject.kind=Node,reason=SystemOOM"
_REMEMBERED = 10_000


class Spared:
    """Looks for the evidence, once for each Pod."""

    def __init__(self, client: KubeClient, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._client = client
        self._patience_seconds = patience_seconds
        self._verdicts: dict[str, bool] = {}
        self._first_seen: dict[str, float] = {}

    async def among(self, pods: Iterable[Pod]) -> tuple[Collection[str], float]:
        """UIDs of those Pods that are victims; and after how many seconds to ask again, where that is not clear yet."""
        killed = [pod for pod in pods if _may_be_a_victim(pod)]
        open_ones = [pod for pod in killed if pod.metadata.uid not in self._verdicts]
        wait = 0.0
        if open_ones:
            now = asyncio.get_running_loop().time()
            events = await self._events()
            for pod in open_ones:
                uid = pod.metadata.uid
                left = self._first_seen.setdefault(uid, now) + self._patience_seconds - now
                _bound(self._first_seen)
                spared = any(_is_about(event, pod) for event in events)
                if spared or left <= 0:
                    self._judge(uid, spared)
                else:
                    wait = max(wait, left)
        return {pod.metadata.uid for pod in killed if self._verdicts.get(pod.metadata.uid)}, wait

    async def _events(self) -> list[Event]:
        try:
            return (await self._client.list(EVENTS, NAMESPACE, field_selector=_FIELDS, type=Event)).items
        except Forbidden as error:
            log.info("whether a node ran out of memory cannot be told: %s", error.message)
            return []

    def _judge(self, uid: str, spared: bool) -> None:
        self._first_seen.pop(uid, None)
        self._verdicts[uid] = spared
        _bound(self._verdicts)


def _bound(remembered: dict[str, Any]) -> None:
    while len(remembered) > _REMEMBERED:
        del remembered[next(iter(remembered))]


def _may_be_a_victim(pod: Pod) -> bool:
    """Killed for memory, and it had asked for as much as it may use."""
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
    first = _time(event.first_timestamp or event.event_time)
    last = _time(event.last_timestamp or event.event_time) or first
    if moment is None or first is None or last is None:
        return False
    return first - NEAR <= moment <= last + NEAR


def _time(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None
