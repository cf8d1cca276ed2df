"""This machine's kubelet as the only node of an embedded or a real API server, and kubectl for it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.binaries import kubectl_binary, require_binaries
from tests.harness.commands import kubectl, output_of
from tests.harness.engines import IMAGE, TestEngine, container_engine
from tests.harness.fixtures import REAL
from tests.harness.platform.parts import process_kubelet
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.kube_server import KubeServer
from tests.harness.servers.real_server import running_real_server
from tests.harness.servers.shared_servers import SHARED_SERVERS
from tests.harness.waiting import PATIENCE_SECONDS

from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NODES

SPDY_SERVER = (pytest.mark.real, pytest.mark.xdist_group("spdy"))
"""Marks of tests that share the server with SPDY to kubelets."""

NODE = "node"
PROGRAMS = tuple(dict.fromkeys(("/dev/shm", "/lib", "/lib64", "/tmp", "/usr", sys.base_prefix, sys.prefix)))
"""Folders of this machine that containers of an engine see, for tests whose programs are in Python."""


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param("websocket", marks=REAL), pytest.param("spdy", marks=SPDY_SERVER)],
)
def kubelet_server(request: pytest.FixtureRequest) -> Iterator[KubeServer | None]:
    """A real server that passes streams on to kubelets as WebSocket, or translates them to SPDY as before 1.36.

    None stands for an embedded server of each test's own.
    """
    if request.param == "embedded":
        yield None
    elif request.param == "websocket":
        yield request.getfixturevalue("real_server")
    else:
        require_binaries("kube-apiserver", "etcd")
        as_before = "--feature-gates=ExtendWebSocketsToKubelet=false"
        yield SHARED_SERVERS.get("spdy_server", lambda: running_real_server(as_before))


class Node:
    """The node, and kubectl for its server."""

    def __init__(
        self, server: KubeServer, client: KubeClient, kubelet: Kubelet, engine: TestEngine | None = None
    ) -> None:
        self.server = server
        self.client = client
        self.kubelet = kubelet
        self.engine = engine

    def command(self, *args: str) -> list[str]:
        """Return the command line of a kubectl."""
        return [kubectl_binary(), f"--kubeconfig={self.server.kubeconfig}", *args]

    async def start(
        self, *args: str, has_input: bool = False, env: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """Start kubectl, with pipes for its output and, if `has_input`, its input."""
        return await asyncio.create_subprocess_exec(
            *self.command(*args),
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )

    async def kubectl(self, *args: str, stdin: bytes = b"", code: int = 0, env: Mapping[str, str] | None = None) -> str:
        """Return what kubectl prints; both streams if it is expected to fail with `code`."""
        return output_of(await asyncio.to_thread(kubectl, self.server.kubeconfig, *args, stdin=stdin, env=env), code)

    async def run(self, name: str, *command: str, **spec: Any) -> None:
        """Create a Pod that runs `command`. A container of an engine sees this machine's programs, too."""
        more: dict[str, Any] = {}
        if self.engine is not None:
            mounts = [{"name": f"v{number}", "mountPath": path} for number, path in enumerate(PROGRAMS)]
            spec = {"image": IMAGE, "volumeMounts": mounts} | spec
            more["volumes"] = [
                {"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(PROGRAMS)
            ]
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "any", "command": list(command)} | spec],
                **more,
            },
        }
        await self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest).encode())

    async def wait(self, name: str, condition: str) -> None:
        """Run `kubectl wait` for a Pod."""
        await self.kubectl("wait", f"--for={condition}", f"pod/{name}", f"--timeout={PATIENCE_SECONDS:.0f}s")


ANY_SERVER = pytest.mark.parametrize(
    "kubelet_server", ["embedded", pytest.param("websocket", marks=REAL)], indirect=True
)
"""For tests that do not depend on the protocol of streams."""


@pytest.fixture(scope="session")
def node_engine() -> Iterator[TestEngine | None]:
    """The engine that runs the node's Pods: the one that $KAJITORI_TESTS_ENGINE names, else none."""
    name = os.environ.get("KAJITORI_TESTS_ENGINE")
    if not name:
        yield None
        return
    with container_engine(name) as engine:
        yield engine


@pytest.fixture
async def node(
    kubelet_server: KubeServer | None, tmp_path: Path, node_engine: TestEngine | None
) -> AsyncIterator[Node]:
    """A node. Its Pods are deleted at the end."""
    kubectl_binary()  # skips the test if it is missing
    if kubelet_server is not None:
        async for node in _node(kubelet_server, kubelet_server.kubelet_api(NODE), tmp_path, node_engine):
            yield node
        return
    async with embedded_server() as server:
        # Like a kubelet that joined by hand: it makes its own certificate, and finds out which clients to accept.
        async for node in _node(server, ServerSettings(), tmp_path, node_engine):
            yield node


async def _node(
    server: KubeServer, api: ServerSettings, folder: Path, test_engine: TestEngine | None
) -> AsyncIterator[Node]:
    settings = KubeletSettings(NODE, folder / "kubelet", server=api)
    engine = await test_engine.found() if test_engine is not None else None
    async with server.client() as client:
        async with process_kubelet(client, settings, engine=engine) as kubelet:
            node = Node(server, client, kubelet, test_engine)
            yield node
            await node.kubectl("delete", "pods", "--all", "--wait=true", "--grace-period=1")
        await client.delete(NODES, NODE)
