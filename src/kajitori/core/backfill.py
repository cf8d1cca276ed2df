"""One cycle over the whole queue: what starts now, and for whom nodes are kept.

Gangs are looked at in the queue's order. The first that does not fit gets a reservation: the earliest time at which
enough of what runs is expected to have ended, and nodes for that time. Others may pass it if they are expected to have
ended by then, or if they leave it what it needs. Where gangs want different nodes (another GPU type, another pool), the
first of each such group has a reservation of its own. What nobody knows the end of, foreign Pods and services, never
frees anything; a gang that waits for it has no reservation, and holds nothing back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from kajitori.core.choosing import Rows
from kajitori.core.planner import (
    GangRequest,
    MemberRequest,
    Placement,
    Shortage,
    leftover_of,
    nodes_for,
    occupy_rows,
    placement_of,
    room_of,
    rows_for,
    shortage_of,
)
from kajitori.core.snapshot import Counts, Mask, Snapshot

Floats = npt.NDArray[np.float64]

LIKELY = 0.8
"""Most runs end before what is expected of them, the longest of three or a limit. One may pass if so much of its
expected length ends before a reservation, unless that is of an overdue gang: then all of it has to, or the reservation
could slip for ever. Chosen with the order's other constants, see docs/queue.md."""


SOON_SECONDS = 1.0
"""What is expected is never less, however long it takes already: so near, nobody knows when a reservation begins."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A gang in the queue, and how long it is expected to take."""

    gang: GangRequest
    expected_seconds: float
    """Infinite where nobody knows an end."""
    overdue: bool = False
    """It has waited too long: nothing that is expected to delay it may pass it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Something that runs, and when it is expected to leave its nodes; not before now."""

    member: MemberRequest
    rows: Rows
    """Of the node table, one for each member."""
    ends_at: float


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
    """What one cycle found; every gang is in `placements` or in `shortages`."""

    placements: tuple[Placement, ...]
    shortages: tuple[Shortage, ...]
    reservations: tuple[Reservation, ...]
    """Of some in `shortages`."""


def schedule(
    snapshot: Snapshot,
    queue: Iterable[Queued],
    endings: Sequence[Ending],
    now: float,
    *,
    reserve: bool = True,
    likely: float = LIKELY,
) -> Schedule:
    """Starts what fits, in order, and reserves for the first that does not. The snapshot is not changed.

    endings: all that runs and whose end is expected. Without `reserve` whatever fits starts.
    """
    cycle = _Cycle(snapshot, endings, now, likely)
    placements: list[Placement] = []
    for queued in queue:
        cycle.note_priority(queued.gang.priority)
        shape = cycle.shape_of(queued.gang)
        placement = cycle.start(queued, shape)
        if placement is not None:
            placements.append(placement)
        elif reserve:
            cycle.reserve(queued, shape)
    return Schedule(tuple(placements), tuple(cycle.shortages()), tuple(cycle.reservations))


@dataclass(eq=False, slots=True)
class _Shape:
    """What gangs have in common that ask for equal members on the same nodes."""

    member: MemberRequest
    eligible: Mask
    candidates: Mask
    """Those of the eligible that take work now."""
    shortage: Shortage | None = None
    pass_by: float = math.inf
    likely_by: float = math.inf
    """The earliest start of a reservation on nodes that these could use, of an overdue gang and of another."""
    heeds: tuple[Reservation, ...] = ()
    """All reservations on such nodes."""
    hopeless: int = 1 << 62
    """So many members never find room, as far as ends are expected."""


@dataclass(slots=True)
class _Room:
    """How many members of a shape each node takes, as of a number of changes."""

    room: Counts
    total: int
    changes: int


