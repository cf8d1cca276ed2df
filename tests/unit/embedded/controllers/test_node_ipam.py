"""Ranges of Pod addresses: the controller with any order of events, and its invariants."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.embedded.controllers.informer import Informer
from kajitori.embedded.controllers.node_ipam import NodeIpam
from kajitori.embedded.controllers.node_ranges import NodeRanges
from kajitori.embedded.objects import Node, Pod
from kajitori.errors import InvalidInput, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig

CLUSTER = IPv4Network("10.244.0.0/22")
"""Four ranges of /24."""


class Server(KubeClient):
    """Nodes and Pods as the API server has them. Watches deliver changes when the test says so."""

    def __init__(self) -> None:
        super().__init__(KubeConfig(server="https://127.0.0.1:1"))
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.answers = "written"
        self._made = 0

    def add_node(self, name: str, *cidrs: str) -> None:
        self._made += 1
        self.nodes[name] = {"metadata": {"name": name, "uid": f"u{self._made}"}, "spec": {"podCIDRs": list(cidrs)}}

    def add_pod(self, name: str, node: str, address: str, **spec: Any) -> None:
        meta, status = {"name": name, "namespace": "default"}, {"phase": "Running", "podIP": address}
        self.pods[name] = {"metadata": meta, "spec": {"nodeName": node, **spec}, "status": status}

    async def patch(self, _resource: Any, name: str, patch: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        if self.answers == "away":
            raise Unavailable("no answer")
        node = self.nodes.get(name)
        if node is None or node["metadata"]["uid"] != patch["metadata"]["uid"]:
            raise NotFound(name)
        if node["spec"]["podCIDRs"] not in ([], patch["spec"]["podCIDRs"]):
            raise InvalidInput.one("spec.podCIDRs", "node updates may not change podCIDR")
        self.nodes[name] = {**node, "spec": patch["spec"]}
        if self.answers == "written, but nobody hears":
            raise Unavailable("the connection broke")

    def range_of(self, name: str) -> str:
        return "".join(self.nodes[name]["spec"]["podCIDRs"])


class Scene:
    """A controller beside the server, which can be restarted."""

    def __init__(self, cluster: IPv4Network = CLUSTER) -> None:
        self.server = Server()
        self.cluster = cluster
        self.restart()

    def restart(self) -> None:
        self.ipam = NodeIpam(self.server, self.cluster, 24)
        self.watch()

    def watch(self) -> None:
        """Deliver all changes to the watches."""
        self._show(self.ipam._nodes, self.server.nodes, Node)
        self._show(self.ipam._pods, self.server.pods, Pod)

    def _show(self, informer: Informer[Any], objects: Mapping[str, Any], kind: type[Any]) -> None:
        now = {(o["metadata"].get("namespace", ""), name): msgspec.convert(o, kind) for name, o in objects.items()}
        for key in {**informer.items, **now}:
            if informer.items.get(key) != now.get(key):
                informer._notify(informer.items.get(key), now.get(key))

    async def reconcile(self) -> None:
        try:
            await self.ipam.reconcile()
        except (Unavailable, NotFound):
            return

    async def settle(self) -> None:
        """Run until nothing changes, with an API server that answers."""
        self.server.answers = "written"
        for _ in range(3):
            self.watch()
            await self.reconcile()
        self.watch()

    def events_of(self, reason: str) -> dict[str, str]:
        """Return the Events of each node."""
        return {
            events_of.about.name: events_of.message
            for events_of in self.ipam.events._waiting
            if events_of.reason == reason
        }


NAMES = st.sampled_from("abcdefg")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["add", "delete", "delete and add", "pod", "pod ends"]), NAMES),
    st.tuples(st.sampled_from(["watch", "watch", "reconcile", "reconcile", "restart"]), st.just("")),
    st.tuples(st.just("answers"), st.sampled_from(["away", "written", "written, but nobody hears"])),
)


AGAIN = [("add", "a"), ("watch", ""), ("answers", "away"), ("reconcile", ""), ("delete and add", "a")]


@example(AGAIN)
@given(st.lists(STEPS, max_size=40))
def test_every_node_gets_a_range_of_its_own_if_one_is_left(steps: list[tuple[str, str]]) -> None:
    """However Nodes are deleted or recreated, the controller restarts, and writes are lost: a node keeps its range, no
    other node or living Pod has it, and a node has none only if none is left."""
    asyncio.run(story(steps))


async def story(steps: list[tuple[str, str]]) -> None:
    scene = Scene()
    server = scene.server
    had: dict[str, str] = {}
    for what, which in steps:
        if what == "add" and which not in server.nodes:
            server.add_node(which)
        elif what.startswith("delete") and which in server.nodes:
            del server.nodes[which]
            if what == "delete and add":
                server.add_node(which)
        elif what == "pod" and which in server.nodes and server.range_of(which):
            server.add_pod(which, which, server.range_of(which).replace(".0/24", ".2"))
        elif what == "pod ends":
            server.pods.pop(which, None)
        elif what == "answers":
            server.answers = which
        elif what == "watch":
            scene.watch()
        elif what == "restart":
            scene.restart()
        elif what == "reconcile":
            await scene.reconcile()
        had = check(scene, had)
    await scene.settle()
    check(scene, had)
    ranges = {server.range_of(name) for name in server.nodes} - {""}
    held = {pod["status"]["podIP"].replace(".2", ".0/24") for pod in server.pods.values()}
    without = {name for name in server.nodes if not server.range_of(name)}
    assert not without or len(ranges | held) == 4, (ranges, held)
    assert without <= set(scene.events_of("CIDRNotAvailable"))


def check(scene: Scene, had: Mapping[str, str]) -> dict[str, str]:
    server = scene.server
    has = {node["metadata"]["uid"]: server.range_of(name) for name, node in server.nodes.items()}
    given = [cidr for cidr in has.values() if cidr]
    assert len(set(given)) == len(given), given
    assert all(IPv4Network(cidr).subnet_of(CLUSTER) for cidr in given)
    assert all(has[uid] == cidr for uid, cidr in had.items() if cidr and uid in has), (had, has)
    for name, node in server.nodes.items():
        uid = node["metadata"]["uid"]
        if has[uid] and not had.get(uid):
            there = {p["spec"]["nodeName"] for p in server.pods.values() if p["status"]["podIP"][:8] == has[uid][:8]}
            assert there <= {name}, f"{name} got {has[uid]}, where Pods of {there} are"
    return has


async def test_a_range_with_living_pods_is_kept_for_their_node() -> None:
    """A Node that is deleted and recreated under its Pods gets their range again; no other node does."""
    scene = Scene(IPv4Network("10.244.0.0/23"))
    scene.server.add_node("a")
    await scene.settle()
    scene.server.add_pod("p", "a", "10.244.0.7")
    del scene.server.nodes["a"]
    scene.server.add_node("b")
    scene.server.add_node("c")
    await scene.settle()
    assert scene.server.range_of("b") == "10.244.1.0/24"
    assert scene.server.range_of("c") == ""
    assert scene.events_of("CIDRNotAvailable") == {
        "c": "no range of Pod addresses is left: all 2 of /24 in 10.244.0.0/23 are in use; delete Nodes that are gone "
        "for good, or start `kaji up` with another --cluster-cidr"
    }
    del scene.server.nodes["c"]
    scene.server.add_node("a")
    await scene.settle()
    assert scene.server.range_of("a") == "10.244.0.0/24"


async def test_a_waiting_node_gets_a_range_when_its_last_pod_has_ended() -> None:
    """Its address was the last one in a deleted Node's range; a Pod on the node's own network holds none."""
    scene = Scene(IPv4Network("10.244.0.0/24"))
    scene.server.add_node("b")
    scene.server.add_pod("p", "a", "10.244.0.7")
    scene.server.add_pod("q", "a", "10.244.0.8", hostNetwork=True)
    await scene.settle()
    scene.ipam._wake.clear()
    scene.server.pods.pop("p")
    scene.watch()
    assert scene.ipam._wake.is_set(), "it looks again"
    await scene.settle()
    assert scene.server.range_of("b") == "10.244.0.0/24"


async def test_nodes_with_the_same_range_get_an_event() -> None:
    """A range can't be changed, whichever program assigned it."""
    scene = Scene()
    scene.server.add_node("a", "10.244.0.0/24")
    await scene.settle()
    scene.server.add_node("b", "10.244.0.128/25", "fd00::/64")
    await scene.settle()
    assert scene.events_of("CIDRInUse") == {
        "b": "its Pod range (10.244.0.128/25, fd00::/64) overlaps that of a: delete one of these Nodes, and "
        "start it again without --pod-cidr, or with another"
    }


