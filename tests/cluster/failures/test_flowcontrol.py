"""deploy/flowcontrol.yaml: a real API server gives Kajitori's parts their own queue."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.harness.servers.real_server import RealServer

from kajitori.errors import AlreadyExists
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NAMESPACES, Resource

ROOT = Path(__file__).parents[3]
GROUP = "flowcontrol.apiserver.k8s.io"
KINDS = {
    "FlowSchema": Resource(GROUP, "v1", "flowschemas", "FlowSchema", namespaced=False),
    "PriorityLevelConfiguration": Resource(
        GROUP, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False
    ),
}
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
PATIENCE_SECONDS = 60.0

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]


async def test_parts_have_their_own_queue_and_leases_another(real_server: RealServer) -> None:
    async with real_server.client() as client:
        uids = {}
        for document in yaml.safe_load_all((ROOT / "deploy/flowcontrol.yaml").read_text()):
            made = await client.create(KINDS[document["kind"]], document)
            uids[document["kind"], document["metadata"]["name"]] = made["metadata"]["uid"]
        token = await _token(client)
    ours, leader = uids["FlowSchema", "kajitori"], uids["FlowSchema", "kajitori-leader"]
    lease = "/apis/coordination.k8s.io/v1/namespaces/kajitori/leases/kajitori-controller"
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while (found := [await _schema_of(real_server, token, path) for path in ("/api/v1/pods", lease)]) != [
        ours,
        leader,
    ]:
        assert asyncio.get_running_loop().time() < deadline, (found, uids)
        await asyncio.sleep(0.2)


async def _token(client: KubeClient) -> str:
    """Return a token of the controller's service account."""
    account: dict[str, Any] = {"metadata": {"name": "kajitori-controller", "namespace": "kajitori"}}
    with contextlib.suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": "kajitori"}})
    await client.create(ACCOUNTS, account, "kajitori")
    path = ACCOUNTS.path("kajitori", "kajitori-controller", "token")
    request = b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}'
    answer = yaml.safe_load(await client.request("POST", path, body=request))
    return str(answer["status"]["token"])


async def _schema_of(cluster: RealServer, token: str, path: str) -> str:
    """Return the UID of the FlowSchema that matches a request."""
    trusting = ssl.create_default_context(cafile=str(cluster.config.ca_file))
    headers = {"Authorization": f"Bearer {token}"}
    url = cluster.config.server + path
    async with aiohttp.ClientSession(headers=headers) as http, http.get(url, ssl=trusting) as answer:
        return answer.headers.get("X-Kubernetes-PF-FlowSchema-UID", "")
