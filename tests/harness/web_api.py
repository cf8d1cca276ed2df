"""A Web API in front of a cluster, and the ways in: HTTP and `kaji`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
from tests.harness.cluster import Cluster
from tests.harness.commands import Completed, clean_environment, kaji
from tests.harness.waiting import PATIENCE_SECONDS

from kajitori.api.serving.server import ApiServer
from kajitori.core.leadership import LeaderState
from kajitori.core.policy.file import with_first_step
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app


class LeaderHere:
    """Tells a Web API that a controller is at work: one in the test's process, which needs no lease."""

    def state(self) -> LeaderState:
        return LeaderState("the test", 0.0)

    async def follow(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()


@dataclass(frozen=True)
class WebApi:
    """A running Web API, its cluster, and an HTTP client with the administrator's token."""

    cluster: Cluster
    http: httpx2.AsyncClient
    url: str
    port: int
    token: str

    async def submit(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Submit a run with POST /v1/runs, which succeeds. Return the answer."""
        response = await self.http.post("/v1/runs", json={"name": name, "spec": spec})
        assert response.status_code == 201, response.text
        view: dict[str, Any] = response.json()
        return view

    async def kaji(self, *arguments: str, stdin: str = "", **environment: str) -> Completed:
        """Run `kaji` against this Web API; `environment` may override the variables for server, token and namespace."""
        target = {"KAJI_SERVER": self.url, "KAJI_TOKEN": self.token, "KAJI_NAMESPACE": self.cluster.namespace}
        env = clean_environment(self.cluster.folder, **target | environment)
        return await asyncio.to_thread(kaji, *arguments, stdin=stdin, env=env)


@contextlib.asynccontextmanager
async def web_api(
    cluster: Cluster, *, host: str = "127.0.0.1", for_members: bool = False, **dependencies: Any
) -> AsyncIterator[WebApi]:
    """Run a Web API with the cluster's client, mirror, policy and namespace, unless `dependencies` name others.

    With `for_members`, members of runs ask it in their first step.
    """
    own: dict[str, Any] = {"client": cluster.client, "mirror": cluster.mirror, "policy": cluster.policy}
    own |= {"namespace": cluster.namespace}
    app = web_app(ApiDependencies(**own | dependencies))
    token = cluster.server.config.credentials.token
    async with (
        ApiServer(app, host=host) as server,
        httpx2.AsyncClient(
            base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
        ) as http,
    ):
        if for_members:
            cluster.policy.complete(lambda policy: with_first_step(policy, "kajitori:1", server.url))
        yield WebApi(cluster, http, server.url, server.port, token)
