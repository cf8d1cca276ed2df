"""Two process kubelets on one machine, as nodes with their own ranges of Pod addresses.

The ranges come from the embedded cluster's controller or from a real kube-controller-manager with
`--allocate-node-cidrs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from tests.harness.binaries import require_binaries
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.real_server import RealServer
from tests.harness.waiting import PATIENCE_SECONDS, until

from kajitori.embedded.controller_manager import ControllerManager
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.errors import InvalidInput, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NODES, PODS

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None,
        reason="needs root (run as root), and ip on $PATH (apt-get install iproute2)",
    ),
]

NS = "default"
_NUMBER = os.getpid() % (20 * 8)
CLUSTER = IPv4Network(f"10.{228 + _NUMBER // 8}.{32 * (_NUMBER % 8)}.0/19")
"""A range that only this process uses, because other tests run on the same machine."""

SERVE = (
    "import socket\n"
    "server = socket.create_server(('', 8000))\n"
    "print('listens', flush=True)\n"
    "while True: s, (address, _) = server.accept(); s.sendall(address.encode()); s.close()\n"
)
CALL = "import socket, sys; s = socket.create_connection((sys.argv[1], 8000), 20); print(s.recv(99).decode())"


@pytest.fixture(params=["embedded", pytest.param("real", marks=[pytest.mark.real, pytest.mark.xdist_group("real")])])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KubeClient]:
    if request.param == "real":
        require_binaries("kube-controller-manager")
        real: RealServer = request.getfixturevalue("real_server")
        async with real.client() as client:
            for left in (await client.list(NODES)).items:  # the allocator does not start while nodes have other ranges
                await client.delete(NODES, left["metadata"]["name"])
        ranges = ("--allocate-node-cidrs", f"--cluster-cidr={CLUSTER}", "--node-cidr-mask-size=24")
        with real.controller_manager("--controllers=node-ipam-controller", *ranges):
            async with real.client() as client:
                yield client
        return
    async with embedded_server() as embedded, KubeClient(KubeConfig.from_file(embedded.kubeconfig)) as client:
        stop = asyncio.Event()
        managing = asyncio.create_task(ControllerManager(client, tmp_path / "volumes", cluster_cidr=CLUSTER).run(stop))
        yield client
        stop.set()
        await managing


@contextlib.asynccontextmanager
async def node(client: KubeClient, folder: Path, name: str, **settings: Any) -> AsyncIterator[Kubelet]:
    """A kubelet; its Pods and its Node are deleted at the end."""
    there = KubeletSettings(name, folder / name, address="127.0.0.1", pod_network="namespace", **settings)
    kubelet, stop = Kubelet(client, there), asyncio.Event()
    task = asyncio.create_task(kubelet.run(stop))
    try:
        yield kubelet
    finally:
        if not task.done():
            await client.delete_collection(PODS, NS, label_selector=f"on={name}", grace_seconds=1)
            await until(lambda: _gone(kubelet))
            stop.set()
        with contextlib.suppress(InvalidInput):
            await task
        await client.delete(NODES, name)


async def _gone(kubelet: Kubelet) -> bool:
    return not kubelet.workers


async def range_of(client: KubeClient, name: str) -> IPv4Network:
    """Wait until a node is ready and return its range."""

    async def ready() -> Any:
        with contextlib.suppress(LookupError, NotFound):
            found = await client.get(NODES, name)
            conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
            return found["spec"]["podCIDR"] if conditions["Ready"] == "True" else None

    return IPv4Network(await until(ready))


async def run(client: KubeClient, name: str, node: str, *command: str, until_phase: str) -> dict[str, Any]:
    """Create a Pod and return its status once it has reached that phase."""
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "any", "command": list(command)}],
    }
    meta = {"name": name, "namespace": NS, "labels": {"on": node}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    await client.create(PODS, body, NS)

    async def there() -> Any:
        status = (await client.get(PODS, name, NS))["status"]
        return status if status["phase"] == until_phase else None

    found: dict[str, Any] = await until(there)
    return found


async def test_pods_of_two_nodes_reach_each_other(client: KubeClient, tmp_path: Path) -> None:
    """The Pods have different addresses, and each sees the address of the other one. A node whose range contains theirs
    is refused."""
    async with node(client, tmp_path, "one") as one, node(client, tmp_path, "two"):
        ranges = {await range_of(client, name) for name in ("one", "two")}
        assert len(ranges) == 2
        assert ranges <= set(CLUSTER.subnets(new_prefix=24)), ranges
        served = await run(client, "serves", "one", sys.executable, "-c", SERVE, until_phase="Running")
        log = next((one.settings.root_dir / "logs").glob("*_serves_*/main/0.log"))
        await until(lambda: asyncio.to_thread(lambda: "listens" in log.read_text()))
        calls = [sys.executable, "-c", CALL, served["podIP"]]
        called = await run(client, "calls", "two", *calls, until_phase="Succeeded")
        said = next((tmp_path / "two" / "logs").glob("*_calls_*/main/0.log")).read_text().split()[-1]
        assert said == called["podIP"], "nobody stands between them"
        assert served["podIP"] != called["podIP"]
        there = KubeletSettings("three", tmp_path / "three", pod_network="namespace", pod_cidr=str(CLUSTER))
        with pytest.raises(InvalidInput, match=r"--pod-cidr: node (one|two) has the Pod range .*\."):
            await asyncio.wait_for(Kubelet(client, there).run(asyncio.Event()), PATIENCE_SECONDS)
