"""The named steps are exactly enough: the run starts after all of them, and not after fewer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.core.kubernetes.taints import Taint, Toleration
from kajitori.core.naming.names import TAINT_UNHEALTHY
from kajitori.core.placement.planner import GangRequest, MemberRequest, occupy_rows
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.queue.backfill.schedule import schedule
from kajitori.core.queue.freeing import Occupant, Simulation, Step, StepKind, to_free
from kajitori.core.queue.waiting import WaitingRun

GIB = 1 << 30
HOUR = 3600.0
WHOLE = MemberRequest(1000, GIB, gpus=8)


def node(name: str, *, gpus: int = 8, **more: Any) -> NodeFacts:
    facts = NodeFacts(name, 16_000, 64 * GIB, gpus, 20, "h100" if gpus else "")
    return replace(facts, **more)


def queued(members: int, *, key: str = "team/mine", seconds: float = HOUR, **more: Any) -> WaitingRun:
    asked = {name: value for name, value in more.items() if name in MemberRequest.__dataclass_fields__}
    rest = {name: value for name, value in more.items() if name not in asked}
    member = replace(MemberRequest(1000, GIB, gpus=8), **asked)
    return WaitingRun(replace(GangRequest(key, member, tuple(range(members))), **rest), seconds)


@dataclass(frozen=True)
class Held:
    """A run, or a foreign Pod, that a test puts on some nodes."""

    key: str
    nodes: tuple[str, ...]
    member: MemberRequest = WHOLE
    is_run: bool = True
    ends_at: float | None = None


@dataclass(frozen=True)
class Case:
    """A cluster in plain data, from which each situation is built anew."""

    nodes: tuple[NodeFacts, ...]
    held: tuple[Held, ...]
    queue: tuple[WaitingRun, ...]
    daemons: int = 0
    """Millicores on every node that are never freed."""
    reserve: bool = True

    def without(self, steps: Collection[Step]) -> Case:
        """Return the case after these steps."""
        gone = {step.name for step in steps if step.kind in (StepKind.RUN, StepKind.POD)}
        left = {step.name for step in steps if step.kind is StepKind.AHEAD}
        well = {step.name for step in steps if step.kind in (StepKind.CORDONED, StepKind.BROKEN)}
        return replace(
            self,
            nodes=tuple(replace(n, ready=True, schedulable=True, out=()) if n.name in well else n for n in self.nodes),
            held=tuple(holder for holder in self.held if holder.key not in gone),
            queue=tuple(waiting for waiting in self.queue if waiting.gang.key not in left),
        )

    def snapshot(self) -> Snapshot:
        """Return the usage by everything on the nodes."""
        snapshot = Snapshot.empty(NodeTable(self.nodes))
        snapshot.used[:, 0] += self.daemons
        snapshot.used[:, 3] += bool(self.daemons)
        for holder in self.held:
            rows = self.rows(snapshot.table, holder)
            if holder.is_run:
                occupy_rows(snapshot, holder.member, rows)
            else:
                np.add.at(snapshot.used, rows, holder.member.amounts(snapshot.table))
        return snapshot

    def rows(self, table: NodeTable, held: Held) -> Any:
        return np.array([table.index[name] for name in held.nodes], dtype=np.int64)

    def endings(self, table: NodeTable, *held: Held) -> list[Ending]:
        return [
            Ending(holder.member, self.rows(table, holder), holder.ends_at)
            for holder in held
            if holder.ends_at is not None
        ]

    def situation(self) -> Simulation:
        snapshot = self.snapshot()
        occupants = [
            Occupant(
                holder.key,
                self.rows(snapshot.table, holder),
                np.repeat(holder.member.amounts(snapshot.table)[None, :], len(holder.nodes), axis=0),
                np.full(len(holder.nodes), holder.is_run and holder.member.alone),
                StepKind.RUN if holder.is_run else StepKind.POD,
                tuple(self.endings(snapshot.table, holder)),
            )
            for holder in self.held
        ]
        return Simulation(snapshot, self.queue, occupants, reserve=self.reserve)

    def started(self) -> set[str]:
        """Return the runs that a full cycle starts."""
        snapshot = self.snapshot()
        endings = self.endings(snapshot.table, *self.held)
        found = schedule(snapshot, self.queue, endings, 0.0, reserve=self.reserve)
        return {placement.key for placement in found.placements}


def named(case: Case, key: str = "team/mine") -> list[tuple[str, str]]:
    found = to_free(case.situation(), key)
    assert found is not None and found.least
    return [(step.kind.value, step.name) for step in found.steps]


def test_only_runs_that_hold_needed_nodes_are_named() -> None:
    """Two whole nodes are missing: the two runs with whole nodes that are expected to end first are named."""
    case = Case(
        tuple(node(f"n{i}") for i in range(5)),
        (
            Held("team/late", ("n0",), ends_at=5 * HOUR),
            Held("team/soon", ("n1",), ends_at=HOUR),
            Held("team/next", ("n2",), ends_at=2 * HOUR),
            Held("team/service", ("n3",)),
        ),
        (queued(3, whole_node=True),),
    )
    assert named(case) == [("run", "team/soon"), ("run", "team/next")]


def test_as_few_runs_as_possible_are_named() -> None:
    """A run that ends earlier is not named if the end of the large run is enough."""
    case = Case(
        tuple(node(f"n{i}") for i in range(4)),
        (Held("team/small", ("n0",), ends_at=HOUR), Held("team/large", ("n1", "n2", "n3"), ends_at=2 * HOUR)),
        (queued(3),),
    )
    assert named(case) == [("run", "team/large")]


def test_a_run_without_a_known_end_is_named_last() -> None:
    """A cordoned node is named before a running service."""
    nodes = (node("n0"), node("n1", schedulable=False), node("n2", ready=False))
    held = (Held("team/service", ("n0",)),)
    assert named(Case(nodes, held, (queued(1),))) == [("cordoned", "n1")]
    assert named(Case(nodes, held, (queued(2),))) == [("cordoned", "n1"), ("run", "team/service")]
    assert named(Case(nodes, held, (queued(3),)))[-1] == ("broken", "n2")


def test_all_runs_on_a_node_are_named_if_it_is_needed_whole() -> None:
    quarter = MemberRequest(1000, GIB, gpus=2)
    case = Case(
        (node("n0"), node("n1")),
        (Held("a/1", ("n0",), quarter), Held("a/2", ("n0",), quarter), Held("a/3", ("n1",), quarter)),
        (queued(1, whole_node=True, gpus=1),),
    )
    assert named(case) == [("run", "a/3")]
    assert named(replace(case, queue=(queued(2, whole_node=True, gpus=1),))) == [
        ("run", "a/3"),
        ("run", "a/1"),
        ("run", "a/2"),
    ]


def test_nothing_is_named_if_nothing_helps() -> None:
    """The cluster is too small even if it is empty and healthy, or Pods that are on every node leave too little."""
    assert to_free(Case((node("n0"),), (), (queued(2),)).situation(), "team/mine") is None
    full = Case((node("n0"),), (), (queued(1, cpu_millis=16_000),), daemons=100)
    assert to_free(full.situation(), "team/mine") is None


def test_nodes_that_earlier_runs_take_are_counted() -> None:
    """The first run takes the first freed node, so the second run needs two."""
    case = Case(
        (node("n0"), node("n1"), node("n2")),
        (Held("a/1", ("n0",)), Held("a/2", ("n1",)), Held("a/3", ("n2",))),
        (queued(1, key="team/first"), queued(1)),
    )
    assert len(named(case)) == 2
    (step,) = named(case, "team/first")
    assert step[0] == "run"


def test_a_run_with_a_reservation_is_named_if_it_is_the_only_obstacle() -> None:
    """The run before it lacks all nodes but one; without that run's reservation, this one would fit."""
    held = tuple(Held(f"a/{i}", (f"n{i}",), ends_at=HOUR) for i in range(1, 6))
    case = Case(
        tuple(node(f"n{i}") for i in range(6)), held, (queued(6, key="team/large"), queued(1, seconds=9 * HOUR))
    )
    assert "team/mine" not in case.started()
    assert named(case) == [("ahead", "team/large")]
    case = replace(case, nodes=case.nodes[:3], held=(Held("a/both", ("n1", "n2"), ends_at=HOUR),))
    case = replace(case, queue=(queued(2, key="team/large"), queued(1, seconds=9 * HOUR)))
    assert "team/mine" in case.started()
    assert named(case) == []
    case = replace(case, held=(*case.held, Held("a/more", ("n0",), ends_at=HOUR)))
    assert named(case) == [("run", "a/more")]  # the large run keeps waiting for its reservation


