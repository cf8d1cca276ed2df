"""One pass over the queue: which runs start now, and for which runs nodes are reserved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kajitori.core.placement.planner import (
    GangRequest,
    MemberRequest,
    Placement,
    Shortage,
    nodes_for,
    occupy_rows,
    placement_of,
    rows_for,
    shortage_of,
)
from kajitori.core.placement.releases import Ending, Releases
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.policy.queue.order import LIKELY
from kajitori.core.queue.backfill.free_room import FreeRoom
from kajitori.core.queue.backfill.reservations import Claim, QueuedShape, Reservation, delayed_by
from kajitori.core.queue.waiting import WaitingRun

FURTHER_RESERVATIONS = 32
"""Most runs of one priority, besides the first, for which nodes are reserved against runs of lower priority."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The decisions of one pass over the queue; every run is in `placements` or, if asked for, in `shortages`."""

    placements: tuple[Placement, ...]
    shortages: tuple[Shortage, ...]
    reservations: tuple[Reservation, ...]
    """Reservations of some of the runs in `shortages`."""


def schedule(
    snapshot: Snapshot,
    queue: Iterable[WaitingRun],
    endings: Sequence[Ending],
    now: float,
    *,
    reserve: bool = True,
    likely: float = LIKELY,
    max_starts: int | None = None,
) -> Schedule:
    """Start what fits, in the queue's order, and reserve nodes for runs that do not fit. `snapshot` is not changed.

    endings: everything that runs and has an expected end. reserve: without it, whatever fits starts. max_starts: stop
    after this many placements, and leave out shortages and those reservations that no placement depends on.
    """
    backfill = BackfillPass(snapshot, endings, now, likely)
    placements: list[Placement] = []
    for run in queue:
        if len(placements) == max_starts:
            break
        backfill.note_priority(run.gang.priority)
        shape = backfill.shape_of(run.gang)
        if max_starts is not None and backfill.fails_like_an_earlier_run(run, shape, reserve=reserve):
            continue
        placement = backfill.start(run, shape)
        if placement is not None:
            placements.append(placement)
        elif reserve:
            backfill.reserve(run, shape)
    if max_starts is None:
        backfill.reserve_for_higher_priorities()
    shortages = tuple(backfill.shortages()) if max_starts is None else ()
    return Schedule(tuple(placements), shortages, tuple(claim.reservation for claim in backfill.claims))


_KnownReleases = dict[tuple[QueuedShape, frozenset[int]], Releases]
"""Releases by shape, and by the late runs that count as if they ended at once."""


