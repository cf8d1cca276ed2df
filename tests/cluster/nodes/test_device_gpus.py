"""GPUs that a driver of dynamic resource allocation publishes: how they are counted, requested and released.

On the real API server kube-scheduler allocates the devices, on the embedded one its own scheduler. Slices and classes
are those of NVIDIA's driver.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.harness.cluster import Cluster
from tests.harness.waiting import until
from tests.helpers.gpus import nvidia_slices as nvidia
from tests.helpers.meddling_client import MeddlingClient

from kajitori.cluster.run_object import RUNS
from kajitori.cluster.view import ClusterView
from kajitori.core.naming import names
from kajitori.core.placement.snapshot import GPU
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.errors import NotFound
from kajitori.kube.resources import CLAIM_TEMPLATES, DEVICE_CLAIMS, DEVICE_CLASSES, PODS, RESOURCE_SLICES

A100 = "NVIDIA A100-SXM4-40GB"
SMALL = {"cpu": 1, "memory": "1Gi"}
FIRST, SECOND, THIRD = (f"dra-0000{number}" for number in (1, 2, 3))


@pytest.fixture
async def devices(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Three additional nodes without a device plugin. Each test publishes devices for them."""
    async with cluster.nodes("dra-", 3, gpus=0, gpu_product=""):
        ready = lambda: all(  # noqa: E731
            (node := cluster.mirror.nodes.get(name)) is not None and node.is_ready for name in (FIRST, SECOND, THIRD)
        )
        await cluster.until(ready, "the nodes are ready")
        try:
            yield cluster
        finally:
            await cluster.stop_controllers()
            for resource in (RESOURCE_SLICES, DEVICE_CLASSES):
                await cluster.client.delete_collection(resource, None, label_selector="")


async def publish(
    cluster: Cluster, node: str, devices: Sequence[Any], counters: Sequence[Any] = (), classes: Sequence[Any] = ()
) -> None:
    for found in classes:
        await cluster.client.create(DEVICE_CLASSES, found)
    for found in nvidia.slices(node, devices, counters):
        await cluster.client.create(RESOURCE_SLICES, found)
    await cluster.until(lambda: cluster.mirror.slices.get(f"{node}-gpu.nvidia.com-0"), "the slice is mirrored")
    wanted = {found["metadata"]["name"] for found in classes}
    await cluster.until(lambda: wanted <= cluster.mirror.device_classes.keys(), "the classes are mirrored")


def used(cluster: Cluster, view: ClusterView, node: str) -> dict[str, tuple[int, int]]:
    """Return used and all GPUs of a node by type."""
    table, snapshot = view.table(), view.occupancy.used()
    row = table.index[node]
    columns = {o.type: GPU if o.is_whole else table.gpu_column(o.type) for o in table.nodes[row].offers}
    return {word: (int(snapshot.used[row, at]), int(table.total[row, at])) for word, at in columns.items()}


def limits(cluster: Cluster, name: str) -> dict[str, str]:
    return dict(cluster.pods(name)[0].spec.containers[0].resources.limits)


@pytest.mark.conformance
async def test_a_gang_gets_devices_by_the_extended_resource(devices: Cluster) -> None:
    """The gang's Pods look like those for a device plugin, and the devices are counted once."""
    cluster, view = devices, ClusterView(devices.mirror, devices.policy)
    await publish(cluster, FIRST, [nvidia.gpu(i, A100) for i in range(4)], classes=nvidia.driver_classes())
    await publish(cluster, SECOND, [nvidia.gpu(i, A100) for i in range(4)])
    cluster.start_controller()
    await cluster.submit("bert", replicas=3, resources={**SMALL, "gpu": 2, "gpuType": "a100"})
    await cluster.reaches("bert", Phase.RUNNING)
    assert sorted(cluster.nodes_of("bert")) == [FIRST, FIRST, SECOND]
    assert limits(cluster, "bert")["nvidia.com/gpu"] == "2"
    assert not (await cluster.client.list(CLAIM_TEMPLATES, cluster.namespace)).items
    await cluster.until(lambda: used(cluster, view, FIRST) == {"a100": (4, 4)}, "four are used")
    assert used(cluster, view, SECOND) == {"a100": (2, 4)}
    await cluster.submit("large", replicas=2, resources={**SMALL, "gpu": 2, "gpuType": "a100"})
    waits = lambda: cluster.status("large").reason is Reason.WAITING_FOR_GPU  # noqa: E731
    await cluster.until(waits, "large waits")
    await cluster.succeed("bert")
    await cluster.reaches("large", Phase.RUNNING)


