"""Backfill: start what fits in the queue's order, and reserve nodes for runs that do not fit.

The first run that does not fit gets a reservation: the earliest time at which enough running gangs are expected to have
ended, and nodes for that time. A later run may pass it if it is expected to have ended by then, or if it leaves the
reservation the nodes that it needs. If runs want different nodes (another GPU type, another pool), the first run of
each such group has a reservation of its own. Before any run of lower priority is looked at, the other runs of the
higher priority get reservations, too: runs of equal priority may delay them, runs of lower priority may not. Services
and foreign Pods have no known end, so they never free anything; a run that waits for them has no reservation and holds
no other run back.

A run of lower priority that passed a reservation may take longer than expected. Then the reservation stays at the time
at which it would begin if that run ended at once: if the run's new expected end counted, more runs could pass, take
longer in turn, and delay the reservation for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import (
    GangRequest,
    MemberRequest,
    Placement,
    Shortage,
    nodes_for,
    occupy_rows,
    placement_of,
    room_of,
    rows_for,
    shortage_of,
)
from kajitori.core.placement.releases import Ending, Releases
from kajitori.core.placement.rooms import Rooms, Shape, distinct
from kajitori.core.placement.snapshot import Counts, Snapshot
from kajitori.core.policy.queue.order import LIKELY
from kajitori.core.queue.waiting import WaitingRun

SOON_SECONDS = 1.0
"""Shortest time until an expected end, also for a run that is late already: the start of a reservation is not known
more exactly.
"""

FURTHER_RESERVATIONS = 32
"""Number of runs of one priority, after the first, for which nodes are reserved against runs of lower priority."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are reserved for a run, and the time at which it is expected to start on them."""

    placement: Placement
    starts_at: float
    overdue: bool = False

    @property
    def key(self) -> str:
        """The run, as `namespace/name`."""
        return self.placement.key


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
    backfill = _Backfill(snapshot, endings, now, likely)
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
        backfill.reserve_further()
    shortages = tuple(backfill.shortages()) if max_starts is None else ()
    return Schedule(tuple(placements), shortages, tuple(claim.reservation for claim in backfill.claims))


@dataclass(eq=False, slots=True)
class _Shape(Shape):
    """A shape, with what one pass over the queue has found out about it."""

    shortage: Shortage | None = None
    pass_by: float = math.inf
    likely_by: float = math.inf
    """A run of this shape delays no reservation if it has certainly ended by `pass_by` and has likely ended by
    `likely_by`.
    """
    respected: list[_Claim] = field(default_factory=list)
    """All reservations on nodes that runs of this shape could use."""
    never_fits_from: int = 1 << 62
    """A gang of this many members never fits, even if all runs with an expected end have ended."""
    failed: tuple[int, float, float] | None = None
    """The smallest run of the present priority that did not start: its members, its expected and its likely length."""


@dataclass(eq=False, slots=True)
class _Claim:
    """A reservation, with the shape and the priority of its run."""

    reservation: Reservation
    holder: _Shape
    priority: int
    free_by: float
    """When the nodes are needed if no run that passed the reservation is late; `starts_at` at the latest."""

    def strictly_by(self, priority: int) -> float | None:
        """Return when runs of this priority must have ended for certain, so that they do not delay a run that is
        overdue or has a higher priority; None if their likely end counts instead."""
        if self.priority > priority:
            return self.free_by - SOON_SECONDS
        return self.free_by if self.reservation.overdue else None


_KnownReleases = dict[tuple[_Shape, frozenset[int]], Releases]
"""Releases by shape, and by the late runs that count as if they ended at once."""


