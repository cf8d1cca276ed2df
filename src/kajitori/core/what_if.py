"""What would become of a run: asked before it is submitted, and of one that waits. The planner itself answers, on a
situation that is changed as asked: nothing here knows by itself what fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kajitori.core.backfill import Ending, Queued, schedule
from kajitori.core.freeing import PATIENCE_MICROSECONDS, Freeing, Situation, microseconds_of_a_look, to_free
from kajitori.core.planner import GangRequest, Placement, Shortage, occupy_rows, room_of
from kajitori.core.quantity import format_duration, format_memory
from kajitori.core.snapshot import Counts, Mask, Snapshot

_PARTS = (0.75, 0.5, 0.25, 0.125)
"""Of what a member asks for: so much less of one thing is tried."""

_TIMES = (86400, 43200, 21600, 10800, 3600, 1800, 900, 300)
"""Time limits that are tried, in seconds: a run that ends soon may pass others."""

_LOOKS = 40
"""So many cycles are tried at most to find what would start sooner, about."""

_MEBIBYTE, _CORE = 1 << 20, 1000


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


def ask(situation: Situation, key: str) -> Answer:
    """What the next cycle makes of a run of the queue. Raises ValueError where it does not wait."""
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
            occupy_rows(before, member, _rows(before, each))
    if found.placements and found.placements[-1].key == key:
        placement = found.placements[-1]
        room = Room(len(placement.ranks), 0, 0, 0, 0)
        return Answer(placement, None, room, place, Freeing(()), (), situation.now)
    shortage = found.shortages[-1]
    reservation = next((each for each in found.reservations if each.key == key), None)
    return Answer(
        placement=None,
        shortage=shortage,
        room=_room(before, gang, shortage),
        ahead=place,
        freeing=to_free(situation, key),
        sooner=_sooner(situation, key),
        expected_at=reservation.starts_at if reservation is not None else expected_start(situation, key),
    )


def expected_start(situation: Situation, key: str) -> float | None:
    """When a run starts if all that runs, and all that waits before it, takes as long as is expected of it, and nothing
    else comes: the planner looks again at each end. None where it would wait for what has no known end, or where so
    much is before it that nobody should believe the answer.
    """
    place = situation.position(key)
    waiting = list(situation.queue[: place + 1])
    state, endings, now = situation.snapshot.copy(), list(situation.endings), situation.now
    patience = PATIENCE_MICROSECONDS
    while patience > 0:
        patience -= microseconds_of_a_look(len(waiting), len(endings), len(state.table))
        found = schedule(state, waiting, endings, now, reserve=situation.reserve, likely=situation.likely)
        started = {each.key: each for each in found.placements}
        if key in started:
            return now
        if len(waiting) == 1 and found.reservations:
            return found.reservations[0].starts_at
        for queued in waiting:
            if queued.gang.key in started:
                rows = _rows(state, started[queued.gang.key])
                occupy_rows(state, queued.gang.member, rows)
                if math.isfinite(queued.expected_seconds):
                    endings.append(Ending(queued.gang.member, rows, now + queued.expected_seconds))
        waiting = [queued for queued in waiting if queued.gang.key not in started]
        if not endings:
            return None
        now = max(now, min(ending.ends_at for ending in endings))
        ended = [ending for ending in endings if ending.ends_at <= now]
        endings = [ending for ending in endings if ending.ends_at > now]
        _leave(state, ended, endings)
    return None


def _leave(state: Snapshot, ended: Sequence[Ending], still_there: Sequence[Ending]) -> None:
    """What has ended leaves its nodes, in place."""
    for ending in ended:
        np.subtract.at(state.used, ending.rows, ending.member.amounts)
        np.subtract.at(state.members, ending.rows, 1)
        if ending.member.alone:
            state.alone[ending.rows] = False
    for ending in still_there:
        if ending.member.alone:
            state.alone[ending.rows] = True


def _rows(state: Snapshot, placement: Placement) -> Counts:
    return np.array([state.table.index[name] for name in placement.nodes], dtype=np.int64)


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


def _sooner(situation: Situation, key: str) -> tuple[str, ...]:
    """Smaller or other requests that the next cycle would start, each changed in one thing only. None are tried where
    so many are before it that it would take long."""
    looks = microseconds_of_a_look(situation.position(key) + 1, len(situation.endings), len(situation.snapshot.table))
    return tuple(_tried(situation, key)) if _LOOKS * looks < PATIENCE_MICROSECONDS else ()


def _tried(situation: Situation, key: str) -> Iterator[str]:
    queued = situation.queue[situation.position(key)]
    gang, member = queued.gang, queued.gang.member

    def starts(**changed: Any) -> bool:
        other = replace(gang, member=replace(member, **changed))
        return situation.instead(key, replace(queued, gang=other)).starts(key) is not None

    if member.gpu_type:
        types = sorted({node.gpu_type for node in situation.snapshot.table.nodes if node.gpu_type} - {member.gpu_type})
        yield from (f"--gpu-type {gpu_type}" for gpu_type in types if starts(gpu_type=gpu_type))
    if members := _fewer_members(situation, key, queued):
        yield f"--replicas {members}"
    for seconds in _TIMES:
        shorter = replace(queued, expected_seconds=float(seconds))
        if seconds < queued.expected_seconds and situation.instead(key, shorter).starts(key):
            yield f"--time-limit {format_duration(seconds)}"
            break
    if member.unlimited and starts(unlimited=False):
        yield "--memory SIZE"
    if member.whole_node and starts(whole_node=False):
        yield "no --whole-node"
    if gpus := next((n for n in _less(member.gpus, 1) if starts(gpus=n)), 0):
        yield f"--gpus {gpus}"
    if memory := next((n for n in _less(member.memory_bytes, _MEBIBYTE) if starts(memory_bytes=n)), 0):
        yield f"--memory {format_memory(memory)}"
    if cpu := next((n for n in _less(member.cpu_millis, _CORE) if starts(cpu_millis=n)), 0):
        yield f"--cpus {cpu // _CORE}"


def _fewer_members(situation: Situation, key: str, queued: Queued) -> int:
    """The largest gang of the same members that starts now; 0 where none does. One that takes what fits needs none."""
    gang = queued.gang
    if gang.fewest is not None:
        return 0
    low, high = 0, len(gang.ranks)
    while low + 1 < high:
        middle = (low + high) // 2
        fewer = replace(queued, gang=replace(gang, ranks=gang.ranks[:middle]))
        low, high = (middle, high) if situation.instead(key, fewer).starts(key) else (low, middle)
    return low


def _less(amount: int, unit: int) -> list[int]:
    """Smaller amounts to try, the largest first, in whole units."""
    tried = [int(amount * part) // unit * unit for part in _PARTS]
    return [each for each in dict.fromkeys(tried) if 0 < each < amount]
