"""The client's streams: logs, and programs in containers."""

from __future__ import annotations

import json

import pytest
from aiohttp import WSMsgType, web
from tests.unit.kube.fake_api import client_of
from tests.unit.kube.scripted import hang_up, no, scripted

from kajitori.errors import InvalidInput, Unavailable
from kajitori.kube.connection import transport
from kajitori.kube.errors import ConnectionFailed, NotFoundError, UnsupportedError
from kajitori.kube.streams import EXEC_PROTOCOL, Channel, exit_of


async def test_a_log_is_streamed_unchanged() -> None:
    """Options have Kubernetes' names; the bytes are unchanged."""

    async def log(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntw")
        await response.write(b"o\n")
        return response

    async with scripted(log) as server, client_of(server.url) as client:
        async with await client.open_log(
            "a", "x", container="main", follow=True, tail_lines=5, timestamps=True
        ) as stream:
            assert b"".join([chunk async for chunk in stream]) == b"one\ntwo\n"
        assert server.asked[0][1] == (
            "/api/v1/namespaces/a/pods/x/log?container=main&tailLines=5&follow=true&timestamps=true"
        )


async def test_a_refused_or_broken_log_is_an_error() -> None:
    """A refusal is raised when opening; a broken connection while reading."""

    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await hang_up(request)
        return response

    async with (
        scripted(no(400, "BadRequest", "container is waiting"), breaks) as server,
        client_of(server.url) as client,
    ):
        with pytest.raises(InvalidInput, match="waiting"):
            await client.open_log("a", "x", container="")
        with pytest.raises(ConnectionFailed):
            _ = [chunk async for chunk in await client.open_log("a", "x", container="")]


async def test_exec_uses_all_channels() -> None:
    """Input, its end and the terminal's size go out; output, errors and the exit code come in."""
    heard: list[bytes] = []

    async def run(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=[EXEC_PROTOCOL])
        await socket.prepare(request)
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            heard.append(message.data)
            if message.data[:1] == b"\xff":
                break
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"\x02err")
        status = {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": "command terminated with exit code 3",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        }
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket

    async with scripted(run) as server, client_of(server.url) as client:
        async with await client.open_exec(
            "a", "x", command=["sh", "-c", "a b"], container="main", stdin=True
        ) as program:
            await program.write(b"hello")
            await program.resize(80, 24)
            await program.close_stdin()
            assert [piece async for piece in program] == [(Channel.STDOUT, b"out"), (Channel.STDERR, b"err")]
            assert (program.exit_code, program.message) == (3, "command terminated with exit code 3")
        assert server.asked[0][1] == (
            "/api/v1/namespaces/a/pods/x/exec?command=sh&command=-c&command=a+b&container=main"
            "&stdin=true&stdout=true&stderr=true&tty=false"
        )
    assert heard == [b"\x00hello", b'\x04{"Width":80,"Height":24}', b"\xff\x00"]


async def test_a_refused_exec_has_the_servers_message() -> None:
    """The server's own message is raised, although a refused handshake loses its body."""
    async with scripted(no(404, "NotFound", 'pods "x" not found')) as server, client_of(server.url) as client:
        with pytest.raises(NotFoundError, match='pods "x" not found'):
            await client.open_exec("a", "x", command=["sh"], container="")


async def test_a_node_that_serves_no_exec_is_named_as_the_cause() -> None:
    """The body of the refused handshake is lost, and a plain request is refused for another reason."""

    async def refused(request: web.Request) -> web.StreamResponse:
        return web.Response(status=501 if "Upgrade" in request.headers else 400)

    async with scripted(refused) as server, client_of(server.url) as client:
        with pytest.raises(UnsupportedError, match="the Pod's node gives no access") as caught:
            await client.open_exec("a", "x", command=["sh"], container="")
    assert caught.value.hint == "simulated nodes run no programs"


@pytest.mark.parametrize(("failures", "seconds"), [(3, 1000.0), (1, -1.0)], ids=["in time", "too late"])
async def test_a_node_that_is_reached_a_moment_later_runs_the_program(
    failures: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start of `kaji up` the first `docker exec` ended with "HTTP 500 with an empty body"."""
    monkeypatch.setattr(transport, "HANDSHAKE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(transport, "HANDSHAKE_SECONDS", seconds)
    asked = 0

    async def refused(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        if "Upgrade" not in request.headers:
            return web.Response(status=400)
        asked += 1
        if asked <= failures:
            return web.Response(status=500)
        socket = web.WebSocketResponse(protocols=[EXEC_PROTOCOL])
        await socket.prepare(request)
        await socket.send_bytes(b'\x03{"status":"Success"}')
        await socket.close()
        return socket

    async with scripted(refused) as server, client_of(server.url) as client:
        if seconds < 0:
            with pytest.raises(Unavailable, match=r"reached no kubelet of the Pod's node \(HTTP 500\); try again"):
                await client.open_exec("a", "x", command=["sh"], container="")
        else:
            async with await client.open_exec("a", "x", command=["sh"], container="") as program:
                assert [piece async for piece in program] == [] and program.exit_code == 0


async def test_a_broken_exec_has_no_exit_code() -> None:
    """Without a Status at the end there is an error instead of an exit code."""

    async def run(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=[EXEC_PROTOCOL])
        await socket.prepare(request)
        await socket.close()
        return socket

    async with scripted(run) as server, client_of(server.url) as client:
        program = await client.open_exec("a", "x", command=["sh"], container="")
        with pytest.raises(ConnectionFailed, match="before the program ended"):
            _ = [piece async for piece in program]
        assert program.exit_code is None


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (b'{"status":"Success"}', (0, "")),
        (b'{"status":"Failure","message":"no shell"}', (None, "no shell")),
        (b'{"status":"Failure","reason":"NonZeroExitCode","message":"m"}', (None, "m")),
        (b"gibberish", (None, "gibberish")),
    ],
)
def test_the_exit_code_comes_from_the_final_status(payload: bytes, answer: tuple[int | None, str]) -> None:
    """Only a number in the Status is an exit code."""
    assert exit_of(payload) == answer
