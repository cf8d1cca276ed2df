"""Preemption over the whole queue, by priority and by guarantee; and which runs get the freed nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, occupy_rows, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.queue.preemption import Guarantee, Preemption
from kajitori.core.queue.guarantees import faults_of_guarantees
from kajitori.core.queue.preemption import (
    PREEMPTING_PER_CYCLE,
    PreemptionPlan,
    PreemptionRequest,
    choose_preemptions,
    place_preemptors,
)
from kajitori.core.queue.victims import RunningGang
from kajitori.core.queue.waiting import WaitingRun
from kajitori.errors import InvalidInput

GIB = 1 << 30
HIGH, NORMAL, LOW = 100, 0, -100
WHOLE = MemberRequest(1000, GIB, gpus=8)
NO_MINIMUM = Preemption.model_validate({"minimumRunTime": "0s"})


def after(minimum: str) -> Preemption:
    return Preemption.model_validate({"minimumRunTime": minimum})


def guarantee(team: str, gpus: int, gpu_type: str | None = None) -> Guarantee:
    return Guarantee.model_validate({"namespace": team, "gpus": gpus, "gpuType": gpu_type})


@dataclass
class Cluster:
    """Nodes of eight GPUs, running gangs, and the teams' guarantees."""

    nodes: int = 4
    gpu_types: Sequence[str] = ("h100",)
    running: list[RunningGang] = field(default_factory=list)
    guarantees: list[Guarantee] = field(default_factory=list)
    starts_in: dict[str, float] = field(default_factory=dict)
    """Seconds until runs with a reservation start."""

    def __post_init__(self) -> None:
        facts = [
            NodeFacts(f"n{number}", 64_000, 512 * GIB, 8, 110, self.gpu_types[number % len(self.gpu_types)])
            for number in range(self.nodes)
        ]
        self.state = Snapshot.empty(NodeTable(facts))

    def runs(self, key: str, *rows: int, priority: int = LOW, team: str = "team", **more: Any) -> RunningGang:
        kept = {"ran_seconds": 3600.0, "grace_seconds": 30.0} | more
        gang = RunningGang(key, team, priority, priority == LOW, WHOLE, np.array(rows), **kept)
        occupy_rows(self.state, WHOLE, gang.rows)
        self.running.append(gang)
        return gang

    def guarantee(self, team: str, gpus: int, gpu_type: str | None = None) -> None:
        self.guarantees.append(guarantee(team, gpus, gpu_type))

    def ask(self, *queue: WaitingRun, rules: Preemption = NO_MINIMUM) -> PreemptionPlan:
        return choose_preemptions(self.state, queue, self.running, rules, self.guarantees, self.starts_in)

    def asked(self, *queue: WaitingRun, rules: Preemption = NO_MINIMUM) -> dict[str, list[str]]:
        return {
            request.key: sorted(victim.key for victim in request.victims)
            for request in self.ask(*queue, rules=rules).requests
        }


def waits(key: str, members: int, *, priority: int = NORMAL, team: str = "team", **more: Any) -> WaitingRun:
    asked = {name: more.pop(name) for name in list(more) if name in MemberRequest.__dataclass_fields__}
    gang = GangRequest(key, replace(WHOLE, **asked), tuple(range(members)), priority=priority)
    return WaitingRun(gang, 3600.0, team=team, **more)


def test_only_as_many_sweep_members_are_preempted_as_needed() -> None:
    """The youngest members first; then the next youngest for the next waiting run."""
    cluster = Cluster(nodes=5)
    for row, age in enumerate((500.0, 100.0, 300.0, 200.0, 400.0)):
        cluster.runs("sweep", row, rank=row, unsaved_seconds=age)
    asked = cluster.ask(waits("urgent", 2), waits("other", 1)).requests
    assert [(request.key, sorted(victim.rank or 0 for victim in request.victims)) for request in asked] == [
        ("urgent", [1, 3]),
        ("other", [2]),
    ]


