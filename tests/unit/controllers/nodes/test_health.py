"""Health marks on nodes and runs of node tests: written once, and only if the node has not changed meanwhile."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Node
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.nodes.health import HealthKeeper
from kajitori.core.naming import names
from kajitori.core.nodes.trail import TrailEvent, read_trail
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.errors import Conflict, Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.events import About
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import NODES, Resource

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
OTHER = {"key": "team", "value": "vision", "effect": "NoExecute", "timeAdded": "2026-11-21T10:00:00Z"}
DEADLOCK = {"type": "KernelDeadlock", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
READY = {"type": "Ready", "status": "True"}


class Cluster:
    """An API server and a mirror of it. Writes change only the API server; the test decides when the mirror shows
    them."""

    def __init__(self, **rules: Any) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.events: list[tuple[str, str, str]] = []
        self.refuses_runs = False
        self.clock = 0.0
        self.mirror = Mirror(KubeClient(KubeConfig(server="http://unused")))
        policy = PolicyFile(None, without_file=parse_policy({"preflight": {"image": "preflight:1"}, **rules}))
        view = ClusterView(self.mirror, policy)
        self.keeper = HealthKeeper(self, self.mirror, view, self, lambda: NOW)  # type: ignore[arg-type]

    # ---- requests of the keeper

    async def get(self, resource: Resource, name: str) -> dict[str, Any]:
        return copy.deepcopy(self.nodes[name])

    async def patch(self, resource: Resource, name: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        node = self.nodes[name]
        if patch["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"]:
            raise Conflict("changed meanwhile")
        annotations = node["metadata"].setdefault("annotations", {}) | patch["metadata"]["annotations"]
        node["metadata"]["annotations"] = {name: value for name, value in annotations.items() if value is not None}
        node["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)
        node["spec"] = {key: value for key, value in (node["spec"] | patch["spec"]).items() if value is not None}
        return copy.deepcopy(node)

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str) -> None:
        self.clock += 60.0  # as if the API server needed a minute for each answer
        if self.refuses_runs:
            raise Forbidden("may not create runs")
        self.runs[body["metadata"]["name"]] = body

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        self.deleted.append(name)

    def emit(self, about: About, kind: str, reason: str, message: str) -> None:
        self.events.append((about.name, reason, message))

    # ---- steps of the tests

    def node(self, name: str, *conditions: dict[str, str], taints: tuple[dict[str, str], ...] = ()) -> None:
        labels = {"kubernetes.io/hostname": name}
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        self.nodes[name] = {
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels},
            "spec": {"taints": list(taints)},
            "status": {"conditions": [READY, *conditions], "allocatable": amounts},
        }
        self.show(name)

    def show(self, name: str) -> None:
        """Make the mirror show the node as it is stored."""
        self.mirror.nodes[name] = msgspec.convert(self.nodes[name], Node)
        self.mirror._notify(NODES, "", name)
        self.keeper._note(NODES, "", name)

    def show_run(self, name: str, status: RunStatus | None = None) -> None:
        made = self.runs[name]
        meta = ObjectMeta(name=name, namespace="kajitori", uid=name, annotations=made["metadata"]["annotations"])
        self.mirror.runs["kajitori", name] = RunObject(metadata=meta, status=status)
        self.keeper._note(RUNS, "kajitori", name)


async def test_only_our_own_fields_of_a_node_are_written() -> None:
    """Another owner's taint keeps all its fields, even `timeAdded`, which our Node type does not have."""
    cluster = Cluster()
    cluster.node("n1", DEADLOCK, taints=(OTHER,))
    await cluster.keeper.look()
    written = cluster.nodes["n1"]
    unhealthy = {"key": names.TAINT_UNHEALTHY, "value": "KernelDeadlock", "effect": "NoSchedule"}
    assert written["spec"] == {"taints": [OTHER, unhealthy]}
    (out,) = read_trail(written["metadata"]["annotations"][names.ANNOTATION_HEALTH])
    assert (out.what, out.reason) == (TrailEvent.OUT, "KernelDeadlock")
    assert [(name, reason) for name, reason, _ in cluster.events] == [("n1", "NodeOut")]


