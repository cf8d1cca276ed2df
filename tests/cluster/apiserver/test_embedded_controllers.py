"""The embedded cluster's binder, simulated nodes and controllers, working together.

On the embedded API server, and on a real kube-apiserver without kube-scheduler and kube-controller-manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.binaries import require_binaries
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.real_server import RealServer, running_real_server
from tests.harness.waiting import PATIENCE_SECONDS, until

from kajitori import errors
from kajitori.embedded.controller_manager import ControllerManager
from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.embedded.simulator.former import remove_former_nodes
from kajitori.entrypoints.parts.run_adapter import RUN_WORKLOAD
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import BUDGETS, CLAIMS, ENDPOINT_SLICES, NODES, PERSISTENT_VOLUMES, PODS, SERVICES

pytestmark = pytest.mark.conformance

NS = "default"


@pytest.fixture(scope="module")
def own_server() -> Iterator[RealServer]:
    """A server for this module only: the node life cycle controller works on every node of a server."""
    require_binaries("kube-apiserver", "etcd")
    with running_real_server() as cluster:
        yield cluster


Server = tuple[KubeClient, tuple[Path, Path] | None]
"""A client, and the certificate and key of kubelets where the server checks them."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "real":
        real: RealServer = request.getfixturevalue("own_server")
        async with real.client() as client:
            yield client, None
        return
    async with embedded_server() as embedded, KubeClient(KubeConfig.from_file(embedded.kubeconfig)) as client:
        yield client, embedded.kubelet_certificate("sim")


async def test_nodes_that_are_not_simulated_any_more_are_removed(server: Server) -> None:
    """Else they are not ready for ever, and runs wait for them instead of being refused. Other nodes stay."""
    client, _ = server
    labels = {"former-a": {"of-up": "true"}, "former-b": {"of-up": "true"}, "former-real": {}}
    for name, of_node in labels.items():
        await client.create(NODES, {"metadata": {"name": name, "labels": of_node}})
    assert await remove_former_nodes(client, "of-up", {"former-a"}) == ["former-b"]
    left = {node["metadata"]["name"] for node in (await client.list(NODES)).items}
    assert left >= {"former-a", "former-real"} and "former-b" not in left
    for name in ("former-a", "former-real"):
        await client.delete(NODES, name)


