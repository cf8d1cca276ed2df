"""Limits on callers, above all unauthenticated ones, on sockets as hostile callers use them."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from tests.harness.waiting import PATIENCE_SECONDS
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.fake_programs import FakeLog

from kajitori.api.serving import protocols
from kajitori.api.serving.server import ApiServer
from kajitori.configuration.web_limits import WebLimits
from kajitori.embedded.apiserver.certificates import ensure_certificates

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

BODY_LIMIT = 1 << 20


@pytest.fixture
def limits() -> WebLimits:
    return WebLimits(
        connections=12,
        connections_per_address=10,
        unauthenticated=6,
        unauthenticated_per_address=3,
        header_seconds=0.3,
        body_seconds=0.3,
        body_bytes=4096,
    )


@pytest.fixture
async def server(world: World) -> AsyncIterator[ApiServer]:
    async with ApiServer(world.app) as running:
        yield running


@asynccontextmanager
async def connected(server: ApiServer, source: str = "127.0.0.1") -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(server.host, server.port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def header(method: str, path: str, *lines: str, token: str = "") -> bytes:
    credentials = [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: kaji", *credentials, *lines, "", ""]).encode()


async def status_of(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(30):
        return int((await reader.readline()).split()[1])


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Return the status and the problem document."""
    status = await status_of(reader)
    async with asyncio.timeout(30):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
        return status, json.loads(await reader.readexactly(size))


async def ends(reader: asyncio.StreamReader) -> bool:
    """Wait until the server has closed the connection."""
    async with asyncio.timeout(30):
        with suppress(ConnectionError):
            await reader.read()
    return True


async def test_an_unknown_caller_is_refused_before_its_body_arrives(server: ApiServer) -> None:
    for token in ("", "expired"):
        async with connected(server) as (reader, writer):
            writer.write(header("POST", "/v1/runs", f"Content-Length: {BODY_LIMIT}", token=token))
            assert await status_of(reader) == 401


