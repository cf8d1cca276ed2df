"""Totals of traffic from an agent to the Web API, with the token that Kubernetes makes for the agent's Pod."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.servers.kube_server import KubeServer
from tests.helpers.callers.rights import until_allowed
from tests.helpers.memory_blobs import MemoryBlobs
from tests.unit.agent.test_telling import counting

from kajitori.agent.counting import Counting
from kajitori.agent.relay import RelayPods
from kajitori.agent.reporting import Reporting
from kajitori.agent.servers import Servers
from kajitori.api.context import Api
from kajitori.api.serving.server import ApiServer
from kajitori.blobs.traffic import TrafficKeeper
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.agents import AUDIENCE, AgentTokens
from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.naming import names
from kajitori.core.traffic.cluster_traffic import Subject
from kajitori.core.traffic.totals import Pod
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
from kajitori.errors import AlreadyExists
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, NODES, PODS, Resource
from kajitori.relay.server import RelayServer

pytestmark = pytest.mark.conformance

DEPLOY = Path(__file__).parents[3] / "deploy"
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NAMESPACE, ACCOUNT = names.AGENT_ACCOUNT.split("/")


async def ensure(client: KubeClient, resource: Resource, name: str, namespace: str | None = None) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(resource, {"metadata": {"name": name}}, namespace)


async def token_of(client: KubeClient, account: str, namespace: str, **spec: Any) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await client.request("POST", ACCOUNTS.path(namespace, account, "token"), body=request)
    return str(json.loads(answer)["status"]["token"])


@asynccontextmanager
async def agents_token(cluster: KubeServer, client: KubeClient, node: str) -> AsyncIterator[str]:
    """The token that a node's kubelet puts into its agent's Pod. The embedded server makes no tokens, so an
    administrator's token is used there."""
    if not cluster.is_real:
        yield cluster.config.credentials.token
        return
    await ensure(client, NAMESPACES, NAMESPACE)
    await ensure(client, ACCOUNTS, ACCOUNT, NAMESPACE)
    spec = {"nodeName": node, "serviceAccountName": ACCOUNT, "containers": [{"name": "agent", "image": "x"}]}
    pod = await client.create(PODS, {"metadata": {"name": f"agent-{node}"}, "spec": spec}, NAMESPACE)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": f"agent-{node}", "uid": pod["metadata"]["uid"]}
    try:
        yield await token_of(client, ACCOUNT, NAMESPACE, audiences=[AUDIENCE], boundObjectRef=bound)
    finally:
        await client.delete(PODS, f"agent-{node}", NAMESPACE, grace_seconds=0)


@asynccontextmanager
async def as_deployed(cluster: KubeServer, client: KubeClient, role: str, space: str) -> AsyncIterator[KubeClient]:
    """A client with exactly the rights that deploy/ gives this part."""
    if not cluster.is_real:
        yield client
        return
    documents = [
        document for path in DEPLOY.glob("*.yaml") for document in yaml.safe_load_all(path.read_text()) if document
    ]
    (found,) = [
        document for document in documents if document["kind"] == "ClusterRole" and document["metadata"]["name"] == role
    ]
    name = f"{space}-{role}"
    await client.create(ACCOUNTS, {"metadata": {"name": role}}, space)
    await client.create(CLUSTER_ROLES, {**found, "metadata": {"name": name}})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": space}],
    }
    await client.create(CLUSTER_ROLE_BINDINGS, binding)
    await until_allowed(client, "", ("list", "", "pods"), user=f"system:serviceaccount:{space}:{role}")
    try:
        async with KubeClient(cluster.config.with_token(await token_of(client, role, space))) as part:
            yield part
    finally:
        await client.delete(CLUSTER_ROLE_BINDINGS, name)
        await client.delete(CLUSTER_ROLES, name)


async def listed(pods: RelayPods) -> dict[str, Pod]:
    """Wait for the first list and return it."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(ConnectionError):
                return pods.pods()
            await asyncio.sleep(0.02)


def agent(url: str, token: Path, node: str, counted: Counting) -> Reporting:
    return Reporting(Servers([url], token), node, counted, lambda: 60.0)


async def test_an_agent_reports_and_reads_only_its_own_node(
    kube_server: KubeServer, own_namespace: str, tmp_path: Path
) -> None:
    """The agent's token is valid for one node only. A report that two servers receive is counted once."""
    node, other = f"{own_namespace}-1", f"{own_namespace}-2"
    async with AsyncExitStack() as closing:
        client = await closing.enter_async_context(kube_server.client())
        await install(client)
        for name in (node, other):
            await client.create(NODES, {"metadata": {"name": name}})
            closing.push_async_callback(client.delete, NODES, name)
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
        await client.create(PODS, {"metadata": {"name": "bert-1-0"}, "spec": spec}, own_namespace)
        token = tmp_path / "token"
        token.write_text(await closing.enter_async_context(agents_token(kube_server, client, node)))

        # It reads its own node.
        ours = await closing.enter_async_context(as_deployed(kube_server, client, "kajitori-relay", own_namespace))
        mirror = await closing.enter_async_context(Mirror(ours, (PODS, RUNS)))
        await mirror.wait_synced()
        agents = AgentTokens(ours, mirror) if kube_server.is_real else None
        relay = await closing.enter_async_context(RelayServer(mirror, agents=agents))
        followed = RelayPods(Servers([relay.url], token), node, interface_of=lambda _: "")
        followed.start()
        closing.push_async_callback(asyncio.to_thread, followed.stop)
        assert "bert-1-0" in {pod.name for pod in (await listed(followed)).values()}
        if kube_server.is_real:
            connection = http.client.HTTPConnection(relay.url.removeprefix("http://"), timeout=20)
            headers = {"Authorization": f"Bearer {token.read_text()}"}
            await asyncio.to_thread(connection.request, "GET", f"/v1/nodes/{other}/pods", headers=headers)
            answer = await asyncio.to_thread(connection.getresponse)
            assert (answer.status, f"on node {node}, not {other}" in answer.read().decode()) == (403, True)
            connection.close()

        # It reports its own node.
        ours = await closing.enter_async_context(as_deployed(kube_server, client, "kajitori-server", own_namespace))
        mirror = await closing.enter_async_context(Mirror(ours))
        await mirror.wait_synced()
        blobs, urls, apis = MemoryBlobs(), [], []
        for _ in range(2):
            app = web_app(ApiDependencies(client=ours, mirror=mirror, policy=PolicyFile(None), blobs=blobs))
            apis.append(app.state.kajitori)
            urls.append((await closing.enter_async_context(ApiServer(app))).url)
        counted = counting(tmp_path, Pod(uid="u1", namespace="vision", name="bert-1-0", run="bert", run_uid="r1"))
        for url in (*urls, urls[0]):
            await asyncio.to_thread(agent(url, token, node, counted).send)
        for api in (*apis, *apis):
            await api.traffic.keeper.sync()
        assert [sent(api) for api in apis] == [100, 100]
        if kube_server.is_real:
            with pytest.raises(http.client.HTTPException, match=f"answered 403: .* on node {node}, not {other}"):
                await asyncio.to_thread(agent(urls[0], token, other, counted).send)
        fresh = TrafficKeeper(blobs, apis[0].now)
        await fresh.sync()
        assert fresh.traffic.nodes.keys() == {node}


def sent(api: Api) -> int:
    return api.traffic.keeper.traffic.total(Subject("run", "r1"))["internet.out"].bytes