def test_the_oldest_members_of_a_sweep_are_within_the_guarantee() -> None:
    """Each member counts on its own, so the others are borrowed."""
    cluster = Cluster(nodes=3)
    cluster.guarantee("team", 8)
    cluster.guarantee("ours", 16)
    for row, age in enumerate((500.0, 100.0, 300.0)):
        cluster.runs("sweep", row, rank=row, unsaved_seconds=age, priority=NORMAL)
    (request,) = cluster.ask(waits("mine", 2, team="ours")).requests
    assert sorted(victim.rank or 0 for victim in request.victims) == [1, 2]
    assert not cluster.ask(waits("mine", 3, team="ours")).requests


@pytest.mark.parametrize(
    ("waiting", "runs", "asked"),
    [(HIGH, LOW, True), (NORMAL, LOW, True), (LOW, LOW, False), (HIGH, NORMAL, False), (NORMAL, HIGH, False)],
)
def test_only_low_runs_are_preempted_and_only_by_higher_ones(waiting: int, runs: int, asked: bool) -> None:
    cluster = Cluster(1)
    cluster.runs("runs", 0, priority=runs)
    assert cluster.asked(waits("waits", 1, priority=waiting)) == ({"waits": ["runs"]} if asked else {})


def test_a_gang_is_not_preempted_before_its_minimum_run_time() -> None:
    """A cycle is planned for when it is over. The time begins once all members run."""
    cluster = Cluster(2)
    cluster.runs("young", 0, ran_seconds=500.0)
    cluster.runs("starting", 1, ran_seconds=-1.0)
    answer = cluster.ask(waits("waits", 1), rules=after("10m"))
    assert (answer.requests, answer.look_again_in_seconds) == ((), 100.0)
    assert cluster.asked(waits("waits", 1), rules=after("8m")) == {"waits": ["young"]}
    assert cluster.asked(waits("waits", 2)) == {}


def test_policy_may_turn_preemption_off() -> None:
    cluster = Cluster(1)
    cluster.runs("runs", 0)
    assert cluster.asked(waits("waits", 1), rules=Preemption(enabled=False)) == {}


def test_a_gang_that_ends_anyway_saves_others_from_preemption() -> None:
    """Victims in their grace period, stopped gangs, and gangs that end before a preemption would help."""
    cluster = Cluster(2)
    cluster.runs("leaving", 0, leaving=True)
    cluster.runs("low", 1)
    assert cluster.asked(waits("waits", 1)) == {}
    assert cluster.asked(waits("waits", 1), waits("other", 1)) == {"other": ["low"]}
    cluster = Cluster(2)
    cluster.runs("nearly-done", 0, ends_in_seconds=20.0, priority=HIGH)
    cluster.runs("low", 1)
    assert cluster.asked(waits("waits", 1)) == {}
    assert cluster.asked(waits("waits", 2)) == {"waits": ["low"]}


def test_nothing_is_preempted_if_the_gang_starts_as_soon_without() -> None:
    cluster = Cluster(1)
    cluster.runs("low", 0)
    for starts_in, asked in ((25.0, {}), (31.0, {"waits": ["low"]})):
        cluster.starts_in = {"waits": starts_in}
        assert cluster.asked(waits("waits", 1)) == asked


def test_each_waiting_run_has_its_own_victims() -> None:
    cluster = Cluster(3)
    for row in range(3):
        cluster.runs(f"low-{row}", row, unsaved_seconds=float(row))
    asked = cluster.asked(waits("first", 1, priority=HIGH), waits("second", 1))
    assert asked == {"first": ["low-0"], "second": ["low-1"]}


def test_a_run_does_not_preempt_for_nodes_that_an_earlier_run_needs() -> None:
    """Preemption can't help the large run, and the small one behind it would take nodes that it waits for. On other
    nodes the small one may preempt."""
    cluster = Cluster(4, gpu_types=("h100", "a100"))
    cluster.runs("held", 0, priority=HIGH)
    cluster.runs("low", 2)
    cluster.runs("other", 1)
    large, small = waits("large", 2, gpu_type="h100"), waits("small", 1, gpu_type="h100")
    assert cluster.asked(small, large) == {"small": ["low"]}
    assert cluster.asked(large, small) == {}
    cluster.runs("other-too", 3)
    assert cluster.asked(large, small, waits("elsewhere", 2, gpu_type="a100")) == {"elsewhere": ["other", "other-too"]}


