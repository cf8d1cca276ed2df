"""The Web API on a socket: how streams end, slow readers, signals and ports."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import suppress
from typing import Any, cast

import httpx2
import pytest
from starlette.types import Receive, Scope, Send
from tests.helpers.network.networks import in_a_network_of_its_own, ip, needs_networks, socket_in, wait_for_carrier
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.fake_programs import FakeLog

from kajitori.api.serving import server as serving
from kajitori.api.serving.protocols import TunnelProtocol
from kajitori.api.serving.server import ApiServer
from kajitori.errors import Unavailable

HEADERS = {"Authorization": "Bearer ada"}


async def put_member(world: World, log: FakeLog) -> None:
    made = world.kubernetes.put("runs", run("bert") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    world.kubernetes.logs["team", "bert-1-0"] = log
    await world.caught_up()


@pytest.mark.parametrize("path", ["/v1/runs/team/bert/watch", "/v1/runs/team/bert/logs?follow=true"])
async def test_a_stopping_server_aborts_open_streams(world: World, path: str) -> None:
    """Readers can tell that from a regular end, and connect again; the server does not wait for them."""
    await put_member(world, FakeLog("2026-11-21T10:00:00Z hello"))
    server = ApiServer(world.app)
    await server.start()
    async with httpx2.AsyncClient(base_url=server.url, headers=HEADERS) as http:
        async with http.stream("GET", path) as response:
            lines = response.aiter_lines()
            assert await anext(lines)
            await server.stop()
            with pytest.raises(httpx2.TransportError):
                await anext(lines)
        with pytest.raises(httpx2.ConnectError):
            await http.get("/healthz")


async def test_a_stream_with_a_broken_source_is_no_complete_answer(world: World, served: httpx2.AsyncClient) -> None:
    """A part of a log is not taken for the whole log."""
    log = FakeLog("2026-11-21T10:00:00Z hello")
    log.breaks = True
    await put_member(world, log)
    with pytest.raises(httpx2.TransportError):
        await served.get("/v1/runs/team/bert/logs")
    assert 'kajitori_api_broken_streams_total{kind="logs"} 1.0' in (await served.get("/metrics")).text


async def test_a_slow_reader_stops_the_reading_of_its_source(world: World, served: httpx2.AsyncClient) -> None:
    """The buffers of sockets limit what is in between, and nothing is lost when the reader continues."""
    line = "2026-11-21T10:00:00Z " + "x" * 65_000
    log = FakeLog(*[line] * 2000)
    await put_member(world, log)
    async with served.stream("GET", "/v1/runs/team/bert/logs") as response:
        while True:  # until no more bytes move
            before = log.sent
            await asyncio.sleep(0.2)
            if before == log.sent > 0:
                break
        assert log.sent < 40_000_000
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
    assert size == 2000 * 65_001


async def test_open_streams_are_counted(world: World, served: httpx2.AsyncClient) -> None:
    await put_member(world, FakeLog())
    async with served.stream("GET", "/v1/runs/team/bert/watch") as response:
        lines = response.aiter_lines()
        await anext(lines)
        assert 'kajitori_api_open_streams{kind="watch"} 1.0' in (await served.get("/metrics")).text


async def test_the_end_of_an_answer_does_not_wait_for_the_reader(world: World) -> None:
    """Without TCP_NODELAY it waits for an acknowledgement, which the reader's kernel delays by 40 ms."""
    async with ApiServer(world.app) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: kaji\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert server._server is not None
        [connection] = server._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /proxy/team/a/80/\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000,
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n",
    ],
)
async def test_bytes_that_are_no_request_are_answered_with_a_problem(world: World, sent: bytes) -> None:
    """The answer was plain text, which clients took for that of another server."""
    async with ApiServer(world.app) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(sent)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert (head.split(b"\r\n")[0], b"application/problem+json" in head) == (b"HTTP/1.1 400 Bad Request", True)
    assert json.loads(body)["code"] == "BadRequest"


async def test_an_address_in_use_is_reported(world: World) -> None:
    async with ApiServer(world.app) as first:
        with pytest.raises(Unavailable) as refused:
            await ApiServer(world.app, port=first.port).start()
    assert refused.value.message.endswith(f"{first.port}: the port is in use")
    assert "--port" in refused.value.hint
    with pytest.raises(Unavailable, match=r"cannot listen on 192\.0\.2\.1:0: ") as refused:
        await ApiServer(world.app, host="192.0.2.1").start()
    assert "--host" in refused.value.hint


async def test_the_server_does_not_change_signal_handlers(world: World) -> None:
    """The owner of the event loop decides about SIGTERM."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with ApiServer(world.app):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_a_stopping_server_finishes_requests_in_progress(world: World) -> None:
    """A submission is not aborted by an orderly stop."""
    server = ApiServer(world.app)
    await server.start()
    async with httpx2.AsyncClient(base_url=server.url, headers=HEADERS) as http:
        submitting = asyncio.create_task(http.post("/v1/runs", json={"name": "bert", "spec": {"image": "bert:3"}}))
        async with asyncio.timeout(60):
            while not any(method == "POST" and path.endswith("/runs") for method, path, _ in world.kubernetes.requests):
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(submitting), 0.001)
        await server.stop()
        response = await submitting
    assert response.status_code == 201
    assert json.loads(response.text)["name"] == "bert"


async def test_a_caller_that_hung_up_before_its_handshake_was_answered_is_no_bug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """JupyterLab's page connects again and again while its Pod is replaced; the log had a traceback for each."""

    class Gone(asyncio.Transport):
        def is_closing(self) -> bool:
            return True

        def pause_reading(self) -> None: ...

        def close(self) -> None: ...

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.http.response.start", "status": 502, "headers": []})

    await TunnelProtocol(cast(Any, None), Gone(), set()).serve(refuse, {}, b"")
    assert not caplog.records


@pytest.mark.root
@needs_networks
@in_a_network_of_its_own
def test_the_address_of_a_bridge_is_served_on_that_bridge_alone() -> None:
    """Linux answers at each address of a machine on each of its interfaces, so another machine with a route would reach
    what is meant for the Pods behind the bridge."""
    ip("link add bridge type bridge", "addr add 10.99.0.1/24 dev bridge", "link set bridge up", "link set lo up")
    for network, address, to_bridge in (("pod", "10.99.0.2", "master bridge"), ("other", "192.0.2.2", "")):
        ip(f"netns add {network}", f"link add to-{network} type veth peer name eth0 netns {network}")
        ip(f"link set to-{network} {to_bridge} up")
        ip(f"addr add {address}/24 dev eth0", "link set eth0 up", network=network)
        wait_for_carrier(f"to-{network}")
    ip("addr add 192.0.2.1/24 dev to-other")
    ip("route add 10.99.0.0/24 via 192.0.2.1", network="other")
    with serving._bind("10.99.0.1", 0, "bridge") as listening, serving._bind("10.99.0.1", 0) as everywhere:
        for network, listener, is_reached in (
            ("pod", listening, True),
            ("other", everywhere, True),
            ("other", listening, False),
        ):
            with socket_in(network, socket.AF_INET, socket.SOCK_STREAM) as caller:
                assert (caller.connect_ex(listener.getsockname()) == 0) is is_reached, network
