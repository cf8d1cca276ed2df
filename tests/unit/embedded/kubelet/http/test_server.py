"""The kubelet's own API over HTTPS: logs, exec, statistics, and authorization."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from tests.unit.embedded.kubelet.conftest import BOUND_SECONDS, Machine, alive, until

from kajitori.embedded.kubelet.http.authentication import ACCESS_REVIEWS_PATH, AccessCheck
from kajitori.embedded.kubelet.settings import ServerSettings

TOKEN = "a-token-of-this-test"


class Api:
    def __init__(self, machine: Machine, session: aiohttp.ClientSession) -> None:
        self.machine = machine
        self.session = session

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.machine.kubelet.node.port}{path}"

    async def text(self, path: str, expect: int = 200, token: str = TOKEN, **query: str) -> str:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.get(self.url(path), params=query, headers=headers) as answer:
            assert answer.status == expect, await answer.text()
            return await answer.text()

    async def execute(
        self,
        *command: str,
        stdin: bytes | None = None,
        protocol: str = "v5.channel.k8s.io",
        pod: str = "p",
        **query: str,
    ) -> tuple[bytes, bytes, dict[str, Any]]:
        """Return output on stdout and stderr, and the final Status."""
        params = [*(("command", part) for part in command), ("output", "1"), ("error", "1"), *query.items()]
        params += [("input", "1")] if stdin is not None else []
        got = {1: b"", 2: b"", 3: b""}
        async with self.session.ws_connect(
            self.url(f"/exec/default/{pod}/main"),
            params=params,
            protocols=(protocol,),
            headers={"Authorization": f"Bearer {TOKEN}"},
        ) as socket:
            if stdin is not None:
                await socket.send_bytes(b"\x00" + stdin)
                await socket.send_bytes(b"\xff\x00")
            async for message in socket:
                got[message.data[0]] += message.data[1:]
        return got[1], got[2], json.loads(got[3])


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    machine = Machine(
        tmp_path / "kubelet", server=ServerSettings(bearer_tokens=frozenset({TOKEN})), log_max_bytes=20_000
    )
    await machine.start()
    trust = ssl.create_default_context(cafile=str(machine.root / "pki/127.0.0.1.crt"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield Api(machine, session)
    await machine.tear_down()


async def test_logs_are_returned_whole_or_in_part(api: Api) -> None:
    """From the end, limited in bytes, with times; and a clear message if there is none."""
    script = "for i in 1 2 3 4 5; do echo line $i; done; printf tail"
    await api.machine.cluster.submit("p", "/bin/sh", "-c", script)
    await api.machine.phase("p", "Succeeded")
    path = "/containerLogs/default/p/main"
    whole = "".join(f"line {number}\n" for number in range(1, 6)) + "tail"
    assert await api.text(path) == whole
    assert await api.text(path, tailLines="2") == "line 5\ntail"
    assert await api.text(path, tailLines="0") == ""
    assert await api.text(path, limitBytes="9") == whole[:9]
    assert await api.text(path, sinceSeconds="1000") == whole
    assert await api.text(path, sinceTime="2999-01-01T00:00:00Z") == ""
    stamped = (await api.text(path, timestamps="true")).splitlines()
    assert [line.split(" ", 1)[1] for line in stamped] == whole.split("\n")
    assert "not found" in await api.text(path, expect=400, previous="true")
    assert "tailLines" in await api.text(path, expect=400, tailLines="many")
    await api.text("/containerLogs/default/other/main", expect=404)
    await api.text("/containerLogs/default/p/other", expect=404)


async def test_following_a_log_continues_through_a_rotation(api: Api) -> None:
    """No line is lost in a rotation, and following ends with the container."""
    go = api.machine.root / "go"
    program = (
        "import os, time\n"
        "for i in range(2000):\n"
        "    print('line', i, flush=i == 9)\n"
        f"    while i == 9 and not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    )
    await api.machine.cluster.submit("p", sys.executable, "-I", "-S", "-c", program)
    await api.machine.phase("p", "Running")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    got = b""
    url = api.url("/containerLogs/default/p/main")
    async with api.session.get(url, params={"follow": "true"}, headers=headers) as answer:
        async for chunk in answer.content.iter_any():
            got += chunk
            if b"line 9\n" in got and not go.exists():
                go.touch()
    lines = got.decode().splitlines()
    assert lines[-1] == "line 1999"
    assert lines == [f"line {number}" for number in range(2000)]


async def test_a_client_that_disconnects_early_is_not_logged_as_an_error(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It disconnects before its log is served."""
    await api.machine.cluster.submit("p", "/bin/sh", "-c", "echo hello; sleep 1000")
    await api.machine.phase("p", "Running")
    served: list[asyncio.Task[Any] | None] = []
    check = AccessCheck.check

    async def late(access: AccessCheck, request: web.Request, verb: str, subresource: str) -> None:
        await check(access, request, verb, subresource)
        served.append(asyncio.current_task())
        await until(lambda: request.transport is None, "the client hung up")

    monkeypatch.setattr(AccessCheck, "check", late)
    reading = asyncio.create_task(api.text("/containerLogs/default/p/main", follow="true"))
    await until(lambda: served)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await until(lambda: served[0] is None or served[0].done())
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_the_previous_attempts_log_can_be_read(api: Api) -> None:
    once = api.machine.root / "once"
    script = f"if [ -e {once} ]; then echo second; exec sleep 1000; else touch {once}; echo first; exit 1; fi"
    await api.machine.cluster.submit("p", "/bin/sh", "-c", script, restartPolicy="Always")
    await until(lambda: api.machine.cluster.container("p").get("restartCount") == 1)
    assert await api.text("/containerLogs/default/p/main", previous="true") == "first\n"


