"""Every call of the Web API that the OpenAPI document describes, made about another user's run.

A new call is tried automatically, and fails until a table below says which users may make it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.harness.cluster import Cluster
from tests.harness.waiting import PATIENCE_SECONDS
from tests.harness.web_api import web_api
from tests.helpers.memory_blobs import MemoryBlobs
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from kajitori.api.app import openapi_document, operations
from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.run_object import RUNS
from kajitori.core.formats.times import format_time
from kajitori.core.spec.reasons import Phase
from kajitori.entrypoints.parts.stores import history_of
from kajitori.kube.streams import EXEC_PROTOCOL

RUN = "victim"
SECRETS = ("victims-image", "victims-word", "victims-value")
"""Image, command and environment of the run. No answer to other users contains them."""

TO_ANYBODY = frozenset({"/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/sign-in"})
"""Paths that need no credentials."""

TO_WHOEVER_IS_KNOWN = frozenset(
    {
        "GET /v1/version",
        "GET /v1/whoami",
        "POST /v1/sign-in-links",
        "GET /v1/teams",
        "GET /v1/controller",
        "GET /v1/gpus",
        "GET /v1/board",
        "GET /v1/board/usage",
        "GET /v1/nodes",
        "GET /v1/nodes/changes",
        "GET /v1/nodes/{name}",
        "GET /v1/nodes/{name}/metrics",
        "GET /v1/node-temperatures",
        "GET /v1/queue",
        "GET /v1/queue/changes",
        "GET /v1/policy",
        "POST /v1/command-line",
        "POST /v1/policy/check",
        "GET /v1/policy/cluster",
        "POST /v1/policy/cluster",
        "POST /v1/policy/diff",
        "GET /v1/policy/pods",
        "GET /v1/networks",
        "GET /v1/networks/use",
        "GET /v1/networks/forecast",
        "POST /v1/networks/check",
    }
)
"""Calls for every known user: nodes, queue and policy, without the contents of runs."""

ENDLESS = frozenset({"/v1/nodes/changes", "/v1/queue/changes"})
"""Streams for every known user; of each, the first event is read."""

LISTS = frozenset(
    {
        "GET /v1/runs",
        "GET /v1/run-names",
        "GET /v1/traffic",
        "GET /v1/traffic/history",
        "GET /v1/history",
        "GET /v1/usage",
        "GET /v1/report",
        "GET /v1/audit",
        "GET /v1/stats",
        "GET /v1/idle",
    }
)
"""Lists that contain only what the caller may see, and that are refused if they name a namespace."""

WITH_TICKETS = frozenset(
    {
        *("GET /v1/members/hosts", "GET /v1/members/ssh", "GET /v1/members/notebook", "GET /v1/members/code"),
        "GET /v1/members/files",
        "POST /v1/members/calls/{namespace}/{name}",
    }
)
"""Calls of members of a run, which need a ticket or the token of their calls instead of a user's token."""

LEADS_ONLY = frozenset({"/v1/images", "/v1/tokens", "/v1/stats/prometheus", "/v1/channels/{name}/test"})
"""Paths that a user of the team may not read; leads or operators may."""

SPEC = {
    "image": "victims-image:1",
    "command": ["victims-word"],
    "env": {"KEY": "victims-value"},
    "resources": {"cpu": 1, "memory": "1Gi"},
}
DIGEST = "sha256:" + "0" * 64


