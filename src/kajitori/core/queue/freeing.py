"""The exact steps that let a waiting run start: the planner is asked again as if they had happened.

A *step* is something that can happen: a run ends on all of its nodes, one member of a sweep ends, a foreign Pod ends, a
cordoned or broken node takes work again, or a run ahead in the queue is stopped and releases its nodes and
reservations. The returned steps are *enough*: once all of them have happened, and nothing else, the next cycle starts
the run. They are *least*: without any one of them, the next cycle does not start it. If there are several such sets,
the one that is expected to happen first is returned, with the fewest steps. Steps without an expected time are returned
only if those with one do not suffice.

Pods that are made again on the same node (DaemonSets, static Pods) free nothing when they are deleted, so they are
never returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from kajitori.core.kubernetes.taints import Toleration
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import GangRequest, Placement, eligible_nodes, room_of
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Counts, Mask, NodeFacts, Snapshot
from kajitori.core.policy.queue.order import LIKELY
from kajitori.core.queue.backfill.schedule import schedule
from kajitori.core.queue.waiting import WaitingRun

StopWatch = Callable[[], Callable[[], bool]]
"""A function that starts a stop-watch and returns a function that tells whether there is time left."""


def unlimited_time() -> Callable[[], bool]:
    """Return a stop-watch that never runs out."""
    return lambda: True


class StepKind(StrEnum):
    """The kinds of steps."""

    RUN = "run"
    """A run ends, or is stopped."""
    MEMBER = "member"
    """One member of a sweep ends, perhaps of the waiting run itself; its other members go on."""
    POD = "pod"
    """A Pod that belongs to no run ends."""
    CORDONED = "cordoned"
    """A node is uncordoned."""
    BROKEN = "broken"
    """A broken node takes work again."""
    AHEAD = "ahead"
    """A waiting run that is looked at before this one is stopped."""


_EASIEST = (
    StepKind.CORDONED,
    StepKind.RUN,
    StepKind.POD,
    StepKind.BROKEN,
    StepKind.MEMBER,
    StepKind.AHEAD,
)
"""Order of steps without an expected time: those that are easiest to bring about come first."""


@dataclass(frozen=True, slots=True, eq=False)
class Occupant:
    """The resources that one run, one foreign Pod, or one member of a sweep uses. Members of a sweep are separate
    occupants because a sweep does not have to end as a whole.
    """

    key: str
    """`namespace/name` of the run or the Pod."""
    rows: Rows
    """(Pods,) the row of each Pod in the node table."""
    amounts: Counts
    """(Pods, table.width) amounts that each Pod takes."""
    alone: Mask
    """(Pods,) Pods that share their node with no other run."""
    kind: StepKind = StepKind.RUN
    """The kind of step that ends it: `RUN`, `MEMBER` or `POD`."""
    endings: tuple[Ending, ...] = ()
    """Expected ends of its members; empty if they are not known."""
    sweep: str = ""
    """`namespace/name` of a member's sweep; empty for all others."""

    @property
    def run(self) -> str:
        """`namespace/name` of the run that it is or belongs to; of the Pod if it belongs to none."""
        return self.sweep or self.key

    @property
    def is_run(self) -> bool:
        """Whether its Pods are members of a run."""
        return self.kind is not StepKind.POD

    @property
    def ends_at(self) -> float:
        """Time at which the last of its Pods is expected to have ended; infinite if not known."""
        return max((ending.ends_at for ending in self.endings), default=math.inf)


@dataclass(frozen=True, slots=True)
class Step:
    """One event that has to happen before the run can start."""

    kind: StepKind
    name: str
    """`namespace/name` of the run or Pod; the node's name."""
    occupant: Occupant | None = field(default=None, compare=False)
    ends_at: float = math.inf
    """Expected time; infinite if not known, never in the past."""
    why: str = ""
    """For steps about a node: why it takes no work now."""


@dataclass(frozen=True, slots=True)
class Freeing:
    """The steps that start a run."""

    steps: tuple[Step, ...]
    least: bool = True
    """False: too many runs are ahead to search in the given time. The steps are enough, but perhaps too many; if there
    are none, no answer was found."""