def test_a_run_that_may_start_smaller_preempts_for_as_many_as_possible() -> None:
    """For all members of a sweep, else for half of them, and so on; for none if one of its members fits anyway."""
    cluster = Cluster(3)
    for row in range(3):
        cluster.runs(f"low-{row}", row, unsaved_seconds=float(row))
    sweep = waits("sweep", 5)
    sweep = replace(sweep, gang=replace(sweep.gang, fewest=1))
    assert cluster.asked(sweep) == {"sweep": ["low-0", "low-1"]}
    assert Cluster(1).asked(sweep) == {}


def test_an_elastic_gang_preempts_for_its_fewest_members_alone() -> None:
    """It gets no other free nodes before the runs behind it."""
    cluster = Cluster(nodes=4)
    leaves = cluster.runs("a", 0)
    for row in (1, 2):
        cluster.runs("abc"[row], row)
    elastic = waits("elastic", 4, priority=HIGH)
    elastic = replace(elastic, gang=replace(elastic.gang, fewest=2, grows=True))
    assert [len(victims) for victims in cluster.asked(elastic).values()] == [1]
    occupied = cluster.state.copy()
    cluster = Cluster(nodes=4)
    promised = place_preemptors(cluster.state, [elastic.gang], [])
    assert [len(placement.nodes) for placement in promised.placements] == [2]
    kept = place_preemptors(occupied, [elastic.gang], [leaves])
    assert [len(placement.nodes) for placement in kept.reserved] == [2]


def test_preemptions_for_many_runs_are_spread_over_cycles() -> None:
    cluster = Cluster(30)
    for row in range(30):
        cluster.runs(f"low-{row}", row)
    answer = cluster.ask(*(waits(f"waits-{number}", 1) for number in range(30)))
    assert (len(answer.requests), answer.look_again_in_seconds) == (PREEMPTING_PER_CYCLE, 0.0)


def test_a_team_gets_back_its_guaranteed_gpus() -> None:
    """From teams that hold more than their guarantee, at any priority. Low runs are preempted first, even if more of
    them are needed."""
    cluster = Cluster(4)
    cluster.guarantee("vision", 16)
    cluster.runs("high", 0, 1, priority=HIGH, team="speech")
    cluster.runs("low-0", 2, team="speech")
    cluster.runs("low-1", 3, team="speech")
    covered = waits("waits", 2, team="vision", priority=LOW)
    assert cluster.asked(covered) == {"waits": ["low-0", "low-1"]}
    assert [request.guaranteed for request in cluster.ask(covered).requests] == [True]
    del cluster.running[1:]
    assert cluster.asked(covered) == {"waits": ["high"]}
    assert cluster.asked(waits("more", 3, team="vision", priority=LOW)) == {}
    assert cluster.asked(waits("waits", 2, team="audio", priority=LOW)) == {}


def test_usage_counts_against_the_guarantee() -> None:
    cluster = Cluster(3)
    cluster.guarantee("vision", 16)
    cluster.runs("own", 0, priority=NORMAL, team="vision")
    cluster.runs("borrowed", 1, 2, priority=NORMAL, team="speech")
    assert cluster.asked(waits("one", 1, team="vision"), waits("two", 1, team="vision")) == {"one": ["borrowed"]}
    assert cluster.asked(waits("both", 2, team="vision")) == {}


def test_a_gang_within_a_guarantee_is_not_preempted_by_other_teams() -> None:
    """At any priority; its own team may preempt it. The guarantee covers high priority first, then long-running
    gangs."""
    cluster = Cluster(3)
    cluster.guarantee("vision", 8)
    cluster.guarantee("speech", 24)
    cluster.runs("own", 0, team="vision", ran_seconds=7200.0)
    cluster.runs("borrowed", 1, team="vision")
    assert cluster.asked(waits("waits", 2, team="speech", priority=HIGH)) == {"waits": ["borrowed"]}
    cluster.runs("speech", 2, team="speech", priority=HIGH)
    assert cluster.asked(waits("waits", 2, team="speech", priority=HIGH)) == {}
    assert cluster.asked(waits("waits", 2, team="vision", priority=HIGH)) == {"waits": ["borrowed", "own"]}