@pytest.mark.conformance
async def test_slices_and_shares_are_types_that_runs_name(devices: Cluster) -> None:
    """Without an extended resource, each run has a claim template, which is deleted with the run. Devices of foreign
    Pods count as used."""
    cluster, view = devices, ClusterView(devices.mirror, devices.policy)
    parts, counters = nvidia.partitionable(0)
    await publish(cluster, FIRST, parts, [counters], classes=nvidia.driver_classes(extended=False))
    await publish(cluster, SECOND, [nvidia.shared(nvidia.gpu(0, "NVIDIA L4"), 4)])
    await publish(cluster, THIRD, [nvidia.gpu(i, A100) for i in range(2)])
    await foreign_pod(cluster, THIRD)
    await cluster.until(lambda: used(cluster, view, THIRD) == {"a100": (1, 2)}, "the foreign Pod's is used")
    cluster.start_controller()
    runs = {"slices": (3, "h100-mig-1g.10gb"), "shares": (1, "l4-shared"), "whole": (1, "a100")}
    for name, (gpus, gpu_type) in runs.items():
        await cluster.submit(name, resources={**SMALL, "gpu": gpus, "gpuType": gpu_type})
    for name in runs:
        await cluster.reaches(name, Phase.RUNNING)
    assert [cluster.nodes_of(name) for name in runs] == [[FIRST], [SECOND], [THIRD]]
    expected = {"h100": (1, 1), "h100-mig-1g.10gb": (3, 7), "h100-mig-3g.40gb": (1, 2)}
    await cluster.until(lambda: used(cluster, view, FIRST) == expected, "the slices are used")
    assert used(cluster, view, SECOND) == {"l4-shared": (1, 4)}
    assert used(cluster, view, THIRD) == {"a100": (2, 2)}
    templates = {t["metadata"]["labels"][names.LABEL_RUN]: t for t in await templates_of(cluster)}
    assert templates.keys() == runs.keys()
    run = cluster.run("slices")
    assert run and templates["slices"]["metadata"]["ownerReferences"][0]["uid"] == run.metadata.uid
    assert "nvidia.com/gpu" not in limits(cluster, "slices")
    await cluster.client.delete(RUNS, "slices", cluster.namespace)
    await cluster.until(lambda: cluster.run("slices") is None, "slices is deleted")
    expected = {"h100": (0, 1), "h100-mig-1g.10gb": (0, 7), "h100-mig-3g.40gb": (0, 2)}
    await cluster.until(lambda: used(cluster, view, FIRST) == expected, "the slices are free")

    async def is_gone() -> bool:
        return "slices" not in {found["metadata"]["labels"][names.LABEL_RUN] for found in await templates_of(cluster)}

    await cluster.client.delete(PODS, "foreign", cluster.namespace)
    await cluster.until(lambda: used(cluster, view, THIRD) == {"a100": (1, 2)}, "its claim is released")
    if not cluster.server.is_real:  # a real garbage collector may take a minute
        await until(is_gone, "its template is deleted")


async def test_the_next_leader_creates_the_pods_of_a_killed_one(devices: Cluster) -> None:
    """The first leader was killed after it had created the claim template and before it created the Pods. Meanwhile the
    devices disappear and cannot be allocated: the attempt ends, and the run waits until the driver is back. A running
    gang continues when its slice disappears."""
    cluster = devices
    cluster.use_policy(start={"deadline": "10s", "pause": "1s", "longestPause": "1s"}, binding={"bind": "direct"})
    await publish(cluster, FIRST, [nvidia.gpu(0, A100)], classes=nvidia.driver_classes(extended=False))
    reached = asyncio.Event()

    async def never(pod: dict[str, Any]) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with MeddlingClient(cluster.server.controller_config, never) as client:
        first = cluster.start_controller(client=client)
        await cluster.submit("bert", resources={**SMALL, "gpu": 1, "gpuType": "a100"})
        await asyncio.wait_for(reached.wait(), 30)
        assert len(await templates_of(cluster)) == 1
        await cluster.kill_controller(first)
    await cluster.client.delete(RESOURCE_SLICES, f"{FIRST}-gpu.nvidia.com-0")
    await cluster.until(lambda: not cluster.mirror.slices, "the slice is gone")
    cluster.start_controller()
    await cluster.until(lambda: cluster.pods("bert"), "the Pod is created")
    pod = await cluster.client.get(PODS, "bert-1-0", cluster.namespace)
    assert "nodeName" not in pod["spec"], "only the scheduler can allocate devices"

    def tells_why() -> bool:
        """On a busy machine the first attempt may end before the scheduler has judged its Pod; later ones tell."""
        status = cluster.status("bert")
        is_told = "cannot allocate all claims" in status.message or "GPUs of type" in status.message
        return bool(status.failed_starts) and status.phase is Phase.QUEUED and is_told

    await cluster.until(tells_why, "the start fails for lack of devices")
    for found in nvidia.slices(FIRST, [nvidia.gpu(0, A100)]):
        await cluster.client.create(RESOURCE_SLICES, found)
    await cluster.reaches("bert", Phase.RUNNING)
    assert len(await templates_of(cluster)) == 1
    await cluster.client.delete(RESOURCE_SLICES, f"{FIRST}-gpu.nvidia.com-0")
    await cluster.until(lambda: not cluster.mirror.slices, "the slice is gone")
    await cluster.succeed("bert")
    await cluster.reaches("bert", Phase.SUCCEEDED)


async def templates_of(cluster: Cluster) -> list[Any]:
    found = (await cluster.client.list(CLAIM_TEMPLATES, cluster.namespace)).items
    return [one for one in found if names.LABEL_RUN in (one["metadata"].get("labels") or {})]


async def foreign_pod(cluster: Cluster, node: str) -> None:
    """Run a Pod with a claim of its own, as `kubectl apply` creates them."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]
    claim = {"apiVersion": nvidia.API_VERSION, "kind": "ResourceClaim", "metadata": {"name": "mine"}}
    await cluster.client.create(DEVICE_CLAIMS, claim | {"spec": {"devices": {"requests": requests}}}, cluster.namespace)
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"}, "spec": spec}
    with contextlib.suppress(NotFound):
        await cluster.client.create(PODS, body, cluster.namespace)
