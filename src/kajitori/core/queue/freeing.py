"""What exactly has to be freed for a run that waits to start: the same planner is asked again with it gone.

A *step* is something that can happen: a run ends (all of it, on all its nodes) or one member of a sweep does, a Pod of
somebody else goes, a cordoned or broken node takes work again, a run that is looked at before leaves the queue, and
with it whatever it has already. What is named is *enough*: once all
of it has happened, and nothing else, the next cycle starts the run. And it is *least*: leave any one step out, and the
next cycle does not. There may be other such sets. The one that is named is that which is expected to happen first, and
of it the fewest steps; what nobody knows the end of is named only where known ends do not suffice.

What comes back by itself on its node (DaemonSets, static Pods) frees nothing when it is deleted, and is never named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import GangRequest, Placement, eligible_nodes, room_of
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Counts, Mask, NodeFacts, Snapshot
from kajitori.core.policy.queue import LIKELY
from kajitori.core.queue.backfill import schedule
from kajitori.core.queue.waiting import WaitingRun
from kajitori.core.words.taints import Toleration

Watch = Callable[[], Callable[[], bool]]
"""Starts a stop-watch: what it answers says whether there is time left."""


def for_ever() -> Callable[[], bool]:
    """A stop-watch for whoever has all the time."""
    return lambda: True


class StepKind(StrEnum):
    """What has to happen."""

    RUN = "run"
    """A run ends, or is stopped."""
    MEMBER = "member"
    """One member of a sweep ends, perhaps of the run itself; the others go on."""
    POD = "pod"
    """A Pod that is no run's goes."""
    CORDONED = "cordoned"
    """A node is uncordoned."""
    BROKEN = "broken"
    """A node gets well."""
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
"""Of steps that nobody knows the time of, those that are brought about easiest come first."""


@dataclass(frozen=True, slots=True, eq=False)
class Occupant:
    """All that one run, or one Pod that is no run's, takes of the cluster; or one member of a sweep, which does not
    have to end as a whole."""

    key: str
    """`namespace/name` of the run or the Pod."""
    rows: Rows
    """(Pods,) where each of its Pods is, as rows of the node table."""
    amounts: Counts
    """(Pods, 4) what each takes."""
    alone: Mask
    """(Pods,) which of them share their node with no other run."""
    kind: StepKind = StepKind.RUN
    """What its going is: `RUN`, `MEMBER` or `POD`."""
    endings: tuple[Ending, ...] = ()
    """When its members are expected to leave; none where nobody knows."""
    sweep: str = ""
    """Of a member: `namespace/name` of its run."""

    @property
    def run(self) -> str:
        """`namespace/name` of the run that it is, or belongs to; the Pod's where it is none."""
        return self.sweep or self.key

    @property
    def is_run(self) -> bool:
        """Its Pods are members of runs."""
        return self.kind is not StepKind.POD

    @property
    def ends_at(self) -> float:
        """When all of it is expected to be gone; infinite where nobody knows."""
        return max((ending.ends_at for ending in self.endings), default=math.inf)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that has to happen."""

    kind: StepKind
    name: str
    """`namespace/name` of the run or Pod; the node's name."""
    occupant: Occupant | None = field(default=None, compare=False)
    ends_at: float = math.inf
    """When that is expected, where anybody knows; not before now."""
    why: str = ""
    """Of a node: why it takes no work now."""


@dataclass(frozen=True, slots=True)
class Freeing:
    """What starts a run."""

    steps: tuple[Step, ...]
    least: bool = True
    """False: that is enough, but perhaps more than is needed; or, without any step, there was no time to tell. So many
    runs are before it."""