@dataclass(frozen=True, repr=False)
class Simulation:
    """The input of the next cycle, on which steps can be tried. It has no `repr`: on a large cluster that would take
    seconds."""

    snapshot: Snapshot
    """Present usage, by the occupants and by all other Pods."""
    queue: Sequence[WaitingRun]
    """All waiting runs, in order."""
    occupants: Sequence[Occupant] = ()
    now: float = 0.0
    reserve: bool = True
    """Whether nodes are reserved for runs that do not fit."""
    likely: float = LIKELY
    """The part of its expected length that a run likely takes."""

    def position(self, key: str) -> int:
        """Return the number of runs ahead of this one in the queue. Raises ValueError if it does not wait."""
        for place, run in enumerate(self.queue):
            if run.gang.key == key:
                return place
        raise ValueError(f"{key} does not wait")

    def instead(self, key: str, other: WaitingRun) -> Simulation:
        """Return the simulation with another request in place of the run's own, and without the runs behind it."""
        return replace(self, queue=[*self.queue[: self.position(key)], other])

    def without_ends(self, runs: Collection[str]) -> Simulation:
        """Return the simulation with runs (`namespace/name`), running or waiting, that never end."""
        lasting = [replace(one, endings=()) if one.run in runs else one for one in self.occupants]
        queue = [replace(run, expected_seconds=math.inf) if run.key in runs else run for run in self.queue]
        return replace(self, occupants=lasting, queue=queue)

    def after(self, steps: Sequence[Step]) -> Simulation:
        """Return the simulation once all these steps have happened, and nothing else."""
        gone = {step.name for step in steps if step.occupant is not None}
        over = {step.name for step in steps if step.kind in (StepKind.AHEAD, StepKind.RUN)}
        with_them = [occupant for occupant in self.occupants if occupant.run in over and occupant.key not in gone]
        trial = Trial(self)
        for step in steps:
            trial.apply(step)
        for occupant in with_them:
            trial.apply(Step(occupant.kind, occupant.key, occupant))
        gone |= {occupant.key for occupant in with_them}
        return replace(
            self,
            snapshot=trial.snapshot(),
            occupants=[occupant for occupant in self.occupants if occupant.key not in gone],
            queue=[run for run in self.queue if run.gang.key not in over],
        )

    def starts(self, key: str) -> Placement | None:
        """Return where the next cycle starts the run; None if it does not."""
        queue = self.queue[: self.position(key) + 1]  # runs behind it change nothing
        found = schedule(self.snapshot, queue, self.endings, self.now, reserve=self.reserve, likely=self.likely)
        last = found.placements[-1] if found.placements else None
        return last if last is not None and last.key == key else None

    @cached_property
    def endings(self) -> tuple[Ending, ...]:
        """Expected ends of all occupants."""
        return tuple(ending for occupant in self.occupants for ending in occupant.endings)

    @cached_property
    def lone(self) -> Counts:
        """(nodes,) number of Pods on each node that share it with no other run."""
        lone = np.zeros(len(self.snapshot.table), dtype=np.int64)
        for occupant in self.occupants:
            np.add.at(lone, occupant.rows[occupant.alone], 1)
        return lone


class Trial:
    """A simulation in which steps happen and are undone."""

    def __init__(self, simulation: Simulation, tolerations: Sequence[Toleration] = ()) -> None:
        """tolerations: of the run that is asked about; they decide which nodes are usable."""
        self.state = simulation.snapshot.copy()
        self.usable: Mask = self.state.table.usable_by(tolerations).copy()
        self._lone = simulation.lone.copy()
        self._others_alone: Mask = simulation.snapshot.alone & (simulation.lone == 0)

    def apply(self, step: Step, times: int = 1) -> Rows:
        """Apply a step, or undo it with `times=-1`; return the rows of all nodes that it affects."""
        occupant, table = step.occupant, self.state.table
        if occupant is not None:
            np.subtract.at(self.state.used, occupant.rows, occupant.amounts * times)
            rows = np.unique(occupant.rows) if occupant.rows.size > 1 else occupant.rows
            if occupant.is_run:
                np.subtract.at(self.state.members, occupant.rows, times)
            if occupant.alone.any():
                np.subtract.at(self._lone, occupant.rows[occupant.alone], times)
                self.state.alone[rows] = self._others_alone[rows] | (self._lone[rows] > 0)
            return rows
        if step.kind in (StepKind.CORDONED, StepKind.BROKEN):
            row = table.index[step.name]
            self.usable[row] = times > 0
            return np.array([row], dtype=np.int64)
        return np.empty(0, dtype=np.int64)

    def snapshot(self) -> Snapshot:
        """Return the resulting snapshot for the planner."""
        state = self.state.copy()
        state.table = state.table.with_usable(self.usable)
        return state


def to_free(simulation: Simulation, key: str, stop_watch: StopWatch = unlimited_time) -> Freeing | None:
    """Return the steps that start a run which the next cycle would not start: enough and least, as defined above.

    None if nothing helps, since the cluster does not have what the run asks for. If runs ahead would take what is
    freed, the planner is asked repeatedly, for as long as the stop-watch allows.
    """
    place = simulation.position(key)
    gang = simulation.queue[place].gang
    room = _RoomCounter(simulation, gang)
    steps = room.helpful(simulation)
    by_itself = room.least(steps)
    if by_itself is None:
        return None
    search = _Search(simulation, key, place, stop_watch)
    if not gang.avoid and search.starts(by_itself):
        # Runs ahead only take room: if there is too little room for the run alone, there is too little behind them.
        return Freeing(tuple(by_itself))
    without_stops = search.least(steps)
    named = {step.name for step in by_itself}
    keys_ahead = [run.gang.key for run in simulation.queue[:place]]
    stops_ahead = [Step(StepKind.AHEAD, key) for key in keys_ahead if key not in named]
    others = [step for step in steps if step not in by_itself] if gang.avoid else []
    with_stops = search.least([*by_itself, *stops_ahead, *others]) if stops_ahead else None
    found = [freeing for freeing in (without_stops, with_stops) if freeing is not None]
    # Among equals, prefer the one that does not need a run ahead to be stopped.
    return min(found, key=lambda freeing: (not freeing.steps, not freeing.least, len(freeing.steps)), default=None)


