"""Guarantees of GPUs, cores, memory and whole nodes: the runs that they cover, and the runs that give capacity back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.core.gpus.offers import GpuOffer
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, occupy, occupy_rows, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.queue.preemption import Guarantee, Preemption
from kajitori.core.queue.guarantees import Guaranteed, faults_of_guarantees
from kajitori.core.queue.preemption import PreemptionRequest, choose_preemptions
from kajitori.core.queue.victims import RunningGang
from kajitori.core.queue.waiting import WaitingRun
from kajitori.errors import InvalidInput

GIB = 1 << 30
HIGH, NORMAL, LOW = 100, 0, -100
SMALL = MemberRequest(8_000, 32 * GIB)
"""Eight of them fill a node of the clusters below."""
WHOLE = MemberRequest(1_000, GIB, whole_node=True)
ON_GPUS = MemberRequest(8_000, 32 * GIB, gpus=4)
NO_MINIMUM = Preemption.model_validate({"minimumRunTime": "0s"})


def guarantee(team: str, **amounts: Any) -> Guarantee:
    return Guarantee.model_validate({"namespace": team} | amounts)


@dataclass
class Cluster:
    """Nodes of 64 cores, 256Gi and maybe GPUs, running gangs, and the teams' guarantees."""

    guarantees: Sequence[Guarantee]
    nodes: int = 1
    gpus: int = 0
    running: list[RunningGang] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind = "h100" if self.gpus else ""
        facts = [NodeFacts(f"n{row}", 64_000, 256 * GIB, self.gpus, 110, kind) for row in range(self.nodes)]
        self.state = Snapshot.empty(NodeTable(facts))

    def runs(self, key: str, member: MemberRequest, *rows: int, team: str, priority: int = NORMAL) -> None:
        low = priority == LOW
        gang = RunningGang(key, team, priority, low, member, np.array(rows), ran_seconds=3600.0, grace_seconds=30.0)
        occupy_rows(self.state, member, gang.rows)
        self.running.append(gang)

    def asked(self, *queue: WaitingRun) -> dict[str, list[str]]:
        requests = choose_preemptions(self.state, queue, self.running, NO_MINIMUM, self.guarantees, {}).requests
        return {request.key: sorted(victim.key for victim in request.victims) for request in requests}


def waits(key: str, member: MemberRequest, members: int, *, team: str = "data", priority: int = NORMAL) -> WaitingRun:
    return WaitingRun(GangRequest(key, member, tuple(range(members)), priority=priority), 3600.0, team=team)


@pytest.mark.parametrize(
    ("amounts", "covered"), [({"cpu": 32}, 4), ({"memory": "64Gi"}, 2), ({"cpu": 32, "memory": "64Gi"}, 2)]
)
def test_a_team_without_gpus_gets_back_cores_and_memory(amounts: dict[str, Any], covered: int) -> None:
    """Up to its guarantee of each resource."""
    for members in range(1, 6):
        cluster = Cluster([guarantee("data", **amounts)])
        cluster.runs("borrows", SMALL, *[0] * 8, team="other", priority=HIGH)
        asked = cluster.asked(waits("mine", SMALL, members))
        assert asked == ({"mine": ["borrows"]} if members <= covered else {})
        assert cluster.asked(waits("not-mine", SMALL, members, team="third")) == {}


def test_usage_of_each_resource_counts_against_the_guarantee() -> None:
    memory_heavy = replace(SMALL, cpu_millis=1_000)
    cluster = Cluster([guarantee("data", cpu=64, memory="96Gi")])
    cluster.runs("own", memory_heavy, 0, 0, team="data")
    cluster.runs("borrows", SMALL, *[0] * 6, team="other")
    assert cluster.asked(waits("one", SMALL, 1), waits("two", SMALL, 1)) == {"one": ["borrows"]}
    assert cluster.asked(waits("both", SMALL, 2)) == {}


def test_a_run_with_gpus_is_covered_only_by_a_guarantee_of_gpus() -> None:
    """Other amounts of the same guarantee count, too; resources that it does not name are not limited."""
    for amounts, members in (
        ({"cpu": 640}, 0),
        ({"nodes": 10}, 0),
        ({"gpus": 8}, 2),
        ({"gpus": 8, "cpu": 8}, 1),
        ({"gpus": 8, "memory": "640Gi"}, 2),
    ):
        for count in (1, 2):
            cluster = Cluster([guarantee("vision", **amounts)], gpus=8)
            cluster.runs("borrows", ON_GPUS, 0, 0, team="other")
            asked = cluster.asked(waits("mine", ON_GPUS, count, team="vision"))
            assert asked == ({"mine": ["borrows"]} if count <= members else {}), amounts


