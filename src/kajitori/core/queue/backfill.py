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
"""The shortest expected remaining time of a run, even if the run is late. Starts of reservations are not known more
exactly than this.
"""

FURTHER_RESERVATIONS = 32
"""Most runs of one priority, besides the first, for which nodes are reserved against runs of lower priority."""


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
        backfill.reserve_for_higher_priorities()
    shortages = tuple(backfill.shortages()) if max_starts is None else ()
    return Schedule(tuple(placements), shortages, tuple(claim.reservation for claim in backfill.claims))


@dataclass(eq=False, slots=True)
class _Shape(Shape):
    """A shape, with what one pass over the queue has found out about it."""

    shortage: Shortage | None = None
    must_end_by: float = math.inf
    should_end_by: float = math.inf
    """A run of this shape delays no reservation if it ends by `must_end_by` even if it takes all of its expected
    length, and by `should_end_by` if it takes the likely part of it.
    """
    respected: list[_Claim] = field(default_factory=list)
    """All reservations on nodes that runs of this shape could use."""
    never_fits_from: int = 1 << 62
    """A gang of this many members, or more, does not fit even once all runs with an expected end have ended."""
    smallest_failed: tuple[int, float, float] | None = None
    """The smallest run of the present priority that did not start: (members, expected length, likely length)."""


@dataclass(eq=False, slots=True)
class _Claim:
    """A reservation, with the shape and the priority of its run."""

    reservation: Reservation
    shape: _Shape
    priority: int
    free_by: float
    """When the nodes are needed if no run that passed the reservation is late; at most `starts_at`."""

    def must_end_by(self, priority: int) -> float | None:
        """Return the time by which runs of this priority must end even if they take all of their expected length. None
        if it is enough that they likely end before the reservation starts: the reserved run is not overdue and has
        no higher priority.
        """
        if self.priority > priority:
            return self.free_by - SOON_SECONDS
        return self.free_by if self.reservation.overdue else None


_KnownReleases = dict[tuple[_Shape, frozenset[int]], Releases]
"""Releases by shape, and by the late runs that count as if they ended at once."""