# ------------------------------------------------------------------------------------------------ the property

MEMBERS = st.builds(
    MemberRequest,
    cpu_millis=st.sampled_from([500, 4000, 12_000]),
    memory_bytes=st.sampled_from([GIB, 40 * GIB]),
    gpus=st.sampled_from([0, 0, 1, 3, 8]),
    whole_node=st.booleans(),
    unlimited=st.sampled_from([False, False, True]),
    tolerations=st.sampled_from([(), (Toleration("t", "Exists"),)]),
    cpu_runs_on_gpu_nodes=st.sampled_from(["never", "whenNoOthers", "always"]),
)
NODES = st.lists(
    st.builds(
        NodeFacts,
        name=st.just(""),
        cpu_millis=st.sampled_from([8000, 16_000]),
        memory_bytes=st.just(64 * GIB),
        gpus=st.sampled_from([0, 4, 8]),
        pods=st.sampled_from([3, 20]),
        taints=st.sampled_from([(), (), (Taint("t"),)]),
        ready=st.sampled_from([True, True, True, False]),
        schedulable=st.sampled_from([True, True, True, False]),
        out=st.sampled_from([(), (), (), (Taint(TAINT_UNHEALTHY, "gpu"),)]),
        domains=st.sampled_from([("z", "r1"), ("z", "r2"), ("y", "r1")]),
    ),
    min_size=1,
    max_size=7,
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a cluster with running members and a queue. Members may be on nodes that the planner would not choose."""
    nodes = tuple(replace(node, name=f"n{i}") for i, node in enumerate(draw(NODES)))
    names = st.sampled_from([node.name for node in nodes])
    held = tuple(
        Held(
            f"a/{i}",
            tuple(draw(st.lists(names, min_size=1, max_size=4))),
            draw(MEMBERS),
            draw(st.booleans()),
            draw(st.sampled_from([None, HOUR, 2 * HOUR])),
        )
        for i in range(draw(st.integers(0, 7)))
    )
    gangs = [
        WaitingRun(
            GangRequest(
                f"q/{i}",
                draw(MEMBERS),
                tuple(range(draw(st.integers(1, 5)))),
                avoid=frozenset(draw(st.sets(names))),
                fewest=draw(st.sampled_from([None, None, 1, 2])),
            ),
            draw(st.sampled_from([HOUR / 2, HOUR, 3 * HOUR])),
            draw(st.booleans()),
        )
        for i in range(draw(st.integers(1, 4)))
    ]
    return Case(nodes, held, tuple(gangs), draw(st.sampled_from([0, 300])), draw(st.booleans()))


def subsets_of_one_less(steps: Sequence[Step]) -> list[list[Step]]:
    return [[other for other in steps if other is not step] for step in steps]


@settings(deadline=None, max_examples=60)  # a busy machine is no fault of the planner
@given(cases())
def test_the_named_steps_start_the_run_and_fewer_do_not(case: Case) -> None:
    """For every run that a cycle does not start. The planner checks this on a cluster that is built anew after the
    steps."""
    started = case.started()
    for waiting in case.queue:
        gang = waiting.gang
        if gang.key in started:
            continue
        found = to_free(case.situation(), gang.key)
        if found is None:
            well = tuple(replace(node, ready=True, schedulable=True, out=()) for node in case.nodes)
            assert gang.key not in replace(case, nodes=well, held=(), queue=(waiting,)).started()
            continue
        assert found.least and found.steps
        assert gang.key in case.without(found.steps).started()
        for less in subsets_of_one_less(found.steps):
            assert gang.key not in case.without(less).started()
