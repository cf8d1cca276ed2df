"""A relay between an API server and the agent of one node, which makes no request to the API server itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.harness.servers.kube_server import KubeServer
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import until

from kajitori.agent.relay import RelayPods
from kajitori.agent.servers import Servers
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import PODS
from kajitori.relay.server import RelayServer

TOKEN = "a-long-random-word"
NODE = "gpu-1"


@asynccontextmanager
async def running_agent(relay: RelayServer, tmp_path: Path, token: str = TOKEN) -> AsyncIterator[RelayPods]:
    """Run an agent on the node and yield its view of the node's Pods."""
    file = tmp_path / "token"
    file.write_text(token)
    pods = RelayPods(Servers([relay.url], file), NODE, interface_of=lambda addresses: f"veth-{addresses[0][-1]}")
    pods.start()
    try:
        yield pods
    finally:
        await asyncio.to_thread(pods.stop)


async def add_pod(client: KubeClient, namespace: str, name: str, address: str, **metadata: Any) -> None:
    """Create a Pod on the node, with an address."""
    spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "x"}]}
    await client.create(PODS, {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec})
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}, {"ip": "fd00::7"}],
        "hostIP": "10.0.0.9",
    }
    await client.patch(PODS, name, {"status": status}, namespace, subresource="status")


async def test_an_agent_knows_the_pods_of_its_node_and_their_users(
    kube_server: KubeServer, own_namespace: str, tmp_path: Path
) -> None:
    """The agent still knows them after another relay has taken over, which sends it the whole list."""
    async with kube_server.client() as client:
        await install(client)
        run = await client.create(
            RUNS,
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "metadata": {
                    "name": "bert",
                    "namespace": own_namespace,
                    "annotations": {names.ANNOTATION_OWNER: "admin"},
                },
                "spec": {"image": "x"},
            },
        )
        owner = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": "bert",
            "uid": run["metadata"]["uid"],
            "controller": True,
        }
        async with Mirror(client, (PODS, RUNS)) as mirror:
            await mirror.wait_synced()
            port = free_port()
            async with RelayServer(mirror, token=TOKEN, port=port) as relay, running_agent(relay, tmp_path) as agent:
                await add_pod(client, own_namespace, "bert-1-0", "10.1.0.5", ownerReferences=[owner])
                await add_pod(client, own_namespace, "daemon", "10.0.0.9")

                def own_pods() -> dict[str, Any]:
                    if not agent.stamp():
                        return {}
                    return {pod.name: pod for pod in agent.pods().values() if pod.namespace == own_namespace}

                await until(lambda: len(own_pods()) == 2 and bool(own_pods()["bert-1-0"].addresses), "both are known")
                member, daemon = own_pods()["bert-1-0"], own_pods()["daemon"]
                assert (member.run, member.run_uid, member.user) == ("bert", run["metadata"]["uid"], "admin")
                assert (member.addresses, member.interface) == (("10.1.0.5", "fd00::7"), "veth-5")
                assert (daemon.addresses, daemon.interface, daemon.run) == ((), "", "")

                await relay.stop()
                await client.delete(PODS, "daemon", own_namespace, grace_seconds=0)
                async with RelayServer(mirror, token=TOKEN, port=port):
                    await until(lambda: set(own_pods()) == {"bert-1-0"}, "the other relay was heard")
        await client.delete(RUNS, "bert", own_namespace)


async def test_an_agent_without_an_answer_treats_its_pods_as_unknown(kube_server: KubeServer, tmp_path: Path) -> None:
    """For example, its token is wrong. A missing answer does not mean that the node has no Pods."""
    async with kube_server.client() as client:
        await install(client)
        async with Mirror(client, (PODS, RUNS)) as mirror:
            await mirror.wait_synced()
            async with RelayServer(mirror, token=TOKEN) as relay, running_agent(relay, tmp_path, "another") as agent:
                with pytest.raises(ConnectionError, match="no relay has reported yet which Pods are on node gpu-1"):
                    agent.pods()