@dataclass
class EveryCall:
    """A Web API of a cluster with a run of another user."""

    cluster: Cluster
    url: str
    http: httpx2.AsyncClient
    outsider: dict[str, str]
    """The headers of a user with no rights in the run's namespace."""
    owner: dict[str, str]
    """The headers of the user who submitted the run."""

    def filled(self, path: str, name: str = RUN) -> str:
        node = next(iter(self.cluster.nodes_of(RUN)))
        known = {"namespace": self.cluster.namespace, "digest": DIGEST, "number": "0", "rank": "0", "node": node}
        return re.sub(r"\{(\w+)\}", lambda m: known.get(m[1], node if "/nodes/" in path else name), path)

    def body(self, path: str) -> dict[str, Any] | None:
        """Return a valid body, so that only missing permissions can cause a refusal."""
        asked: dict[str, Any] = {"namespace": self.cluster.namespace, "name": "intruder", "spec": {"image": "x"}}
        bodies: dict[str, dict[str, Any]] = {
            "/v1/runs": asked,
            "/v1/what-if": asked,
            "/v1/command-line": {"spec": {"image": "x"}},
            "/v1/channels": {"name": "intruder", "url": "https://hooks.example.org/intruder"},
            "/v1/tokens": {"namespace": self.cluster.namespace, "name": "intruder"},
            "/v1/secrets": {"namespace": self.cluster.namespace, "name": "intruder", "data": {"key": "eA=="}},
            "/v1/preflight": {"nodes": [next(iter(self.cluster.nodes_of(RUN)))]},
            "/v1/runs/{namespace}/{name}": {"restarts": 3},
            "/v1/runs/{namespace}/{name}/stop": {"grace": "1s"},
            "/v1/runs/{namespace}/{name}/restart": {"grace": "1s"},
            "/v1/runs/{namespace}/{name}/keep": {"until": format_time(datetime.now(UTC) + timedelta(hours=1))},
            "/v1/runs/{namespace}/{name}/calls": {"token": "0" * 64},
            "/v1/runs/{namespace}/{name}/set-files": {"files": {"digest": DIGEST, "items": [{"path": "/data/x"}]}},
            "/v1/runs/{namespace}/{name}/labels": {"set": {"team": "x"}},
            "/v1/runs/{namespace}/{name}/note": {"text": "x"},
            "/v1/runs/{namespace}/{name}/signal": {"signal": "USR1", "pid": 1},
            "/v1/runs/{namespace}/{name}/signal-programs": {"signal": "USR1"},
            "/v1/members/calls/{namespace}/{name}": {"rank": 0, "attempt": 1, "process": "x"},
            "/v1/code/{digest}/complete": {"parts": [DIGEST], "size": 1},
            "/v1/nodes/{name}/drain": {},
            "/v1/nodes/{node}/traffic": {},
            "/v1/nodes/{node}/telemetry": {},
            "/v1/nodes/{node}/telemetry/answers/{question}": {},
            "/v1/policy/check": {},
            "/v1/policy/cluster": {},
            "/v1/policy/diff": {},
            "/v1/networks/check": {},
        }
        return bodies.get(path)

    async def call(self, method: str, path: str, headers: dict[str, str], name: str = RUN) -> httpx2.Response:
        """Make a call as OpenAPI describes it, in the run's namespace."""
        request = self._request(method, path, headers, name)
        if path not in ENDLESS:
            return await self.http.send(request)
        answer = await self.http.send(request, stream=True)
        told = b""
        async for chunk in answer.aiter_bytes():
            told += chunk
            if not answer.is_success or (b"event: snapshot" in told and told.endswith(b"\n\n")):
                break
        await answer.aclose()
        return httpx2.Response(answer.status_code, content=told)

    async def status(self, method: str, path: str, headers: dict[str, str]) -> int:
        """Return the status of a call. Its answer may be an endless stream."""
        answer = await self.http.send(self._request(method, path, headers, RUN), stream=True)
        await answer.aclose()
        return answer.status_code

    def _request(self, method: str, path: str, headers: dict[str, str], name: str) -> httpx2.Request:
        operation = openapi_document()["paths"][path][method]
        known = {"namespace": self.cluster.namespace, "rank": "0", "path": "x", "sha256": "0" * 64}
        if path.startswith("/v1/channels"):  # without a namespace they would be the caller's own channels
            known |= {"team": self.cluster.namespace, "id": "1-abc"}
        queries = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        params: dict[str, Any] = {key: value for key, value in known.items() if key in queries}
        if path == "/v1/compare":
            params["run"] = [f"{self.cluster.namespace}/{each}" for each in (RUN, "nosuch")]
        if "follow" in queries:
            params["follow"] = "true"
        body: dict[str, Any] = {}
        if "requestBody" in operation:
            document = self.body(path)
            body = {"json": document} if document is not None else {"content": b"\x28\xb5\x2f\xfd"}
        where = self.filled(path, name)
        return self.http.build_request(method.upper(), where, headers=headers, params=params, **body)

    def shows_nothing(self, answer: httpx2.Response) -> bool:
        """Return whether an answer contains nothing of the run."""
        return not any(secret in answer.text for secret in SECRETS)

    async def are_refused_to_the_outsider(self) -> None:
        """Assert that no call opens the namespace or tells whether a run exists, and that none of them changes the
        run."""
        before = await self.cluster.client.get(RUNS, RUN, self.cluster.namespace)
        tried = set()
        for path, method, _ in operations(openapi_document()):
            call = f"{method.upper()} {path}"
            if path in TO_ANYBODY:
                continue
            answer = await self.call(method, path, self.outsider)
            expected = {200, 201} if call in TO_WHOEVER_IS_KNOWN else {401} if call in WITH_TICKETS else {403}
            assert answer.status_code in expected, f"{call}: {answer.status_code}, {answer.text}"
            assert self.shows_nothing(answer), call
            if "{name}" in path and call not in TO_WHOEVER_IS_KNOWN:
                other = await self.call(method, path, self.outsider, "nosuch")
                assert other.status_code == answer.status_code, call
            tried.add(call)
        assert tried >= TO_WHOEVER_IS_KNOWN | LISTS | WITH_TICKETS
        for call in LISTS:
            answer = await self.http.get(call.split()[1], headers=self.outsider)
            listed = [each for key in ("items", "names", "beginnings") for each in answer.json().get(key, ())]
            assert (answer.status_code, listed) == (200, []), call
        after = await self.cluster.client.get(RUNS, RUN, self.cluster.namespace)
        assert after["spec"] == before["spec"]
        assert not after["metadata"].get("deletionTimestamp")
        assert [name for where, name in self.cluster.mirror.runs if where == self.cluster.namespace] == [RUN]

    async def run_no_program_for(self, headers: dict[str, str], status: int) -> None:
        """Assert that no WebSocket to a member is opened for these headers."""
        url = f"{self.url.replace('http', 'ws')}/v1/runs/{self.cluster.namespace}/{RUN}/exec?command=sh"
        protocol = Subprotocol(EXEC_PROTOCOL)
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url, subprotocols=[protocol], additional_headers=headers, proxy=None):
                pass
        assert refused.value.response.status_code == status


@contextlib.asynccontextmanager
async def serving_a_run(
    cluster: Cluster, *, owner: str, outsider: str, **dependencies: Any
) -> AsyncIterator[EveryCall]:
    """Run a controller, a Web API with further `dependencies`, and a run of the bearer of the token `owner`."""
    cluster.start_controller()
    blobs = MemoryBlobs()
    code = CodeStore(blobs, lambda: CodeLimits(size_bytes=1 << 20))
    theirs, others = {"Authorization": f"Bearer {owner}"}, {"Authorization": f"Bearer {outsider}"}
    async with (
        history_of(f"sqlite://{cluster.folder}/history.db", None) as history,
        web_api(cluster, code=code, blobs=blobs, kept_logs=KeptLogs(blobs), history=history, **dependencies) as web,
        httpx2.AsyncClient(base_url=web.url, timeout=PATIENCE_SECONDS) as http,
    ):
        made = await http.post("/v1/runs", headers=theirs, json={"name": RUN, "spec": SPEC})
        assert made.status_code == 201, made.text
        await cluster.reaches(RUN, Phase.RUNNING)
        yield EveryCall(cluster, web.url, http, others, theirs)
