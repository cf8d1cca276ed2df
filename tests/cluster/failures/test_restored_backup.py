"""Nodes of an API server that is restored from a backup: its resource versions go back."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import PATIENCE_SECONDS, until

from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NODES, PODS

NS = "default"
HERE, SIM = "here", "sim-1"


class Scene:
    """A server that is stopped and started while its nodes run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = EmbeddedSettings(folder / "cluster", port=free_port())
        self.client: KubeClient
        self.kubelet: Kubelet

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Scene]:
        stop = asyncio.Event()
        self._server = await EmbeddedCluster(self.settings).__aenter__()
        async with KubeClient(self._server.client_config()) as self.client:
            self.kubelet = Kubelet(self.client, KubeletSettings(HERE, self.folder / "kubelet", address="127.0.0.1"))
            sim = SimulatedNodes(self.client, SimSettings(count=1, digits=1))
            nodes = [asyncio.create_task(self.kubelet.run(stop)), asyncio.create_task(sim.run(stop))]
            self.nodes, self._stop = nodes, stop
            await asyncio.wait_for(asyncio.gather(self.kubelet.registered.wait(), sim.ready.wait()), PATIENCE_SECONDS)
            try:
                yield self
            finally:
                for worker in self.kubelet.workers.values():
                    worker.removed()
                await until(self._nothing_runs)
                stop.set()
                await asyncio.gather(*nodes)
                await self._server.__aexit__(None, None, None)

    async def join(self, *more: SimSettings) -> None:
        """Add further simulated nodes."""
        for settings in more:
            sim = SimulatedNodes(self.client, settings)
            self.nodes.append(asyncio.create_task(sim.run(self._stop)))
            await asyncio.wait_for(sim.ready.wait(), PATIENCE_SECONDS)

    async def _nothing_runs(self) -> bool:
        return not self.kubelet.workers

    async def restart(self, *, backup: bool = False, restore: bool = False) -> None:
        """Restart the server with its data; `backup` copies them before, `restore` replaces them by that copy."""
        await self._server.__aexit__(None, None, None)
        data, copy = self.settings.folder / "objects", self.folder / "backup"
        if restore:
            await asyncio.to_thread(shutil.rmtree, data)
            await asyncio.to_thread(copy.rename, data)
        if backup:
            await asyncio.to_thread(shutil.copytree, data, copy)
        self._server = await EmbeddedCluster(self.settings).__aenter__()

    async def run(self, name: str, node: str, script: str = "") -> None:
        spec = {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "any", "command": ["sh", "-c", script]}],
        }
        meta = {"name": name, "namespace": NS}
        await self.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, NS)

    async def phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait until a Pod is in that phase and return its status."""

        async def there() -> Any:
            status = (await self.client.get(PODS, name, NS))["status"]
            return status if status.get("phase") == phase else None

        found: dict[str, Any] = await until(there, f"{name} is {phase}")
        return found

    async def is_gone(self, name: str) -> bool:
        with contextlib.suppress(NotFound):
            await self.client.get(PODS, name, NS)
            return False
        return True

    async def end(self, name: str) -> None:
        """Let a simulated Pod end now."""
        patch = {"metadata": {"annotations": {"sim.kajitori.dev/duration": "0s"}}}
        await self.client.patch(PODS, name, patch, NS)

    def output_of(self, name: str) -> list[str]:
        """Return the lines that the Pod's program wrote."""
        files = (self.folder / "kubelet" / "logs").glob(f"*_{name}_*/main/*.log")
        return [line.split(" ", 3)[-1] for file in files for line in file.read_text().splitlines()]


async def test_nodes_continue_with_the_state_of_the_backup(tmp_path: Path) -> None:
    """Ended Pods are reported again and not started again, and running ones continue. Pods that are newer than the
    backup are ended, and Pods that were deleted after it are marked as lost. Nodes that joined after it join again, and
    all nodes receive later changes."""
    async with Scene(tmp_path).running() as scene:
        gate, starts = tmp_path / "gate", tmp_path / "starts"
        await scene.run("ends", HERE, f"echo once >>{starts}; until [ -e {gate} ]; do sleep 0.05; done")
        for name in ("stays", "leaves"):
            await scene.run(name, HERE, "echo $$$$; exec sleep 1000")
        for name in ("sim-ends", "sim-stays", "sim-leaves"):
            await scene.run(name, SIM)
        for name in ("ends", "stays", "leaves", "sim-ends", "sim-stays", "sim-leaves"):
            await scene.phase(name, "Running")
        await scene.restart(backup=True)
        await scene.join(SimSettings(count=1, digits=1, prefix="joined-"))
        gate.touch()
        await scene.phase("ends", "Succeeded")
        await scene.end("sim-ends")
        await scene.phase("sim-ends", "Succeeded")
        for name in ("leaves", "sim-leaves"):
            await scene.client.delete(PODS, name, NS, grace_seconds=1)
            await until(partial(scene.is_gone, name), f"{name} is gone")
        for name, node in (("since", HERE), ("sim-since", SIM)):
            await scene.run(name, node, "echo $$$$; exec sleep 1000")
            await scene.phase(name, "Running")
        before = await scene.phase("stays", "Running")
        pids = {name: int(scene.output_of(name)[-1]) for name in ("stays", "since")}
        await scene.client.patch(NODES, HERE, {"metadata": {"labels": {"many": "more"}}})

        await scene.restart(restore=True)
        await scene.phase("ends", "Succeeded")
        assert starts.read_text() == "once\n"
        await until(lambda: asyncio.to_thread(lambda: not psutil.pid_exists(pids["since"])), "since is ended")
        after = await scene.phase("stays", "Running")
        assert after["containerStatuses"] == before["containerStatuses"]
        assert psutil.pid_exists(pids["stays"])
        lost = await scene.phase("leaves", "Failed")
        assert lost["reason"] == "ContainerStatusUnknown", "it ran, and nobody knows how it ended"
        assert len(scene.output_of("leaves")) <= 1, "it is not begun anew"
        await scene.phase("sim-leaves", "Running")
        for name in ("sim-ends", "sim-stays"):
            await scene.end(name)
            await scene.phase(name, "Succeeded")
        await scene.client.delete(PODS, "stays", NS, grace_seconds=1)
        await until(lambda: scene.is_gone("stays"), "it is deleted")
        await scene.run("joined-since", "joined-1")
        await scene.phase("joined-since", "Running")
        assert not psutil.pid_exists(pids["stays"])