def test_a_guarantee_of_a_gpu_type_covers_that_type_only() -> None:
    """A run that names no GPU type is covered if the cluster has only that type."""
    cluster = Cluster(2, gpu_types=("h100", "a100"))
    cluster.guarantee("vision", 8, "h100")
    cluster.runs("on-h100", 0, priority=HIGH, team="speech")
    cluster.runs("on-a100", 1, priority=HIGH, team="speech")
    assert cluster.asked(waits("waits", 1, team="vision", gpu_type="h100")) == {"waits": ["on-h100"]}
    assert cluster.asked(waits("waits", 1, team="vision", gpu_type="a100")) == {}
    assert cluster.asked(waits("waits", 1, team="vision")) == {}
    cluster = Cluster(1)
    cluster.guarantee("vision", 8, "h100")
    cluster.runs("on-h100", 0, priority=HIGH, team="speech")
    assert cluster.asked(waits("waits", 1, team="vision")) == {"waits": ["on-h100"]}
    assert cluster.asked(waits("waits", 1, team="vision", gpus=0, cpu_millis=64_000)) == {}


def test_a_guarantee_holds_though_an_earlier_run_cannot_start() -> None:
    """The earlier run, of a team without a guarantee, cannot get the guaranteed nodes."""
    cluster = Cluster(2)
    cluster.guarantee("ours", 8)
    cluster.runs("borrows", 0, 1, priority=NORMAL, team="other")
    large = waits("large", 2, team="third")
    assert cluster.asked(large, waits("mine", 1, team="ours")) == {"mine": ["borrows"]}
    assert cluster.asked(large, waits("mine", 1, team="third")) == {}


@pytest.mark.parametrize(("borrower", "by_right"), [(LOW, False), (NORMAL, True)])
def test_preemption_by_priority_does_not_mention_guarantees(borrower: int, by_right: bool) -> None:
    cluster = Cluster(1)
    cluster.guarantee("ours", 8)
    cluster.runs("borrows", 0, priority=borrower, team="other")
    (request,) = cluster.ask(waits("mine", 1, team="ours")).requests
    assert request.guaranteed == by_right


def test_each_covered_run_uses_up_a_part_of_the_guarantee() -> None:
    """A run of one team does not use up another team's guarantee."""
    cluster = Cluster(3)
    for row in range(3):
        cluster.runs(f"other-{row}", row, priority=NORMAL, team="other", unsaved_seconds=float(row))
    cluster.guarantee("vision", 8)
    cluster.guarantee("speech", 8)
    first, second = (waits(name, 1, team="vision") for name in ("first", "second"))
    assert cluster.asked(first, second) == {"first": ["other-0"]}
    assert cluster.asked(first, waits("third", 1, team="speech")) == {"first": ["other-0"], "third": ["other-1"]}


def test_gangs_that_are_ending_do_not_count_against_a_guarantee() -> None:
    cluster = Cluster(2)
    cluster.runs("gone", 0, priority=NORMAL, team="vision", leaving=True)
    cluster.runs("other", 1, priority=NORMAL, team="other")
    cluster.guarantee("vision", 8)
    assert cluster.asked(waits("first", 2, team="vision")) == {}
    assert cluster.asked(waits("taker", 1, team="other"), waits("first", 1, team="vision")) == {"first": ["other"]}


@pytest.mark.parametrize("reversed_", [False, True])
@pytest.mark.parametrize(
    ("stays", "goes"),
    [
        ({"priority": HIGH, "ran_seconds": 60.0}, {"priority": NORMAL, "ran_seconds": 3600.0}),
        ({"priority": NORMAL, "ran_seconds": 3600.0}, {"priority": NORMAL, "ran_seconds": 60.0}),
    ],
)
def test_a_guarantee_covers_higher_priority_then_longer_running_gangs(
    stays: dict[str, Any], goes: dict[str, Any], reversed_: bool
) -> None:
    cluster = Cluster(2)
    gangs = [("stays", stays), ("goes", goes)]
    for row, (name, facts) in enumerate(gangs[::-1] if reversed_ else gangs):
        cluster.runs(name, row, team="speech", **facts)
    cluster.guarantee("speech", 8)
    cluster.guarantee("vision", 8)
    assert cluster.asked(waits("mine", 1, team="vision")) == {"mine": ["goes"]}