@dataclass(frozen=True, repr=False)
class Simulation:
    """Everything that the next cycle will decide by. Never shown as text: of a large cluster that takes seconds."""

    snapshot: Snapshot
    """What is used now, by the occupants and whatever else."""
    queue: Sequence[WaitingRun]
    """All that wait, in order."""
    occupants: Sequence[Occupant] = ()
    now: float = 0.0
    reserve: bool = True
    likely: float = LIKELY

    def position(self, key: str) -> int:
        """How many are looked at before this run. Raises ValueError where it does not wait."""
        for place, queued in enumerate(self.queue):
            if queued.gang.key == key:
                return place
        raise ValueError(f"{key} does not wait")

    def instead(self, key: str, other: WaitingRun) -> Simulation:
        """The same with another request in the place of the run's own, and nobody behind it."""
        return replace(self, queue=[*self.queue[: self.position(key)], other])

    def after(self, steps: Sequence[Step]) -> Simulation:
        """The same once all these steps have happened, and nothing else."""
        gone = {step.name for step in steps if step.occupant is not None}
        over = {step.name for step in steps if step.kind in (StepKind.AHEAD, StepKind.RUN)}
        with_them = [each for each in self.occupants if each.run in over and each.key not in gone]
        trial = Trial(self)
        for step in steps:
            trial.happens(step)
        for each in with_them:
            trial.happens(Step(each.kind, each.key, each))
        gone |= {each.key for each in with_them}
        return replace(
            self,
            snapshot=trial.snapshot(),
            occupants=[each for each in self.occupants if each.key not in gone],
            queue=[queued for queued in self.queue if queued.gang.key not in over],
        )

    def starts(self, key: str) -> Placement | None:
        """Where the next cycle starts the run; None where it does not."""
        queue = self.queue[: self.position(key) + 1]  # whoever is behind it changes nothing
        found = schedule(self.snapshot, queue, self.endings, self.now, reserve=self.reserve, likely=self.likely)
        last = found.placements[-1] if found.placements else None
        return last if last is not None and last.key == key else None

    @cached_property
    def endings(self) -> tuple[Ending, ...]:
        """Of all occupants."""
        return tuple(ending for occupant in self.occupants for ending in occupant.endings)

    @cached_property
    def lone(self) -> Counts:
        """(nodes,) how many Pods of occupants that share with no other run are on each node."""
        lone = np.zeros(len(self.snapshot.table), dtype=np.int64)
        for occupant in self.occupants:
            np.add.at(lone, occupant.rows[occupant.alone], 1)
        return lone


class Trial:
    """A situation in which steps happen and are taken back."""

    def __init__(self, situation: Simulation, tolerations: Sequence[Toleration] = ()) -> None:
        """`usable` becomes what takes work of those who tolerate this."""
        self.state = situation.snapshot.copy()
        self.usable: Mask = self.state.table.usable_by(tolerations).copy()
        self._lone = situation.lone.copy()
        self._others_alone: Mask = situation.snapshot.alone & (situation.lone == 0)

    def happens(self, step: Step, times: int = 1) -> Rows:
        """The step happens, or is taken back with `times=-1`; answers the rows of all nodes that it touches."""
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
        """What is used then, by which the planner can be asked."""
        state = self.state.copy()
        state.table = state.table.with_usable(self.usable)
        return state


def to_free(situation: Simulation, key: str, watch: Watch = for_ever) -> Freeing | None:
    """The steps that start a run which the next cycle would not start: enough, and none too many (see above).

    None where nothing helps: the cluster does not have what the run asks for, whatever happens. Where runs before it
    would take what is freed, the planner is asked again and again, for as long as the watch allows.
    """
    place = situation.position(key)
    gang = situation.queue[place].gang
    room = _RoomFor(situation, gang)
    steps = room.helpful(situation)
    by_itself = room.least(steps)
    if by_itself is None:
        return None
    search = _Search(situation, key, place, watch)
    if not gang.avoid and search.starts(by_itself):
        # Whoever is before it only takes room: what is too little for the run alone is too little for it behind them.
        return Freeing(tuple(by_itself))
    natural = search.least(steps)
    named = {step.name for step in by_itself}
    before = [queued.gang.key for queued in situation.queue[:place]]
    ahead = [Step(StepKind.AHEAD, each) for each in before if each not in named]
    others = [step for step in steps if step not in by_itself] if gang.avoid else []
    cutting_in = search.least([*by_itself, *ahead, *others]) if ahead else None
    found = [each for each in (natural, cutting_in) if each is not None]
    # Among equals the one that makes nobody give way.
    return min(found, key=lambda each: (not each.steps, not each.least, len(each.steps)), default=None)