@dataclass(slots=True)
class _Backfill:
    """State of one pass over the queue: the nodes that are free now, and the part of them that stays free once the
    reservations have begun.
    """

    snapshot: Snapshot
    endings: Sequence[Ending]
    now: float
    likely: float
    claims: list[_Claim] = field(default_factory=list)
    """The reservations."""
    _priority: int | None = None
    """The priority of the runs that are looked at now."""
    _behind: list[tuple[WaitingRun, _Shape]] = field(default_factory=list)
    """Runs of this priority that do not start and have no reservation, since another run has one on such nodes."""
    _further: list[list[tuple[WaitingRun, _Shape]]] = field(default_factory=list)
    """Such runs of each higher priority: they get reservations before any run of lower priority starts or gets one."""
    _started: list[Ending] = field(default_factory=list)
    _shapes: dict[tuple[MemberRequest, frozenset[str], int], _Shape] = field(default_factory=dict)
    _by_identity: dict[int, _Shape] = field(default_factory=dict)
    _late: list[Ending] = field(init=False)
    """The runs that have taken longer than was expected."""
    _free: Rooms = field(init=False)
    _not_started: list[tuple[WaitingRun, _Shape, int]] = field(default_factory=list)
    """Runs that do not start, each with its shape and the number of reservations that it might delay."""
    _kept: Rooms | None = None
    """As `_free`, but without what the reservations need."""
    _floor: Snapshot | None = None
    """Usage of reserved nodes once the reservations have begun; nothing on other nodes."""
    _reserved: Snapshot | None = None
    """The amounts that the reservations will take."""

    def __post_init__(self) -> None:
        self._late = [ending for ending in self.endings if ending.late_since is not None]
        self._free = Rooms(self.snapshot.copy())

    def note_priority(self, priority: int) -> None:
        """Note the priority of the next run. The queue goes from the highest priority to the lowest."""
        if priority == self._priority:
            return
        if self._behind:
            self._further.append(self._behind[:FURTHER_RESERVATIONS])
        self._behind = []
        self._priority = priority
        for shape in self._shapes.values():
            respected, shape.respected = shape.respected, []
            shape.pass_by = shape.likely_by = math.inf
            shape.failed = None
            for claim in respected:
                self._respect(shape, claim)

    def reserve_further(self) -> None:
        """Reserve nodes for the runs of higher priority that have no reservation yet. This is most of the work on a
        full cluster, so it is only done if a run of lower priority could start."""
        further, self._further = self._further, []
        for behind in further:
            known: _KnownReleases = {}
            for run, shape in behind:
                if run.gang.least < shape.never_fits_from:
                    self._claim(run, shape, known)

    def shape_of(self, gang: GangRequest) -> _Shape:
        """Return the gang's shape. Requests of members that are the same object are not compared."""
        shape = self._by_identity.get(id(gang.member)) if not gang.avoid else None
        if shape is None:
            key = (gang.member, gang.avoid, gang.least if gang.avoid else 0)
            shape = self._shapes.get(key)
            if shape is None:
                eligible = nodes_for(self.snapshot.table, gang)
                shape = _Shape(gang.member, eligible, eligible & self.snapshot.table.usable_by(gang.member.tolerations))
                for claim in self.claims:
                    self._respect(shape, claim)
                self._shapes[key] = shape
            if not gang.avoid:
                self._by_identity[id(gang.member)] = shape
        return shape

    def fails_like_an_earlier_run(self, run: WaitingRun, shape: _Shape, *, reserve: bool) -> bool:
        """Whether looking at this run would change nothing: a run of its shape and priority that asks for no more
        members and no more time did not start, and a reservation for this one would hold no other run back."""
        if shape.failed is None:
            return False
        members, seconds, likely = shape.failed
        if run.gang.least < members or run.expected_seconds < seconds or self._likely(run) < likely:
            return False
        # If its shape respects no reservation, that other run got none, and this one would get none either.
        return (
            not reserve or min(shape.pass_by, shape.likely_by) == math.inf or len(self._behind) >= FURTHER_RESERVATIONS
        )

    def start(self, run: WaitingRun, shape: _Shape) -> Placement | None:
        """Place the run on free nodes if that is expected to delay no reservation; with as many members as fit if it
        may start with fewer. Return None if it does not start."""
        need, seconds = run.gang.least, run.expected_seconds
        if self._further:
            if not self._free.may_hold(shape, need) or self._free.of(shape).total < need:
                self._note_not_started(run, shape, 0)
                return None
            self.reserve_further()
        lasts = self.now + seconds > shape.pass_by or self.now + self._likely(run) > shape.likely_by
        rooms = self._kept if lasts and self._kept is not None else self._free
        known = rooms.of(shape) if rooms.may_hold(shape, need) else None
        if known is None or known.total < need:
            self._note_not_started(run, shape, len(shape.respected) if lasts else 0)
            return None
        # In `_kept` reserved nodes look full, so runs that end before a reservation take them first.
        leftover = (self._kept or self._free).leftover
        gang = run.gang.fitting(known.total)
        rows = rows_for(self.snapshot.table, gang, known.room, leftover)
        self._occupy(shape.member, rows, lasts)
        if math.isfinite(seconds):
            self._started.append(Ending(shape.member, rows, self.now + seconds))
        return placement_of(self.snapshot.table, gang, rows)

    def _note_not_started(self, run: WaitingRun, shape: _Shape, may_delay: int) -> None:
        """Note that the run does not start. may_delay: number of reservations, from the first of those that its shape
        respects, that the run might delay.
        """
        self._not_started.append((run, shape, may_delay))
        asked = run.gang.least, run.expected_seconds, self._likely(run)
        if shape.failed is None or all(one <= other for one, other in zip(asked, shape.failed, strict=True)):
            shape.failed = asked

    def _delayed_by(self, run: WaitingRun, claims: Sequence[_Claim]) -> tuple[str, ...]:
        """Return the runs of those claims that begin before this run is expected to have ended."""
        ends, likely = self.now + run.expected_seconds, self.now + self._likely(run)
        return tuple(
            claim.reservation.key
            for claim in claims
            if (
                likely > claim.reservation.starts_at
                if (by := claim.strictly_by(run.gang.priority)) is None
                else ends > by
            )
        )

    def _likely(self, run: WaitingRun) -> float:
        """Return the part of a run's expected length that has to pass before a reservation begins. Elastic runs and
        sweeps take whatever fits and come back for the rest, so their whole expected length counts; else they could
        postpone the reservation for ever.
        """
        return run.expected_seconds if run.gang.fewest is not None else self.likely * run.expected_seconds

    def _occupy(self, member: MemberRequest, rows: Rows, lasts: bool) -> None:
        occupy_rows(self._free.state, member, rows)
        changed = distinct(rows)
        self._free.note(changed)
        if self._floor is not None and self._kept is not None:
            reserved = rows[self._floor.members[rows] > 0]
            if lasts and reserved.size:
                occupy_rows(self._floor, member, reserved)
            self._update_kept(changed)

    def _update_kept(self, rows: Rows) -> None:
        """Set what `_kept` shows as free on these rows: what is free both now and once the reservations have begun."""
        assert self._kept is not None and self._floor is not None
        kept, free, floor = self._kept.state, self._free.state, self._floor
        kept.used[rows], kept.members[rows], kept.alone[rows] = free.used[rows], free.members[rows], free.alone[rows]
        reserved = rows[floor.members[rows] > 0]
        if reserved.size:
            kept.raise_to(floor, reserved)
        self._kept.note(rows)

    def reserve(self, run: WaitingRun, shape: _Shape) -> None:
        """Reserve nodes for a run that does not fit; if a run before it has reserved nodes that it could use, only
        against runs of lower priority, later."""
        if self._further and not shape.respected:
            self.reserve_further()
        if min(shape.pass_by, shape.likely_by) < math.inf:
            self._behind.append((run, shape))
        elif run.gang.least < shape.never_fits_from:
            self._claim(run, shape, {})

    def _claim(self, run: WaitingRun, shape: _Shape, known: _KnownReleases) -> None:
        """Reserve nodes for a run. known: what was computed for other runs of the same priority, in the same state."""
        gang = run.gang.fitting(run.gang.least)
        need, before = len(gang.ranks), sum(len(claim.reservation.placement.ranks) for claim in shape.respected)
        missing = need + before - self._free.of(shape).total
        late = self._late_runs_behind(run)
        found = self._releases(shape, late, known).earliest(self._free.state, self._reserved, need, missing)
        if found is None:
            shape.never_fits_from = need
            return
        free_by, then, room = found
        starts_at = free_by
        if late:
            forecast = self._releases(shape, frozenset(), known).earliest(
                self._free.state, self._reserved, need, missing
            )
            starts_at = forecast[0] if forecast is not None else free_by
            room = self._free_nodes_first(shape, room, need)
        rows = rows_for(self.snapshot.table, gang, room, self._free.leftover)
        occupy_rows(then, shape.member, rows)
        if self._floor is None or self._reserved is None:
            self._floor, self._reserved = Snapshot.empty(self.snapshot.table), Snapshot.empty(self.snapshot.table)
            self._kept = Rooms(self._free.state.copy())
        occupy_rows(self._reserved, shape.member, rows)
        reserved = np.unique(rows)
        self._floor.raise_to(then, reserved)
        self._update_kept(reserved)
        placement = placement_of(self.snapshot.table, gang, rows)
        reservation = Reservation(placement, max(self.now, starts_at), run.overdue)
        claim = _Claim(reservation, shape, run.gang.priority, max(self.now, free_by))
        self.claims.append(claim)
        for other in self._shapes.values():
            self._respect(other, claim)

    def _late_runs_behind(self, run: WaitingRun) -> frozenset[int]:
        """Return the late runs that may not delay this one, by `id`: they started after it was queued, and have a lower
        priority, or at most its own if it is overdue."""
        below = run.gang.priority + 1 if run.overdue else run.gang.priority
        return frozenset(
            id(ending)
            for ending in self._late
            if ending.priority < below and ending.late_since is not None and ending.late_since >= run.queued_at
        )

    def _free_nodes_first(self, shape: _Shape, room: Counts, need: int) -> Counts:
        """Return `room` cut to `need` members, on nodes that are free now as far as possible. Otherwise the reservation
        might choose only nodes that late runs hold, and each cycle would give the free nodes to other runs.
        """
        state = self._free.state
        if self._reserved is not None:
            state = state.copy()
            state.add(self._reserved)
        free = np.minimum(room, room_of(state, shape.member, shape.candidates))
        later = room - free
        lacking = need - int(free.sum()) - (np.cumsum(later) - later)
        cut: Counts = free + np.clip(lacking, 0, later)
        return cut

    def _releases(self, shape: _Shape, late: frozenset[int], known: _KnownReleases) -> Releases:
        """Return what frees nodes for this shape, as if the runs in `late` ended at once."""
        found = known.get((shape, late))
        if found is None:
            endings = (replace(each, ends_at=self.now) if id(each) in late else each for each in self.endings)
            found = known[shape, late] = Releases([*endings, *self._started], shape, self.snapshot.table)
        return found

    def _respect(self, shape: _Shape, claim: _Claim) -> None:
        """Let runs of this shape respect a reservation, if they could use nodes that its run could use."""
        if not shape.overlaps(claim.holder):
            return
        shape.respected.append(claim)
        by = claim.strictly_by(self._priority or 0)
        if by is not None:
            shape.pass_by = min(shape.pass_by, by)
        else:
            shape.likely_by = min(shape.likely_by, claim.reservation.starts_at)

    def shortages(self) -> Iterator[Shortage]:
        """Yield why runs do not start, judged by the nodes that are free at the end of the pass. The part that is the
        same for all runs of a shape is computed once.
        """
        for run, shape, respected in self._not_started:
            gang, total = run.gang, self._free.of(shape).total
            least = gang.least
            fit_now = min(total, least)
            known = shape.shortage
            if known is None:
                known = shape.shortage = shortage_of(self.snapshot.table, gang, shape.eligible, fit_now)
            behind = self._delayed_by(run, shape.respected[:respected]) if respected and total >= least else ()
            yield Shortage(gang.key, least, fit_now, known.fit_ever, known.fit_repaired, known.eligible, behind)
