"""Streams to members."""

from __future__ import annotations

import pytest
from tests.unit.cli.fake_web_api import TOKEN, view
from websockets.asyncio.server import ServerConnection, serve

from kajitori.api.serving import server
from kajitori.client import member_streams
from kajitori.client.member_streams import COMMAND_PROTOCOL, command_url, running
from kajitori.client.target import Target
from kajitori.errors import Unavailable
from kajitori.kube.spdy import session


async def test_a_server_that_vanishes_silently_ends_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and what is sent, and answers nothing: not even pings."""

    async def swallow(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with serve(swallow, "127.0.0.1", 0, subprotocols=[COMMAND_PROTOCOL], ping_interval=None) as served:
        target = Target(f"http://127.0.0.1:{next(iter(served.sockets)).getsockname()[1]}", TOKEN)
        with pytest.raises(Unavailable, match="broke while the command ran: the server was silent for 45 seconds"):
            async with running(target, command_url(target, view("bert"), ["sleep", "9"])) as stream:
                socket = stream._socket
                assert isinstance(socket, member_streams.WatchedConnection)
                monkeypatch.setattr(socket, "_heard_at", socket.loop.time() - member_streams.SILENCE_SECONDS)
                socket.loop.call_soon(socket._look_now)
                async for _ in stream.output():
                    pass


@pytest.mark.parametrize("reads", [True, False])
async def test_a_server_counts_as_silent_only_while_its_bytes_are_read(
    reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has arrived may wait for a slow reader of the command's output."""

    async def swallow(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with serve(swallow, "127.0.0.1", 0, subprotocols=[COMMAND_PROTOCOL]) as served:
        target = Target(f"http://127.0.0.1:{next(iter(served.sockets)).getsockname()[1]}", TOKEN)
        async with running(target, command_url(target, view("bert"), ["true"])) as stream:
            socket = stream._socket
            assert isinstance(socket, member_streams.WatchedConnection)
            if not reads:
                socket.transport.pause_reading()
            monkeypatch.setattr(socket, "_heard_at", socket.loop.time() - member_streams.SILENCE_SECONDS)
            socket._look_now()
            assert socket.was_silent == reads
            socket.transport.abort()


def test_pings_of_both_sides_are_more_frequent_than_proxies_expect() -> None:
    """Many proxies cut a connection that was idle for 60 s."""
    assert max(server.PING_SECONDS, member_streams.PING_SECONDS, session.PING_SECONDS) <= 20
    assert 2 * server.PING_SECONDS < member_streams.SILENCE_SECONDS, "an unanswered ping delays the next one"