class _Rooms:
    """The room for every shape that was asked for, kept up to date where something was placed."""

    def __init__(self, state: Snapshot) -> None:
        self.state = state
        self.leftover = leftover_of(state)
        self._changed: list[Rows] = []
        self._rooms: dict[_Shape, _Room] = {}

    def of(self, shape: _Shape) -> _Room:
        known = self._rooms.get(shape)
        if known is None:
            room = room_of(self.state, shape.member, shape.candidates)
            known = self._rooms[shape] = _Room(room, int(room.sum()), len(self._changed))
        elif known.changes < len(self._changed):
            changed = self._changed[known.changes :]
            rows = _distinct(np.concatenate(changed)) if len(changed) > 1 else changed[0]
            now = room_of(self.state, shape.member, shape.candidates[rows], rows)
            known.total += int(now.sum()) - int(known.room[rows].sum())
            known.room[rows] = now
            known.changes = len(self._changed)
        return known

    def may_hold(self, shape: _Shape, members: int) -> bool:
        """False only where there is no room for so many: within a cycle there is ever less, so that what was known of a
        shape the last time is enough to say no."""
        known = self._rooms.get(shape)
        return known is None or known.total >= members

    def note(self, rows: Rows) -> None:
        """The state of these rows has changed; each comes once."""
        self.leftover[rows] = leftover_of(self.state, rows)
        self._changed.append(rows)


def _distinct(rows: Rows) -> Rows:
    """Each of these rows once, upwards: as np.unique, but quick where there are few."""
    rows = np.sort(rows)
    first = np.empty(len(rows), dtype=bool)
    first[:1] = True
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]


class _Releases:
    """What running gangs will free of the nodes that a shape could use, in the order of their ends."""

    def __init__(self, endings: Iterable[Ending], shape: _Shape) -> None:
        self._shape = shape
        order = sorted(endings, key=attrgetter("ends_at"))
        numbers: dict[int, int] = {}
        members: list[MemberRequest] = []
        kinds, sizes, ends = [], [], []
        for ending in order:
            number = numbers.setdefault(id(ending.member), len(members))
            if number == len(members):
                members.append(ending.member)
            kinds.append(number)
            sizes.append(ending.rows.size)
            ends.append(ending.ends_at)
        rows = np.concatenate([ending.rows for ending in order]) if order else np.empty(0, dtype=np.int64)
        which = np.repeat(np.array(kinds, dtype=np.int64), sizes)
        times = np.repeat(np.array(ends, dtype=np.float64), sizes)
        ours = shape.candidates[rows]
        self._rows, which, self._times = rows[ours], which[ours], times[ours]
        self._amounts = np.array([member.amounts for member in members], dtype=np.float64).reshape(-1, 4)[which]
        self._alone = np.array([member.alone for member in members], dtype=bool)[which]

    def earliest(self, state: Snapshot, room_now: int, need: int) -> tuple[float, Snapshot, Counts] | None:
        """When `need` members find room at the earliest, what is used then, and the room; None for never.

        Room only grows as runs end, so it is a search over their ends: first where room is expected if every member
        that ends makes room for as much as it had, which is exact where all are alike; then by halves.
        """
        times = np.unique(self._times)
        found = None
        low, high = 0, len(times)
        probe, is_guess = self._guess(times, need - room_now), True
        while low < high:
            then = self._after(state, float(times[probe]))
            room = room_of(then, self._shape.member, self._shape.candidates)
            if int(room.sum()) >= need:
                found = float(times[probe]), then, room
                high = probe
                probe = high - 1 if is_guess else (low + high) // 2
                is_guess = False
            elif probe == len(times) - 1:
                return None
            else:
                low = probe + 1
                probe = (low + high) // 2 if found else high - 1  # who waits for ever is done with in one step
        return found

    def _guess(self, times: Floats, missing: int) -> int:
        """Which end it may be after which so many more members find room."""
        wanted = self._shape.member.amounts
        asked = wanted > 0
        parts = (self._amounts[:, asked] / wanted[asked]).min(axis=1, initial=np.inf)
        count = int(np.searchsorted(np.cumsum(parts), missing - 1e-6))
        moment = self._times[min(count, len(self._times) - 1)] if len(self._times) else 0.0
        return int(np.searchsorted(times, moment))

    def _after(self, state: Snapshot, moment: float) -> Snapshot:
        """The state once all that end by then have ended."""
        count = int(np.searchsorted(self._times, moment, side="right"))
        rows, nodes = self._rows[:count], len(state.table)
        used = np.empty_like(state.used)
        for column in range(used.shape[1]):
            freed = np.bincount(rows, weights=self._amounts[:count, column], minlength=nodes)
            used[:, column] = state.used[:, column] - freed.astype(np.int64)
        np.maximum(used, 0, out=used)
        members = np.maximum(state.members - np.bincount(rows, minlength=nodes), 0)
        alone = state.alone.copy()
        alone[rows[self._alone[:count]]] = False
        return Snapshot(state.table, used, members, alone)


