"""Writes the status of Runs, and knows what of it the mirror does not show yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from kajitori.controllers.workqueue import Key
from kajitori.core.spec.node_request import RequestState, describe_request
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.words import names
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventRecorder
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import RUNS
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

STATUS_INTERVAL = timedelta(seconds=1)
"""A Run is written at most this often while only its counts change (rule 8)."""

BUSY_INTERVAL = timedelta(seconds=3)
"""And where others wait for the API server, as long as it starts, or its counts change."""

UNSEEN_PATIENCE = timedelta(seconds=10)
"""How long the mirror may take to show what was just written before it is believed all the same."""


_REQUESTS = {
    RequestState.PROVISIONED: ("Normal", "NodesProvisioned"),
    RequestState.FAILED: ("Warning", "NodesNotProvisioned"),
    RequestState.UNAVAILABLE: ("Warning", "NodesNotProvisioned"),
}
"""Type and reason of the Events that tell of requests for nodes, where the run's own reason does not."""


@dataclass(slots=True)
class _Written:
    """What was written of one run; nothing that a restart may not forget."""

    version: int = 0
    at: datetime | None = None
    attempts: tuple[str, int] = ("", 0)
    """UID of the run, and the highest number of an attempt that it is known to have had."""
    made: tuple[str, int] | None = None
    """UID of the run and number of the attempt of which all Pods were made last."""
    unseen_pods: set[str] = field(default_factory=set)
    unseen_since: datetime | None = None


class Statuses:
    """The one way in which the controllers write what a Run's status says."""

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
        """Stores the status by compare-and-swap, with an Event where it is a turn; answers the new resource version.

        `version` and `before` are what it replaces, where that is newer than what `run` shows.
        """
        meta = run.metadata
        version = await write_status(self._client, run, status, resource_version=version)
        written = self._written.setdefault((meta.namespace, meta.name), _Written())
        written.version = int(version)
        written.at = self._now()
        self.note_attempts(run, status.attempts)
        if status.attempt is not None and not status.attempt.created:
            written.made = None  # of the same number, where an API server was given a backup's data
        self._announce(run, before or run.status, status)
        self._count(before or run.status or RunStatus(), status)
        return version

    def _count(self, old: RunStatus, status: RunStatus) -> None:
        """Counts what a write tells: setbacks by their reason, ends, and the runs that preempt others."""
        if status.phase.is_final and not old.phase.is_final:
            self._metrics.runs_ended.labels(status.phase.value).inc()
        setbacks = _setbacks(status) - _setbacks(old)
        failed = status.phase is Phase.FAILED and old.phase is not Phase.FAILED
        if (setbacks > 0 and status.reason is not Reason.GROWS) or failed:
            self._metrics.failures.labels(_reason_of(status)).inc(max(1, setbacks))
        known = {asked.waiting for asked in old.preemption.each} if old.preemption is not None else set()
        for asked in status.preemption.each if status.preemption is not None else ():
            if asked.waiting not in known:
                self._metrics.preemptions.labels("guarantee" if asked.guaranteed else "priority").inc()

    def _announce(self, run: RunObject, before: RunStatus | None, status: RunStatus) -> None:
        """Turns of a run, and of what it asked an autoscaler for, as Events."""
        meta, old = run.metadata, before or RunStatus(phase=Phase.QUEUED, queued_at="-")
        about = About(names.KIND, meta.name, meta.uid, meta.namespace, names.API_VERSION)
        if _told(status) != _told(old) or run.status is None:
            setbacks = status.interruptions > old.interruptions or status.restarts > old.restarts
            is_bad = status.phase is Phase.FAILED or setbacks or status.reason is Reason.PREEMPTED
            reason = status.reason.value or status.phase.value
            message = status.message or status.phase.value
            self._events.say(about, "Warning" if is_bad else "Normal", reason, message)
            extra = {"run": f"{meta.namespace}/{meta.name}", "phase": status.phase.value, "reason": reason}
            level = logging.INFO if is_bad else logging.DEBUG
            log.log(level, "run %s/%s: %s: %s", meta.namespace, meta.name, reason, message, extra=extra)
        request, last = status.node_request, old.node_request
        if request is not None and request.state in _REQUESTS and (last is None or last.state is not request.state):
            self._events.say(about, *_REQUESTS[request.state], describe_request(request))

    def may_write(self, key: Key, old: RunStatus | None, new: RunStatus) -> bool:
        """Turning points are written at once, counts at most once a second; so is how far a start has come, where
        others wait for the API server to start or to end."""
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
        """When a run's status was written last; None where it was not written here."""
        written = self._written.get(key)
        return written.at if written is not None else None

    def note_attempts(self, run: RunObject, attempts: int) -> None:
        """The run is known to have had attempts up to this number, whatever its status will say: none comes twice."""
        meta = run.metadata
        written = self._written.setdefault((meta.namespace, meta.name), _Written())
        known = written.attempts[1] if written.attempts[0] == meta.uid else 0
        written.attempts = meta.uid, max(known, attempts)

    def knows(self, run: RunObject) -> bool:
        """Whether it is known here how many attempts the run has had."""
        written = self._written.get((run.metadata.namespace, run.metadata.name))
        return written is not None and written.attempts[0] == run.metadata.uid

    def note_made(self, key: Key, uid: str, attempt: int, pods: Iterable[str]) -> None:
        """All Pods of a run's attempt were made: the mirror is to show these before anything is decided."""
        written = self._written.setdefault(key, _Written())
        written.made = uid, attempt
        written.unseen_pods = {name for name in pods if (key[0], name) not in self._mirror.pods}
        written.unseen_since = self._now()

    def note_seen(self, key: Key, pod: str) -> None:
        """The mirror shows that something became of this Pod."""
        written = self._written.get(key)
        if written is not None:
            written.unseen_pods.discard(pod)

    def current_status(self, run: RunObject) -> RunStatus:
        """The run's status, with what is known here beside it: that all Pods of its attempt were made, which may not be
        written yet, and how many attempts it has had, if somebody took its status away."""
        status, meta = run.current_status, run.metadata
        written, attempt = self._written.get((meta.namespace, meta.name)), status.attempt
        if written is not None and written.attempts[0] == meta.uid and written.attempts[1] > status.attempts:
            status = msgspec.structs.replace(status, attempts=written.attempts[1])
        if written is None or attempt is None or attempt.created or written.made != (meta.uid, attempt.number):
            return status
        return msgspec.structs.replace(status, attempt=msgspec.structs.replace(attempt, created=True))

    def is_shown(self, run: RunObject) -> bool:
        """Whether the mirror shows what was written of a run last; deciding on older facts would do things twice."""
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
        """What is not seen for long may be lost: an API server that was given a backup's data knows nothing of it."""
        written = self._written.get((run.metadata.namespace, run.metadata.name))
        if written is None or written.at is None or self._now() - written.at < UNSEEN_PATIENCE:
            return
        found = await self._client.get(RUNS, run.metadata.name, run.metadata.namespace)
        if int(found["metadata"]["resourceVersion"]) < written.version:
            written.version = 0

    def forget(self, key: Key) -> None:
        """The run is gone."""
        self._written.pop(key, None)


