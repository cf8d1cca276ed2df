"""Writes the status of Runs, and remembers writes that the mirror does not show yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.controllers.workqueue import Key
from kajitori.core.messages.idle_question import describe_idle
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.spec.status_parts.node_request import RequestState, describe_request
from kajitori.core.spec.status_parts.usage import Usage
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventRecorder
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

STATUS_INTERVAL = timedelta(seconds=1)
"""Shortest time between two writes of a Run of which only the counts change (rule 8)."""

BUSY_INTERVAL = timedelta(seconds=3)
"""The same while writes wait for the API server. It then also holds for the progress of a start."""

UNSEEN_PATIENCE = timedelta(seconds=10)
"""Longest time to wait for the mirror to show a write. After that the mirror's contents are used anyway."""


_REQUESTS = {
    RequestState.PROVISIONED: ("Normal", "NodesProvisioned"),
    RequestState.FAILED: ("Warning", "NodesNotProvisioned"),
    RequestState.UNAVAILABLE: ("Warning", "NodesNotProvisioned"),
}
"""Type and reason of Events about requests for nodes, for states that the run's own reason does not show."""


_BAD = (Reason.PREEMPTED, Reason.SUSPECTED_STUCK, Reason.STUCK)
"""Reasons with Events of type Warning, although no attempt has ended."""


@dataclass(slots=True)
class _Written:
    """The last writes of one run. A restarted controller works without them."""

    version: int = 0
    at: datetime | None = None
    attempts: tuple[str, int] = ("", 0)
    """UID of the run, and the highest number of its attempts."""
    made: tuple[str, int] | None = None
    """UID of the run, and number of the last attempt with all of its Pods created."""
    usage: tuple[str, int, Usage] | None = None
    """UID and resource version of the run, and its usage with ends of members that are not written yet."""
    unseen_pods: set[str] = field(default_factory=set)
    unseen_since: datetime | None = None


