"""Client, watch and mirror work the same on the embedded API server and on a real one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.kube_server import USERS, KubeServer
from tests.harness.servers.real_server import RealServer
from tests.harness.waiting import until

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.mirror.usage import NodeUsage
from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.run_object import RUNS
from kajitori.kube.client import KubeClient
from kajitori.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
    UnsupportedError,
)
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCES, NODES, PODS, Resource
from kajitori.kube.watch import WatchSettings

pytestmark = pytest.mark.conformance


@pytest.fixture
async def client(kube_server: KubeServer) -> AsyncIterator[KubeClient]:
    async with kube_server.client() as client:
        yield client


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Pod with one container that requests half a core."""
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    containers = [{"name": "main", "image": "example.com/image", "resources": requests}]
    meta = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


async def node(client: KubeClient, name: str) -> None:
    """Create a Node that is ready."""
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "well"}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "conditions": [ready]}
    await client.patch(NODES, name, {"status": status}, kind=PatchKind.STRATEGIC, subresource="status")


async def test_every_verb(client: KubeClient, own_namespace: str) -> None:
    """Create, read, list, change in four ways, delete."""
    ns = own_namespace
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    await client.create(CONFIG_MAPS, body, ns, dry_run=True)
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "c", ns)
    made = await client.create(CONFIG_MAPS, body, ns)
    await client.replace(CONFIG_MAPS, made | {"data": {"a": "2"}})
    await client.patch(CONFIG_MAPS, "c", {"data": {"b": "3"}}, ns)
    await client.patch(CONFIG_MAPS, "c", [{"op": "add", "path": "/data/c", "value": "4"}], ns, kind=PatchKind.JSON)
    await client.patch(CONFIG_MAPS, "c", {"data": {"d": "5"}}, ns, kind=PatchKind.STRATEGIC)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"e": "6"}}
    await client.patch(CONFIG_MAPS, "c", applied, ns, kind=PatchKind.APPLY)
    found = await client.get(CONFIG_MAPS, "c", ns)
    assert found["data"] == {"a": "2", "b": "3", "c": "4", "d": "5", "e": "6"}
    await client.delete(CONFIG_MAPS, "c", ns, uid=found["metadata"]["uid"])
    listing = await client.list(CONFIG_MAPS, ns, field_selector="metadata.name=c")
    assert listing.items == []


async def test_each_refusal_has_its_own_error_type(client: KubeClient, own_namespace: str) -> None:
    """Both servers cause the same types of errors."""
    ns = own_namespace
    made = await client.create(PODS, pod("x"), ns)
    with pytest.raises(AlreadyExistsError):
        await client.create(PODS, pod("x"), ns)
    with pytest.raises(InvalidError) as invalid:
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Bad_"}, "spec": {}}, ns)
    assert {"metadata.name", "spec.containers"} <= {fault.field for fault in invalid.value.faults}
    await client.patch(PODS, "x", {"metadata": {"labels": {"new": "1"}}}, ns)
    with pytest.raises(ConflictError):
        await client.replace(PODS, made)
    with pytest.raises(ConflictError):
        await client.delete(PODS, "x", ns, uid="00000000-0000-4000-8000-000000000000")
    with pytest.raises(NotFoundError):
        await client.get(PODS, "y", ns)
    with pytest.raises(NotFoundError, match="does not serve"):
        await client.list(Resource("nobody.example", "v1", "things", "Thing"), ns)
    with pytest.raises(UnsupportedError):
        await client.request("PATCH", f"/api/v1/namespaces/{ns}/pods", body={})
    async with KubeClient(client.config.with_token("wrong")) as stranger:
        with pytest.raises(UnauthorizedError):
            await stranger.get(PODS, "x", ns)


async def test_lists_come_in_pages(client: KubeClient, own_namespace: str) -> None:
    """More objects than a page holds are all listed, each once."""
    await asyncio.gather(*(client.create(PODS, pod(f"p{number}"), own_namespace) for number in range(12)))
    listing = await client.list(PODS, own_namespace, page_size=5, type=Pod)
    assert sorted(found.metadata.name for found in listing.items) == sorted(f"p{number}" for number in range(12))
    chosen = await client.list(PODS, own_namespace, label_selector="app in (p1,p2)", type=Pod)
    assert [found.metadata.name for found in chosen.items] == ["p1", "p2"]


