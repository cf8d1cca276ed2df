"""The watcher for stragglers: an Event about a gang's Run names the rank or GPU that is persistently slower than its
peers.

Nothing depends on these Events, so they are no part of the Run's status. A new leader compares the minutes of its own
time, and writes the Event of each straggler that is still slow once more.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs
from kajitori.controllers.watching.feed import Round
from kajitori.core.telemetry.stragglers import Peers, Spot, told
from kajitori.core.words import names
from kajitori.kube.events import About, EventRecorder

log = logging.getLogger(__name__)

STRAGGLER = "Straggler"
"""Reason of the Event."""


@dataclass(slots=True)
class _Watched:
    """What is known of one attempt."""

    attempt: int
    peers: Peers
    said: set[Spot] = field(default_factory=set)
    """Stragglers that an Event has named."""


class StragglerWatcher:
    """Compares the ranks of running gangs."""

    def __init__(self, specs: StoredSpecs, events: EventRecorder) -> None:
        self._specs = specs
        self._events = events
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
            if found is not None and found.spot not in known.said:
                known.said.add(found.spot)
                self._say(run, told(found))

    def remembered(self) -> bytes:
        """Return nothing: a quarter of an hour shows everything again."""
        return b""

    def recall(self, state: bytes) -> None:
        """Know nothing."""
        self._known = {}

    def _say(self, run: RunObject, message: str) -> None:
        meta = run.metadata
        about = About(names.KIND, meta.name, meta.uid, meta.namespace, names.API_VERSION)
        self._events.say(about, "Warning", STRAGGLER, message)
        log.info("run %s/%s: %s", meta.namespace, meta.name, message)