class Statuses:
    """Writes the statuses of all Runs."""

    def __init__(
        self,
        client: KubeClient,
        mirror: Mirror,
        events: EventRecorder,
        now: Callable[[], datetime],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._metrics = metrics or ControllerMetrics.unread()
        self._client = client
        self._mirror = mirror
        self._events = events
        self._now = now
        self._written: dict[Key, _Written] = {}

    async def write(
        self, run: RunObject, status: RunStatus, version: str = "", *, before: RunStatus | None = None
    ) -> str:
        """Store the status by compare-and-swap and return the new resource version. A new phase or reason gets an
        Event.

        `version` and `before` are the resource version and status that it replaces, if they are newer than `run`.
        """
        meta = run.metadata
        version = await write_status(self._client, run, status, resource_version=version)
        written = self._written.setdefault((meta.namespace, meta.name), _Written())
        written.version = int(version)
        written.at = self._now()
        written.usage = None
        self.note_attempts(run, status.attempts)
        if status.attempt is not None and not status.attempt.created:
            written.made = None  # the number can come again after a backup was restored
        self._emit_events(run, before or run.status, status)
        self._count_in_metrics(before or run.status or RunStatus(), status)
        return version

    def _count_in_metrics(self, old: RunStatus, status: RunStatus) -> None:
        """Count setbacks by reason, ended runs, and preemptions in the metrics."""
        if status.phase.is_final and not old.phase.is_final and status.reason is not Reason.NOT_STARTED:
            self._metrics.runs_ended.labels(status.phase.value).inc()
        setbacks = _count_setbacks(status) - _count_setbacks(old)
        failed = status.phase is Phase.FAILED and old.phase is not Phase.FAILED
        if (setbacks > 0 and status.reason is not Reason.GROWS) or failed:
            self._metrics.failures.labels(_reason_of(status)).inc(max(1, setbacks))
        known = {asked.waiting for asked in old.preemption.each} if old.preemption is not None else set()
        for asked in status.preemption.each if status.preemption is not None else ():
            if asked.waiting not in known:
                self._metrics.preemptions.labels("guarantee" if asked.guaranteed else "priority").inc()

    def _emit_events(self, run: RunObject, before: RunStatus | None, status: RunStatus) -> None:
        """Write Events about a new phase or reason of the run, and about its request for nodes. A restart that somebody
        asked for is reported once: the Event about its members' end says so already."""
        meta, old = run.metadata, before or RunStatus(phase=Phase.QUEUED, queued_at="-")
        about = About(names.KIND, meta.name, meta.uid, meta.namespace, names.API_VERSION)
        is_told = status.reason is Reason.RESTARTED_BY_USER and old.reason is Reason.STOPPING
        if not is_told and (_reported_part(status) != _reported_part(old) or run.status is None):
            setbacks = status.interruptions > old.interruptions or status.restarts > old.restarts
            is_bad = status.phase is Phase.FAILED or setbacks or status.reason in _BAD
            reason = status.reason.value or status.phase.value
            message = status.message or status.phase.value
            self._events.emit(about, "Warning" if is_bad else "Normal", reason, message)
            extra = {"run": f"{meta.namespace}/{meta.name}", "phase": status.phase.value, "reason": reason}
            level = logging.INFO if is_bad else logging.DEBUG
            log.log(level, "run %s/%s: %s: %s", meta.namespace, meta.name, reason, message, extra=extra)
        idle, known = status.idle, old.idle
        if idle is not None and idle.asked_at and (known is None or not known.asked_at):
            self._events.emit(about, "Warning", "IdleGPUs", describe_idle(idle, self._now()))
        if idle is not None and idle.warned_at and (known is None or not known.warned_at):
            self._events.emit(about, "Warning", "ParkingSoon", f"policy parks it at {idle.park_at} unless it is kept")
        health, was = status.health, old.health
        if health is not None and health.status != "starting" and (was is None or was.status != health.status):
            kind = "Warning" if health.unhealthy else "Normal"
            self._events.emit(about, kind, health.status.capitalize(), health.describe(status.members.total))
        request, last = status.node_request, old.node_request
        if request is not None and request.state in _REQUESTS and (last is None or last.state is not request.state):
            self._events.emit(about, *_REQUESTS[request.state], describe_request(request))

    def may_write(self, key: Key, old: RunStatus | None, new: RunStatus) -> bool:
        """Whether the status is to be written now.

        Turning points are written at once, and counts at most once in `STATUS_INTERVAL`. While writes wait for the API
        server, the progress of a start is treated like counts.
        """
        at = self.written_at(key)
        if old is None or at is None:
            return True
        if not self.are_held_up:
            return _turning_point(old) != _turning_point(new) or self._now() - at >= STATUS_INTERVAL
        return _without_start(old) != _without_start(new) or self._now() - at >= BUSY_INTERVAL

    @property
    def are_held_up(self) -> bool:
        """Whether writes wait for the API server."""
        return self._client.limiter.is_full

    def written_at(self, key: Key) -> datetime | None:
        """Return the time of the last write of a run's status by this process; None if there was none."""
        written = self._written.get(key)
        return written.at if written is not None else None

    def note_attempts(self, run: RunObject, attempts: int) -> None:
        """Record that the run has had attempts up to this number, so that no number is used twice."""
        meta = run.metadata
        written = self._written.setdefault((meta.namespace, meta.name), _Written())
        known = written.attempts[1] if written.attempts[0] == meta.uid else 0
        written.attempts = meta.uid, max(known, attempts)

    def knows(self, run: RunObject) -> bool:
        """Whether the number of the run's attempts is known."""
        written = self._written.get((run.metadata.namespace, run.metadata.name))
        return written is not None and written.attempts[0] == run.metadata.uid

    def put_off(self, run: RunObject, status: RunStatus) -> None:
        """Remember the ends of members that a write, which has to wait, would have recorded. Their Pods may be gone by
        then."""
        meta, usage = run.metadata, status.usage
        if usage is not None and (run.status is None or usage != run.status.usage):
            written = self._written.setdefault((meta.namespace, meta.name), _Written())
            written.usage = meta.uid, int(meta.resource_version or 0), usage

    def note_made(self, key: Key, uid: str, attempt: int, pods: Iterable[str]) -> None:
        """Record that all Pods of an attempt were created. The mirror has to show them before the next decision."""
        written = self._written.setdefault(key, _Written())
        written.made = uid, attempt
        written.unseen_pods = {name for name in pods if (key[0], name) not in self._mirror.pods}
        written.unseen_since = self._now()

    def note_seen(self, key: Key, pod: str) -> None:
        """Record that the mirror has shown this Pod."""
        written = self._written.get(key)
        if written is not None:
            written.unseen_pods.discard(pod)

    def current_status(self, run: RunObject) -> RunStatus:
        """Return the run's status, completed by what this process knows: that all Pods of the attempt were created and
        which members ended, which may not be written yet, and the number of attempts, in case the status was
        removed."""
        status, meta = run.current_status, run.metadata
        written, attempt = self._written.get((meta.namespace, meta.name)), status.attempt
        if written is not None and written.attempts[0] == meta.uid and written.attempts[1] > status.attempts:
            status = msgspec.structs.replace(status, attempts=written.attempts[1])
        if written is not None and written.usage is not None:
            uid, version, usage = written.usage
            if (uid, version) == (meta.uid, int(meta.resource_version or 0)):
                status = msgspec.structs.replace(status, usage=usage)
        if written is None or attempt is None or attempt.created or written.made != (meta.uid, attempt.number):
            return status
        return msgspec.structs.replace(status, attempt=msgspec.structs.replace(attempt, created=True))

    def is_shown(self, run: RunObject) -> bool:
        """Whether the mirror shows the last writes for a run. Decisions on older facts would be carried out twice."""
        written = self._written.get((run.metadata.namespace, run.metadata.name))
        if written is None:
            return True
        if int(run.metadata.resource_version or 0) < written.version:
            return False
        since = written.unseen_since
        if written.unseen_pods and since and self._mirror.shown_until(self._now()) - since < UNSEEN_PATIENCE:
            return False
        written.unseen_pods.clear()
        return True

    async def doubt(self, run: RunObject) -> None:
        """Ask the API server about a write that the mirror has not shown for long: a restored backup does not have
        it."""
        written = self._written.get((run.metadata.namespace, run.metadata.name))
        if written is None or written.at is None or self._now() - written.at < UNSEEN_PATIENCE:
            return
        found = await self._client.get(RUNS, run.metadata.name, run.metadata.namespace)
        if int(found["metadata"]["resourceVersion"]) < written.version:
            written.version = 0

    def forget(self, key: Key) -> None:
        """Forget a deleted run."""
        self._written.pop(key, None)


async def write_status(client: KubeClient, run: RunObject, status: RunStatus, *, resource_version: str = "") -> str:
    """Store a Run's status by compare-and-swap and return the new resource version.

    Raises kajitori.errors.Conflict if the Run has changed since it was read.
    """
    meta = run.metadata
    document = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": resource_version or meta.resource_version,
        },
        "status": to_document(status),
    }  # without the spec, which would only be checked and then ignored
    written = await client.replace(RUNS, document, subresource="status", metadata_only=True)
    return str(written["metadata"]["resourceVersion"])


