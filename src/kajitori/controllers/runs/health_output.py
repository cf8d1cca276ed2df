"""The output of failed health checks, which kubelets tell in Events alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from kajitori.cluster.objects import Event
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core.formats.node_lists import expand_ranks
from kajitori.core.gang import Member
from kajitori.core.gang.status.health import with_health
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.health import OUTPUT_LENGTH, output_of_check
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import EVENTS

TRIES = 3
"""Number of times that the Events are asked for: kubelets write them in the background."""
ASKED_AGAIN = timedelta(seconds=5)


@dataclass(slots=True)
class _Asked:
    uid: str
    """UID of the Pod of the first unhealthy member."""
    since: str
    """Time since which members are unhealthy."""
    tries: int = 0


class HealthOutputs:
    """Adds to the status of an unhealthy run what the check printed. Each time that a run becomes unhealthy, the Events
    of one Pod are read. Not thread-safe."""

    def __init__(self, client: KubeClient, work: WorkQueue) -> None:
        self._client = client
        self._work = work
        self._asked: dict[Key, _Asked] = {}

    async def added(self, key: Key, run: RunObject, status: RunStatus, members: Iterable[Member]) -> RunStatus:
        """Return the status with the output, if that is known."""
        health = status.health
        if health is None or not health.unhealthy:
            self.forget(key)
            return status
        first = next(iter(expand_ranks(health.ranks)))
        member = max((one for one in members if one.rank == first), key=lambda one: one.attempt, default=None)
        if health.output or member is None:
            return status
        asked = self._asked.get(key)
        if asked is None or (asked.uid, asked.since) != (member.uid, health.since):
            asked = self._asked[key] = _Asked(member.uid, health.since)
        if asked.tries >= TRIES:
            return status
        asked.tries += 1
        output = await self._read(run, member.uid)
        if not output:
            self._work.wake(key, ASKED_AGAIN)
            return status
        return with_health(status, msgspec.structs.replace(health, output=output))

    def forget(self, key: Key) -> None:
        """Forget a run that is gone, or not unhealthy any more."""
        self._asked.pop(key, None)

    async def _read(self, run: RunObject, pod_uid: str) -> str:
        selector = f"involvedObject.uid={pod_uid},reason=Unhealthy"
        try:
            found = await self._client.list(EVENTS, run.metadata.namespace, field_selector=selector, type=Event)
        except KajitoriError:
            return ""
        newest = max(found.items, key=lambda event: event.last_timestamp or event.event_time, default=None)
        return output_of_check(newest.message)[:OUTPUT_LENGTH] if newest is not None else ""
