"""The parts of a running cluster, each in this process: an async context manager that starts and ends the part.

Parts as separate processes, which a test may kill, are in part_processes.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

from tests.harness.servers.kube_server import KubeServer
from tests.harness.waiting import PATIENCE_SECONDS

from kajitori.embedded.controller_manager import ControllerManager
from kajitori.embedded.kubelet.engine.detection import Engine
from kajitori.embedded.kubelet.eviction import available_memory_bytes
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.entrypoints.parts.run_adapter import RUN_WORKLOAD, RunPods
from kajitori.kube.client import KubeClient

HERE = "here"
"""Name of the node that is this machine."""

GPUS = 8
"""GPUs of a simulated node."""

GPU_PRODUCT = "NVIDIA-H100-80GB-HBM3"


class Part(Protocol):
    """Anything that works until an event is set."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        ...


@contextlib.asynccontextmanager
async def working(part: Part) -> AsyncIterator[asyncio.Task[None]]:
    """Run a part until the end of the context, which raises what the part raised. Yields its task."""
    stop = asyncio.Event()
    task = asyncio.create_task(part.run(stop))
    try:
        yield task
    finally:
        stop.set()
        await task


@contextlib.asynccontextmanager
async def embedded_controllers(client: KubeClient, folder: Path, **settings: Any) -> AsyncIterator[None]:
    """Run the scheduler and the controllers of the embedded cluster; volumes are folders in `folder`."""
    settings.setdefault("workload", RUN_WORKLOAD)
    async with working(ControllerManager(client, folder, **settings)):
        yield


@contextlib.asynccontextmanager
async def simulated_nodes(
    server: KubeServer, client: KubeClient, count: int, *, prefix: str = "gpu-", **settings: Any
) -> AsyncIterator[SimulatedNodes]:
    """Run `count` simulated nodes of eight GPUs each; yields once all of them are registered. Nodes that a test before
    left on a real server look ready earlier, and one that is deleted then is registered again."""
    shape: dict[str, Any] = {"gpus": GPUS, "gpu_product": GPU_PRODUCT, "heartbeat_seconds": 5.0}
    shape |= {"remove_not_ready_taint": True, "address": server.node_address} | settings
    nodes = SimulatedNodes(
        client, SimSettings(count=count, prefix=prefix, **shape), serving=server.kubelet_certificate("sim")
    )
    async with working(nodes) as task:
        await _started(task, nodes.ready, "the simulated nodes did not register")
        yield nodes


@contextlib.asynccontextmanager
async def process_kubelet(
    client: KubeClient,
    settings: KubeletSettings,
    *,
    available_memory: Callable[[], int] = available_memory_bytes,
    engine: Engine | None = None,
) -> AsyncIterator[Kubelet]:
    """Run this machine as a node; its Pods are processes. Yields once the node is registered.

    The processes end with the context. With an `engine`, Pods are its containers instead.
    """
    kubelet = Kubelet(client, settings, available_memory=available_memory, adapter=RunPods(), engine=engine)
    async with working(kubelet) as task:
        await _started(task, kubelet.registered, "the kubelet did not register")
        try:
            yield kubelet
        finally:
            if not task.done():
                await kubelet.end_all(1.0)


async def _started(task: asyncio.Task[None], event: asyncio.Event, otherwise: str) -> None:
    """Wait until a part says that it has started. Raises AssertionError if it ends or takes too long."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if not event.is_set():
        raise AssertionError(otherwise) from task.exception() if task.done() else None
