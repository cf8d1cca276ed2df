"""Nodes outside the pool: only tests are placed on them, and they count as broken."""

from __future__ import annotations

import numpy as np

from kajitori.cluster.nodes.node_facts import node_facts
from kajitori.cluster.objects import Node, NodeSpec
from kajitori.cluster.objects import Taint as WireTaint
from kajitori.core.kubernetes.taints import Taint, Toleration
from kajitori.core.naming.names import TAINT_PREFLIGHT, TAINT_UNHEALTHY
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, Shortage, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.file import default_policy
from kajitori.core.queue.explain import explain
from kajitori.kube.metadata import ObjectMeta

SICK = Taint(TAINT_UNHEALTHY, "KernelDeadlock")
NEW = Taint(TAINT_PREFLIGHT)
OURS = (Toleration(TAINT_UNHEALTHY, "Exists"), Toleration(TAINT_PREFLIGHT, "Exists"))


def node(name: str, *out: Taint, ready: bool = True) -> NodeFacts:
    return NodeFacts(name, 8000, 2**34, 8, 110, gpu_type="h100", out=out, ready=ready)


def place_gang(table: NodeTable, members: int, *tolerations: Toleration) -> Placement | Shortage:
    member = MemberRequest(1000, 2**30, gpus=8, tolerations=tolerations)
    return place(Snapshot.empty(table), GangRequest("a/b", member, tuple(range(members))))


def test_nodes_outside_the_pool_are_not_used_and_count_as_broken() -> None:
    table = NodeTable([node("n1"), node("n2", SICK), node("n3", NEW)])
    found = place_gang(table, 2)
    assert isinstance(found, Shortage)
    assert (found.fit_now, found.fit_ever, found.fit_repaired) == (1, 1, 3)
    member = MemberRequest(1000, 2**30, gpus=8)
    explanation = explain(Snapshot.empty(table), GangRequest("a/b", member, (0, 1)), found, lambda name: ())
    assert [(obstacle.why, obstacle.nodes) for obstacle in explanation.blocked] == [
        ("not tested yet", "n3"),
        ("unhealthy: KernelDeadlock", "n2"),
    ]


def test_a_test_may_use_nodes_outside_the_pool() -> None:
    table = NodeTable([node("n1"), node("n2", SICK, NEW), node("n3", SICK, ready=False)])
    found = place_gang(table, 2, *OURS)
    assert isinstance(found, Placement)
    assert set(found.nodes) == {"n1", "n2"}
    assert isinstance(place_gang(table, 3, *OURS), Shortage), "a node that is not ready runs no test"
    assert isinstance(place_gang(table, 2, OURS[0]), Shortage), "one of two taints is not enough"


def test_a_what_if_may_count_nodes_outside_the_pool() -> None:
    table = NodeTable([node("n1"), node("n2", SICK)])
    assert isinstance(place_gang(table.with_usable(np.array([True, True])), 2), Placement)
    assert isinstance(place_gang(table.with_usable(np.array([False, False])), 1), Shortage)


def test_our_taints_are_distinguished_from_others() -> None:
    """Others describe a node's purpose, ours its health."""
    taints = (WireTaint("dedicated", "NoSchedule", "vision"), WireTaint(TAINT_UNHEALTHY, "NoSchedule", "MembersFail"))
    facts = node_facts(Node(ObjectMeta("n1"), NodeSpec(taints=taints)), default_policy())
    assert [taint.key for taint in facts.taints] == ["dedicated"]
    assert facts.out == (Taint(TAINT_UNHEALTHY, "MembersFail"),)
    assert not facts.takes_work
