"""Nodes that are out of the pool: nothing is placed on them, but tests; they count as broken, not as missing."""

from __future__ import annotations

import numpy as np

from kajitori.cluster.nodes.node_facts import node_facts
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, Shortage, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.file import default_policy
from kajitori.core.queue.explain import explain
from kajitori.core.words.names import TAINT_PREFLIGHT, TAINT_UNHEALTHY
from kajitori.core.words.taints import Taint, Toleration
from kajitori.kube.objects import Node, NodeSpec, ObjectMeta
from kajitori.kube.objects import Taint as WireTaint

SICK = Taint(TAINT_UNHEALTHY, "KernelDeadlock")
NEW = Taint(TAINT_PREFLIGHT)
OURS = (Toleration(TAINT_UNHEALTHY, "Exists"), Toleration(TAINT_PREFLIGHT, "Exists"))


def node(name: str, *out: Taint, ready: bool = True) -> NodeFacts:
    return NodeFacts(name, 8000, 2**34, 8, 110, gpu_type="h100", out=out, ready=ready)


def ask(table: NodeTable, members: int, *tolerations: Toleration) -> Placement | Shortage:
    member = MemberRequest(1000, 2**30, gpus=8, tolerations=tolerations)
    return place(Snapshot.empty(table), GangRequest("a/b", member, tuple(range(members))))


def test_nothing_is_placed_on_them_and_they_are_said_to_be_broken() -> None:
    table = NodeTable([node("n1"), node("n2", SICK), node("n3", NEW)])
    found = ask(table, 2)
    assert isinstance(found, Shortage)
    assert (found.fit_now, found.fit_ever, found.fit_repaired) == (1, 1, 3)
    member = MemberRequest(1000, 2**30, gpus=8)
    said = explain(Snapshot.empty(table), GangRequest("a/b", member, (0, 1)), found, lambda name: ())
    assert [(each.why, each.nodes) for each in said.blocked] == [
        ("not tested yet", "n3"),
        ("unhealthy: KernelDeadlock", "n2"),
    ]


def test_a_test_may_use_them() -> None:
    table = NodeTable([node("n1"), node("n2", SICK, NEW), node("n3", SICK, ready=False)])
    found = ask(table, 2, *OURS)
    assert isinstance(found, Placement)
    assert set(found.nodes) == {"n1", "n2"}
    assert isinstance(ask(table, 3, *OURS), Shortage), "one that is not ready runs no test either"
    assert isinstance(ask(table, 2, OURS[0]), Shortage), "one of two taints is not enough"


def test_what_if_they_were_in_order() -> None:
    table = NodeTable([node("n1"), node("n2", SICK)])
    assert isinstance(ask(table.with_usable(np.array([True, True])), 2), Placement)
    assert isinstance(ask(table.with_usable(np.array([False, False])), 1), Shortage)


def test_our_taints_are_told_from_others() -> None:
    """Others say what a node is for; ours, how it is."""
    taints = (WireTaint("dedicated", "NoSchedule", "vision"), WireTaint(TAINT_UNHEALTHY, "NoSchedule", "MembersFail"))
    facts = node_facts(Node(ObjectMeta("n1"), NodeSpec(taints=taints)), default_policy())
    assert [taint.key for taint in facts.taints] == ["dedicated"]
    assert facts.out == (Taint(TAINT_UNHEALTHY, "MembersFail"),)
    assert not facts.in_order
