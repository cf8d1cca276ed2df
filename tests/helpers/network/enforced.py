"""A node with a network of its own, where NetworkPolicies are enforced by kube-router."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tests.harness.cluster import Cluster
from tests.harness.servers.real_server import free_port
from tests.helpers.network.netns import Namespace, Server, connect, namespaces

from kajitori.cluster.objects import Pod
from kajitori.kube.resources import PODS

PROGRAM = os.environ.get("KAJITORI_POLICY_ENFORCER") or shutil.which("kube-router") or ""
"""Path of kube-router's program; empty if it is not installed."""
NODE, NODE_ADDRESS = "enforced", "10.77.0.2"
WEB_API = "10.77.0.1"
HOSTS = {"internet": "198.51.100.7", "internal": "10.1.0.1", "storage": "10.9.0.1", "web": WEB_API}
"""Addresses of hosts beyond the node."""
SERVICE = "10.96.0.10"
PORT = 8080


class Place:
    """An address in a network namespace, with a server that listens there."""

    def __init__(self, namespace: Namespace, address: str) -> None:
        self.namespace = namespace
        self.address = address

    def reaches(self, other: Place) -> bool:
        """Return whether the server there accepts a connection from here."""

        def call() -> bool:
            try:
                with socket.create_connection((other.address, PORT), 2.0, (self.address, 0)) as connection:
                    return bool(connection.recv(100))
            except OSError:
                return False

        return self.namespace.inside(call)


class EnforcedNode:
    """The Pods of a node, and the hosts beyond it, which share one network namespace."""

    def __init__(self, node: Namespace, outside: Namespace, stack: contextlib.AsyncExitStack) -> None:
        self._node = node
        self.outside = outside
        self.selector = {"kajitori.dev/machine": NODE}
        self.hosts = {name: Place(outside, address) for name, address in HOSTS.items()}
        self._stack = stack
        stack.callback(Server(outside, PORT).close)

    def pod(self, pod: Pod) -> Place:
        """Start a server in a member's network; return its place."""
        digest = hashlib.sha256(pod.metadata.uid.encode()).hexdigest()[:12]
        (path,) = Path("/run/netns").glob(f"kaji-*-{digest}")
        namespace = Namespace(pod.metadata.name, path)
        self._stack.callback(namespace.close)
        self._stack.callback(Server(namespace, PORT).close)
        return Place(namespace, pod.status.pod_ip)

    def service(self, pod: Pod) -> Place:
        """Return the member behind a Service's address, as with kube-proxy. It can be called, but cannot call
        others."""
        there = self.pod(pod)
        self._node.run(
            "nft add table ip proxy;"
            "nft add chain ip proxy services '{ type nat hook prerouting priority dstnat; }';"
            f"nft add rule ip proxy services ip daddr {SERVICE} dnat to {there.address}"
        )
        return Place(there.namespace, SERVICE)


@contextlib.asynccontextmanager
async def enforced_node(cluster: Cluster, *flags: str) -> AsyncIterator[EnforcedNode]:
    """Run a node of a real cluster, with `flags` for kube-router.

    It reaches the API server at the same loopback address as this process.
    """
    api_port = int(cluster.client.config.server.rpartition(":")[2])
    with namespaces("node", "outside") as found:
        node, outside = found["node"], found["outside"]
        connect(node, "eth0", outside, "eth0")
        node.run(f"ip address add {NODE_ADDRESS}/24 dev eth0 && ip route add default via {WEB_API}")
        for address in HOSTS.values():
            outside.run(f"ip address add {address}/24 dev eth0")
        outside.run(f"ip route add 10.88.0.0/16 via {NODE_ADDRESS}")
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(forward(node, "127.0.0.1", api_port, api_port))
            whose = f"--kubeconfig={cluster.server.kubeconfig}"
            kaji = [str(Path(sys.executable).with_name("kaji")), "node", whose, f"--name={NODE}", "--port=0"]
            kaji += [f"--data={cluster.folder / 'node'}", f"--label=kajitori.dev/machine={NODE}"]
            kaji += ["--pod-network=namespace", f"--address={NODE_ADDRESS}", "--cpus=64"]
            stack.enter_context(_running(node, kaji, cluster.folder / "node.log"))
            await cluster.until(
                lambda: NODE in cluster.mirror.nodes and cluster.mirror.nodes[NODE].is_ready, "the node is ready"
            )
            router = [PROGRAM, whose, f"--hostname-override={NODE}", "--run-firewall=true", "--run-router=false"]
            router += ["--run-service-proxy=false", "--metrics-port=0", f"--health-port={free_port()}", *flags]
            stack.enter_context(_running(node, router, cluster.folder / "kube-router.log"))
            try:
                yield EnforcedNode(node, outside, stack)
            finally:
                await cluster.stop_controllers()
                await cluster.client.delete_collection(PODS, cluster.namespace, label_selector="", grace_seconds=1)
                pods = cluster.mirror.pods
                await cluster.until(lambda: not any(each.spec.node_name == NODE for each in pods.values()), "Pods gone")


@contextlib.contextmanager
def _running(namespace: Namespace, command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as file:
        words = ["nsenter", f"--net={namespace.path}", *command]
        process = subprocess.Popen(words, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        assert process.poll() is None, log.read_text()[-2000:]
        process.terminate()
        process.wait()


@contextlib.asynccontextmanager
async def forward(where: Namespace, address: str, port: int, to: int) -> AsyncIterator[None]:
    """Forward connections to an address in a network namespace to a port of this process's loopback interface."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(pipe(reader, there), pipe(back, writer))

    server = await asyncio.start_server(both, sock=where.inside(lambda: socket.create_server((address, port))))
    try:
        yield
    finally:
        server.close()
