"""Connections to ports of a member that share WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.unit.cli.fake_web_api import TOKEN, view
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from kajitori.client.members import port_tunnels
from kajitori.client.members.port_tunnels import PortTunnels
from kajitori.client.members.streams import TUNNEL_PROTOCOL
from kajitori.client.target import Target
from kajitori.errors import Unavailable
from kajitori.kube.errors import PortUnreachable
from kajitori.kube.spdy import session as session_module
from kajitori.kube.spdy.session import Session, Stream


class ServerWire:
    """The server's end of a tunnel's WebSocket, for a session."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        with suppress(ConnectionClosed):
            async for message in self.socket:
                assert isinstance(message, bytes)
                yield message

    async def send(self, *parts: bytes | memoryview) -> None:
        try:
            await self.socket.send(b"".join(parts))
        except ConnectionClosed as error:
            raise ConnectionResetError from error

    async def close(self) -> None:
        await self.socket.close()


class Kubelet:
    """Serves tunnels: port 7 echoes in upper case once its input has ended, port 9 sends a megabyte and more. Nothing
    listens elsewhere."""

    def __init__(self) -> None:
        self.sockets: list[ServerConnection] = []
        self.closed = asyncio.Event()
        self.is_silent = False

    async def serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        if self.is_silent:
            async for _ in socket:
                pass
            return
        pairs: dict[str, dict[str, Stream]] = {}
        tasks: list[asyncio.Task[None]] = []

        def opened(stream: Stream) -> bool:
            pair = pairs.setdefault(stream.headers["requestid"], {})
            pair[stream.headers["streamtype"]] = stream
            if len(pair) == 2:
                tasks.append(asyncio.create_task(self._answer(pair["data"], pair["error"])))
            return True

        await Session(ServerWire(socket), opened).run()
        for task in tasks:
            task.cancel()
        self.closed.set()

    async def _answer(self, data: Stream, error: Stream) -> None:
        with suppress(ConnectionError):
            match data.headers["port"]:
                case "7":
                    text = b""
                    while piece := await data.read():
                        text += piece
                    await data.write(text.upper())
                case "9":
                    while True:
                        await data.write(bytes(100_000))
                case other:
                    refused = other == "8"
                    await error.write(b"connect: connection refused" if refused else b"the sandbox is gone")
            await error.close()
            await data.close()


@asynccontextmanager
async def tunnels() -> AsyncIterator[tuple[PortTunnels, Target, Kubelet]]:
    kubelet = Kubelet()
    async with serve(kubelet.serve, "127.0.0.1", 0, subprotocols=[TUNNEL_PROTOCOL], compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        made = PortTunnels(view("bert"), 0)
        try:
            yield made, Target(f"http://127.0.0.1:{port}", TOKEN), kubelet
        finally:
            await made.close()


async def answer(tunnels: PortTunnels, target: Target, words: bytes, port: int = 7) -> bytes:
    async with tunnels.connected(target, port) as connection:
        await connection.write(words)
        await connection.end_writing()
        text = b""
        while piece := await connection.read():
            text += piece
        return text


async def test_connections_share_a_few_websockets_and_half_close() -> None:
    async with tunnels() as (opened, target, kubelet):
        words = [b"%d ada" % number for number in range(40)]
        assert await asyncio.gather(*(answer(opened, target, word) for word in words)) == [w.upper() for w in words]
        assert len(kubelet.sockets) == port_tunnels.SPREAD
        assert await answer(opened, target, b"late") == b"LATE"
        assert len(kubelet.sockets) == port_tunnels.SPREAD, "an unused WebSocket is used again"


async def test_a_refused_port_leaves_the_websocket_in_use() -> None:
    async with tunnels() as (opened, target, kubelet):
        with pytest.raises(PortUnreachable, match="nothing listens on port 8 of rank 0 of bert"):
            await answer(opened, target, b"a", port=8)
        assert await answer(opened, target, b"a") == b"A"
        assert len(kubelet.sockets) == 1


async def test_a_websocket_to_a_pod_that_is_gone_is_not_used_again() -> None:
    async with tunnels() as (opened, target, kubelet):
        with pytest.raises(PortUnreachable, match="the sandbox is gone"):
            await answer(opened, target, b"a", port=11)
        assert await answer(opened, target, b"a") == b"A"
        assert len(kubelet.sockets) == 2


async def test_a_broken_websocket_breaks_its_connections_and_is_replaced() -> None:
    async with tunnels() as (opened, target, kubelet):
        async with opened.connected(target, 7) as connection:
            kubelet.sockets[0].transport.abort()
            with pytest.raises(Unavailable, match="the connection to port 7 of rank 0 of bert broke"):
                await connection.read()
        assert await answer(opened, target, b"a") == b"A"


async def test_new_connections_avoid_one_that_is_not_read() -> None:
    async with tunnels() as (opened, target, kubelet), opened.connected(target, 9) as unread:
        first = opened._tunnels[0]
        while not first.is_clogged():  # noqa: ASYNC110 — the connection is not read here, so nothing else tells
            await asyncio.sleep(0)
        assert await answer(opened, target, b"a") == b"A"
        assert len(kubelet.sockets) == 2
        assert len(await unread.read()) > 0


async def test_an_unused_websocket_is_closed_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_tunnels, "KEPT_SECONDS", 0.0)
    async with tunnels() as (opened, target, kubelet):
        assert await answer(opened, target, b"a") == b"A"
        await kubelet.closed.wait()


async def test_a_server_that_vanishes_silently_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and bytes, and answers nothing: not even pings."""
    monkeypatch.setattr(session_module, "PING_SECONDS", 0.01)
    monkeypatch.setattr(session_module, "GONE_SECONDS", 0.02)
    async with tunnels() as (opened, target, kubelet):
        kubelet.is_silent = True
        async with opened.connected(target, 7) as connection:
            with pytest.raises(Unavailable, match="broke"):
                await connection.read()
        kubelet.is_silent = False
        assert await answer(opened, target, b"a") == b"A"