class SmallCluster:
    """Two simulated nodes (4 cores each) and all controllers, for one test."""

    def __init__(self, server: Server, folder: Path) -> None:
        client, self.serving = server
        self.client = client
        self.folder = folder
        self.settings = SimSettings(count=2, prefix="sim-", cpu="4", heartbeat_seconds=0.3)
        self.sim = SimulatedNodes(client, self.settings, serving=self.serving)
        self.manager = ControllerManager(
            client, folder, grace_seconds=2.0, quarantine_seconds=0.5, workload=RUN_WORKLOAD
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[SmallCluster]:
        stop, stop_sim = asyncio.Event(), asyncio.Event()
        self._stop_sim = stop_sim
        self._sim_task = asyncio.create_task(self.sim.run(stop_sim))
        task = asyncio.create_task(self.manager.run(stop))
        try:
            await asyncio.wait_for(self.sim.ready.wait(), PATIENCE_SECONDS)
            for name in self.sim.numbers:
                await until(functools.partial(self._has_no_taints, name))
            yield self
        finally:
            stop.set()
            self._stop_sim.set()
            await asyncio.gather(task, self._sim_task)

    async def restart_sim(self) -> None:
        """Replace the simulator by a new one without any state, as after a kill."""
        self._stop_sim.set()
        await self._sim_task
        self.sim, self._stop_sim = SimulatedNodes(self.client, self.settings, serving=self.serving), asyncio.Event()
        self._sim_task = asyncio.create_task(self.sim.run(self._stop_sim))
        await asyncio.wait_for(self.sim.ready.wait(), PATIENCE_SECONDS)

    async def _has_no_taints(self, name: str) -> bool:
        return not (await self.client.get(NODES, name))["spec"].get("taints")

    async def pod(self, name: str, cpu: str = "100m", node: str = "", **annotations: str) -> None:
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": NS,
                "labels": {"app": "web"},
                "annotations": {f"sim.kajitori.dev/{k.replace('_', '-')}": v for k, v in annotations.items()},
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            },
        }
        if node:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            document["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        await self.client.create(PODS, document, NS)

    async def phase_is(self, name: str, phase: str) -> None:
        async def fulfilled() -> bool:
            return bool((await self.client.get(PODS, name, NS))["status"]["phase"] == phase)

        await until(fulfilled)

    async def is_gone(self, resource: Any, name: str, namespace: str | None = None) -> None:
        async def fulfilled() -> bool:
            try:
                await self.client.get(resource, name, namespace)
            except errors.NotFound:
                return True
            return False

        await until(fulfilled)


@pytest.fixture
async def cluster(server: Server, tmp_path: Path) -> AsyncIterator[SmallCluster]:
    client, _ = server
    async with SmallCluster(server, tmp_path / "volumes").running() as running:
        yield running
        await client.delete_collection(PODS, NS, label_selector="", grace_seconds=0)
        for name in running.sim.numbers:
            with contextlib.suppress(errors.NotFound):
                await client.delete(NODES, name)


def is_there(folder: Path) -> bool:
    return folder.is_dir()


def condition(thing: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((c for c in thing["status"].get("conditions", []) if c["type"] == kind), {})


async def test_pods_are_placed_run_and_end_as_annotated(cluster: SmallCluster) -> None:
    """One Pod has to run on a given node and gets an address and a log, one ends with an exit code, and one is
    deleted."""
    await cluster.pod("pinned", node="sim-00002")
    await cluster.pod("short", duration="1s", exit_code="3")
    await cluster.phase_is("pinned", "Running")
    pod = await cluster.client.get(PODS, "pinned", NS)
    assert pod["spec"]["nodeName"] == "sim-00002"
    assert pod["status"]["podIP"].startswith("10.0.2.")
    log = await cluster.client.open_log(NS, "pinned", container="")
    assert b"simulated" in b"".join([chunk async for chunk in log])
    await cluster.phase_is("short", "Failed")
    ended = (await cluster.client.get(PODS, "short", NS))["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 3
    await cluster.client.delete(PODS, "pinned", NS)
    await cluster.is_gone(PODS, "pinned", NS)


async def test_a_pod_that_does_not_fit_says_why_and_starts_later(cluster: SmallCluster) -> None:
    """The Pod starts without further action when there is room."""
    await cluster.pod("first", cpu="3", node="sim-00001")
    await cluster.phase_is("first", "Running")
    await cluster.pod("second", cpu="3", node="sim-00001")

    async def says_why() -> bool:
        scheduled = condition(await cluster.client.get(PODS, "second", NS), "PodScheduled")
        return "1 Insufficient cpu" in scheduled.get("message", "") and scheduled["reason"] == "Unschedulable"

    await until(says_why)
    await cluster.client.delete(PODS, "first", NS)
    await cluster.phase_is("second", "Running")
    assert condition(await cluster.client.get(PODS, "second", NS), "PodScheduled")["status"] == "True"


async def test_a_restarted_simulator_starts_no_pod_twice(cluster: SmallCluster) -> None:
    """Running Pods keep their start time and address. Pods whose time is over end."""
    await cluster.pod("long")
    await cluster.pod("timed", duration="2s")
    await cluster.phase_is("long", "Running")
    before = (await cluster.client.get(PODS, "long", NS))["status"]
    await cluster.restart_sim()
    await cluster.phase_is("timed", "Succeeded")
    after = (await cluster.client.get(PODS, "long", NS))["status"]
    assert after["podIP"] == before["podIP"]
    assert after["containerStatuses"] == before["containerStatuses"]


async def test_a_claim_gets_a_folder_with_its_first_pod_until_deletion(cluster: SmallCluster) -> None:
    """Claim and volume name each other. The folder is deleted with the claim, once no Pod uses it."""
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": NS},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }

    async def has_default_class() -> bool:
        with contextlib.suppress(errors.KajitoriError):
            made = await cluster.client.create(CLAIMS, body, dry_run=True)
            return bool(made["spec"].get("storageClassName") == "kajitori-local")
        return False

    await until(has_default_class)
    await cluster.client.create(CLAIMS, body)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "namespace": NS},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    await cluster.client.create(PODS, pod)
    await cluster.phase_is("user", "Running")
    claim = await cluster.client.get(CLAIMS, "data", NS)
    volume = await cluster.client.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
    folder = Path(volume["spec"]["hostPath"]["path"])
    assert folder.parent == cluster.folder
    assert is_there(folder)
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    await cluster.client.delete(CLAIMS, "data", NS)
    assert (await cluster.client.get(CLAIMS, "data", NS))["metadata"]["deletionTimestamp"]
    await cluster.client.delete(PODS, "user", NS)
    await cluster.is_gone(CLAIMS, "data", NS)
    await cluster.is_gone(PERSISTENT_VOLUMES, volume["metadata"]["name"])
    assert not is_there(folder)


async def test_endpoint_slices_and_budgets_follow_the_pods(cluster: SmallCluster) -> None:
    """The slices contain the ready endpoints of a headless Service, and the budgets the number of Pods that may be
    evicted."""
    service = {"selector": {"app": "web"}, "clusterIP": "None", "ports": [{"port": 80}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": NS}, "spec": service}
    await cluster.client.create(SERVICES, body)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "web", "namespace": NS}
    await cluster.client.create(
        BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
    )
    await cluster.pod("a")
    await cluster.pod("b")

    async def ready(count: int) -> bool:
        found = await cluster.client.list(ENDPOINT_SLICES, NS, label_selector="kubernetes.io/service-name=web")
        endpoints = [e for s in found.items for e in s.get("endpoints") or [] if e["conditions"]["ready"]]
        budget = (await cluster.client.get(BUDGETS, "web", NS)).get("status", {})
        return len(endpoints) == count and budget.get("disruptionsAllowed") == max(0, count - 1)

    await until(lambda: ready(2))
    await cluster.client.delete(PODS, "b", NS)
    await until(lambda: ready(1))
    await cluster.client.delete(SERVICES, "web", NS)
    await cluster.client.delete(BUDGETS, "web", NS)

    async def no_slices() -> bool:
        found = await cluster.client.list(ENDPOINT_SLICES, NS, label_selector="kubernetes.io/service-name=web")
        return not found.items

    await until(no_slices)


async def test_a_silent_node_is_marked_until_it_answers_again(cluster: SmallCluster) -> None:
    """The node is Unknown and tainted. Its Pods are not ready, and will be evicted later."""
    await cluster.pod("there", node="sim-00001")
    await cluster.phase_is("there", "Running")
    silent = {"metadata": {"annotations": {"sim.kajitori.dev/silent": "true"}}}
    await cluster.client.patch(NODES, "sim-00001", silent)

    async def given_up() -> bool:
        node = await cluster.client.get(NODES, "sim-00001")
        taints = {(t["key"], t["effect"]) for t in node["spec"].get("taints", [])}
        unreachable = "node.kubernetes.io/unreachable"
        pod = await cluster.client.get(PODS, "there", NS)
        return (
            condition(node, "Ready")["status"] == "Unknown"
            and taints == {(unreachable, "NoSchedule"), (unreachable, "NoExecute")}
            and condition(pod, "Ready")["status"] == "False"
        )

    await until(given_up)
    tolerations = (await cluster.client.get(PODS, "there", NS))["spec"]["tolerations"]
    assert {t["tolerationSeconds"] for t in tolerations} == {300}
    await cluster.client.patch(NODES, "sim-00001", {"metadata": {"annotations": {"sim.kajitori.dev/silent": None}}})

    async def back() -> bool:
        node = await cluster.client.get(NODES, "sim-00001")
        return condition(node, "Ready")["status"] == "True" and not node["spec"].get("taints")

    await until(back)


async def test_pods_of_a_deleted_node_are_collected(cluster: SmallCluster) -> None:
    """No kubelet is left to end these Pods."""
    await cluster.pod("orphan", node="sim-00002")
    await cluster.phase_is("orphan", "Running")
    await cluster.client.delete(NODES, "sim-00002")
    await cluster.is_gone(PODS, "orphan", NS)