@dataclass(slots=True)
class _Backfill:
    """State of one pass over the queue: the room that is free now, and the room that stays free once the reservations
    have begun.
    """

    snapshot: Snapshot
    endings: Sequence[Ending]
    now: float
    likely: float
    """The part of its expected length that a run likely takes: 0 to 1."""
    claims: list[_Claim] = field(default_factory=list)
    """The reservations."""
    _priority: int | None = None
    """The priority of the runs that are looked at now."""
    _unreserved: list[tuple[WaitingRun, _Shape]] = field(default_factory=list)
    """Runs of this priority that neither start nor have a reservation, since another run has one on such nodes."""
    _unreserved_above: list[list[tuple[WaitingRun, _Shape]]] = field(default_factory=list)
    """The same runs of each higher priority: they get reservations before any run of lower priority starts or gets
    one."""
    _started: list[Ending] = field(default_factory=list)
    """Expected ends of the runs that this pass starts."""
    _shapes: dict[tuple[MemberRequest, frozenset[str], int], _Shape] = field(default_factory=dict)
    _shape_by_member_id: dict[int, _Shape] = field(default_factory=dict)
    _late: list[Ending] = field(init=False)
    """The runs that have taken longer than was expected."""
    _free_rooms: Rooms = field(init=False)
    """The room that is free now."""
    _not_started: list[tuple[WaitingRun, _Shape, int]] = field(default_factory=list)
    """Runs that do not start, each with its shape and the number of reservations that it might delay."""
    _unreserved_rooms: Rooms | None = None
    """The room that is free now and stays free once the reservations have begun; None without reservations."""
    _usage_at_reservations: Snapshot | None = None
    """Usage of the reserved nodes once the reservations have begun; zero on all other nodes."""
    _reserved_amounts: Snapshot | None = None
    """The amounts that the reservations will take."""

    def __post_init__(self) -> None:
        self._late = [ending for ending in self.endings if ending.late_since is not None]
        self._free_rooms = Rooms(self.snapshot.copy())

    def note_priority(self, priority: int) -> None:
        """Note the priority of the next run. The queue goes from the highest priority to the lowest."""
        if priority == self._priority:
            return
        if self._unreserved:
            self._unreserved_above.append(self._unreserved[:FURTHER_RESERVATIONS])
        self._unreserved = []
        self._priority = priority
        for shape in self._shapes.values():
            respected, shape.respected = shape.respected, []
            shape.must_end_by = shape.should_end_by = math.inf
            shape.smallest_failed = None
            for claim in respected:
                self._respect(shape, claim)

    def reserve_for_higher_priorities(self) -> None:
        """Reserve nodes for the runs of higher priority that have no reservation yet. This is most of the work on a
        full cluster, so it is only done if a run of lower priority could start."""
        further, self._unreserved_above = self._unreserved_above, []
        for runs in further:
            known: _KnownReleases = {}
            for run, shape in runs:
                if run.gang.least < shape.never_fits_from:
                    self._reserve_nodes(run, shape, known)

    def shape_of(self, gang: GangRequest) -> _Shape:
        """Return the gang's shape. Requests of members that are the same object are not compared."""
        shape = self._shape_by_member_id.get(id(gang.member)) if not gang.avoid else None
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
                self._shape_by_member_id[id(gang.member)] = shape
        return shape

    def fails_like_an_earlier_run(self, run: WaitingRun, shape: _Shape, *, reserve: bool) -> bool:
        """Whether this run can be skipped without any effect: an earlier run of its shape and priority, which asks for
        no more members and no more time, did not start, and a reservation for this one would hold back no other run."""
        if shape.smallest_failed is None:
            return False
        members, seconds, likely = shape.smallest_failed
        if run.gang.least < members or run.expected_seconds < seconds or self._likely_seconds(run) < likely:
            return False
        # Without any reservation that its shape respects, the earlier run got none, and this one would get none either.
        return (
            not reserve
            or min(shape.must_end_by, shape.should_end_by) == math.inf
            or len(self._unreserved) >= FURTHER_RESERVATIONS
        )

    def start(self, run: WaitingRun, shape: _Shape) -> Placement | None:
        """Place the run on free nodes if that is expected to delay no reservation; with as many members as fit if it
        may start with fewer. Return None if it does not start."""
        need, seconds = run.gang.least, run.expected_seconds
        if self._unreserved_above:
            if not self._free_rooms.may_hold(shape, need) or self._free_rooms.of(shape).total < need:
                self._note_not_started(run, shape, 0)
                return None
            self.reserve_for_higher_priorities()
        too_long = self.now + seconds > shape.must_end_by or self.now + self._likely_seconds(run) > shape.should_end_by
        rooms = self._unreserved_rooms if too_long and self._unreserved_rooms is not None else self._free_rooms
        known = rooms.of(shape) if rooms.may_hold(shape, need) else None
        if known is None or known.total < need:
            self._note_not_started(run, shape, len(shape.respected) if too_long else 0)
            return None
        # In `_unreserved_rooms` reserved nodes look full, so runs that end before a reservation take them first.
        leftover = (self._unreserved_rooms or self._free_rooms).leftover
        gang = run.gang.fitting(known.total)
        rows = rows_for(self.snapshot.table, gang, known.room, leftover)
        self._occupy_nodes(shape.member, rows, beyond_reservation=too_long)
        if math.isfinite(seconds):
            self._started.append(Ending(shape.member, rows, self.now + seconds))
        return placement_of(self.snapshot.table, gang, rows)

    def _note_not_started(self, run: WaitingRun, shape: _Shape, may_delay: int) -> None:
        """Note that the run does not start. may_delay: number of reservations, from the first of those that its shape
        respects, that the run might delay.
        """
        self._not_started.append((run, shape, may_delay))
        asked = run.gang.least, run.expected_seconds, self._likely_seconds(run)
        if shape.smallest_failed is None or all(
            one <= other for one, other in zip(asked, shape.smallest_failed, strict=True)
        ):
            shape.smallest_failed = asked

    def _delayed_by(self, run: WaitingRun, claims: Sequence[_Claim]) -> tuple[str, ...]:
        """Return the runs of these reservations that this run would delay, since it is expected to end too late."""
        ends, likely = self.now + run.expected_seconds, self.now + self._likely_seconds(run)
        return tuple(
            claim.reservation.key
            for claim in claims
            if (
                likely > claim.reservation.starts_at
                if (by := claim.must_end_by(run.gang.priority)) is None
                else ends > by
            )
        )

    def _likely_seconds(self, run: WaitingRun) -> float:
        """Return how long a run likely takes, for the question whether it delays a reservation of equal priority.
        Elastic runs and sweeps take whatever fits and come back for the rest, so their whole expected length counts;
        else they could postpone the reservation for ever.
        """
        return run.expected_seconds if run.gang.fewest is not None else self.likely * run.expected_seconds

    def _occupy_nodes(self, member: MemberRequest, rows: Rows, *, beyond_reservation: bool) -> None:
        """Count members on these rows as started. beyond_reservation: they still run once the reservations have
        begun."""
        occupy_rows(self._free_rooms.state, member, rows)
        changed = distinct(rows)
        self._free_rooms.note(changed)
        if self._usage_at_reservations is not None and self._unreserved_rooms is not None:
            reserved = rows[self._usage_at_reservations.members[rows] > 0]
            if beyond_reservation and reserved.size:
                occupy_rows(self._usage_at_reservations, member, reserved)
            self._update_kept(changed)

    def _update_kept(self, rows: Rows) -> None:
        """Set what `_unreserved_rooms` shows as free on these rows: amounts that are free now and stay free once the
        reservations have begun."""
        assert self._unreserved_rooms is not None and self._usage_at_reservations is not None
        unreserved, now, later = self._unreserved_rooms.state, self._free_rooms.state, self._usage_at_reservations
        unreserved.used[rows] = now.used[rows]
        unreserved.members[rows] = now.members[rows]
        unreserved.alone[rows] = now.alone[rows]
        reserved = rows[later.members[rows] > 0]
        if reserved.size:
            unreserved.raise_to(later, reserved)
        self._unreserved_rooms.note(rows)

    def reserve(self, run: WaitingRun, shape: _Shape) -> None:
        """Reserve nodes for a run that does not fit. If an earlier run of its priority has a reservation on nodes that
        it could use, it gets one only before a run of lower priority starts."""
        if self._unreserved_above and not shape.respected:
            self.reserve_for_higher_priorities()
        if min(shape.must_end_by, shape.should_end_by) < math.inf:
            self._unreserved.append((run, shape))
        elif run.gang.least < shape.never_fits_from:
            self._reserve_nodes(run, shape, {})

    def _reserve_nodes(self, run: WaitingRun, shape: _Shape, known: _KnownReleases) -> None:
        """Reserve nodes for a run. known: releases that were computed for other runs in the same state."""
        gang = run.gang.fitting(run.gang.least)
        need, before = len(gang.ranks), sum(len(claim.reservation.placement.ranks) for claim in shape.respected)
        missing = need + before - self._free_rooms.of(shape).total
        late = self._late_runs_behind(run)
        found = self._releases_for(shape, late, known).earliest(
            self._free_rooms.state, self._reserved_amounts, need, missing
        )
        if found is None:
            shape.never_fits_from = need
            return
        free_by, usage_then, room = found.at, found.usage, found.room
        starts_at = free_by
        if late:
            forecast = self._releases_for(shape, frozenset(), known).earliest(
                self._free_rooms.state, self._reserved_amounts, need, missing
            )
            starts_at = forecast.at if forecast is not None else free_by
            room = self._free_nodes_first(shape, room, need)
        rows = rows_for(self.snapshot.table, gang, room, self._free_rooms.leftover)
        occupy_rows(usage_then, shape.member, rows)
        if self._usage_at_reservations is None or self._reserved_amounts is None:
            self._usage_at_reservations = Snapshot.empty(self.snapshot.table)
            self._reserved_amounts = Snapshot.empty(self.snapshot.table)
            self._unreserved_rooms = Rooms(self._free_rooms.state.copy())
        occupy_rows(self._reserved_amounts, shape.member, rows)
        reserved = np.unique(rows)
        self._usage_at_reservations.raise_to(usage_then, reserved)
        self._update_kept(reserved)
        placement = placement_of(self.snapshot.table, gang, rows)
        reservation = Reservation(placement, max(self.now, starts_at), run.overdue)
        claim = _Claim(reservation, shape, run.gang.priority, max(self.now, free_by))
        self.claims.append(claim)
        for other in self._shapes.values():
            self._respect(other, claim)

    def _late_runs_behind(self, run: WaitingRun) -> frozenset[int]:
        """Return the `id` of each late run that may not delay this one: it started after this one was queued, and has a
        lower priority, or at most the same if this one is overdue."""
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
        state = self._free_rooms.state
        if self._reserved_amounts is not None:
            state = state.copy()
            state.add(self._reserved_amounts)
        free = np.minimum(room, room_of(state, shape.member, shape.candidates))
        later = room - free
        lacking = need - int(free.sum()) - (np.cumsum(later) - later)
        chosen: Counts = free + np.clip(lacking, 0, later)
        return chosen

    def _releases_for(self, shape: _Shape, late: frozenset[int], known: _KnownReleases) -> Releases:
        """Return the releases of nodes for this shape, as if the runs in `late` ended at once."""
        found = known.get((shape, late))
        if found is None:
            endings = (replace(each, ends_at=self.now) if id(each) in late else each for each in self.endings)
            found = known[shape, late] = Releases([*endings, *self._started], shape, self.snapshot.table)
        return found

    def _respect(self, shape: _Shape, claim: _Claim) -> None:
        """Let runs of this shape respect a reservation if both could use some of the same nodes."""
        if not shape.overlaps(claim.shape):
            return
        shape.respected.append(claim)
        by = claim.must_end_by(self._priority or 0)
        if by is not None:
            shape.must_end_by = min(shape.must_end_by, by)
        else:
            shape.should_end_by = min(shape.should_end_by, claim.reservation.starts_at)

    def shortages(self) -> Iterator[Shortage]:
        """Yield the shortage of each run that does not start, judged by the nodes that are free at the end of the pass.
        The part that is the same for all runs of a shape is computed once.
        """
        for run, shape, may_delay in self._not_started:
            gang, total = run.gang, self._free_rooms.of(shape).total
            least = gang.least
            fit_now = min(total, least)
            known = shape.shortage
            if known is None:
                known = shape.shortage = shortage_of(self.snapshot.table, gang, shape.eligible, fit_now)
            behind = self._delayed_by(run, shape.respected[:may_delay]) if may_delay and total >= least else ()
            yield Shortage(gang.key, least, fit_now, known.fit_ever, known.fit_repaired, known.eligible, behind)
