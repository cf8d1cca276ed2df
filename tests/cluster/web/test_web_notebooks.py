"""A notebook through the proxy, and calls of functions, done by real processes, on each kind of API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.harness.cluster import Cluster, this_machine
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import PATIENCE_SECONDS, wait_until
from tests.harness.web_api import WebApi, web_api

import kajitori
from kajitori import Call, CallCancelled
from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.stores.opening import open_blobs
from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import PODS

LAB = """
import http.server, os, sys
options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
base, token = options["--ServerApp.base_url"], open(os.environ["JUPYTER_TOKEN_FILE"]).read()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        name = self.path.removeprefix(base + "files/")
        there = name != self.path and os.path.exists(name)
        self.answer(200 if there else 404, open(name).read() if there else "")
    def do_PUT(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.headers.get("Authorization") == "token " + token:
            open(self.path.removeprefix(base + "files/"), "w").write(text)
        self.answer(201, "")
    def answer(self, status, text):
        if self.headers.get("Authorization") != "token " + token:
            status, text = 403, ""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(options["--ServerApp.port"])), Handler).serve_forever()
"""
"""Stands for JupyterLab: keeps files in its folder, for callers with the token."""


async def test_a_notebooks_files_outlive_its_pod_and_its_end(cluster: Cluster) -> None:
    """Only the proxy knows the token of each attempt; a caller that reaches the port without it is refused."""
    programs = cluster.folder / "bin"
    programs.mkdir()
    (programs / "jupyter-lab").write_text(f"#!{sys.executable} -I{LAB}")
    (programs / "jupyter-lab").chmod(0o755)
    port = free_port()
    spec: dict[str, Any] = {
        "image": "jupyter",
        "type": "notebook",
        "ports": [port],
        "env": {"PATH": f"{programs}:/usr/bin:/bin"},
        "resources": {"cpu": "100m", "memory": "64Mi"},
        "grace": "1s",
    }
    # The machine's own network: this test connects to the program's port past the proxy.
    async with (
        this_machine(cluster, pod_network="host") as here,
        web_api(cluster, for_members=True) as web,
        httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as past,
    ):
        cluster.start_controller()
        await web.submit("nb", spec | {"nodeSelector": here})
        path = f"/proxy/{cluster.namespace}/nb/{port}/files/thesis.txt"
        await cluster.reaches("nb", Phase.RUNNING)
        assert await answered(web, "PUT", path, content=b"my work") == (201, "")
        for headers in ({}, {"Authorization": "token x"}, {"Authorization": f"Bearer {web.token}"}):
            refused = await past.get(f"http://127.0.0.1:{port}{path}", headers=headers)
            assert refused.status_code == 403
        first = await token_of(web)

        await cluster.client.delete(PODS, "nb-1-0", cluster.namespace, grace_seconds=0)
        await cluster.reaches("nb", Phase.RUNNING, attempt=2)
        assert await answered(web, "GET", path) == (200, "my work")
        assert await token_of(web) != first, "each attempt has its own"

        await web.http.post(f"/v1/runs/{cluster.namespace}/nb/stop", json={"grace": "0s"})
        await cluster.reaches("nb", Phase.STOPPED)
        assert (await web.http.get(path)).status_code == 409
        await web.http.post(f"/v1/runs/{cluster.namespace}/nb/resume")
        await cluster.reaches("nb", Phase.RUNNING)
        assert await answered(web, "GET", path) == (200, "my work")


async def answered(web: WebApi, method: str, path: str, **body: Any) -> tuple[int, str]:
    """Return the program's answer, which begins to listen a moment after its Pod runs."""
    while True:
        answer = await web.http.request(method, path, **body)
        if answer.status_code not in (502, 503):
            return answer.status_code, answer.text
        await asyncio.sleep(0.05)


async def token_of(web: WebApi) -> str:
    found = await web.http.get(f"/v1/runs/{web.cluster.namespace}/nb/notebook")
    return str(found.json()["token"])


async def test_calls_of_functions_are_done_in_members(cluster: Cluster) -> None:
    """Values, exceptions, generators, cancellation of one call, and a call that another client finds again."""
    blobs = await open_blobs((cluster.folder / "blobs").as_uri())
    stores: dict[str, Any] = {
        "blobs": blobs,
        "kept_logs": KeptLogs(blobs),
        "code": CodeStore(blobs, lambda: CodeLimits(1 << 20)),
    }
    async with this_machine(cluster) as here, web_api(cluster, for_members=True, **stores) as web:
        cluster.start_controller()
        await asyncio.to_thread(call_functions, web, here, cluster.folder / "napping")
        for run in cluster.mirror.runs.values():
            if run.metadata.namespace == cluster.namespace:
                await cluster.reaches(run.metadata.name, Phase.SUCCEEDED)


def call_functions(web: WebApi, here: dict[str, str], napping: Path) -> None:
    def work(what: str, value: Any) -> Any:  # not of this module, which workers do not have
        if what == "error":
            raise ValueError(f"{value} is wrong")
        if what == "stream":
            return iter(range(value))
        if what == "nap":
            open(value, "w").close()
            __import__("time").sleep(600)
        return value * 2

    options: dict[str, Any] = {"cpus": 0.1, "memory": "64m", "node_selector": here}
    with kajitori.Client(web.url, token=web.token, namespace=web.cluster.namespace) as client:
        function = kajitori.function(client=client, **options)(work)
        with function.pool(at_most=2) as pool:
            nap = pool.remote("nap", str(napping))
            value, error, stream = (pool.remote(*each) for each in (("value", 21), ("error", 7), ("stream", 3)))
            assert value.result(60) == 42
            with pytest.raises(ValueError, match="7 is wrong") as raised:
                error.result(60)
            assert "in work" in str(raised.value.__cause__), "the remote traceback"
            assert list(stream) == [0, 1, 2]
            wait_until(napping.exists, "the call was begun")
            nap.cancel()
            with pytest.raises(CallCancelled):
                nap.result(60)
            assert pool.remote("value", 1).result(60) == 2
    with kajitori.Client(web.url, token=web.token) as other:
        assert Call.from_id(value.id, other).result(60) == 42
        results: Iterator[Any] = kajitori.function(client=other, namespace=web.cluster.namespace, **options)(
            lambda number: number + 1
        ).map(range(6), at_most=1)
        assert list(results) == [1, 2, 3, 4, 5, 6]
