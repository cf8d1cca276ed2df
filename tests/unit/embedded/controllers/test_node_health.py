"""Silent nodes, and the Pods on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kajitori.embedded.controllers import node_health
from kajitori.embedded.objects import Lease, Node, Pod, Taint

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def node(ready: str | None = "True", heartbeat: str = "1", unschedulable: bool = False, **more: Any) -> Node:
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}] if ready else []
    conditions += [{"type": k, "status": v} for k, v in more.pop("others", {}).items()]
    document = {
        "metadata": {"name": "n"},
        "spec": {"unschedulable": unschedulable, **more},
        "status": {"conditions": conditions},
    }
    return msgspec.convert(document, Node)


def lease(renewed: str) -> Lease:
    return msgspec.convert({"metadata": {"name": "n"}, "spec": {"renewTime": renewed}}, Lease)


def pod(tolerations: list[dict[str, Any]] | None = None, deleting: bool = False, on: str = "n") -> Pod:
    document = {
        "metadata": {"name": "p", "deletionTimestamp": "2026" if deleting else ""},
        "spec": {"nodeName": on, "tolerations": tolerations},
    }
    return msgspec.convert(document, Pod)


def test_a_node_is_alive_while_its_lease_or_heartbeat_changes() -> None:
    """Its timestamps do not matter."""
    signs = node_health.SignsOfLife(grace_seconds=40)
    assert signs.observe(node(), lease("1999"), 0)
    assert signs.observe(node(), lease("1998"), 40)
    assert signs.observe(node(heartbeat="2"), lease("1998"), 80)
    assert not signs.observe(node(heartbeat="2"), lease("1998"), 121)
    assert signs.observe(node(heartbeat="2"), lease("1999"), 122)


def test_our_own_status_write_is_no_sign_of_life() -> None:
    """Writing Unknown changes the node; it stays silent until it reports itself."""
    signs = node_health.SignsOfLife(grace_seconds=40)
    assert signs.observe(node(heartbeat="1"), None, 0)
    assert not signs.observe(node(heartbeat="1"), None, 50)
    assert not signs.observe(node("Unknown", heartbeat="1"), None, 51)
    assert not signs.observe(node("Unknown", heartbeat="1"), None, 60)
    assert signs.observe(node("True", heartbeat="2"), None, 61)


def test_a_pause_of_this_process_does_not_count_as_silence() -> None:
    """After a suspended laptop or a stopped process, the grace period is extended by that time."""
    signs = node_health.SignsOfLife(grace_seconds=40)
    signs.observe(node(), None, 0)
    signs.extend_grace(1000)
    assert signs.observe(node(), None, 1040)
    assert not signs.observe(node(), None, 1041)


def test_a_busy_process_gives_nodes_more_time() -> None:
    """Its own heartbeats are late then."""
    signs = node_health.SignsOfLife(grace_seconds=40)
    signs.observe(node(), None, 0)
    assert signs.observe(node(), None, 100, late_seconds=60)
    assert not signs.observe(node(), None, 101, late_seconds=60)


def test_a_silent_node_gets_unknown_conditions_once() -> None:
    """With Kubernetes' reasons."""
    written = {c["type"]: c for c in node_health.silent_conditions(node(), NOW)}
    assert written["Ready"]["status"] == "Unknown"
    assert written["Ready"]["reason"] == "NodeStatusUnknown"
    assert written["MemoryPressure"]["reason"] == "NodeStatusNeverUpdated"
    unknown = {kind: "Unknown" for kind in node_health.JUDGED_CONDITIONS if kind != "Ready"}
    assert node_health.silent_conditions(node("Unknown", others=unknown), NOW) == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (node(), None),
        (node("Unknown"), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        (node("False"), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (node(None), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (node(unschedulable=True), [("unschedulable", "NoSchedule")]),
        (node(others={"MemoryPressure": "True"}), [("memory-pressure", "NoSchedule")]),
        (node(taints=[{"key": node_health.NOT_READY, "effect": "NoSchedule"}]), []),
        (
            node("Unknown", taints=[{"key": node_health.NOT_READY, "effect": "NoExecute"}]),
            [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")],
        ),
    ],
)
def test_taints_follow_conditions_and_the_cordon(given: Node, wanted: list[tuple[str, str]] | None) -> None:
    """None means that nothing has to be written."""
    taints = node_health.wanted_taints(given, NOW)
    found = None if taints is None else [(t.key.removeprefix("node.kubernetes.io/"), t.effect) for t in taints]
    assert found == wanted


def test_foreign_taints_stay_and_nothing_is_written_twice() -> None:
    """Other taints keep the time at which they were added."""
    given = node("Unknown", taints=[{"key": "gpu", "value": "x", "effect": "NoSchedule"}])
    taints = node_health.wanted_taints(given, NOW)
    assert taints is not None
    assert taints[0] == Taint("gpu", "x")
    given.spec.taints = taints
    assert node_health.wanted_taints(given, NOW + timedelta(hours=1)) is None


@pytest.mark.parametrize(
    ("tolerations", "due_after"),
    [
        ([], 0),
        ([{"operator": "Exists"}], None),
        ([{"key": node_health.UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300}], 300),
        ([{"key": node_health.UNREACHABLE, "operator": "Exists", "tolerationSeconds": -1}], 0),
        ([{"key": node_health.NOT_READY, "operator": "Exists"}], 0),
        ([{"operator": "Exists", "tolerationSeconds": 60}, {"operator": "Exists"}], 60),
        ([{"key": node_health.UNREACHABLE, "operator": "Exists", "effect": "NoSchedule"}], 0),
    ],
)
def test_a_pod_is_evicted_when_its_toleration_expires(tolerations: list[dict[str, Any]], due_after: int | None) -> None:
    """Counted from the time at which the taint was added."""
    taints = [Taint(node_health.UNREACHABLE, effect="NoExecute", time_added="2026-01-01T00:00:00Z"), Taint("other")]
    due = node_health.eviction_time(pod(tolerations), taints, lambda _: NOW + timedelta(days=1))
    assert due == (None if due_after is None else NOW + timedelta(seconds=due_after))


def test_a_taint_without_a_time_counts_from_its_first_observation() -> None:
    """`kubectl taint` writes none."""
    seen = NOW + timedelta(seconds=5)
    due = node_health.eviction_time(pod(), [Taint("mine", effect="NoExecute")], lambda _: seen)
    assert due == seen


def test_orphans_are_pods_without_a_kubelet() -> None:
    """Pods of deleted nodes, and Pods that are deleted before they had one."""
    nodes = {"n": node()}
    assert node_health.orphans([pod(), pod(deleting=True), pod(on="")], nodes) == []
    assert len(node_health.orphans([pod(on="gone"), pod(on="", deleting=True)], nodes)) == 2
    off = {"n": node("Unknown", taints=[{"key": node_health.OUT_OF_SERVICE, "effect": "NoExecute"}])}
    assert len(node_health.orphans([pod(), pod(deleting=True)], off)) == 1