def test_cores_of_gpu_runs_do_not_count_in_a_guarantee_without_gpus() -> None:
    """Such a guarantee does not apply to them: it does not protect them, and they do not use it up."""
    cluster = Cluster([guarantee("data", cpu=8), guarantee("third", gpus=4)], nodes=2, gpus=8)
    cluster.runs("trains", ON_GPUS, 0, team="data")
    cluster.runs("fills", SMALL, *[0] * 7, *[1] * 8, team="other", priority=LOW)
    anywhere = replace(SMALL, cpu_runs_on_gpu_nodes="always")
    assert cluster.asked(waits("mine", anywhere, 1, priority=LOW)) == {"mine": ["fills"]}
    assert Guaranteed(cluster.guarantees, cluster.state.table, cluster.running).is_borrowed(cluster.running[0])
    one_for_all = [guarantee("data", gpus=8, cpu=8)]
    cluster = replace(cluster, guarantees=one_for_all)
    assert cluster.asked(waits("mine", anywhere, 1, priority=LOW)) == {}


def test_a_guarantee_of_nodes_covers_runs_that_share_no_node() -> None:
    """Whatever else such a run asks for: it gets whole nodes. Runs that share nodes are not covered."""
    for amounts, member, covered in (
        ({"nodes": 2}, WHOLE, True),
        ({"nodes": 1}, WHOLE, False),
        ({"cpu": 640, "memory": "999Gi"}, WHOLE, False),
        ({"nodes": 2}, SMALL, False),
        ({"nodes": 2}, replace(SMALL, unlimited=True), True),
    ):
        cluster = Cluster([guarantee("data", **amounts)], nodes=2)
        cluster.runs("borrows", SMALL, 0, 1, team="other")
        cluster.runs("fills", SMALL, *[0] * 7, *[1] * 7, team="other")
        asked = cluster.asked(waits("mine", member, 2))
        assert bool(asked) == covered, amounts


def test_a_guarantee_of_nodes_protects_runs_with_nodes_of_their_own() -> None:
    """Members without a memory limit may share a node with their own gang: it counts once."""
    cluster = Cluster([guarantee("data", nodes=2)], nodes=3)
    cluster.runs("whole", WHOLE, 0, team="data")
    cluster.runs("unlimited", replace(SMALL, unlimited=True), 1, 1, team="data")
    guaranteed = Guaranteed(cluster.guarantees, cluster.state.table, cluster.running)
    assert not any(guaranteed.is_borrowed(gang) for gang in cluster.running)
    cluster.runs("third", WHOLE, 2, team="data")
    guaranteed = Guaranteed(cluster.guarantees, cluster.state.table, cluster.running)
    assert [gang.key for gang in cluster.running if guaranteed.is_borrowed(gang)] == ["whole"]


def test_a_guarantee_of_cores_protects_from_other_teams() -> None:
    cluster = Cluster([guarantee("data", cpu=32), guarantee("etl", cpu=32)])
    cluster.runs("kept", SMALL, 0, 0, 0, 0, team="data", priority=LOW)
    cluster.runs("lent", SMALL, 0, 0, 0, 0, team="data", priority=LOW)
    assert cluster.asked(waits("theirs", SMALL, 4, team="etl")) == {"theirs": ["lent"]}
    assert cluster.asked(waits("urgent", SMALL, 8, team="etl", priority=HIGH)) == {}


# ------------------------------------------------------------------------------------------------ policy


