"""The queue's cycle as a whole: its steps, its decision for each run, and that it changes none of its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from kajitori.core.placement.planner import GangRequest, MemberRequest, occupy_rows
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.file import parse_policy
from kajitori.core.queue.cycle import STEPS, ClusterState, CyclePlan, StepHook, run_cycle
from kajitori.core.queue.ordering import DecayedUsage
from kajitori.core.queue.victims import RunningGang
from kajitori.core.queue.waiting import WaitingRun

GIB = 1 << 30
MEMBER = MemberRequest(1000, GIB, gpus=8)
HOUR = 3600.0


class Running:
    """A given list of running gangs."""

    def __init__(self, gangs: Sequence[RunningGang]) -> None:
        self.gangs = gangs

    def has_low(self) -> bool:
        return any(gang.low for gang in self.gangs)

    def all(self) -> Sequence[RunningGang]:
        return self.gangs


def cluster(nodes: int, *gangs: RunningGang, **more: Any) -> ClusterState:
    snapshot = Snapshot.empty(NodeTable(NodeFacts(f"n{number}", 64_000, 512 * GIB, 8, 110) for number in range(nodes)))
    for gang in gangs:
        occupy_rows(snapshot, gang.member, gang.rows)
    endings = [Ending(gang.member, gang.rows, gang.ends_in_seconds) for gang in gangs]
    return ClusterState(snapshot, endings, Running(gangs), DecayedUsage(HOUR), DecayedUsage(HOUR), **more)


def runs(key: str, *rows: int, **more: Any) -> RunningGang:
    fields = {"ran_seconds": HOUR, "grace_seconds": 30.0, "ends_in_seconds": HOUR} | more
    return RunningGang(key, "team", -100, True, MEMBER, np.array(rows, dtype=np.int64), **fields)


def waits(key: str, members: int, *, priority: int = 0, seconds: float = HOUR, **more: Any) -> WaitingRun:
    return WaitingRun(GangRequest(key, MEMBER, tuple(range(members)), priority=priority, **more), seconds)


def cycle(state: ClusterState, *queue: WaitingRun, step: StepHook | None = None, **policy: Any) -> CyclePlan:
    return run_cycle(state, queue, parse_policy(policy), 0.0, step=step)


def started(plan: CyclePlan) -> list[str]:
    return [placement.key for placement in (*plan.promised.placements, *plan.schedule.placements)]


def test_each_step_is_entered_once_and_in_order() -> None:
    entered = []

    @contextmanager
    def note(name: str) -> Iterator[None]:
        entered.append(name)
        yield

    cycle(cluster(1), waits("a", 1), step=note)
    assert entered == list(STEPS)


def test_every_run_starts_or_has_a_shortage() -> None:
    plan = cycle(cluster(3, runs("low", 2)), waits("a", 1), waits("b", 2), waits("c", 1))
    assert sorted([*started(plan), *(shortage.key for shortage in plan.shortages)]) == ["a", "b", "c"]
    assert int(plan.snapshot.members.sum()) == 1 + len(started(plan))


def test_a_high_run_preempts_and_next_gets_the_freed_nodes() -> None:
    """No other run starts on them meanwhile."""
    low = runs("low", 0, 1)
    urgent, other = waits("urgent", 2, priority=100), waits("other", 1, priority=200, seconds=60.0)
    first = cycle(cluster(2, low), urgent)
    assert [(request.key, request.victims) for request in first.preemptions.requests] == [("urgent", (low,))]
    leaving = replace(low, leaving=True)
    half = cluster(2, replace(leaving, rows=low.rows[:1]), preemptors={"urgent"})
    between = cycle(half, other, urgent)
    assert started(between) == [] and between.promised.keys == {"urgent"}
    assert not between.preemptions.requests
    assert started(cycle(cluster(2, preemptors={"urgent"}), other, urgent)) == ["urgent"]


def test_an_elastic_gang_returns_to_its_kept_nodes_and_takes_more() -> None:
    """More only if no other run could use them."""
    gang = waits("elastic", 4, fewest=2, grows=True)
    state = cluster(4, kept_nodes={"elastic": ["n2", "n3"]})
    (placement,) = cycle(state, gang).promised.placements
    assert placement.nodes[:2] == ("n2", "n3") and len(placement.nodes) == 4
    plan = cycle(state, gang, waits("other", 1))
    assert [len(placement.nodes) for placement in plan.promised.placements] == [2]
    assert started(plan) == ["elastic", "other"]


def test_a_test_of_a_node_preempts_nothing() -> None:
    urgent = waits("urgent", 1, priority=100)
    assert cycle(cluster(1, runs("low", 0)), urgent).preemptions.requests
    assert not cycle(cluster(1, runs("low", 0)), replace(urgent, may_preempt=False)).preemptions.requests
    assert not cycle(cluster(1, runs("low", 0)), urgent, preemption={"enabled": False}).preemptions.requests


def test_the_input_is_not_changed() -> None:
    state = cluster(4, runs("low", 3), preemptors={"p"}, kept_nodes={"e": ["n0"]})
    before = state.snapshot.copy()
    queue = [waits("p", 1), waits("e", 2, fewest=1, grows=True), waits("a", 1), waits("b", 9, priority=1)]
    run_cycle(state, queue, parse_policy({}), 0.0)
    assert (state.snapshot.used == before.used).all() and (state.snapshot.members == before.members).all()
    assert [run.key for run in queue] == ["p", "e", "a", "b"] and not any(run.overdue for run in queue)