@pytest.mark.parametrize(
    ("cidr", "taken"),
    [
        ("10.244.1.0/24", {1}),
        ("10.244.1.64/26", {1}),
        ("10.244.2.0/23", {2, 3}),
        ("10.0.0.0/8", {0, 1, 2, 3}),
        ("10.243.255.0/24", set()),
        ("10.244.4.0/24", set()),
        ("fd00::/64", set()),
        ("nonsense", set()),
    ],
)
def test_ranges_of_other_sizes_are_respected(cidr: str, taken: set[int]) -> None:
    """Another program assigned them, in the cluster's network or outside it."""
    ranges = NodeRanges(CLUSTER, 24)
    ranges.record("other", [cidr])
    given = {str(ranges.give(f"n{number}", {})) for number in range(4)} - {"None"}
    assert given == {f"10.244.{number}.0/24" for number in range(4) if number not in taken}


def test_a_released_range_is_not_reused_at_once() -> None:
    """Other machines may still remember its last owner."""
    ranges = NodeRanges(CLUSTER, 24)
    first = ranges.give("a", {})
    ranges.forget("a")
    assert ranges.give("b", {}) != first


def test_services_keep_their_addresses(tmp_path: Path) -> None:
    """A cluster whose Pod addresses would overlap those of Services does not start."""
    with pytest.raises(InvalidInput, match=r"--cluster-cidr: overlaps the addresses of Services, 10\.96\.0\.0/16"):
        asyncio.run(EmbeddedCluster(EmbeddedSettings(tmp_path / "data", cluster_cidr="10.96.0.0/12")).__aenter__())
    assert not list(tmp_path.iterdir())