class BackfillPass:
    """State of one pass over the queue."""

    def __init__(self, snapshot: Snapshot, endings: Sequence[Ending], now: float, likely: float) -> None:
        """`likely` is the part of its expected length that a run likely takes: 0 to 1."""
        self.claims: list[Claim] = []
        """The reservations."""
        self._table = snapshot.table
        self._free = FreeRoom(snapshot)
        self._endings = endings
        self._now = now
        self._likely = likely
        self._late = [ending for ending in endings if ending.late_since is not None]
        """The runs that have taken longer than was expected."""
        self._started: list[Ending] = []
        """Expected ends of the runs that this pass starts."""
        self._not_started: list[tuple[WaitingRun, QueuedShape, int]] = []
        """Runs that do not start, each with its shape and the number of reservations that it might delay."""
        self._priority: int | None = None
        """The priority of the runs that are looked at now."""
        self._unreserved: list[tuple[WaitingRun, QueuedShape]] = []
        """Runs of this priority that neither start nor have a reservation, since another run has one on such nodes."""
        self._unreserved_above: list[list[tuple[WaitingRun, QueuedShape]]] = []
        """The same runs of each higher priority: they get reservations before any run of lower priority starts or gets
        one."""
        self._shapes: dict[tuple[MemberRequest, frozenset[str], int], QueuedShape] = {}
        self._shape_by_member_id: dict[int, QueuedShape] = {}

    def note_priority(self, priority: int) -> None:
        """Note the priority of the next run. The queue goes from the highest priority to the lowest."""
        if priority == self._priority:
            return
        if self._unreserved:
            self._unreserved_above.append(self._unreserved[:FURTHER_RESERVATIONS])
        self._unreserved = []
        self._priority = priority
        for shape in self._shapes.values():
            shape.begin_priority(priority)

    def reserve_for_higher_priorities(self) -> None:
        """Reserve nodes for the runs of higher priority that have no reservation yet. This is most of the work on a
        full cluster, so it is only done if a run of lower priority could start."""
        further, self._unreserved_above = self._unreserved_above, []
        for runs in further:
            known: _KnownReleases = {}
            for run, shape in runs:
                if run.gang.least < shape.never_fits_from:
                    self._reserve_nodes(run, shape, known)

    def shape_of(self, gang: GangRequest) -> QueuedShape:
        """Return the gang's shape. Requests of members that are the same object are not compared."""
        shape = self._shape_by_member_id.get(id(gang.member)) if not gang.avoid else None
        if shape is None:
            key = (gang.member, gang.avoid, gang.least if gang.avoid else 0)
            shape = self._shapes.get(key)
            if shape is None:
                eligible = nodes_for(self._table, gang)
                shape = QueuedShape(gang.member, eligible, eligible & self._table.usable_by(gang.member.tolerations))
                for claim in self.claims:
                    shape.respect(claim, self._priority or 0)
                self._shapes[key] = shape
            if not gang.avoid:
                self._shape_by_member_id[id(gang.member)] = shape
        return shape

    def fails_like_an_earlier_run(self, run: WaitingRun, shape: QueuedShape, *, reserve: bool) -> bool:
        """Whether this run can be skipped without any effect: an earlier run of its shape and priority, which asks for
        no more members and no more time, did not start, and a reservation for this one would hold back no other run."""
        if shape.smallest_failed is None:
            return False
        members, seconds, likely = shape.smallest_failed
        if run.gang.least < members or run.expected_seconds < seconds or self._likely_seconds(run) < likely:
            return False
        # Without any reservation that its shape respects, the earlier run got none, and this one would get none either.
        return not reserve or not shape.has_reservations or len(self._unreserved) >= FURTHER_RESERVATIONS

    def start(self, run: WaitingRun, shape: QueuedShape) -> Placement | None:
        """Place the run on free nodes if that is expected to delay no reservation; with as many members as fit if it
        may start with fewer. Return None if it does not start."""
        need, seconds = run.gang.least, run.expected_seconds
        if self._unreserved_above:
            if not self._free.now.may_hold(shape, need) or self._free.now.of(shape).total < need:
                self._note_not_started(run, shape, 0)
                return None
            self.reserve_for_higher_priorities()
        too_long = (
            self._now + seconds > shape.must_end_by or self._now + self._likely_seconds(run) > shape.should_end_by
        )
        rooms = self._free.unreserved if too_long else self._free.now
        known = rooms.of(shape) if rooms.may_hold(shape, need) else None
        if known is None or known.total < need:
            self._note_not_started(run, shape, len(shape.respected) if too_long else 0)
            return None
        gang = run.gang.fitting(known.total)
        # Without their reserved part, reserved nodes look full. So runs that end before a reservation take them first.
        rows = rows_for(self._table, gang, known.room, self._free.unreserved.leftover)
        self._free.occupy(shape.member, rows, beyond_reservations=too_long)
        if math.isfinite(seconds):
            self._started.append(Ending(shape.member, rows, self._now + seconds))
        return placement_of(self._table, gang, rows)

    def _note_not_started(self, run: WaitingRun, shape: QueuedShape, may_delay: int) -> None:
        """Note that the run does not start. may_delay: number of reservations, from the first of those that its shape
        respects, that the run might delay.
        """
        self._not_started.append((run, shape, may_delay))
        shape.note_failed(run.gang.least, run.expected_seconds, self._likely_seconds(run))

    def _likely_seconds(self, run: WaitingRun) -> float:
        """Return how long a run likely takes, for the question whether it delays a reservation of equal priority.
        Elastic runs and sweeps take whatever fits and come back for the rest, so their whole expected length counts;
        else they could postpone the reservation for ever.
        """
        return run.expected_seconds if run.gang.fewest is not None else self._likely * run.expected_seconds

    def reserve(self, run: WaitingRun, shape: QueuedShape) -> None:
        """Reserve nodes for a run that does not fit. If an earlier run of its priority has a reservation on nodes that
        it could use, it gets one only before a run of lower priority starts."""
        if self._unreserved_above and not shape.respected:
            self.reserve_for_higher_priorities()
        if shape.has_reservations:
            self._unreserved.append((run, shape))
        elif run.gang.least < shape.never_fits_from:
            self._reserve_nodes(run, shape, {})

    def _reserve_nodes(self, run: WaitingRun, shape: QueuedShape, known: _KnownReleases) -> None:
        """Reserve nodes for a run. known: releases that were computed for other runs in the same state."""
        gang = run.gang.fitting(run.gang.least)
        need, before = len(gang.ranks), sum(len(claim.reservation.placement.ranks) for claim in shape.respected)
        missing = need + before - self._free.now.of(shape).total
        late = self._late_runs_behind(run)
        state, reserved = self._free.now.state, self._free.reserved
        found = self._releases_for(shape, late, known).earliest(state, reserved, need, missing)
        if found is None:
            shape.never_fits_from = need
            return
        free_by = starts_at = found.at
        room = found.room
        if late:
            forecast = self._releases_for(shape, frozenset(), known).earliest(state, reserved, need, missing)
            starts_at = forecast.at if forecast is not None else free_by
            room = self._free.free_nodes_first(shape, room, need)
        rows = rows_for(self._table, gang, room, self._free.now.leftover)
        occupy_rows(found.usage, shape.member, rows)
        self._free.reserve(shape.member, rows, found.usage)
        reservation = Reservation(placement_of(self._table, gang, rows), max(self._now, starts_at), run.overdue)
        claim = Claim(reservation, shape, run.gang.priority, max(self._now, free_by))
        self.claims.append(claim)
        for other in self._shapes.values():
            other.respect(claim, self._priority or 0)

    def _late_runs_behind(self, run: WaitingRun) -> frozenset[int]:
        """Return the `id` of each late run that may not delay this one: it started after this one was queued, and has a
        lower priority, or at most the same if this one is overdue."""
        below = run.gang.priority + 1 if run.overdue else run.gang.priority
        return frozenset(
            id(ending)
            for ending in self._late
            if ending.priority < below and ending.late_since is not None and ending.late_since >= run.queued_at
        )

    def _releases_for(self, shape: QueuedShape, late: frozenset[int], known: _KnownReleases) -> Releases:
        """Return the releases of nodes for this shape, as if the runs in `late` ended at once."""
        found = known.get((shape, late))
        if found is None:
            endings = (replace(each, ends_at=self._now) if id(each) in late else each for each in self._endings)
            found = known[shape, late] = Releases([*endings, *self._started], shape, self._table)
        return found

    def shortages(self) -> Iterator[Shortage]:
        """Yield the shortage of each run that does not start, judged by the nodes that are free at the end of the pass.
        The part that is the same for all runs of a shape is computed once.
        """
        for run, shape, may_delay in self._not_started:
            gang, total = run.gang, self._free.now.of(shape).total
            least = gang.least
            fit_now = min(total, least)
            known = shape.shortage
            if known is None:
                known = shape.shortage = shortage_of(self._table, gang, shape.eligible, fit_now)
            behind: tuple[str, ...] = ()
            if may_delay and total >= least:
                ends, likely = self._now + run.expected_seconds, self._now + self._likely_seconds(run)
                behind = delayed_by(shape.respected[:may_delay], gang.priority, ends, likely)
            yield Shortage(gang.key, least, fit_now, known.fit_ever, known.fit_repaired, known.eligible, behind)