def test_usage_of_another_gpu_type_does_not_count() -> None:
    cluster = Cluster(2, ("h100", "a100"))
    cluster.runs("older", 1, priority=NORMAL, team="vision")
    cluster.runs("other", 0, priority=NORMAL, team="other")
    cluster.guarantee("vision", 8, "h100")
    assert cluster.asked(waits("mine", 1, team="vision", gpu_type="h100")) == {"mine": ["other"]}


def test_policy_may_have_one_guarantee_per_team_and_gpu_type() -> None:
    """The fault names the section, the team and what to do."""
    twice = [{"namespace": "vision", "gpus": 8}, {"namespace": "vision", "gpus": 8, "gpuType": "h100"}]
    assert parse_policy({"guarantees": twice}).guarantees == [guarantee("vision", 8), guarantee("vision", 8, "h100")]
    with pytest.raises(InvalidInput) as refused:
        parse_policy(
            {"guarantees": [*twice, {"namespace": "vision", "gpus": 16}], "preemption": {"minimumRunTime": -1}}
        )
    faults = {fault.field: (fault.message, fault.hint) for fault in refused.value.faults}
    assert faults["guarantees"] == (
        "there are two guarantees for namespace vision and any GPU type",
        "merge them into one",
    )
    assert "preemption.minimumRunTime" in faults


def test_guarantees_beyond_the_clusters_gpus_are_reported() -> None:
    """By type and in total. It is a warning only, because teams seldom need all of their guarantees at the same
    time."""
    table = Cluster(4, gpu_types=("h100", "a100")).state.table
    assert faults_of_guarantees([guarantee("vision", 16, "h100"), guarantee("speech", 16)], table, "never") == []
    assert faults_of_guarantees([guarantee("vision", 16, "h100"), guarantee("speech", 8, "h100")], table, "never") == [
        "24 h100 are guaranteed, and the cluster has 16"
    ]
    assert faults_of_guarantees([guarantee("vision", 16, "h100"), guarantee("speech", 24)], table, "never") == [
        "40 GPUs are guaranteed in all, and the cluster has 32"
    ]


def test_freed_nodes_go_to_the_run_that_preempted_for_them() -> None:
    """It starts once all of its nodes are free; until then no other run takes any of them."""
    cluster = Cluster(3)
    cluster.runs("victim", 0, 1, leaving=True)
    urgent = waits("urgent", 3).gang
    promised = place_preemptors(cluster.state, [urgent], cluster.running)
    assert (promised.placements, [kept.key for kept in promised.reserved]) == ((), ["urgent"])
    assert not isinstance(place(promised.snapshot, waits("other", 1).gang), Placement)
    partly = Cluster(3)
    partly.runs("victim", 0, leaving=True)
    promised = place_preemptors(partly.state, [urgent], partly.running)
    assert not isinstance(place(promised.snapshot, waits("other", 1).gang), Placement)
    promised = place_preemptors(Cluster(3).state, [urgent], [])
    assert [placement.key for placement in promised.placements] == ["urgent"]


def test_each_freed_node_is_promised_once() -> None:
    """Two preempting runs wait for different nodes."""
    cluster = Cluster(2)
    leaving = [cluster.runs("a", 0), cluster.runs("b", 1)]
    promised = place_preemptors(cluster.state, [waits("first", 1).gang, waits("second", 1).gang], leaving)
    assert [(reservation.key, reservation.nodes) for reservation in promised.reserved] == [
        ("first", ("n0",)),
        ("second", ("n1",)),
    ]


