"""What would become of a run: asked before it is submitted, and of one that waits. The planner itself answers, on a
situation that is changed as asked: nothing here knows by itself what fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kajitori.core.placement.planner import GangRequest, Placement, Shortage, occupy_rows, room_of
from kajitori.core.placement.snapshot import Mask, Snapshot
from kajitori.core.queue.backfill import Reservation, Schedule, schedule
from kajitori.core.queue.forecast import forecast, rows_of
from kajitori.core.queue.freeing import Freeing, Simulation, Watch, for_ever, to_free
from kajitori.core.queue.waiting import WaitingRun
from kajitori.core.words.quantities import format_duration, memory_there

_TIMES = (86400, 43200, 21600, 10800, 3600, 1800, 900, 300)
"""Time limits that are tried, in seconds: a run that ends soon may pass others."""

_GIBIBYTE, _CORE = 1 << 30, 1000


@dataclass(frozen=True, slots=True)
class Room:
    """For how many members there is room on nodes of the right kind, by what is in the way. No more is counted than
    would be of use to the run."""

    free: int
    """Nothing: they could start now."""
    reserved: int
    """It is kept for runs before it."""
    held: int
    """Others run there."""
    cordoned: int
    broken: int
    """The node is not ready, unhealthy or not tested yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the next cycle makes of a run, and why."""

    placement: Placement | None
    """Where it starts; None: it waits, and all that follows says why."""
    shortage: Shortage | None
    room: Room
    ahead: int
    """How many that wait are looked at before it."""
    freeing: Freeing | None
    """What starts it; None where nothing does."""
    sooner: tuple[str, ...]
    """What it could ask for instead, as options of `kaji run`, to start now."""
    expected_at: float | None
    """When it is expected to start, if everything takes as long as is expected; None where nobody can tell."""
    looked: Schedule
    """What the next cycle makes of it and of all before it."""

    @property
    def reservation(self) -> Reservation | None:
        """The nodes that are kept for it, if it waits."""
        waits = self.shortage.key if self.shortage is not None else ""
        return next((each for each in self.looked.reservations if each.key == waits), None)


def ask(situation: Simulation, key: str, watch: Watch = for_ever) -> Answer:
    """What the next cycle makes of a run of the queue. Raises ValueError where it does not wait.

    Each part of the answer may take as long as the watch allows, and is less exact, or left out, where that is not
    enough.
    """
    place = situation.position(key)
    gang = situation.queue[place].gang
    found = schedule(
        situation.snapshot,
        situation.queue[: place + 1],
        situation.endings,
        situation.now,
        reserve=situation.reserve,
        likely=situation.likely,
    )
    before = situation.snapshot.copy()
    for each in found.placements:
        if each.key != key:
            member = next(queued.gang.member for queued in situation.queue if queued.gang.key == each.key)
            occupy_rows(before, member, rows_of(before, each))
    if found.placements and found.placements[-1].key == key:
        placement = found.placements[-1]
        room = Room(len(placement.ranks), 0, 0, 0, 0)
        return Answer(placement, None, room, place, Freeing(()), (), situation.now, found)
    shortage = found.shortages[-1]
    reservation = next((each for each in found.reservations if each.key == key), None)
    return Answer(
        placement=None,
        shortage=shortage,
        room=_room(before, gang, shortage),
        ahead=place,
        freeing=to_free(situation, key, watch),
        sooner=tuple(_sooner(situation, key, watch)),
        expected_at=reservation.starts_at if reservation is not None else expected_start(situation, key, watch),
        looked=found,
    )


def expected_start(situation: Simulation, key: str, watch: Watch = for_ever) -> float | None:
    """When a run starts if all that runs, and all that waits before it, takes as long as is expected of it, and nothing
    else comes: the planner looks again at each end. None where it would wait for what has no known end, or where so
    much is before it that nobody should believe the answer.
    """
    queue = situation.queue[: situation.position(key) + 1]
    return forecast(replace(situation, queue=queue), watch, until=key).starts.get(key)


def _room(state: Snapshot, gang: GangRequest, shortage: Shortage) -> Room:
    """state: what is used once those before it have started that do."""
    table, member, need = state.table, gang.member, len(gang.ranks)
    usable = table.usable_by(member.tolerations)
    nothing_runs = Snapshot.empty(table)

    def count(within: Snapshot, nodes: Mask) -> int:
        return int(room_of(within, member, shortage.eligible & nodes).sum())

    now, ever = count(state, usable), count(nothing_runs, usable)
    cordoned = np.array([n.ready and not n.out and not n.schedulable for n in table.nodes], dtype=bool) & ~usable
    kept = bool(shortage.behind)
    return Room(
        free=0 if kept else min(now, need),
        reserved=min(now, need) if kept else 0,
        held=min(ever - now, need),
        cordoned=min(count(nothing_runs, cordoned), need),
        broken=min(count(nothing_runs, ~usable & ~cordoned), need),
    )


# ------------------------------------------------------------------------------------------------ sooner


def _sooner(situation: Simulation, key: str, watch: Watch) -> Iterator[str]:
    """Smaller or other requests that the next cycle would start, each changed in one thing only; those that there was
    time to try."""
    queued, has_time = situation.queue[situation.position(key)], watch()
    gang, member = queued.gang, queued.gang.member

    def start(other: WaitingRun) -> bool:
        return has_time() and situation.instead(key, other).starts(key) is not None

    def starts(**changed: Any) -> bool:
        return start(replace(queued, gang=replace(gang, member=replace(member, **changed))))

    if member.gpu_type:
        types = sorted({node.gpu_type for node in situation.snapshot.table.nodes if node.gpu_type} - {member.gpu_type})
        yield from (f"--gpu-type {gpu_type}" for gpu_type in types if starts(gpu_type=gpu_type))
    if members := _fewer_members(queued, start):
        yield f"--replicas {members}" if gang.fewest is None else f"--replicas {members}-{len(gang.ranks)}"
    times = (each for each in _TIMES if each < queued.expected_seconds)
    if seconds := next((each for each in times if start(replace(queued, expected_seconds=float(each)))), 0):
        yield f"--time-limit {format_duration(seconds)}"
    if member.unlimited and starts(unlimited=False):
        yield "--memory SIZE"
    if member.whole_node and starts(whole_node=False):
        yield "no --whole-node"
    if gpus := _largest(member.gpus, 1, lambda n: starts(gpus=n)):
        yield f"--gpus {gpus}"
    unit = _GIBIBYTE if member.memory_bytes >= 4 * _GIBIBYTE else _GIBIBYTE // 16
    if memory := _largest(member.memory_bytes, unit, lambda n: starts(memory_bytes=n)):
        yield f"--memory {memory_there(memory)}"
    if cpu := _largest(member.cpu_millis, _CORE, lambda n: starts(cpu_millis=n)):
        yield f"--cpus {cpu // _CORE}"


def _largest(asked: int, unit: int, starts: Callable[[int], bool]) -> int:
    """The largest amount below what is asked for with which it starts, in whole units; 0 where that is less than an
    eighth of it."""
    low, high = max(0, -(-asked // (8 * unit)) - 1), -(-asked // unit)
    least = low
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if starts(middle * unit) else (low, middle)
    return low * unit if low > least else 0


def _fewer_members(queued: WaitingRun, start: Callable[[WaitingRun], bool]) -> int:
    """The largest gang of the same members that starts now, or the most that one which takes what fits may insist on; 0
    where none does."""
    gang = queued.gang

    def starts(members: int) -> bool:
        fewer = gang.fitting(members) if gang.fewest is None else replace(gang, fewest=members)
        return start(replace(queued, gang=fewer))

    low, high = 0, gang.least
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if starts(middle) else (low, middle)
    return low
