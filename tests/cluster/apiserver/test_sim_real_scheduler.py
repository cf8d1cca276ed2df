"""Simulated nodes under a real kube-scheduler, and beside a real kube-controller-manager."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.binaries import require_binaries
from tests.harness.servers.real_server import RealServer

from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NODES, PODS

pytestmark = pytest.mark.real

NS = "default"
PATIENCE_SECONDS = 60.0


@contextlib.asynccontextmanager
async def simulated(server: RealServer, settings: SimSettings) -> AsyncIterator[KubeClient]:
    async with server.client() as client:
        sim, stop = SimulatedNodes(client, settings), asyncio.Event()
        task = asyncio.create_task(sim.run(stop))
        try:
            await asyncio.wait_for(sim.ready.wait(), PATIENCE_SECONDS)
            yield client
        finally:
            stop.set()
            await task
            await client.delete_collection(PODS, NS, label_selector="", grace_seconds=0)
            for node in (await client.list(NODES)).items:
                if node["metadata"]["name"].startswith(settings.prefix):
                    await client.delete(NODES, node["metadata"]["name"])


async def running_pods(client: KubeClient, count: int, **spec: Any) -> list[dict[str, Any]]:
    """Create Pods that fit on any node and wait until all of them run."""
    for i in range(count):
        limits = {"nvidia.com/gpu": "4"}
        main = {"name": "main", "image": "i", "resources": {"limits": limits}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i}", "namespace": NS},
            "spec": {"automountServiceAccountToken": False, "containers": [main], **spec},
        }
        await client.create(PODS, body)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        pods = (await client.list(PODS, NS)).items
        if len(pods) == count and all(pod["status"]["phase"] == "Running" for pod in pods):
            return pods
        assert time.monotonic() < deadline, [pod["status"] for pod in pods]
        await asyncio.sleep(0.1)


async def test_kube_scheduler_places_pods_on_simulated_nodes(real_server: RealServer) -> None:
    """Without kube-controller-manager, the simulator itself removes the taint of new nodes."""
    require_binaries("kube-scheduler")
    settings = SimSettings(count=3, prefix="gpu-", gpus=8, gpu_product="H100", remove_not_ready_taint=True)
    with real_server.scheduler():
        async with simulated(real_server, settings) as client:
            pods = await running_pods(client, 6, nodeSelector={"nvidia.com/gpu.product": "H100"})
            assert {pod["spec"]["nodeName"] for pod in pods} == {"gpu-00001", "gpu-00002", "gpu-00003"}
            assert len({pod["status"]["podIP"] for pod in pods}) == 6


async def test_kube_controller_manager_finds_simulated_nodes_healthy(real_server: RealServer) -> None:
    """It removes the taint of new nodes, and all Pods can be deleted."""
    require_binaries("kube-scheduler", "kube-controller-manager")
    settings = SimSettings(count=2, prefix="gpu-", gpus=8, heartbeat_seconds=1.0)
    with real_server.scheduler(), real_server.controller_manager():
        async with simulated(real_server, settings) as client:
            await running_pods(client, 2)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while any(node["spec"].get("taints") for node in (await client.list(NODES)).items):
                assert time.monotonic() < deadline  # both Pods may be on the first node without a taint
                await asyncio.sleep(0.1)
            await client.delete_collection(PODS, NS, label_selector="", grace_seconds=2)
            while (await client.list(PODS, NS)).items:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)