def test_a_preempting_sweep_takes_free_nodes_at_once() -> None:
    """It takes all of them, and does not wait until every member fits."""
    cluster = Cluster(3)
    cluster.runs("leaves", 0)
    sweep = replace(waits("sweep", 4).gang, fewest=1)
    promised = place_preemptors(cluster.state, [sweep], cluster.running)
    assert [placement.nodes for placement in promised.placements] == [("n1", "n2")]


def test_a_preemptor_that_no_longer_fits_has_no_promised_nodes() -> None:
    """For example because a node was removed meanwhile."""
    cluster = Cluster(2)
    cluster.runs("victim", 0, leaving=True)
    promised = place_preemptors(cluster.state, [waits("urgent", 3).gang], cluster.running)
    assert (promised.placements, promised.reserved) == ((), ())
    assert isinstance(place(promised.snapshot, waits("other", 1).gang), Placement)


@dataclass(frozen=True)
class Gang:
    """A gang that runs or waits, in the simulation below."""

    key: str
    team: str
    priority: int
    members: int


gangs = st.builds(
    Gang,
    key=st.uuids().map(str),
    team=st.sampled_from(["vision", "speech", "audio"]),
    priority=st.sampled_from([HIGH, NORMAL, LOW, LOW]),
    members=st.integers(1, 4),
)


@settings(max_examples=40)
@example(  # b and c start together: b, which is borrowed, must not take c's place in the guarantee
    everybody=[
        *(Gang(key, "vision", HIGH, 1) for key in "de"),
        Gang("c", "vision", LOW, 1),
        Gang("b", "vision", LOW, 2),
        Gang("a", "speech", HIGH, 4),
    ],
    guaranteed={"vision": 3},
)
@given(
    everybody=st.lists(gangs, min_size=1, max_size=9, unique_by=lambda gang: gang.key),
    guaranteed=st.dictionaries(st.sampled_from(["vision", "speech"]), st.integers(1, 4)),
)
def test_a_preempted_gang_does_not_preempt_its_preemptor(everybody: list[Gang], guaranteed: dict[str, int]) -> None:
    """If no run ends and none is submitted, preemptions cease: no two gangs preempt each other in turn. No gang within
    its team's guarantee is ever preempted by another team."""
    nodes, minute = 6, 0
    started: dict[Gang, tuple[tuple[int, ...], int]] = {}
    while True:
        cluster = Cluster(nodes)
        for team, count in guaranteed.items():
            cluster.guarantee(team, 8 * count)
        for gang, (rows, since) in started.items():
            cluster.runs(gang.key, *rows, priority=gang.priority, team=gang.team, ran_seconds=60.0 * (minute - since))
        queue = sorted((gang for gang in everybody if gang not in started), key=lambda gang: -gang.priority)
        requests = cluster.ask(*(waits(g.key, g.members, priority=g.priority, team=g.team) for g in queue)).requests
        by_key = {gang.key: gang for gang in everybody}
        first = [by_key[request.key] for request in requests]
        for request in requests:
            _check(request, by_key[request.key], started, guaranteed)
            for victim in request.victims:
                del started[by_key[victim.key]]
        used = {row for rows, _ in started.values() for row in rows}
        moved = bool(requests)
        for gang in [*first, *(waiting for waiting in queue if waiting not in first)]:
            free = [row for row in range(nodes) if row not in used]
            if len(free) >= gang.members:
                started[gang] = tuple(free[: gang.members]), minute
                used.update(free[: gang.members])
                moved = True
            else:
                assert gang not in first, "the nodes that were freed for it are not free"
        minute += 1
        if not moved:
            return
        assert minute < 3 * len(everybody) + 3, "preemptions do not cease"


def _check(
    request: PreemptionRequest, gang: Gang, started: dict[Gang, tuple[tuple[int, ...], int]], guaranteed: dict[str, int]
) -> None:
    """Check that victims were low and of lower priority, or that their team held more than its guarantee."""
    for victim in request.victims:
        lower = victim.low and victim.priority < gang.priority
        holds = sum(gang.members for gang in started if gang.team == victim.namespace)
        assert lower or (request.guaranteed and victim.namespace != gang.team)
        assert victim.namespace == gang.team or holds > guaranteed.get(victim.namespace, 0)