def _without_start(status: RunStatus) -> tuple[object, ...]:
    """Return the turning point of a status, which is the same for all steps of a start."""
    if status.phase not in (Phase.STARTING, Phase.RUNNING):
        return _turning_point(status)
    number = status.attempt.number if status.attempt else 0
    return (status.restarts, status.interruptions, number)


def _count_setbacks(status: RunStatus) -> int:
    """Return the number of restarts and interruptions; for a sweep also of failed members."""
    lost = status.members.failed if status.sweep is not None else 0
    return status.restarts + status.interruptions + lost


def _reason_of(status: RunStatus) -> str:
    """Return the reason for a metric; for a sweep that of the newest notable member."""
    if status.sweep is not None and status.notable:
        newest = max(status.notable, key=lambda member: member.since)
        return newest.reason if newest.reason in set(Reason) else Reason.PROGRAM_FAILED.value
    return status.reason.value or "unknown"


def _reported_part(status: RunStatus) -> tuple[object, ...]:
    """Return the part of a status whose change is reported as an Event.

    A preemption is reported once, when it is decided; that members end and the run waits follows from it. Members of a
    sweep may be preempted for several runs.
    """
    asked = status.preemption if status.reason is Reason.PREEMPTED else None
    if asked is not None:
        return "", status.reason, asked.uid
    return status.phase, status.reason, ""


def _turning_point(status: RunStatus) -> tuple[object, ...]:
    attempt = status.attempt
    return (
        status.phase,
        status.reason,
        status.restarts,
        status.interruptions,
        attempt and (attempt.number, attempt.created, attempt.started_at),
        status.finished_at,
        status.health and status.health.status,
    )
