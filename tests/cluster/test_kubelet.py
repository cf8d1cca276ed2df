"""The process kubelet as a node of the embedded and of a real API server: kubectl sees no difference."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.apiserver import embedded_apiserver
from tests.helpers.certificates import client_certificate
from tests.helpers.platform import kubectl_binary
from tests.helpers.real_cluster import RealCluster, require_binaries, running_cluster

from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.resources import NODES, PODS

BOUND_SECONDS = 60.0


REAL = {"websocket": "true", "spdy": "false"}
"""ExtendWebSocketsToKubelet: from 1.36 on exec is passed on as WebSocket; before, it was translated to SPDY."""


@pytest.fixture(scope="module", params=["embedded", *(pytest.param(name, marks=pytest.mark.real) for name in REAL)])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RealCluster, Path] | None]:
    """A real server and the authority of its client certificate; None for the embedded one."""
    if request.param == "embedded":
        yield None
        return
    require_binaries("kube-apiserver", "etcd")
    folder = tmp_path_factory.mktemp("pki")
    authority = client_certificate(folder)
    with running_cluster(
        f"--kubelet-client-certificate={folder}/client.crt",
        f"--kubelet-client-key={folder}/client.key",
        f"--feature-gates=ExtendWebSocketsToKubelet={REAL[request.param]}",
    ) as running:
        yield running, authority


class Node:
    def __init__(self, kubeconfig: Path, client: KubeClient, kubelet: Kubelet) -> None:
        self.kubeconfig = kubeconfig
        self.client = client
        self.kubelet = kubelet

    async def start(self, *args: str, has_input: bool = False) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            kubectl_binary(),
            f"--kubeconfig={self.kubeconfig}",
            *args,
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def kubectl(self, *args: str, stdin: bytes | None = None, code: int = 0) -> str:
        process = await self.start(*args, has_input=stdin is not None)
        out, err = await asyncio.wait_for(process.communicate(stdin), BOUND_SECONDS)
        assert process.returncode == code, (args, out, err)
        return (out + err).decode(errors="replace") if code else out.decode(errors="replace")

    async def run(self, name: str, *command: str, **spec: Any) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeName": self.kubelet.settings.node_name,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "any", "command": list(command)} | spec],
            },
        }
        await self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest).encode())

    async def wait(self, name: str, condition: str) -> None:
        await self.kubectl("wait", f"--for={condition}", f"pod/{name}", f"--timeout={BOUND_SECONDS:.0f}s")


ANY_SERVER = pytest.mark.parametrize(
    "cluster", ["embedded", pytest.param("websocket", marks=pytest.mark.real)], indirect=True
)
"""For what is passed on the same way by both."""


@pytest.fixture
async def node(cluster: tuple[RealCluster, Path] | None, tmp_path: Path) -> AsyncIterator[Node]:
    kubectl_binary()  # else it is skipped
    if cluster is not None:
        running, authority = cluster
        server = ServerSettings(client_ca=authority)
        async for node in _node(running.config, running.kubeconfig, server, tmp_path):
            yield node
        return
    async with embedded_apiserver() as embedded:
        config = KubeConfig.from_file(embedded.kubeconfig)
        # As one that joined by hand: with a certificate of its own, and nobody told it whose clients to believe.
        async for node in _node(config, embedded.kubeconfig, ServerSettings(), tmp_path):
            yield node


async def _node(config: KubeConfig, kubeconfig: Path, server: ServerSettings, folder: Path) -> AsyncIterator[Node]:
    async with KubeClient(config) as client:
        kubelet = Kubelet(client, KubeletSettings("node", folder / "kubelet", server=server))
        stop = asyncio.Event()
        task = asyncio.create_task(kubelet.run(stop))
        registered = asyncio.create_task(kubelet.registered.wait())
        await asyncio.wait({task, registered}, return_when=asyncio.FIRST_COMPLETED)
        node = Node(kubeconfig, client, kubelet)
        yield node
        await node.kubectl("delete", "pods", "--all", "--wait=true", "--grace-period=1")
        stop.set()
        await task
        await client.delete(NODES, "node")


@ANY_SERVER
async def test_node(node: Node) -> None:
    """The node is Ready, without the taint that only a node lifecycle controller would take away elsewhere."""
    await node.kubectl("wait", "--for=condition=Ready", "node/node", "--timeout=60s")
    found = await node.client.get(NODES, "node")
    assert not found["spec"].get("taints")
    assert found["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.36")


@ANY_SERVER
async def test_logs(node: Node, tmp_path: Path) -> None:
    """`kubectl logs`, followed to the end and from the end."""
    gate = tmp_path / "gate"
    script = f"echo line 1; until [ -e {gate} ]; do sleep 0.1; done; echo line 2; echo line 3"
    await node.run("p", "/bin/sh", "-c", script)
    await node.wait("p", "jsonpath={.status.phase}=Running")
    following = await node.start("logs", "-f", "p")
    assert following.stdout is not None
    first = await asyncio.wait_for(following.stdout.readline(), BOUND_SECONDS)
    gate.touch()
    rest, err = await asyncio.wait_for(following.communicate(), BOUND_SECONDS)
    assert (first + rest, err) == (b"line 1\nline 2\nline 3\n", b"")
    await node.wait("p", "jsonpath={.status.phase}=Succeeded")
    assert await node.kubectl("logs", "--tail=1", "p") == "line 3\n"


async def test_exec(node: Node) -> None:
    """`kubectl exec`: output, exit code, input to its end, and a missing program."""
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    assert await node.kubectl("exec", "p", "--", "echo", "hello") == "hello\n"
    said = await node.kubectl("exec", "p", "--", "/bin/sh", "-c", "echo oops >&2; exit 7", code=7)
    assert "oops" in said
    assert await node.kubectl("exec", "-i", "p", "--", "cat", stdin=b"data") == "data"
    data = b"x" * (3 << 20)
    assert (await node.kubectl("exec", "-i", "p", "--", "wc", "-c", stdin=data)).strip() == str(len(data))
    assert len(await node.kubectl("exec", "p", "--", "head", "-c", "3000000", "/dev/zero")) == 3_000_000
    assert "no-such-program" in await node.kubectl("exec", "p", "--", "no-such-program", code=127)


@ANY_SERVER
async def test_failures(node: Node) -> None:
    """Exit codes and the reason for an OOM kill stand where kubectl looks for them."""
    await node.run("fails", "/bin/sh", "-c", "exit 3")
    await node.wait("fails", "jsonpath={.status.phase}=Failed")
    pod = await node.client.get(PODS, "fails", "default")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


@ANY_SERVER
async def test_delete(node: Node) -> None:
    """A Pod that obeys SIGTERM goes, and its object with it."""
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    await node.kubectl("delete", "pod", "p", "--wait=true")
    deadline = time.monotonic() + BOUND_SECONDS
    while node.kubelet.workers:
        assert time.monotonic() < deadline, node.kubelet.workers
        await asyncio.sleep(0.01)
