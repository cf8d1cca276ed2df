"""Why many runs wait, computed together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kajitori.core.placement.planner import GangRequest, MemberRequest, Shortage, occupy, place
from kajitori.core.placement.snapshot import GPU, NodeFacts, NodeTable, Snapshot
from kajitori.core.queue.explain import Explainer, Use, explain
from kajitori.core.spec.reasons import Reason


def test_the_use_of_a_node_is_read_once_for_all_waiting_gangs() -> None:
    """Otherwise a thousand waiting runs would read every Pod a thousand times."""
    table = NodeTable([NodeFacts(f"n{number}", 32_000, 2**36, 8, 110, "h100") for number in range(4)])
    snapshot = Snapshot.empty(table)
    snapshot.used[:, GPU] = 8
    nodes_read: list[str] = []

    def uses(node: str) -> list[Use]:
        nodes_read.append(node)
        return [Use(node, "team/bert", is_run=True, gpus=8)]

    explainer = Explainer(snapshot, uses)
    member = MemberRequest(1000, 2**30, gpus=8)
    for members in (1, 2, 3):
        gang = GangRequest("team/x", member, tuple(range(members)))
        shortage = place(snapshot, gang)
        assert isinstance(shortage, Shortage)
        found = explainer.explain(gang, shortage)
        assert found == explain(snapshot, gang, shortage, lambda node: [Use(node, "team/bert", is_run=True, gpus=8)])
        assert found.reason is explainer.reason(gang, shortage) is Reason.WAITING_FOR_GPU
    assert sorted(nodes_read) == ["n0", "n1", "n2", "n3"]


def test_the_message_names_missing_amounts_and_their_holders() -> None:
    nodes = [NodeFacts("g1", 8000, 64 << 30, 8, 110, "h100"), NodeFacts("c1", 2000, 8 << 30, 0, 110)]
    snapshot = Snapshot.empty(NodeTable(nodes))
    snapshot.used[:] = snapshot.table.total

    def uses(node: str) -> list[Use]:
        return [Use(node, f"team/on-{node}", "ada", True, 2000, 8 << 30, 8 if node == "g1" else 0)]

    def message_for(**member: Any) -> str:
        gang = GangRequest("team/new", MemberRequest(**member), (0,))
        shortage = place(snapshot, gang)
        assert isinstance(shortage, Shortage)
        return explain(snapshot, gang, shortage, uses).message

    assert message_for(cpu_millis=1000, memory_bytes=1 << 30, gpus=8, gpu_type="h100") == (
        "needs 8 h100 for 1 member; nothing fits now; held by team/on-g1 (ada) 8 GPUs on g1"
    )
    assert message_for(cpu_millis=1000, memory_bytes=2 << 30) == (
        "needs 1 core and 2Gi of memory for 1 member; nothing fits now; held by team/on-c1 (ada) 2 cores, 8Gi on c1"
    )


def test_nodes_are_listed_by_their_names_and_not_by_their_racks() -> None:
    """rack-10 comes before rack-2 in the node table: lists of nodes were a sequence of ranges back and forth."""
    racks = ((f"g-{rack * 2 + node:03d}", f"rack-{rack}") for rack in range(12) for node in (0, 1))
    nodes = [NodeFacts(name, 8000, 64 << 30, 8, 110, "h100", domains=(rack,)) for name, rack in racks]
    nodes = [replace(node, schedulable=node.name not in ("g-005", "g-021")) for node in nodes]
    snapshot = Snapshot.empty(NodeTable(nodes))
    snapshot.used[:] = snapshot.table.total
    gang = GangRequest("team/new", MemberRequest(1000, 1 << 30, gpus=8, gpu_type="h100"), (0,))
    shortage = place(snapshot, gang)
    assert isinstance(shortage, Shortage)
    found = explain(snapshot, gang, shortage, lambda node: [Use(node, "team/bert", is_run=True, gpus=8)])
    assert [holder.nodes for holder in found.held] == ["g-[000-004,006-020,022-023]"]
    assert [blocked.nodes for blocked in found.blocked] == ["g-[005,021]"]


def test_a_cluster_without_nodes_is_named_as_the_reason() -> None:
    """No run holds what is missing: no node has come yet."""
    snapshot = Snapshot.empty(NodeTable([]))
    gang = GangRequest("team/new", MemberRequest(1000, 1 << 30), (0,))
    shortage = place(snapshot, gang)
    assert isinstance(shortage, Shortage)
    assert explain(snapshot, gang, shortage, lambda node: ()).message == (
        "needs 1 core and 1Gi of memory for 1 member; nothing fits now; the cluster has no node for such a member yet"
    )


def test_the_message_explains_runs_that_share_no_node() -> None:
    """For a run that needs nodes without others, and for a run that finds only nodes of such a run."""
    snapshot = Snapshot.empty(NodeTable([NodeFacts("c1", 8000, 64 << 30, 0, 110)]))

    def use(node: str) -> list[Use]:
        return [Use(node, "team/other", "ada", True, 1000, 2 << 30)]

    small = MemberRequest(1000, 2 << 30)
    gang = GangRequest("team/new", replace(small, unlimited=True), (0,))
    occupy(snapshot, small, ["c1"])
    shortage = place(snapshot, gang)
    assert isinstance(shortage, Shortage)
    found = explain(snapshot, gang, shortage, use)
    assert found.reason is Reason.WAITING_FOR_NODES
    assert "on nodes without other runs, since it has no memory limit" in found.message

    snapshot = Snapshot.empty(snapshot.table)
    occupy(snapshot, gang.member, ["c1"])
    limited = GangRequest("team/new", small, (0,))
    shortage = place(snapshot, limited)
    assert isinstance(shortage, Shortage)
    found = explain(snapshot, limited, shortage, use)
    assert found.reason is Reason.WAITING_FOR_NODES
    assert [(obstacle.why, obstacle.nodes) for obstacle in found.blocked] == [
        ("taken by a run that shares with no other", "c1")
    ]
