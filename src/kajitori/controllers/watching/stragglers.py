"""The watcher for stragglers: it names the rank, GPU or node of a gang that is persistently slower than its peers.

It writes an Event about the Run, and adds the place to the Run's status, which is evidence about the node. A new leader
reads the last minutes again, and reports no straggler that is already in the status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from kajitori.cluster.mirror.mirror import Key
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs
from kajitori.controllers.watching.feed import Round
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.naming import names
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.suspicions import SLOW_LIMIT, SlowPlace
from kajitori.core.telemetry.stragglers import Peers, Straggler, describe_straggler
from kajitori.kube.events import About, EventRecorder

log = logging.getLogger(__name__)

STRAGGLER = "Straggler"
"""Reason of the Event."""


@dataclass(slots=True)
class _Watched:
    """State of one attempt."""

    attempt: int
    peers: Peers
    found: list[SlowPlace] = field(default_factory=list)
    """Stragglers that the status is to record."""


class StragglerWatcher:
    """Compares the ranks of running gangs."""

    def __init__(self, specs: StoredSpecs, events: EventRecorder, wake: Callable[[Key], object]) -> None:
        """`wake` has a run reconciled, so that its status records a new straggler."""
        self._specs = specs
        self._events = events
        self._wake = wake
        self._known: dict[str, _Watched] = {}
        """By the UID of the Run."""

    async def watch(self, seen: Round) -> None:
        """Take the new intervals, and write an Event about each new straggler."""
        for uid in self._known.keys() - seen.runs.keys():
            del self._known[uid]
        for uid, intervals in seen.fresh.items():
            run = seen.runs[uid]
            attempt = run.status.attempt if run.status is not None else None
            if attempt is None or not self._specs.of(run).is_gang:
                self._known.pop(uid, None)
                continue
            known = self._known.get(uid)
            if known is None or known.attempt != attempt.number:
                known = self._known[uid] = _Watched(attempt.number, Peers(attempt.node_by_rank()))
            for each in intervals:
                if each.attempt == attempt.number:
                    known.peers.take(each)
            found = known.peers.judge(seen.until)
            if found is not None:
                self._report_straggler(run, known, found, seen.until)

    def noted(self, run: RunObject, status: RunStatus) -> RunStatus:
        """Return the status with the stragglers that it does not have yet."""
        known, attempt = self._known.get(run.metadata.uid), status.attempt
        if known is None or attempt is None or known.attempt != attempt.number:
            return status
        new = [each for each in known.found if not _is_known(each, status.slow)]
        return msgspec.structs.replace(status, slow=[*status.slow, *new][-SLOW_LIMIT:]) if new else status

    def save_state(self) -> bytes:
        """Return nothing: a new leader learns everything from the last quarter of an hour."""
        return b""

    def restore_state(self, state: bytes) -> None:
        """Start without state."""
        self._known = {}

    def _report_straggler(self, run: RunObject, known: _Watched, found: Straggler, until: int) -> None:
        place = SlowPlace(
            attempt=known.attempt,
            node=found.spot.node,
            ranks=compress_ranks(known.peers.ranks_at(found.spot)),
            at=format_time(time_at(until)),
            sign=found.sign.quantity,
            message=describe_straggler(found),
        )
        if _is_known(place, known.found) or _is_known(place, run.current_status.slow):
            return
        known.found.append(place)
        meta = run.metadata
        about = About(names.KIND, meta.name, meta.uid, meta.namespace, names.API_VERSION)
        self._events.emit(about, "Warning", STRAGGLER, place.message)
        log.info("run %s/%s: %s", meta.namespace, meta.name, place.message)
        self._wake((meta.namespace, meta.name))


def _is_known(place: SlowPlace, known: Iterable[SlowPlace]) -> bool:
    return any((each.attempt, each.node, each.ranks) == (place.attempt, place.node, place.ranks) for each in known)