async def write_status(client: KubeClient, run: RunObject, status: RunStatus, *, resource_version: str = "") -> str:
    """Stores a Run's status by compare-and-swap; answers the new resource version.

    Raises kajitori.errors.Conflict where the Run is not the one that was read.
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
    }  # the spec would be read and checked, too, and then left as it is
    written = await client.replace(RUNS, document, subresource="status", metadata_only=True)
    return str(written["metadata"]["resourceVersion"])


def _without_start(status: RunStatus) -> tuple[object, ...]:
    """The same for all that becomes of an attempt from its placement until it runs."""
    if status.phase not in (Phase.STARTING, Phase.RUNNING):
        return _turning_point(status)
    number = status.attempt.number if status.attempt else 0
    return (status.restarts, status.interruptions, number)


def _setbacks(status: RunStatus) -> int:
    """How often something of a run ended otherwise than wanted; of a sweep, members that failed for good."""
    lost = status.members.failed if status.sweep is not None else 0
    return status.restarts + status.interruptions + lost


def _reason_of(status: RunStatus) -> str:
    """Why, from the closed set of reasons; of a sweep as its newest member worth a look tells."""
    if status.sweep is not None and status.notable:
        newest = max(status.notable, key=lambda each: each.since)
        return newest.reason if newest.reason in set(Reason) else Reason.PROGRAM_FAILED.value
    return status.reason.value or "unknown"


def _told(status: RunStatus) -> tuple[object, ...]:
    """What of a status is told in an Event when it changes. A preemption is told once, when it is decided: that members
    end for it, and that the run waits then, is the same news. Members of a sweep may be preempted by several runs."""
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
    )