def step_of_node(node: NodeFacts) -> Step:
    """Return the step that makes a node take work again."""
    return Step(StepKind.BROKEN if not node.ready or node.out else StepKind.CORDONED, node.name, why=node.why_no_work)


class _RoomCounter:
    """The number of a run's members that fit as steps happen, as if no other run waited. Exact, and cheap to update."""

    def __init__(self, simulation: Simulation, gang: GangRequest) -> None:
        self._trial = Trial(simulation, gang.member.tolerations)
        self._member = gang.member
        self._need = gang.least
        self._eligible = eligible_nodes(simulation.snapshot.table, gang.member)
        self._room = room_of(self._trial.state, gang.member, self._eligible & self._trial.usable)
        self._total = int(self._room.sum())

    def apply(self, step: Step, times: int = 1) -> int:
        """Apply a step, or undo it with `times=-1`; return how many more members fit."""
        rows = self._trial.apply(step, times)
        candidates = self._eligible[rows] & self._trial.usable[rows]
        room = room_of(self._trial.state, self._member, candidates, rows)
        gain = int(room.sum()) - int(self._room[rows].sum())
        self._room[rows] = room
        self._total += gain
        return gain

    def helpful(self, simulation: Simulation) -> list[Step]:
        """Return the steps that may help, the best first: steps with an expected time, the earliest first; then the
        easiest steps; among equally easy ones those that make most room, node by node.
        """
        nodes = simulation.snapshot.table.nodes
        on_eligible = [occupant for occupant in simulation.occupants if self._eligible[occupant.rows].any()]
        occupants_of_node = np.zeros(len(nodes), dtype=np.int64)
        for occupant in on_eligible:
            occupants_of_node[np.unique(occupant.rows)] += 1
        steps: list[tuple[Step, Rows]] = []
        for occupant in on_eligible:
            step = Step(occupant.kind, occupant.key, occupant, max(occupant.ends_at, simulation.now))
            steps.append((step, occupant.rows[self._eligible[occupant.rows]]))
        steps += [
            (step_of_node(nodes[row]), np.array([row], dtype=np.int64))
            for row in np.flatnonzero(self._eligible & ~self._trial.usable)
        ]
        sort_keys = []
        for step, rows in steps:
            gain = 0
            if step.ends_at == math.inf:
                gain = self.apply(step)
                self.apply(step, -1)
            ease = -1 if step.ends_at < math.inf else _EASIEST.index(step.kind)
            occupants = int(occupants_of_node[rows].min())
            sort_keys.append((step.ends_at, ease, -gain, occupants, int(rows.min()), step.name))
        return [steps[index][0] for index in sorted(range(len(steps)), key=sort_keys.__getitem__)]

    def least(self, steps: Sequence[Step]) -> list[Step] | None:
        """Return the first steps that are enough, without those that are not needed; None if all are not enough."""
        taken: list[tuple[int, int, Step]] = []
        for order, step in enumerate(steps):
            if self._total >= self._need:
                break
            taken.append((self.apply(step), -order, step))
        if self._total < self._need:
            return None
        kept = []
        for _, order, step in sorted(taken, key=lambda entry: entry[:2]):  # large ones stay: fewer steps are needed
            self.apply(step, -1)
            if self._total < self._need:
                self.apply(step)
                kept.append((-order, step))
        return [step for _, step in sorted(kept, key=lambda entry: entry[0])]


class _Search:
    """The search for steps that asks the planner what it would do after some of them."""

    def __init__(self, simulation: Simulation, key: str, place: int, stop_watch: StopWatch) -> None:
        self._simulation = replace(simulation, queue=simulation.queue[: place + 1])
        self._key = key
        self._has_time = stop_watch()

    def starts(self, steps: Sequence[Step]) -> bool:
        """Whether the next cycle starts the run once these steps have happened."""
        return self._simulation.after(steps).starts(self._key) is not None

    def least(self, steps: Sequence[Step]) -> Freeing | None:
        """Return the first steps that are enough, without those that are not needed; None if all are not enough."""
        if not self._has_time():
            return Freeing((), least=False)
        if not self.starts(steps):
            return None
        low, high = 0, len(steps)
        while low + 1 < high and self._has_time():
            middle = (low + high) // 2
            low, high = (low, middle) if self.starts(steps[:middle]) else (middle, high)
        kept, chunk = list(steps[:high]), max(1, high // 2)
        changed = True
        while (changed or chunk > 1) and self._has_time():
            changed = False
            for start in range(0, len(kept), chunk)[::-1]:
                fewer = kept[:start] + kept[start + chunk :]
                if self._has_time() and len(fewer) < len(kept) and self.starts(fewer):
                    kept, changed = fewer, True
            if chunk > 1:
                chunk, changed = chunk // 2, True
        return Freeing(tuple(kept), least=self._has_time())
