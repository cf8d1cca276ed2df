"""What-ifs: what happens to a run that waits, or that is not submitted yet. The planner itself answers, on a changed
simulation: nothing here decides what fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kajitori.core.formats.quantities import format_duration, memory_there
from kajitori.core.placement.planner import GangRequest, Placement, Shortage, occupy_rows, room_of
from kajitori.core.placement.snapshot import Mask, Snapshot
from kajitori.core.queue.backfill.reservations import Reservation
from kajitori.core.queue.backfill.schedule import Schedule, schedule
from kajitori.core.queue.forecast import forecast, rows_of
from kajitori.core.queue.freeing import Freeing, Simulation, StopWatch, to_free, unlimited_time
from kajitori.core.queue.waiting import WaitingRun

_TIMES = (86400, 43200, 21600, 10800, 3600, 1800, 900, 300)
"""Time limits to try, in seconds: a run that ends soon may pass others."""

_GIBIBYTE, _CORE = 1 << 30, 1000


@dataclass(frozen=True, slots=True)
class Room:
    """Number of members that nodes of the right kind have room for, by obstacle; each is at most the number of members
    that the run asks for."""

    free: int
    """There is no obstacle: they could start now."""
    reserved: int
    """The room is reserved for runs ahead."""
    held: int
    """The room is used by other runs."""
    cordoned: int
    broken: int
    """The node is not ready, unhealthy or not tested yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The next cycle's decision about a run, and the reasons."""

    placement: Placement | None
    """The nodes on which it starts; None if it waits. The other fields then say why."""
    shortage: Shortage | None
    room: Room
    ahead: int
    """Number of waiting runs that are looked at before it."""
    freeing: Freeing | None
    """The steps that start it; None if nothing does."""
    sooner: tuple[str, ...]
    """Changes with which it would start now, as options of `kaji run`."""
    expected_at: float | None
    """When it is expected to start if everything takes its expected time; None if that is not known."""
    schedule: Schedule
    """The decision of the next cycle about this run and all runs ahead."""

    @property
    def reservation(self) -> Reservation | None:
        """The reservation of the run, if it waits and has one."""
        waits = self.shortage.key if self.shortage is not None else ""
        return next((reservation for reservation in self.schedule.reservations if reservation.key == waits), None)


def ask(simulation: Simulation, key: str, stop_watch: StopWatch = unlimited_time) -> Answer:
    """Return what the next cycle does with a run of the queue. Raises ValueError if it does not wait.

    Each part of the answer may take as long as the stop-watch allows. If that is too short, the part is less exact or
    left out.
    """
    place = simulation.position(key)
    gang = simulation.queue[place].gang
    found = schedule(
        simulation.snapshot,
        simulation.queue[: place + 1],
        simulation.endings,
        simulation.now,
        reserve=simulation.reserve,
        likely=simulation.likely,
    )
    before = simulation.snapshot.copy()
    for placement in found.placements:
        if placement.key != key:
            member = next(run.gang.member for run in simulation.queue if run.gang.key == placement.key)
            occupy_rows(before, member, rows_of(before, placement))
    if found.placements and found.placements[-1].key == key:
        placement = found.placements[-1]
        room = Room(len(placement.ranks), 0, 0, 0, 0)
        return Answer(placement, None, room, place, Freeing(()), (), simulation.now, found)
    shortage = found.shortages[-1]
    reservation = next((other for other in found.reservations if other.key == key), None)
    return Answer(
        placement=None,
        shortage=shortage,
        room=_room_by_obstacle(before, gang, shortage),
        ahead=place,
        freeing=to_free(simulation, key, stop_watch),
        sooner=tuple(_changes_that_start_it(simulation, key, stop_watch)),
        expected_at=reservation.starts_at if reservation is not None else expected_start(simulation, key, stop_watch),
        schedule=found,
    )


def expected_start(simulation: Simulation, key: str, stop_watch: StopWatch = unlimited_time) -> float | None:
    """Return when a run starts if all running runs and all runs ahead take their expected time, and nothing else is
    submitted: the planner decides again at each end. None if the start depends on something without a known end, or if
    too many runs are ahead for a useful answer.
    """
    queue = simulation.queue[: simulation.position(key) + 1]
    return forecast(replace(simulation, queue=queue), stop_watch, until=key).starts.get(key)


def _room_by_obstacle(state: Snapshot, gang: GangRequest, shortage: Shortage) -> Room:
    """Return the room for the gang. state: the usage once those runs ahead that can start have started."""
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


def _changes_that_start_it(simulation: Simulation, key: str, stop_watch: StopWatch) -> Iterator[str]:
    """Yield changes of the request, one at a time, with which the next cycle would start it; as many as there was time
    to try."""
    run, has_time = simulation.queue[simulation.position(key)], stop_watch()
    gang, member = run.gang, run.gang.member

    def start(other: WaitingRun) -> bool:
        return has_time() and simulation.instead(key, other).starts(key) is not None

    def starts(**changed: Any) -> bool:
        return start(replace(run, gang=replace(gang, member=replace(member, **changed))))

    if member.gpu_type:
        types = sorted(simulation.snapshot.table.gpu_types - {member.gpu_type})
        yield from (f"--gpu-type {gpu_type}" for gpu_type in types if starts(gpu_type=gpu_type, gpu_way=None))
    if members := _fewer_members(run, start):
        yield f"--replicas {members}" if gang.fewest is None else f"--replicas {members}-{len(gang.ranks)}"
    times = (seconds for seconds in _TIMES if seconds < run.expected_seconds)
    if seconds := next((seconds for seconds in times if start(replace(run, expected_seconds=float(seconds)))), 0):
        yield f"--time-limit {format_duration(seconds)}"
    if member.unlimited and starts(unlimited=False):
        yield "--memory SIZE"
    if member.whole_node and starts(whole_node=False):
        yield "no --whole-node"
    if gpus := _largest_amount(member.gpus, 1, lambda n: starts(gpus=n)):
        yield f"--gpus {gpus}"
    unit = _GIBIBYTE if member.memory_bytes >= 4 * _GIBIBYTE else _GIBIBYTE // 16
    if memory := _largest_amount(member.memory_bytes, unit, lambda n: starts(memory_bytes=n)):
        yield f"--memory {memory_there(memory)}"
    if cpu := _largest_amount(member.cpu_millis, _CORE, lambda n: starts(cpu_millis=n)):
        yield f"--cpus {cpu // _CORE}"


def _largest_amount(asked: int, unit: int, starts: Callable[[int], bool]) -> int:
    """Return the largest amount, in whole units and below the requested one, with which the run starts; 0 if that is
    less than an eighth of the requested amount.
    """
    low, high = max(0, -(-asked // (8 * unit)) - 1), -(-asked // unit)
    least = low
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if starts(middle * unit) else (low, middle)
    return low * unit if low > least else 0


def _fewer_members(run: WaitingRun, start: Callable[[WaitingRun], bool]) -> int:
    """Return the largest number of members with which the run starts now; for a run that takes what fits, the largest
    minimum. 0 if there is none."""
    gang = run.gang

    def starts(members: int) -> bool:
        fewer = gang.fitting(members) if gang.fewest is None else replace(gang, fewest=members)
        return start(replace(run, gang=fewer))

    low, high = 0, gang.least
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if starts(middle) else (low, middle)
    return low