@dataclass(slots=True)
class _Cycle:
    """What is free now, and what is left of it for gangs that will still run when a reservation begins."""

    snapshot: Snapshot
    endings: Sequence[Ending]
    now: float
    likely: float
    reservations: list[Reservation] = field(default_factory=list)
    _reserved_for: list[_Shape] = field(default_factory=list)
    """The shape of each of them."""
    _priority: int | None = None
    """Of the gangs that are looked at now."""
    _above: int = 0
    """So many of the reservations, the first, are of gangs of higher priority."""
    _started: list[Ending] = field(default_factory=list)
    _shapes: dict[tuple[MemberRequest, frozenset[str], int], _Shape] = field(default_factory=dict)
    _by_identity: dict[int, _Shape] = field(default_factory=dict)
    _free: _Rooms = field(init=False)
    _left: list[tuple[GangRequest, _Shape, tuple[str, ...]]] = field(default_factory=list)
    """Gangs that do not start, each with whom it would delay if there is room for it."""
    _kept: _Rooms | None = None
    """As `_free`, but without what reservations need."""
    _floor: Snapshot | None = None
    """What is used of reserved nodes once the reservations have begun; nothing of other nodes."""

    def __post_init__(self) -> None:
        self._free = _Rooms(self.snapshot.copy())

    def note_priority(self, priority: int) -> None:
        """From now on gangs of this priority are looked at; the queue goes from the highest to the lowest."""
        if priority == self._priority:
            return
        self._priority, self._above = priority, len(self.reservations)
        for shape in self._shapes.values():
            self._heed_reservations(shape)

    def shape_of(self, gang: GangRequest) -> _Shape:
        """The gang's shape; members that are the same object are not compared."""
        shape = self._by_identity.get(id(gang.member)) if not gang.avoid else None
        if shape is None:
            key = (gang.member, gang.avoid, gang.least if gang.avoid else 0)
            shape = self._shapes.get(key)
            if shape is None:
                eligible = nodes_for(self.snapshot.table, gang)
                shape = _Shape(gang.member, eligible, eligible & self.snapshot.table.usable_by(gang.member.tolerations))
                self._heed_reservations(shape)
                self._shapes[key] = shape
            if not gang.avoid:
                self._by_identity[id(gang.member)] = shape
        return shape

    def start(self, queued: Queued, shape: _Shape) -> Placement | None:
        """Places the gang, or as much of it as fits where less is enough, on what is free, if that is expected to delay
        no reservation."""
        need, seconds = queued.gang.least, queued.expected_seconds
        lasts = self.now + seconds > shape.pass_by or self.now + self._likely(queued) > shape.likely_by
        rooms = self._kept if lasts and self._kept is not None else self._free
        known = rooms.of(shape) if rooms.may_hold(shape, need) else None
        if known is None or known.total < need:
            self._left.append((queued.gang, shape, self._delayed_by(queued, shape) if lasts else ()))
            return None
        # Reserved nodes look full among those that are kept free: what has ended by then takes them first.
        leftover = (self._kept or self._free).leftover
        gang = queued.gang.fitting(known.total)
        rows = rows_for(self.snapshot.table, gang, known.room, leftover)
        self._occupy(shape.member, rows, lasts)
        if math.isfinite(seconds):
            self._started.append(Ending(shape.member, rows, self.now + seconds))
        return placement_of(self.snapshot.table, gang, rows)

    def _delayed_by(self, queued: Queued, shape: _Shape) -> tuple[str, ...]:
        """Whose reservation begins before this gang is expected to have ended."""
        ends, likely = self.now + queued.expected_seconds, self.now + self._likely(queued)
        return tuple(
            reservation.key
            for reservation in shape.heeds
            if (likely > reservation.starts_at if (by := self._strictly_by(reservation)) is None else ends > by)
        )

    def _strictly_by(self, reservation: Reservation) -> float | None:
        """When gangs that are looked at now have to have ended wholly, so that they do not delay one that is overdue
        or has a higher priority; None where most of what is expected will do."""
        if any(each is reservation for each in self.reservations[: self._above]):
            return reservation.starts_at - SOON_SECONDS
        return reservation.starts_at if reservation.overdue else None

    def _likely(self, queued: Queued) -> float:
        """How much of its expected length has to end before a reservation. Of what takes what it gets, and comes again
        for more, all of it: with members that take over from each other the reservation could slip for ever."""
        return queued.expected_seconds if queued.gang.fewest is not None else self.likely * queued.expected_seconds

    def _occupy(self, member: MemberRequest, rows: Rows, lasts: bool) -> None:
        occupy_rows(self._free.state, member, rows)
        changed = _distinct(rows)
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
        kept.used[rows] = np.maximum(free.used[rows], floor.used[rows])
        kept.members[rows] = np.maximum(free.members[rows], floor.members[rows])
        kept.alone[rows] = free.alone[rows] | floor.alone[rows]
        self._kept.note(rows)

    def reserve(self, queued: Queued, shape: _Shape) -> None:
        """Keeps nodes for a gang that does not fit, unless one before it has some of those that it could use."""
        gang = queued.gang.fitting(queued.gang.least)
        need = len(gang.ranks)
        if min(shape.pass_by, shape.likely_by) < math.inf or need >= shape.hopeless:
            return
        found = _Releases([*self.endings, *self._started], shape).earliest(
            self._free.state, self._free.of(shape).total, need
        )
        if found is None:
            shape.hopeless = need
            return
        starts_at, then, room = found
        rows = rows_for(self.snapshot.table, gang, room, self._free.leftover)
        occupy_rows(then, shape.member, rows)
        reserved = np.unique(rows)
        if self._floor is None:
            self._floor = Snapshot.empty(self.snapshot.table)
            self._kept = _Rooms(self._free.state.copy())
        self._floor.used[reserved] = then.used[reserved]
        self._floor.members[reserved] = then.members[reserved]
        self._floor.alone[reserved] = then.alone[reserved]
        self._keep(reserved)
        placement = placement_of(self.snapshot.table, gang, rows)
        self.reservations.append(Reservation(placement, max(self.now, starts_at), queued.overdue))
        self._reserved_for.append(shape)
        for each in self._shapes.values():
            self._heed_reservations(each)

    def _heed_reservations(self, shape: _Shape) -> None:
        """Finds out before which time gangs of this shape have to end, if they take what is free."""
        shape.pass_by = shape.likely_by = math.inf
        shape.heeds = tuple(
            reservation
            for reservation, holder in zip(self.reservations, self._reserved_for, strict=True)
            if (holder.candidates & shape.candidates).any()
        )
        for reservation in shape.heeds:
            by = self._strictly_by(reservation)
            if by is not None:
                shape.pass_by = min(shape.pass_by, by)
            else:
                shape.likely_by = min(shape.likely_by, reservation.starts_at)

    def shortages(self) -> Iterator[Shortage]:
        """Why gangs do not start, by what is left when all have been looked at. What holds for all of a shape is worked
        out once."""
        for gang, shape, behind in self._left:
            total = self._free.of(shape).total
            fit_now = min(total, gang.least)
            known = shape.shortage
            if known is None:
                known = shape.shortage = shortage_of(self.snapshot.table, gang, shape.eligible, fit_now)
            behind = behind if total >= gang.least else ()
            yield Shortage(gang.key, gang.least, fit_now, known.fit_ever, known.fit_repaired, known.eligible, behind)
