"""One cycle over the whole queue: what starts now, and for whom nodes are kept.

Gangs are looked at in the queue's order. The first that does not fit gets a reservation: the earliest time at which
enough of what runs is expected to have ended, and nodes for that time. Others may pass it if they are expected to have
ended by then, or if they leave it what it needs. Where gangs want different nodes (another GPU type, another pool), the
first of each such group has a reservation of its own. Before anybody of lower priority is looked at, the others have
one too: equals may delay them, who has lower priority may not. What nobody knows the end of, foreign Pods and services,
never frees anything; a gang that waits for it has no reservation, and holds nothing back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

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
    rows_for,
    shortage_of,
)
from kajitori.core.placement.releases import Ending, Releases
from kajitori.core.placement.rooms import Rooms, Shape, distinct
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.policy.queue import LIKELY
from kajitori.core.queue.waiting import WaitingRun

SOON_SECONDS = 1.0
"""What is expected is never less, however long it takes already: so near, nobody knows when a reservation begins."""

FURTHER = 32
"""So many gangs of one priority have nodes kept from those of lower priority, besides the first of them."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept for a gang, from the time at which it is expected to start."""

    placement: Placement
    starts_at: float
    overdue: bool = False

    @property
    def key(self) -> str:
        """The gang's."""
        return self.placement.key


@dataclass(frozen=True, slots=True)
class Schedule:
    """What one cycle found; every gang is in `placements` or in `shortages`, if these were asked for."""

    placements: tuple[Placement, ...]
    shortages: tuple[Shortage, ...]
    reservations: tuple[Reservation, ...]
    """Of some in `shortages`."""


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
    """Starts what fits, in order, and reserves for the first that does not. The snapshot is not changed.

    endings: all that runs and whose end is expected. Without `reserve` whatever fits starts. most: it is only asked who
    starts, so many at most: there are no shortages, and only such reservations as matter for that.
    """
    cycle = _Cycle(snapshot, endings, now, likely)
    placements: list[Placement] = []
    for queued in queue:
        if len(placements) == max_starts:
            break
        cycle.note_priority(queued.gang.priority)
        shape = cycle.shape_of(queued.gang)
        if max_starts is not None and cycle.is_as_before(queued, shape, reserve=reserve):
            continue
        placement = cycle.start(queued, shape)
        if placement is not None:
            placements.append(placement)
        elif reserve:
            cycle.reserve(queued, shape)
    if max_starts is None:
        cycle.reserve_further()
    shortages = tuple(cycle.shortages()) if max_starts is None else ()
    return Schedule(tuple(placements), shortages, tuple(claim.reservation for claim in cycle.claims))


@dataclass(eq=False, slots=True)
class _Shape(Shape):
    """What of a shape is known within one cycle."""

    shortage: Shortage | None = None
    pass_by: float = math.inf
    likely_by: float = math.inf
    """By when such gangs have to have ended, wholly or most likely, so that they delay no reservation."""
    heeds: list[_Claim] = field(default_factory=list)
    """All reservations on nodes that these could use."""
    hopeless: int = 1 << 62
    """So many members never find room, as far as ends are expected."""
    failed: tuple[int, float, float] | None = None
    """Of a gang of the priority that is looked at, which did not start: its members, how long it is expected to take,
    and most likely takes."""


@dataclass(eq=False, slots=True)
class _Claim:
    """A reservation, and whose it is."""

    reservation: Reservation
    holder: _Shape
    priority: int

    def strictly_by(self, priority: int) -> float | None:
        """When gangs of this priority have to have ended wholly, so that they do not delay one that is overdue or has a
        higher priority; None where most of what is expected will do."""
        if self.priority > priority:
            return self.reservation.starts_at - SOON_SECONDS
        return self.reservation.starts_at if self.reservation.overdue else None