async def test_exec_separates_streams_and_returns_the_exit_code(api: Api) -> None:
    """The input ends."""
    await api.machine.cluster.submit("p", "sleep", "1000")
    await api.machine.phase("p", "Running")
    out, err, status = await api.execute("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
    assert (out, err) == (b"out\n", b"err\n")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    out, _, status = await api.execute("cat", stdin=b"data")
    assert (out, status["status"]) == (b"data", "Success")
    _, err, status = await api.execute("no-such-program-here")
    assert "no-such-program-here" in status["message"]
    assert b"not found" in err
    assert status["details"]["causes"][0]["message"] == "127"
    out, _, _ = await api.execute("/bin/sh", "-c", "test -t 0 && stty size && echo $TERM", tty="1", stdin=b"")
    assert out == b"0 0\r\nxterm\r\n"


async def test_exec_of_the_older_protocol(api: Api) -> None:
    await api.machine.cluster.submit("p", "sleep", "1000")
    await api.machine.phase("p", "Running")
    out, _, status = await api.execute("echo", "hi", protocol="v4.channel.k8s.io")
    assert (out, status["status"]) == (b"hi\n", "Success")


async def test_large_output_in_both_directions(api: Api) -> None:
    await api.machine.cluster.submit("p", "sleep", "1000")
    await api.machine.phase("p", "Running")
    data = bytes(range(256)) * 4096
    out, _, _ = await api.execute("cat", stdin=data)
    assert out == data


async def test_a_client_that_disconnects_ends_its_command(api: Api) -> None:
    await api.machine.cluster.submit("p", "sleep", "1000")
    await api.machine.phase("p", "Running")
    url, headers = api.url("/exec/default/p/main"), {"Authorization": f"Bearer {TOKEN}"}
    script = f"echo $$ > {api.machine.root}/pid; echo up; exec sleep 1000"
    params = [("command", "/bin/sh"), ("command", "-c"), ("command", script), ("output", "1")]
    async with api.session.ws_connect(url, params=params, protocols=("v5.channel.k8s.io",), headers=headers) as socket:
        while b"up" not in (await asyncio.wait_for(socket.receive_bytes(), BOUND_SECONDS)):
            pass
    pid = int((api.machine.root / "pid").read_text())
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_what_a_command_left_in_the_background_survives_the_clients_end(api: Api) -> None:
    """If it has streams of its own, as the server of an editor has. The other processes of the command end."""
    await api.machine.cluster.submit("p", "sleep", "1000")
    await api.machine.phase("p", "Running")
    url, headers = api.url("/exec/default/p/main"), {"Authorization": f"Bearer {TOKEN}"}
    script = (
        f"cd {api.machine.root}; (echo > serves; exec sleep 1000) </dev/null >/dev/null 2>&1 & echo $! > server;"
        "sleep 1000 & echo $! > job; until test -e serves; do sleep 0.01; done; echo up; sleep 1000"
    )
    params = [("command", "/bin/sh"), ("command", "-c"), ("command", script), ("output", "1"), ("error", "1")]
    async with api.session.ws_connect(url, params=params, protocols=("v5.channel.k8s.io",), headers=headers) as socket:
        while b"up" not in (await asyncio.wait_for(socket.receive_bytes(), BOUND_SECONDS)):
            pass
    server, job = (int((api.machine.root / name).read_text()) for name in ("server", "job"))
    await until(lambda: not alive(job))
    assert alive(server)


async def test_the_terminal_of_exec_can_be_resized(api: Api) -> None:
    await api.machine.cluster.submit("p", "sleep", "1000")
    await api.machine.phase("p", "Running")
    url, headers = api.url("/exec/default/p/main"), {"Authorization": f"Bearer {TOKEN}"}
    script = "echo up; read line; stty size"
    params = [("command", "/bin/sh"), ("command", "-c"), ("command", script)]
    params += [("output", "1"), ("input", "1"), ("tty", "1")]
    got = b""
    async with api.session.ws_connect(url, params=params, protocols=("v5.channel.k8s.io",), headers=headers) as socket:
        async for message in socket:
            if message.data[0] == 1:
                got += message.data[1:]
            if got == b"up\r\n":
                await socket.send_bytes(b"\x04" + json.dumps({"Width": 100, "Height": 40}).encode())
                await socket.send_bytes(b"\x00\n")
                got += b"|"
    assert b"40 100" in got


async def test_statistics_have_the_memory_of_each_pod(api: Api) -> None:
    """With its peak."""
    await api.machine.cluster.submit("p", "sleep", "1000")
    await api.machine.phase("p", "Running")
    summary = json.loads(await api.text("/stats/summary"))
    [pod] = summary["pods"]
    assert pod["podRef"]["name"] == "p"
    assert pod["memory"]["workingSetBytes"] > 0
    assert pod["containers"][0]["memory"]["peakBytes"] >= pod["memory"]["workingSetBytes"] > 0
    assert "p" in await api.text("/pods")


def decoded(text: str) -> dict[str, dict[tuple[str, ...], Sample]]:
    """Parse lines by metric and by container, Pod and namespace, as metrics-server does."""
    found: dict[str, dict[tuple[str, ...], Sample]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sample.labels[one] for one in ("container", "pod", "namespace") if one in sample.labels)
            found.setdefault(sample.name, {})[labels] = sample
    return found


async def test_resource_metrics_are_those_that_metrics_server_reads(api: Api) -> None:
    """It leaves out a Pod without processor time. Times of ended children count; ended containers do not appear."""
    api.machine.memory_available = 200 << 20
    script = "while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done"
    await api.machine.cluster.submit("p", "/bin/sh", "-c", script)
    await api.machine.cluster.submit("ended", "true")
    await api.machine.phase("ended", "Succeeded")
    await api.machine.phase("p", "Running")
    main, pod = ("main", "p", "default"), ("p", "default")
    computed = [0.0]
    while computed[-1] < 0.2:
        found = decoded(await api.text("/metrics/resource"))
        computed.append(found["container_cpu_usage_seconds_total"][main].value)
    assert computed == sorted(computed)
    for name in ("cpu_usage_seconds_total", "memory_working_set_bytes"):
        [(told, sample)] = found[f"container_{name}"].items()
        assert told == main and sample.value > 0
        assert found[f"pod_{name}"][pod].value == sample.value
        assert found[f"node_{name}"][()].value > 0
        assert sample.timestamp is not None and found[f"node_{name}"][()].timestamp is not None
    worker = api.machine.kubelet.find("default", "p")
    assert worker is not None and worker.slots["main"].state is not None
    assert found["container_start_time_seconds"][main].value == worker.slots["main"].state.started_at
    assert found["resource_scrape_error"][()].value == 0


async def test_resource_metrics_need_get_on_nodes_metrics(api: Api) -> None:
    """Metrics-server's role grants only that."""
    await api.text("/metrics/resource", expect=401, token="")
    user = {"username": "system:serviceaccount:kube-system:metrics-server", "groups": []}
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    api.machine.cluster.answers[reviews] = {"status": {"authenticated": True, "user": user}}
    api.machine.cluster.answers[ACCESS_REVIEWS_PATH] = {"status": {"allowed": True}}
    await api.text("/metrics/resource", token="the metrics-server's")
    spec = api.machine.cluster.posts[-1][1]["spec"]
    assert (spec["resourceAttributes"]["verb"], spec["resourceAttributes"]["subresource"]) == ("get", "metrics")


async def test_every_request_needs_credentials_and_the_right(api: Api) -> None:
    """The API server decides about the token and the right."""
    assert await api.text("/healthz", token="") == "ok"
    await api.text("/pods", expect=401, token="")
    await api.text("/pods", expect=401, token="unknown")
    user = {"username": "eve", "groups": ["dev"]}
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    api.machine.cluster.answers[reviews] = {"status": {"authenticated": True, "user": user}}
    await api.text("/pods", expect=403, token="eve's")
    api.machine.cluster.answers[ACCESS_REVIEWS_PATH] = {"status": {"allowed": True}}
    await api.text("/pods", token="eve's")
    spec = api.machine.cluster.posts[-1][1]["spec"]
    assert spec["resourceAttributes"] == {"verb": "get", "resource": "nodes", "subresource": "proxy", "name": "node"}