async def test_no_node_is_judged_before_the_mirror_shows_the_last_write() -> None:
    cluster = Cluster()
    cluster.node("n1", DEADLOCK)
    cluster.node("n2", DEADLOCK)
    await cluster.keeper.look()
    await cluster.keeper.look()
    out = [name for name, node in cluster.nodes.items() if node["spec"].get("taints")]
    assert out == ["n1"], "one of two may be out, and the mirror does not show yet that one is"
    cluster.show("n1")
    await cluster.keeper.look()
    assert [name for name, node in cluster.nodes.items() if node["spec"].get("taints")] == ["n1"]


async def test_a_node_that_changed_before_its_mark_was_written_is_judged_again() -> None:
    """A user let the node back just before it was to be marked."""
    cluster = Cluster()
    cluster.node("n1", DEADLOCK)
    cluster.nodes["n1"]["metadata"]["annotations"] = {
        names.ANNOTATION_HEALTH: '[{"at":"2026-11-21T11:59:59Z","what":"back"}]'
    }
    await cluster.keeper.look()
    assert not cluster.nodes["n1"]["spec"]["taints"]
    cluster.show("n1")
    await cluster.keeper.look()
    assert not cluster.nodes["n1"]["spec"]["taints"]


async def test_an_unhealthy_node_kept_in_by_the_limit_is_reported_once() -> None:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.node(name, DEADLOCK)
    await cluster.keeper.look()
    cluster.show("n1")
    await cluster.keeper.look()
    warned = [message for _, reason, message in cluster.events if reason == "NodeLooksUnhealthy"]
    assert len(warned) == 1
    assert "takes out at most 10 % of all nodes" in warned[0]


async def test_slow_writes_do_not_lengthen_the_pause_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause depends on the time for which the event loop was busy, not on the time until the API server
    answered."""
    cluster = Cluster(preflight={"image": "preflight:1", "atOnce": 2})
    for name in ("n1", "n2", "n3"):
        cluster.node(name, taints=({"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"},))
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: cluster.clock)
    await cluster.keeper.look()
    assert len(cluster.runs) == 2
    assert cluster.clock == 120.0
    assert cluster.keeper._took_seconds == 0.0


async def test_a_deleted_run_of_a_test_does_not_block_the_keeper() -> None:
    """The run of the test ended and was deleted before the keeper looked again."""
    cluster = Cluster()
    cluster.node("n1", taints=({"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"},))
    await cluster.keeper.look()
    (name,) = cluster.runs
    assert cluster.keeper._lags_behind()
    cluster.show_run(name)
    del cluster.mirror.runs["kajitori", name]
    cluster.keeper._note(RUNS, "kajitori", name)
    assert not cluster.keeper._lags_behind()


async def test_a_refused_node_test_is_reported_as_an_event() -> None:
    cluster = Cluster()
    cluster.refuses_runs = True
    cluster.node("n1", taints=({"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"},))
    with pytest.raises(Forbidden):
        await cluster.keeper.look()
    assert cluster.events == [("n1", "NodeUntested", "its test could not be created: may not create runs")]


async def test_a_result_is_stored_on_the_node_before_its_run_is_deleted() -> None:
    cluster = Cluster()
    cluster.node("n1", taints=({"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"},))
    await cluster.keeper.look()
    (name,) = cluster.runs
    cluster.show_run(name, RunStatus(phase=Phase.SUCCEEDED))
    await cluster.keeper.look()
    assert cluster.nodes["n1"]["spec"] == {}
    assert cluster.deleted == []
    cluster.show("n1")
    await cluster.keeper.look()
    assert cluster.deleted == [name]