async def test_the_mirror_shows_every_change(client: KubeClient, own_namespace: str) -> None:
    """Nodes and Pods, binding, status and deletion, and the resources that Pods use on a node."""
    ns, name = own_namespace, f"node-{own_namespace}"
    changed = asyncio.Event()
    mirror = Mirror(client, [NODES, PODS])
    mirror.on_change(lambda resource, namespace, name: changed.set())

    async with mirror:
        await mirror.wait_synced()
        await node(client, name)
        await asyncio.gather(*(client.create(PODS, pod(f"p{number}"), ns) for number in range(3)))
        await client.bind("p0", ns, name)
        await client.bind("p1", ns, name)
        await until(lambda: mirror.usage_of(name) == NodeUsage(1000, 2**31, 2), changed=changed)
        await until(lambda: name in mirror.nodes and mirror.nodes[name].is_ready, changed=changed)
        assert (await client.get(NODES, name, type=Node)).status.allocatable == mirror.nodes[name].status.allocatable
        await client.patch(PODS, "p0", {"status": {"phase": "Succeeded"}}, ns, subresource="status")
        await until(lambda: mirror.usage_of(name) == NodeUsage(500, 2**30, 1), changed=changed)
        await client.delete_collection(PODS, ns, label_selector="app in (p0,p1)", grace_seconds=0)
        await until(lambda: mirror.pods_on_node(name) == [], changed=changed)
        await until(lambda: [key for key in mirror.pods if key[0] == ns] == [(ns, "p2")], changed=changed)
        await client.delete(NODES, name)
        await until(lambda: name not in mirror.nodes, changed=changed)


@pytest.mark.real
@pytest.mark.xdist_group("real")
async def test_a_mirror_of_an_unknown_kind_says_so(real_server: RealServer) -> None:
    """Without the custom resource definition, a mirror of Runs ends with a typed error and a hint."""
    async with real_server.client() as client:
        await without_runs(client)
        async with Mirror(client, [RUNS]) as mirror:
            with pytest.raises(NotFoundError) as caught:
                await mirror.wait_synced()
    assert "custom resource definition" in caught.value.hint


async def without_runs(client: KubeClient) -> None:
    """Delete the definition of Runs, which another test of this worker may have installed. Tests that need it install
    it themselves."""
    with contextlib.suppress(NotFoundError):
        await client.delete(CUSTOM_RESOURCES, f"{RUNS.plural}.{RUNS.group}")
        while True:
            await client.get(CUSTOM_RESOURCES, f"{RUNS.plural}.{RUNS.group}")
            await asyncio.sleep(0.05)
    with contextlib.suppress(NotFoundError):
        while True:
            await client.list(RUNS)
            await asyncio.sleep(0.05)


@pytest.mark.real
@pytest.mark.xdist_group("real")
async def test_a_user_without_rights_is_refused(real_server: RealServer) -> None:
    """The server uses RBAC and knows the user."""
    async with real_server.client(USERS[0]) as client:
        with pytest.raises(ForbiddenError, match=USERS[0]):
            await client.list(PODS, "default")


@pytest.mark.real
@pytest.mark.xdist_group("real")
async def test_the_mirror_recovers_when_the_api_server_was_killed(real_server: RealServer) -> None:
    """SIGKILL during watches: the mirror continues by itself and shows what happened since."""
    settings = WatchSettings(base_seconds=0.1, cap_seconds=0.5)
    async with real_server.client() as client, Mirror(client, [PODS], settings=settings) as mirror:
        await mirror.wait_synced()
        real_server.restart_apiserver()  # this also blocks the event loop for a while, like a busy process
        changed = asyncio.Event()
        mirror.on_change(lambda resource, namespace, name: changed.set())
        await client.create(PODS, pod("afterwards"), "default")
        async with asyncio.timeout(60):
            while ("default", "afterwards") not in mirror.pods:
                await changed.wait()
                changed.clear()
        await client.delete(PODS, "afterwards", "default", grace_seconds=0)


async def has_default_account(client: KubeClient) -> bool:
    """Return whether the service account controller has made the account in the namespace `default`."""
    listing = await client.list(Resource("", "v1", "serviceaccounts", "ServiceAccount"), "default")
    return any(account["metadata"]["name"] == "default" for account in listing.items)


@pytest.mark.real
@pytest.mark.xdist_group("real")
async def test_scheduler_and_controller_manager_do_their_work(
    with_scheduler: RealServer, with_controller_manager: RealServer
) -> None:
    """A Pod gets a node, and a namespace gets its default service account."""
    async with with_scheduler.client() as client:
        await node(client, "scheduled-to")
        # Without a kubelet, the node lifecycle controller marks the node as not ready; the Pod tolerates that.
        anywhere = [{"operator": "Exists"}]
        await client.create(PODS, pod("wanderer", tolerations=anywhere), "default")
        async with asyncio.timeout(60), Mirror(client, [PODS]) as mirror:
            bound = asyncio.Event()
            mirror.on_change(lambda resource, namespace, name: bound.set())
            await mirror.wait_synced()
            while not mirror.pods[("default", "wanderer")].spec.node_name:
                await bound.wait()
                bound.clear()
            assert mirror.pods[("default", "wanderer")].spec.node_name == "scheduled-to"
        async with asyncio.timeout(60):
            while not await has_default_account(client):  # noqa: ASYNC110 - nothing to wait on
                await asyncio.sleep(0.2)
        await client.delete(PODS, "wanderer", "default", grace_seconds=0)
        await client.delete(NODES, "scheduled-to")
