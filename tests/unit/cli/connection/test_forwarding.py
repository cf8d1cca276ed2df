"""Local ports that lead to a member's port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, view
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from kajitori.cli.connection.forwarding import Forward, Forwarder
from kajitori.client.members.streams import PORT_PROTOCOL
from kajitori.client.target import Target
from kajitori.errors import FieldError, InvalidInput

Handler = Callable[[ServerConnection], Awaitable[None]]


@pytest.mark.parametrize(
    ("text", "forward"),
    [("8888", Forward(8888, 8888)), ("8888:80", Forward(8888, 80)), (":80", Forward(0, 80)), ("0:80", Forward(0, 80))],
)
def test_a_forward_is_written_as_for_docker_and_kubectl(text: str, forward: Forward) -> None:
    assert Forward.parse(text) == forward


@pytest.mark.parametrize("text", ["", "http", "80:", "0", "70000", "1:2:3", "-1", "8888:0", "٣"])
def test_what_is_no_forward_is_refused(text: str) -> None:
    with pytest.raises(FieldError):
        Forward.parse(text)


async def echo(socket: ServerConnection) -> None:
    """Stand for a program that answers in upper case what it got before the end of its input."""
    text = b""
    while message := await socket.recv():
        text += message if isinstance(message, bytes) else b""
    await socket.send(text.upper())
    await socket.send(b"")


@asynccontextmanager
async def web_api(handler: Handler, *refusals: tuple[int, dict[str, Any]]) -> AsyncIterator[tuple[Target, list[str]]]:
    """Serve the route of port-forward, and refuse the first requests; yield the server and its requests' paths."""
    paths: list[str] = []

    def answer(socket: ServerConnection, request: Request) -> Response | None:
        paths.append(request.path)
        if len(paths) > len(refusals):
            return None
        status, problem = refusals[len(paths) - 1]
        return socket.respond(HTTPStatus(status), json.dumps(problem))

    async with serve(
        handler, "127.0.0.1", 0, process_request=answer, subprotocols=[PORT_PROTOCOL], compression=None
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield Target(f"http://127.0.0.1:{port}", TOKEN), paths


@asynccontextmanager
async def forwarding(find: Callable[[], Target], said: list[str], rank: int = 0) -> AsyncIterator[int]:
    forwarder = Forwarder(find, view("bert"), rank, said.append)
    try:
        yield await forwarder.listen("127.0.0.1", Forward(0, 80))
    finally:
        await forwarder.close()


async def answer(port: int, words: bytes) -> bytes:
    """Return the answer to these bytes and their end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    writer.write_eof()
    text = await reader.read()
    writer.close()
    return text


async def test_each_connection_half_closes_also_at_an_older_server() -> None:
    """A server without tunnels gets a WebSocket for each connection."""
    said: list[str] = []
    async with web_api(echo) as (target, paths), forwarding(lambda: target, said, rank=3) as port:
        large = b"x" * 1_000_000
        assert await asyncio.gather(*(answer(port, words) for words in (b"ada", b"bob", large))) == [
            b"ADA",
            b"BOB",
            large.upper(),
        ]
    assert set(paths) == {"/v1/runs/vision/bert/port-forward?port=80&rank=3"}
    assert said == []


async def test_a_refusal_is_told_once_and_later_connections_are_tried() -> None:
    """A browser connects again and again while a member restarts."""
    said: list[str] = []
    problem = {"detail": "bert is Restarting", "hint": "wait", "code": "WrongState"}
    async with web_api(echo, (409, problem), (409, problem)) as (target, _), forwarding(lambda: target, said) as port:
        assert [await answer(port, b"a") for _ in range(3)] == [b"", b"", b"A"]
    assert said == ["port 80: bert is Restarting (wait)"]


async def test_the_servers_reason_for_breaking_off_is_told() -> None:
    async def refuse(socket: ServerConnection) -> None:
        await socket.close(1014, "nothing listens on port 80")

    said: list[str] = []
    async with web_api(refuse) as (target, _), forwarding(lambda: target, said) as port:
        assert await answer(port, b"a") == b""
    assert said == ["port 80: nothing listens on port 80"]


async def test_a_server_that_moved_is_found_again() -> None:
    said: list[str] = []
    async with web_api(echo) as (target, _):
        places = [replace(target, url="http://127.0.0.1:1"), target]
        async with forwarding(lambda: places.pop(0) if len(places) > 1 else places[0], said) as port:
            assert await answer(port, b"a") == b"A"
    assert said == []


async def test_a_local_program_that_hangs_up_ends_the_stream() -> None:
    ended = asyncio.Event()

    async def chatter(socket: ServerConnection) -> None:
        try:
            while True:
                await socket.send(bytes(100_000))
        except ConnectionClosed:
            ended.set()

    said: list[str] = []
    async with web_api(chatter) as (target, _), forwarding(lambda: target, said) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readexactly(10)
        writer.transport.abort()
        await ended.wait()
    assert said == []


async def test_a_local_port_that_is_taken_is_refused() -> None:
    async with web_api(echo) as (target, _), forwarding(lambda: target, []) as taken:
        forwarder = Forwarder(lambda: target, view("bert"), 0, print)
        with pytest.raises(InvalidInput, match=f"can't listen on 127.0.0.1:{taken}: Address already in use") as refused:
            await forwarder.listen("127.0.0.1", Forward(taken, 80))
        assert refused.value.faults[0].hint == "let the machine choose a free port: :80"
