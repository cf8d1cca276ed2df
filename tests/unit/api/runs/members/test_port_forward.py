"""Port-forward: connections to members' ports, over WebSockets."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from kajitori.api.runs.members import port_forward, streams
from kajitori.api.runs.members.port_forward import PROTOCOL, TUNNEL_PROTOCOL
from kajitori.api.serving import protocols
from kajitori.api.serving import server as server_module
from kajitori.api.serving.server import ApiServer
from kajitori.client.members.port_tunnels import PortTunnels
from kajitori.client.target import Target
from kajitori.errors import Forbidden, Unavailable
from kajitori.kube.spdy.ports import PortChannel


@pytest.fixture(autouse=True)
async def member(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running run, whose Pod is in the mirror before the tests call."""
    monkeypatch.setattr(streams, "PODS_PATIENCE_SECONDS", 0.0)
    made = world.kubernetes.put("runs", run("bert") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    await world.caught_up()


def dial(server: ApiServer, query: str, token: str = "ada", protocol: str = PROTOCOL) -> connect:
    url = f"{server.url.replace('http', 'ws')}/v1/runs/team/bert/port-forward?{query}"
    headers = {"Authorization": f"Bearer {token}"}
    return connect(url, subprotocols=[Subprotocol(protocol)], additional_headers=headers, proxy=None)


async def test_both_directions_end_by_themselves(world: World) -> None:
    """An empty message is the end of a direction; after both ends the server closes the WebSocket."""
    async with ApiServer(world.app) as server:
        socket: ClientConnection
        async with dial(server, "port=7") as socket:
            await socket.send(b"typed")
            assert await socket.recv() == b"TYPED"
            await socket.send(b"")
            assert await socket.recv() == b""
            await socket.wait_closed()
            assert socket.close_code == 1000
        await world.kubernetes.ports_left.wait()


async def test_a_caller_that_hangs_up_ends_the_connection_to_the_pod(world: World) -> None:
    async with ApiServer(world.app) as server:
        async with dial(server, "port=7") as socket:
            await socket.send(b"typed")
            assert await socket.recv() == b"TYPED"
        await world.kubernetes.ports_left.wait()


async def test_nothing_listens_on_the_port(world: World) -> None:
    """The reason is in the WebSocket's close message."""
    async with ApiServer(world.app) as server:
        socket: ClientConnection
        async with dial(server, "port=8") as socket:
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert (socket.close_code, socket.close_reason) == (1014, "nothing listens on port 8 of Pod bert-1-0")


async def test_a_connection_ends_when_its_caller_loses_the_right_to_it(world: World) -> None:
    async with ApiServer(world.app) as server:
        socket: ClientConnection
        async with dial(server, "port=7") as socket:
            await socket.send(b"typed")
            await socket.recv()
            world.kubernetes.denied.add(("ada", "create", "pods/portforward", "team"))
            await world.api.callers.sessions.recheck()
            await socket.wait_closed()
            assert (socket.close_code, "may not create pods/portforward" in (socket.close_reason or "")) == (1008, True)


@pytest.mark.parametrize(
    ("query", "token", "protocol", "status"),
    [
        ("port=7", "expired", PROTOCOL, 401),
        ("port=7", "reader", PROTOCOL, 403),
        ("port=7&rank=5", "ada", PROTOCOL, 404),
        ("", "ada", PROTOCOL, 422),
        ("port=0", "ada", PROTOCOL, 422),
        ("port=70000", "ada", PROTOCOL, 422),
        ("port=7", "ada", "v5.channel.k8s.io", 422),
    ],
)
async def test_port_forward_is_refused_before_the_handshake(
    world: World, query: str, token: str, protocol: str, status: int
) -> None:
    """The refusal is an ordinary problem document."""
    world.kubernetes.denied.add(("reader", "create", "pods/portforward", "team"))
    async with ApiServer(world.app) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server, query, token, protocol):
                pass
        response = refused.value.response
        assert response.status_code == status
        assert json.loads(response.body or b"")["detail"]


async def test_a_tunnel_carries_connections_as_the_kubelet_serves_them(world: World) -> None:
    async with ApiServer(world.app) as server:
        tunnels = PortTunnels({"namespace": "team", "name": "bert"}, 0)
        async with tunnels.connected(Target(server.url, "ada"), 7) as connection:
            await connection.write(b"typed")
            assert await connection.read() == b"TYPED"
            assert isinstance(connection, PortChannel)
        await tunnels.close()
        await world.kubernetes.ports_left.wait()


async def test_a_tunnel_breaks_when_its_caller_loses_the_right_to_it(world: World) -> None:
    async with ApiServer(world.app) as server:
        tunnels = PortTunnels({"namespace": "team", "name": "bert"}, 0)
        async with tunnels.connected(Target(server.url, "ada"), 7) as connection:
            await connection.write(b"typed")
            await connection.read()
            world.kubernetes.denied.add(("ada", "create", "pods/portforward", "team"))
            await world.api.callers.sessions.recheck()
            with pytest.raises(Unavailable, match="broke"):
                await connection.read()
        with pytest.raises(Forbidden, match="may not create pods/portforward"):
            async with tunnels.connected(Target(server.url, "ada"), 7):
                pass
        await tunnels.close()


async def test_a_tunnel_whose_caller_vanished_is_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "SILENCE_SECONDS", 0.01)
    monkeypatch.setattr(protocols, "acknowledges", lambda _: False)
    async with ApiServer(world.app) as server:
        tunnels = PortTunnels({"namespace": "team", "name": "bert"}, 0)
        with pytest.raises(Unavailable, match="broke"):
            async with tunnels.connected(Target(server.url, "ada"), 7) as connection:
                await connection.read()
        await world.kubernetes.ports_left.wait()
        await tunnels.close()


@pytest.mark.parametrize(("query", "token", "status"), [("port=7", "expired", 401), ("port=7&rank=5", "ada", 404)])
async def test_a_tunnel_is_refused_with_a_problem(world: World, query: str, token: str, status: int) -> None:
    async with ApiServer(world.app) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server, query, token, TUNNEL_PROTOCOL):
                pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["detail"]


async def test_a_caller_that_answers_no_ping_but_is_there_stays_connected(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be unable to answer because it waits for a slow program; one that is gone is disconnected."""
    monkeypatch.setattr(server_module, "PING_SECONDS", 0.02)
    url = "/v1/runs/team/bert/port-forward?port=7"
    upgrade = [
        *("Host: x", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Sec-WebSocket-Protocol: {PROTOCOL}"),
        "Authorization: Bearer ada",
    ]
    async with ApiServer(world.app) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write("\r\n".join((f"GET {url} HTTP/1.1", *upgrade, "", "")).encode())
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        for _ in range(2 * protocols.GONE_PINGS):
            assert (await reader.readexactly(6))[:2] == b"\x89\x04"  # a ping
        monkeypatch.setattr(protocols, "acknowledges", lambda _: False)
        rest = await reader.read()
        assert rest.count(b"\x89\x04") >= protocols.GONE_PINGS - 1, "one lost packet does not end a connection"
        assert b"keepalive ping timeout" in rest
        writer.close()