def into_order(node: NodeFacts) -> Step:
    """What makes a node take work that takes none."""
    return Step(StepKind.BROKEN if not node.ready or node.out else StepKind.CORDONED, node.name, why=node.out_of_order)


class _RoomFor:
    """How many members of one run find room as steps happen, if nobody else waited: exact, and cheap to keep up."""

    def __init__(self, situation: Simulation, gang: GangRequest) -> None:
        self._trial = Trial(situation, gang.member.tolerations)
        self._member = gang.member
        self._need = gang.least
        self._eligible = eligible_nodes(situation.snapshot.table, gang.member)
        self._room = room_of(self._trial.state, gang.member, self._eligible & self._trial.usable)
        self._total = int(self._room.sum())

    def happens(self, step: Step, times: int = 1) -> int:
        """How many more members find room by it."""
        rows = self._trial.happens(step, times)
        candidates = self._eligible[rows] & self._trial.usable[rows]
        room = room_of(self._trial.state, self._member, candidates, rows)
        gain = int(room.sum()) - int(self._room[rows].sum())
        self._room[rows] = room
        self._total += gain
        return gain

    def helpful(self, situation: Simulation) -> list[Step]:
        """Steps that may help, the most welcome first: known ends by their time; then what is easiest, of that what
        makes most room by itself, and node by node."""
        nodes = situation.snapshot.table.nodes
        here = [each for each in situation.occupants if self._eligible[each.rows].any()]
        crowd = np.zeros(len(nodes), dtype=np.int64)
        for occupant in here:
            crowd[np.unique(occupant.rows)] += 1
        steps: list[tuple[Step, Rows]] = []
        for occupant in here:
            step = Step(occupant.kind, occupant.key, occupant, max(occupant.ends_at, situation.now))
            steps.append((step, occupant.rows[self._eligible[occupant.rows]]))
        steps += [
            (into_order(nodes[row]), np.array([row], dtype=np.int64))
            for row in np.flatnonzero(self._eligible & ~self._trial.usable)
        ]
        ranks = []
        for step, rows in steps:
            gain = 0
            if step.ends_at == math.inf:
                gain = self.happens(step)
                self.happens(step, -1)
            ease = -1 if step.ends_at < math.inf else _EASIEST.index(step.kind)
            ranks.append((step.ends_at, ease, -gain, int(crowd[rows].min()), int(rows.min()), step.name))
        return [steps[index][0] for index in sorted(range(len(steps)), key=ranks.__getitem__)]

    def least(self, steps: Sequence[Step]) -> list[Step] | None:
        """The first of the steps that are enough, without those among them that are not needed."""
        taken: list[tuple[int, int, Step]] = []
        for order, step in enumerate(steps):
            if self._total >= self._need:
                break
            taken.append((self.happens(step), -order, step))
        if self._total < self._need:
            return None
        kept = []
        for _, order, step in sorted(taken, key=lambda each: each[:2]):  # large ones stay: fewer have to give way
            self.happens(step, -1)
            if self._total < self._need:
                self.happens(step)
                kept.append((-order, step))
        return [step for _, step in sorted(kept, key=lambda each: each[0])]


class _Search:
    """Asks the planner again and again what it would do after some steps."""

    def __init__(self, situation: Simulation, key: str, place: int, watch: Watch) -> None:
        self._situation = replace(situation, queue=situation.queue[: place + 1])
        self._key = key
        self._has_time = watch()

    def starts(self, steps: Sequence[Step]) -> bool:
        """Whether the next cycle starts the run once these have happened."""
        return self._situation.after(steps).starts(self._key) is not None

    def least(self, steps: Sequence[Step]) -> Freeing | None:
        """The first of the steps that are enough, without those among them that are not needed."""
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