@dataclass(slots=True)
class _Cycle:
    """What is free now, and what is left of it for gangs that will still run when a reservation begins."""

    snapshot: Snapshot
    endings: Sequence[Ending]
    now: float
    likely: float
    claims: list[_Claim] = field(default_factory=list)
    """The reservations."""
    _priority: int | None = None
    """Of the gangs that are looked at now."""
    _behind: list[tuple[WaitingRun, _Shape]] = field(default_factory=list)
    """Those of this priority that do not start, and have no reservation because another has one on such nodes."""
    _further: list[list[tuple[WaitingRun, _Shape]]] = field(default_factory=list)
    """Such gangs of each higher priority that are to have one before anybody of lower starts, or has one."""
    _started: list[Ending] = field(default_factory=list)
    _shapes: dict[tuple[MemberRequest, frozenset[str], int], _Shape] = field(default_factory=dict)
    _by_identity: dict[int, _Shape] = field(default_factory=dict)
    _free: Rooms = field(init=False)
    _left: list[tuple[WaitingRun, _Shape, int]] = field(default_factory=list)
    """Gangs that do not start, as they were left."""
    _kept: Rooms | None = None
    """As `_free`, but without what reservations need."""
    _floor: Snapshot | None = None
    """What is used of reserved nodes once the reservations have begun; nothing of other nodes."""
    _reserved: Snapshot | None = None
    """What the reservations will take."""

    def __post_init__(self) -> None:
        self._free = Rooms(self.snapshot.copy())

    def note_priority(self, priority: int) -> None:
        """From now on gangs of this priority are looked at; the queue goes from the highest to the lowest."""
        if priority == self._priority:
            return
        if self._behind:
            self._further.append(self._behind[:FURTHER])
        self._behind = []
        self._priority = priority
        for shape in self._shapes.values():
            heeded, shape.heeds = shape.heeds, []
            shape.pass_by = shape.likely_by = math.inf
            shape.failed = None
            for claim in heeded:
                self._heed(shape, claim)

    def reserve_further(self) -> None:
        """Keeps nodes for those of higher priority that have none yet. Where nobody of lower could start anyway, nobody
        asks for it: it is most of the work of a look at a full cluster."""
        further, self._further = self._further, []
        for behind in further:
            releases: dict[_Shape, Releases] = {}
            for queued, shape in behind:
                if queued.gang.least < shape.hopeless:
                    if shape not in releases:
                        releases[shape] = Releases([*self.endings, *self._started], shape)
                    self._claim(queued, shape, releases[shape])

    def shape_of(self, gang: GangRequest) -> _Shape:
        """The gang's shape; members that are the same object are not compared."""
        shape = self._by_identity.get(id(gang.member)) if not gang.avoid else None
        if shape is None:
            key = (gang.member, gang.avoid, gang.least if gang.avoid else 0)
            shape = self._shapes.get(key)
            if shape is None:
                eligible = nodes_for(self.snapshot.table, gang)
                shape = _Shape(gang.member, eligible, eligible & self.snapshot.table.usable_by(gang.member.tolerations))
                for claim in self.claims:
                    self._heed(shape, claim)
                self._shapes[key] = shape
            if not gang.avoid:
                self._by_identity[id(gang.member)] = shape
        return shape

    def is_as_before(self, queued: WaitingRun, shape: _Shape, *, reserve: bool) -> bool:
        """Whether to look at this gang would change nothing: another of its shape and priority, which asks for no more
        members and for no longer, did not start; and this one gets no reservation that anybody heeds."""
        if shape.failed is None:
            return False
        members, seconds, likely = shape.failed
        if queued.gang.least < members or queued.expected_seconds < seconds or self._likely(queued) < likely:
            return False
        # Where its shape heeds nothing, that other had no reservation, and so will this one not.
        return not reserve or min(shape.pass_by, shape.likely_by) == math.inf or len(self._behind) >= FURTHER

    def start(self, queued: WaitingRun, shape: _Shape) -> Placement | None:
        """Places the gang, or as much of it as fits where less is enough, on what is free, if that is expected to delay
        no reservation."""
        need, seconds = queued.gang.least, queued.expected_seconds
        if self._further:
            if not self._free.may_hold(shape, need) or self._free.of(shape).total < need:
                self._leave(queued, shape, 0)
                return None
            self.reserve_further()
        lasts = self.now + seconds > shape.pass_by or self.now + self._likely(queued) > shape.likely_by
        rooms = self._kept if lasts and self._kept is not None else self._free
        known = rooms.of(shape) if rooms.may_hold(shape, need) else None
        if known is None or known.total < need:
            self._leave(queued, shape, len(shape.heeds) if lasts else 0)
            return None
        # Reserved nodes look full among those that are kept free: what has ended by then takes them first.
        leftover = (self._kept or self._free).leftover
        gang = queued.gang.fitting(known.total)
        rows = rows_for(self.snapshot.table, gang, known.room, leftover)
        self._occupy(shape.member, rows, lasts)
        if math.isfinite(seconds):
            self._started.append(Ending(shape.member, rows, self.now + seconds))
        return placement_of(self.snapshot.table, gang, rows)

    def _leave(self, queued: WaitingRun, shape: _Shape, may_delay: int) -> None:
        """The gang does not start. Of the reservations that its shape heeds it may delay so many, the first."""
        self._left.append((queued, shape, may_delay))
        asked = queued.gang.least, queued.expected_seconds, self._likely(queued)
        if shape.failed is None or all(one <= other for one, other in zip(asked, shape.failed, strict=True)):
            shape.failed = asked

    def _delayed_by(self, queued: WaitingRun, claims: Sequence[_Claim]) -> tuple[str, ...]:
        """Whose reservation of these begins before this gang is expected to have ended."""
        ends, likely = self.now + queued.expected_seconds, self.now + self._likely(queued)
        return tuple(
            claim.reservation.key
            for claim in claims
            if (
                likely > claim.reservation.starts_at
                if (by := claim.strictly_by(queued.gang.priority)) is None
                else ends > by
            )
        )

    def _likely(self, queued: WaitingRun) -> float:
        """How much of its expected length has to end before a reservation. Of what takes what it gets, and comes again
        for more, all of it: with members that take over from each other the reservation could slip for ever."""
        return queued.expected_seconds if queued.gang.fewest is not None else self.likely * queued.expected_seconds

    def _occupy(self, member: MemberRequest, rows: Rows, lasts: bool) -> None:
        occupy_rows(self._free.state, member, rows)
        changed = distinct(rows)
        self._free.note(changed)
        if self._floor is not None and self._kept is not None:
            reserved = rows[self._floor.members[rows] > 0]
            if lasts and reserved.size:
                occupy_rows(self._floor, member, reserved)
            self._keep(changed)

    def _keep(self, rows: Rows) -> None:
        """Gangs that last find of these rows what is free both now and once the reservations have begun."""
        assert self._kept is not None and self._floor is not None
        kept, free, floor = self._kept.state, self._free.state, self._floor
        kept.used[rows], kept.members[rows], kept.alone[rows] = free.used[rows], free.members[rows], free.alone[rows]
        reserved = rows[floor.members[rows] > 0]
        if reserved.size:
            kept.raise_to(floor, reserved)
        self._kept.note(rows)

    def reserve(self, queued: WaitingRun, shape: _Shape) -> None:
        """Keeps nodes for a gang that does not fit; where one before it has some of those that it could use, only from
        who has lower priority."""
        if self._further and not shape.heeds:
            self.reserve_further()
        if min(shape.pass_by, shape.likely_by) < math.inf:
            self._behind.append((queued, shape))
        elif queued.gang.least < shape.hopeless:
            self._claim(queued, shape, Releases([*self.endings, *self._started], shape))

    def _claim(self, queued: WaitingRun, shape: _Shape, releases: Releases) -> None:
        gang = queued.gang.fitting(queued.gang.least)
        need, before = len(gang.ranks), sum(len(claim.reservation.placement.ranks) for claim in shape.heeds)
        missing = need + before - self._free.of(shape).total
        found = releases.earliest(self._free.state, self._reserved, need, missing)
        if found is None:
            shape.hopeless = need
            return
        starts_at, then, room = found
        rows = rows_for(self.snapshot.table, gang, room, self._free.leftover)
        occupy_rows(then, shape.member, rows)
        if self._floor is None or self._reserved is None:
            self._floor, self._reserved = Snapshot.empty(self.snapshot.table), Snapshot.empty(self.snapshot.table)
            self._kept = Rooms(self._free.state.copy())
        occupy_rows(self._reserved, shape.member, rows)
        reserved = np.unique(rows)
        self._floor.raise_to(then, reserved)
        self._keep(reserved)
        placement = placement_of(self.snapshot.table, gang, rows)
        reservation = Reservation(placement, max(self.now, starts_at), queued.overdue)
        claim = _Claim(reservation, shape, queued.gang.priority)
        self.claims.append(claim)
        for each in self._shapes.values():
            self._heed(each, claim)

    def _heed(self, shape: _Shape, claim: _Claim) -> None:
        """Gangs of this shape are not to delay that reservation, if they could use some of its holder's nodes."""
        if not shape.meets(claim.holder):
            return
        shape.heeds.append(claim)
        by = claim.strictly_by(self._priority or 0)
        if by is not None:
            shape.pass_by = min(shape.pass_by, by)
        else:
            shape.likely_by = min(shape.likely_by, claim.reservation.starts_at)

    def shortages(self) -> Iterator[Shortage]:
        """Why gangs do not start, by what is left when all have been looked at. What holds for all of a shape is worked
        out once."""
        for queued, shape, heeded in self._left:
            gang, total = queued.gang, self._free.of(shape).total
            least = gang.least
            fit_now = min(total, least)
            known = shape.shortage
            if known is None:
                known = shape.shortage = shortage_of(self.snapshot.table, gang, shape.eligible, fit_now)
            behind = self._delayed_by(queued, shape.heeds[:heeded]) if heeded and total >= least else ()
            yield Shortage(gang.key, least, fit_now, known.fit_ever, known.fit_repaired, known.eligible, behind)