async def test_the_body_after_a_refusal_is_read_for_a_limited_time(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that sends its whole body before it reads sees the answer; one that sends without end is
    disconnected."""
    monkeypatch.setattr(protocols, "LINGER_SECONDS", 0.3)
    async with httpx2.AsyncClient(base_url=server.url) as http:
        answer = await http.post("/v1/runs", content=b"x" * BODY_LIMIT)
        assert answer.status_code == 401
    async with connected(server) as (reader, writer):
        writer.write(header("POST", "/v1/runs", "Transfer-Encoding: chunked"))
        assert await status_of(reader) == 401
        ended = asyncio.create_task(ends(reader))
        with suppress(ConnectionError):
            while not ended.done():
                writer.write(b"5\r\nabcde\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        assert await ended


@pytest.mark.parametrize("sent", [b"", b"GET /v1/runs HTTP/1.1\r\nHost: ka"])
async def test_a_header_must_arrive_in_time(server: ApiServer, sent: bytes) -> None:
    async with connected(server) as (reader, writer):
        writer.write(sent)
        assert await ends(reader)


async def test_a_header_sent_byte_by_byte_must_arrive_in_time(server: ApiServer) -> None:
    """Neither a further byte nor an earlier request on the connection extends the time."""
    async with connected(server) as (reader, writer):
        writer.write(header("GET", "/healthz"))
        assert (await answer_of(reader))[0] == 200
        ended = asyncio.create_task(ends(reader))
        with suppress(ConnectionError):
            while not ended.done():
                writer.write(b"G")
                await writer.drain()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await asyncio.shield(ended)
        assert await ended


async def test_a_body_must_arrive_in_time(server: ApiServer) -> None:
    """This holds for authenticated callers, too."""
    async with connected(server) as (reader, writer):
        writer.write(header("POST", "/v1/runs", "Content-Length: 100", token="ada") + b"{")
        status, problem = await answer_of(reader)
    assert (status, problem["code"]) == (408, "TooSlow")


async def test_the_memory_for_all_bodies_is_limited(server: ApiServer) -> None:
    """Each caller has a share of it, so another one has room meanwhile."""
    body = json.dumps({"spec": {"image": "bert:3"}}).encode()
    async with connected(server) as (reader, writer):
        writer.write(header("POST", "/v1/runs", "Content-Length: 1025", token="ada") + b" " * 1025)
        status, problem = await answer_of(reader)
        assert (status, problem["code"]) == (429, "Busy")
    async with connected(server) as (_, held):
        held.write(header("POST", "/v1/runs", "Content-Length: 900", token="ada") + b" " * 800)
        async with connected(server) as (reader, writer):
            writer.write(header("POST", "/v1/runs", f"Content-Length: {len(body)}", token="eve") + body)
            assert await status_of(reader) == 201


async def test_a_caller_that_disconnects_in_its_body_is_not_logged_as_an_error(
    world: World, server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with connected(server) as (_, writer):
        writer.write(header("POST", "/v1/runs", "Content-Length: 100", token="ada") + b"{")
        await writer.drain()
    counted = 'kajitori_api_request_seconds_count{method="POST",route="/v1/runs",status="499"} 1.0'
    async with httpx2.AsyncClient(base_url=server.url) as http, asyncio.timeout(PATIENCE_SECONDS):
        while counted not in (await http.get("/metrics")).text:
            pass
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_bytes_that_are_not_http_are_not_logged(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        assert await status_of(reader) == 400
    assert not caplog.records


async def test_the_oldest_unauthenticated_connection_is_closed_for_a_new_one(world: World, server: ApiServer) -> None:
    """Authenticated connections stay, also from the same address, and the next caller from there is served."""
    async with connected(server) as known:
        known[1].write(header("GET", "/v1/version", token="ada"))
        assert (await answer_of(known[0]))[0] == 200
        async with connected(server) as first, connected(server), connected(server), connected(server) as last:
            assert await ends(first[0])
            last[1].write(header("GET", "/v1/version", token="ada"))
            assert await status_of(last[0]) == 200
        known[1].write(header("GET", "/v1/version", token="ada"))
        assert (await answer_of(known[0]))[0] == 200
    metrics = (await world.http.get("/metrics")).text
    assert 'kajitori_api_closed_connections_total{why="evicted"} 1.0' in metrics


async def test_the_limit_of_an_address_holds_for_authenticated_callers(world: World, server: ApiServer) -> None:
    """Callers from other addresses are served."""
    async with httpx2.AsyncClient(base_url=server.url, headers={"Authorization": "Bearer ada"}) as http:
        world.kubernetes.put("runs", run("bert"))
        await world.caught_up()
        opened = []
        for _ in range(10):
            opened.append(http.stream("GET", "/v1/runs/team/bert/watch"))
            assert (await opened[-1].__aenter__()).status_code == 200
        async with connected(server) as (reader, _):
            assert await ends(reader)
        async with connected(server, "127.0.0.2") as (reader, writer):
            writer.write(header("GET", "/v1/version", token="ada"))
            assert await status_of(reader) == 200
        for stream in opened:
            await stream.__aexit__(None, None, None)


async def test_an_answer_that_is_not_read_is_aborted(
    world: World, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory is freed."""
    monkeypatch.setattr(protocols, "FLUSH_SECONDS", 0.1)
    with socket.create_connection((server.host, server.port)) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(header("GET", "/openapi.json") * 400)
        await until(lambda: _open(world) == 1)
        await until(lambda: _open(world) == 0)


async def test_a_websocket_counts_as_a_connection_until_it_is_closed(world: World, server: ApiServer) -> None:
    """It counts as authenticated; a refused one is closed at once."""
    made = world.kubernetes.put("runs", run("bert") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    world.kubernetes.logs["team", "bert-1-0"] = FakeLog()
    await world.caught_up()
    upgrade = [
        *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    path = "/v1/runs/team/bert/exec?command=sh"
    async with connected(server) as (reader, writer):
        writer.write(header("GET", path, *upgrade))
        assert await status_of(reader) == 401
        assert await ends(reader)
    protocol = "Sec-WebSocket-Protocol: v5.channel.k8s.io"
    async with connected(server) as (reader, writer):
        writer.write(header("GET", path, *upgrade, protocol, token="ada"))
        assert await status_of(reader) == 101
        assert (_open(world), _unauthenticated(world)) == (1, 0)
    await until(lambda: _open(world) == 0)


async def test_a_tls_handshake_must_end_in_time(world: World, tmp_path: Path) -> None:
    """A connection in a handshake counts as unauthenticated."""
    made = ensure_certificates(tmp_path)
    async with ApiServer(world.app, certificate=made.server, key=made.server_key) as server:
        async with connected(server) as (reader, _):
            await until(lambda: _unauthenticated(world) == 1)
            assert await ends(reader)
        async with connected(server) as first, connected(server), connected(server), connected(server):
            assert await ends(first[0])
        trusting = ssl.create_default_context(cafile=str(made.ca))
        async with httpx2.AsyncClient(base_url=server.url, verify=trusting) as http:
            assert (await http.get("/healthz")).status_code == 200
        await until(lambda: _open(world) == 0)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - no event tells when a connection was accepted
            await asyncio.sleep(0.001)


def _open(world: World) -> float:
    return float(world.api.process.registry.get_sample_value("kajitori_api_connections") or 0)


def _unauthenticated(world: World) -> float:
    return float(world.api.process.registry.get_sample_value("kajitori_api_unauthenticated_connections") or 0)