def faults(*guarantees: dict[str, Any]) -> dict[str, tuple[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        parse_policy({"guarantees": list(guarantees)})
    return {fault.field: (fault.message, fault.hint) for fault in refused.value.faults}


def test_a_policy_guarantees_amounts_of_several_resources() -> None:
    given = {"namespace": "data", "cpu": 512, "memory": "4Ti", "nodes": 2}
    (read,) = parse_policy({"guarantees": [given]}).guarantees
    assert (read.cpu_millis, read.memory_bytes, read.nodes, read.gpus) == (512_000, 4096 * GIB, 2, None)
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True) == given | {"cpu": "512"}


def test_a_guarantee_of_nothing_and_a_type_of_no_gpus_are_refused() -> None:
    """The fault names the entry, the team and the way out."""
    what = "set at least one of gpus, cpu, memory and nodes"
    assert faults({"namespace": "data"}) == {"guarantees[0]": ("the guarantee of data has no amounts", what)}
    assert faults({"namespace": "data", "cpu": 8, "gpuType": "h100"}, {"namespace": "data", "nodes": 0}) == {
        "guarantees[0]": (
            "a guarantee with gpuType h100 must have gpus and no other amounts",
            "write a second guarantee of data, without gpuType, for the rest",
        ),
        "guarantees[1].nodes": ("0 is not allowed: it must be at least 1", ""),
    }
    assert "guarantees[0]" in faults({"namespace": "data", "gpus": 8, "cpu": 8, "gpuType": "h100"})
    assert "guarantees[0].cpu" in faults({"namespace": "data", "cpu": "many"})
    twice: list[dict[str, Any]] = [{"namespace": "data", "cpu": 8}, {"namespace": "data", "memory": "8Gi"}]
    assert faults(*twice) == {
        "guarantees": ("there are two guarantees for namespace data and any GPU type", "merge them into one")
    }


def test_guarantees_beyond_the_clusters_capacity_are_reported() -> None:
    table = Cluster([], nodes=2).state.table
    assert (
        faults_of_guarantees(
            [guarantee("data", cpu=64, memory="256Gi", nodes=1), guarantee("etl", cpu=64, nodes=1)], table, "never"
        )
        == []
    )
    assert faults_of_guarantees(
        [guarantee("data", cpu=64, memory="300Gi", nodes=1), guarantee("etl", cpu=96.5, memory="300Gi", nodes=2)],
        table,
        "never",
    ) == [
        "160.5 cores are guaranteed in all, and the cluster has 128",
        "600Gi of memory are guaranteed in all, and the cluster has 512Gi",
        "3 whole nodes are guaranteed in all, and the cluster has 2",
    ]


def test_a_guarantee_without_gpus_counts_nodes_that_such_runs_may_use() -> None:
    """Depending on policy these are only nodes without GPUs. Runs with GPUs use cores of GPU nodes."""
    facts = [NodeFacts("gpu", 64_000, 256 * GIB, 8, 110, "h100"), NodeFacts("cpu", 64_000, 256 * GIB, 0, 110)]
    table = NodeTable(facts)
    cores = [guarantee("data", cpu=96)]
    assert faults_of_guarantees(cores, table, "always") == []
    reported = ["96 cores are guaranteed to runs without GPUs, and nodes for these have 64"]
    assert faults_of_guarantees(cores, table, "whenNoOthers") == faults_of_guarantees(cores, table, "never") == reported
    assert faults_of_guarantees(cores, NodeTable(facts[:1]), "whenNoOthers") == [
        "96 cores are guaranteed in all, and the cluster has 64"
    ]
    assert faults_of_guarantees([guarantee("data", cpu=96, gpus=8)], table, "never") == []


# ------------------------------------------------------------------------------------------------ properties


@dataclass(frozen=True)
class Gang:
    """A gang that runs or waits, in the simulation below."""

    key: str
    team: str
    priority: int
    cpu: int
    memory: int
    members: int
    whole: bool

    @property
    def member(self) -> MemberRequest:
        return MemberRequest(self.cpu * 1000, self.memory * GIB, whole_node=self.whole)


def gangs(cpus: Sequence[int], memories: Sequence[int], most: int, wholes: Sequence[bool]) -> st.SearchStrategy[Gang]:
    return st.builds(
        Gang,
        key=st.uuids().map(str),
        team=st.sampled_from(["vision", "data", "etl"]),
        priority=st.sampled_from([HIGH, NORMAL, LOW, LOW]),
        cpu=st.sampled_from(cpus),
        memory=st.sampled_from(memories),
        members=st.integers(1, most),
        whole=st.sampled_from(wholes),
    )


@dataclass
class Simulation:
    """Gangs that need nodes. None ends and none is added; a preempted gang waits again."""

    guarantees: list[Guarantee]
    everybody: list[Gang]
    nodes: int
    placed: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    """By key: the row of each member, and the minute of its start."""

    def comes_to_rest(self) -> bool:
        """Whether preemptions and starts cease within bounded time."""
        return any(not self.step(minute) for minute in range(3 * len(self.everybody) + 3))

    def step(self, minute: int) -> bool:
        """Run one cycle; return whether it started or preempted a gang."""
        by_key = {gang.key: gang for gang in self.everybody}
        cluster = Cluster(self.guarantees, self.nodes)
        for key, (rows, since) in self.placed.items():
            gang = by_key[key]
            cluster.runs(key, gang.member, *rows, team=gang.team, priority=gang.priority)
            cluster.running[-1] = replace(cluster.running[-1], ran_seconds=60.0 * (minute - since))
        waiting = [gang for gang in self.everybody if gang.key not in self.placed]
        queue = [_wants(gang) for gang in sorted(waiting, key=lambda gang: -gang.priority)]
        requests = choose_preemptions(cluster.state, queue, cluster.running, NO_MINIMUM, self.guarantees, {}).requests
        for request in requests:
            self.check(request, by_key)
            for victim in request.victims:
                del self.placed[victim.key]
        state = Snapshot.empty(cluster.state.table)
        for key, (rows, _) in self.placed.items():
            occupy_rows(state, by_key[key].member, np.array(rows))
        first = [request.key for request in requests]
        moved = bool(requests)
        for wanting in sorted(queue, key=lambda waiting: waiting.gang.key not in first):
            found = place(state, wanting.gang)
            if isinstance(found, Placement):
                occupy(state, wanting.gang.member, found.nodes)
                self.placed[wanting.gang.key] = tuple(state.table.index[name] for name in found.nodes), minute
                moved = True
        return moved

    def is_within(self, team: str, more: Gang | None = None) -> bool:
        """Whether the team, with this gang, holds no more of any resource than its guarantee. Gangs with nodes of their
        own count only if the guarantee has nodes."""
        entry = next((guarantee for guarantee in self.guarantees if guarantee.namespace == team), None)
        if entry is None:
            return False
        theirs = [gang for gang in self.everybody if gang.team == team and (gang.key in self.placed or gang is more)]
        theirs = [gang for gang in theirs if not gang.whole or entry.nodes is not None]
        return (
            sum(gang.cpu * gang.members for gang in theirs) * 1000 <= (entry.cpu_millis or math.inf)
            and sum(gang.memory * gang.members for gang in theirs) * GIB <= (entry.memory_bytes or math.inf)
            and sum(gang.members for gang in theirs if gang.whole) <= (entry.nodes or math.inf)
        )

    def check(self, request: PreemptionRequest, by_key: dict[str, Gang]) -> None:
        """Check that victims are whole gangs, and are low and of lower priority or of a team that exceeds its
        guarantee."""
        gang = by_key[request.key]
        assert len({victim.key for victim in request.victims}) == len(request.victims)
        for victim in request.victims:
            assert victim.rows.size == by_key[victim.key].members
            lower = victim.low and victim.priority < gang.priority
            assert lower or (request.guaranteed and victim.namespace != gang.team and self.is_within(gang.team, gang))
            assert victim.namespace == gang.team or not self.is_within(victim.namespace) or by_key[victim.key].whole


def _wants(gang: Gang) -> WaitingRun:
    request = GangRequest(gang.key, gang.member, tuple(range(gang.members)), priority=gang.priority)
    return WaitingRun(request, 3600.0, team=gang.team)


amounts = st.fixed_dictionaries(
    {"cpu": st.integers(8, 128)},
    optional={"memory": st.integers(32, 512).map("{}Gi".format), "nodes": st.integers(1, 2)},
)


@settings(max_examples=40)
@given(
    everybody=st.lists(
        gangs([4, 8, 24], [16, 32, 128], 6, [False, False, True]),
        min_size=1,
        max_size=9,
        unique_by=lambda gang: gang.key,
    ),
    guaranteed=st.dictionaries(st.sampled_from(["vision", "data"]), amounts),
)
def test_guarantees_are_respected_and_preemptions_cease(
    everybody: list[Gang], guaranteed: dict[str, dict[str, Any]]
) -> None:
    """For any mix of cores, memory and whole nodes."""
    entries = [guarantee(team, **amounts) for team, amounts in guaranteed.items()]
    assert Simulation(entries, everybody, nodes=3).comes_to_rest()


@settings(max_examples=40)
@given(
    everybody=st.lists(gangs([8], [32], 8, [False]), min_size=1, max_size=9, unique_by=lambda gang: gang.key),
    slots=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    of=st.sampled_from(["cpu", "memory"]),
)
def test_a_team_gets_all_of_its_guarantee(everybody: list[Gang], slots: tuple[int, int], of: str) -> None:
    """If all members have one size and the cluster has enough for all guarantees, no gang keeps waiting that would be
    within its team's guarantee."""
    entries = [
        guarantee(team, **({"cpu": 8 * count} if of == "cpu" else {"memory": f"{32 * count}Gi"}))
        for team, count in zip(("vision", "data"), slots, strict=True)
        if count
    ]
    simulation = Simulation(entries, everybody, nodes=2)
    assert simulation.comes_to_rest()
    waiting = [gang for gang in everybody if gang.key not in simulation.placed]
    assert [gang for gang in waiting if simulation.is_within(gang.team, gang)] == []


def test_slices_do_not_count_for_a_guarantee_of_whole_gpus() -> None:
    """A guarantee can name them as its type."""
    parts = (GpuOffer("h100", 4), GpuOffer("h100-mig-1g.10gb", 7, is_whole=False))
    table = NodeTable([NodeFacts("n0", 64_000, 256 * GIB, 4, 110, "h100", gpu_offers=parts)])
    member = MemberRequest(1_000, GIB, gpus=7, gpu_type="h100-mig-1g.10gb")
    gang = RunningGang("a/slices", "a", NORMAL, False, member, np.array([0]))
    offered = [guarantee("a", gpus=4), guarantee("a", gpus=7, gpuType="h100-mig-1g.10gb")]
    held = Guaranteed(offered, table, [gang]).holdings()
    assert [holding.held[2] for holding in held] == [0, 7]
    assert faults_of_guarantees(offered, table, "always") == []
