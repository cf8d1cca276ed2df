"""A process kubelet as the node of an embedded or a real API server, and kubectl for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.certificates import client_certificate
from tests.harness.embedded_server import embedded_server
from tests.harness.local_cluster import kubectl_binary
from tests.harness.real_server import RealServer, require_binaries, running_real_server

from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.resources import NODES

BOUND_SECONDS = 60.0


REAL = {"websocket": "true", "spdy": "false"}
"""ExtendWebSocketsToKubelet: from 1.36 on streams are passed on as WebSocket; before, they were translated to SPDY."""


@pytest.fixture(scope="module", params=["embedded", *(pytest.param(name, marks=pytest.mark.real) for name in REAL)])
def kubelet_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RealServer, Path] | None]:
    """A real server and the authority of its client certificate; None for the embedded one."""
    if request.param == "embedded":
        yield None
        return
    require_binaries("kube-apiserver", "etcd")
    folder = tmp_path_factory.mktemp("pki")
    authority = client_certificate(folder)
    with running_real_server(
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

    async def start(
        self, *args: str, has_input: bool = False, env: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.command(*args),
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )

    def command(self, *args: str) -> list[str]:
        return [kubectl_binary(), f"--kubeconfig={self.kubeconfig}", *args]

    async def kubectl(
        self, *args: str, stdin: bytes | None = None, code: int = 0, env: Mapping[str, str] | None = None
    ) -> str:
        process = await self.start(*args, has_input=stdin is not None, env=env)
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
    "kubelet_server", ["embedded", pytest.param("websocket", marks=pytest.mark.real)], indirect=True
)
"""For what is passed on the same way by both."""


@pytest.fixture
async def node(kubelet_server: tuple[RealServer, Path] | None, tmp_path: Path) -> AsyncIterator[Node]:
    kubectl_binary()  # else it is skipped
    if kubelet_server is not None:
        running, authority = kubelet_server
        server = ServerSettings(client_ca=authority)
        async for node in _node(running.config, running.kubeconfig, server, tmp_path):
            yield node
        return
    async with embedded_server() as embedded:
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
