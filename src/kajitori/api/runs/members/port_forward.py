"""Connections to ports of a member over a WebSocket.

In `v2.port-forward.kajitori.dev` one WebSocket carries any number of connections, to any port of the member. It is the
protocol of kubectl (SPDY/3.1 in binary messages, KEP-4006) under a name that WebSocket libraries accept, and the Web
API passes its bytes on to the API server as they are.

In `v1.port-forward.kajitori.dev` a WebSocket carries one connection. Each binary message holds bytes; an empty one ends
its sender's direction, and the other direction continues. The server closes the WebSocket with 1000 once both have
ended, with 1014 if nothing listens on the port.

The API server decides whether the caller may do so (`create pods/portforward`), by the caller's own token.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, WebSocket
from pydantic import Field

from kajitori.api.answers.paging import Parameters
from kajitori.api.context import Api
from kajitori.api.lookup import find_run
from kajitori.api.programs.connections import TUNNEL, Tunnel
from kajitori.api.rights import User
from kajitori.api.runs.members.streams import (
    check_protocol,
    parameters,
    pass_through,
    running_pod,
    serve_member_stream,
    while_allowed,
)
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.errors import KajitoriError, Unavailable
from kajitori.kube.connection.joined import JoinedEnd, until_either_ends
from kajitori.kube.resources import PODS
from kajitori.kube.spdy.ports import PORT_PROTOCOL
from kajitori.kube.streams import PortStream

router = APIRouter()

PROTOCOL = "v1.port-forward.kajitori.dev"
TUNNEL_PROTOCOL = "v2.port-forward.kajitori.dev"
SILENCE_SECONDS = 30.0
"""Interval at which a tunnel is checked. The caller counts as gone if it was silent since the last check and its kernel
does not acknowledge what was sent to it."""
_HANDSHAKE = (b"upgrade", b"sec-websocket-key", b"sec-websocket-version")
_ANSWERED = ("Upgrade", "Sec-WebSocket-Accept")


class PortForwardParameters(Parameters):
    port: int = Field(ge=1, le=65_535)
    """The port at `localhost` of the member."""
    rank: int = Field(default=0, ge=0, le=99_999)
    """The rank of the member."""


@router.websocket("/v1/runs/{namespace}/{name}/port-forward")
async def forward_port_of_member(socket: WebSocket, namespace: str, name: str) -> None:
    """Connect to a port of a member. A request that cannot be served is refused with a problem before the handshake."""

    async def serve(api: Api, user: User) -> None:
        query = parameters(socket, PortForwardParameters)
        run = await find_run(api, user, namespace, name)
        pod = await running_pod(api, user, run, query.rank)
        is_tunnel = TUNNEL in socket.scope.get("extensions", {})
        if not is_tunnel:
            check_protocol(socket, PROTOCOL)
        await user.may(
            "create", namespace, resource=PODS, subresource="portforward"
        )  # a recorded right is checked again
        if is_tunnel:
            await _tunnel(socket, api, user, run, pod, query.rank)
            return
        async with await user.client.open_port(pod.metadata.namespace, pod.metadata.name, query.port) as stream:
            await socket.accept(subprotocol=PROTOCOL)
            about = f"run {run.metadata.name}, rank {query.rank}, port {query.port}"
            api.audit.note(socket.scope, user.name, "forward port of run", namespace=namespace, object=about)
            ended = asyncio.Event()
            with while_allowed(api, socket, user) as revoked:
                await pass_through(socket, revoked, _upload(socket, stream, ended), _download(socket, stream, ended))

    await serve_member_stream(socket, serve)


def tunnel_scope(scope: Any) -> Any:
    """Return the scope of a WebSocket if the request asks for a tunnel to ports of a member; None for any other."""
    if not str(scope["path"]).startswith("/v1/runs/") or not str(scope["path"]).endswith("/port-forward"):
        return None
    offered = b",".join(value for name, value in scope["headers"] if name.lower() == b"sec-websocket-protocol")
    protocols = [one.strip() for one in offered.decode("latin-1").split(",")]
    if TUNNEL_PROTOCOL not in protocols:
        return None
    scheme = "wss" if scope["scheme"] == "https" else "ws"
    return {**scope, "type": "websocket", "scheme": scheme, "subprotocols": protocols}


async def _tunnel(socket: WebSocket, api: Api, user: User, run: RunObject, pod: Pod, rank: int) -> None:
    """Pass the caller's WebSocket on to the API server until either side ends it or the caller loses its right."""
    tunnel: Tunnel = socket.scope["extensions"][TUNNEL]
    upstream = JoinedEnd()
    asked = {name.decode(): value.decode("latin-1") for name, value in socket.scope["headers"] if name in _HANDSHAKE}
    asked |= {"Connection": "Upgrade", "Sec-WebSocket-Protocol": PORT_PROTOCOL}
    upgraded = await user.client.open_port_tunnel(pod.metadata.namespace, pod.metadata.name, asked, upstream)
    try:
        if upgraded.headers.get("Sec-WebSocket-Protocol") != PORT_PROTOCOL:
            raise Unavailable(
                f"the API server does not speak {PORT_PROTOCOL}", hint="it needs Kubernetes 1.31 or newer"
            )
        answer = [(name.encode(), upgraded.headers[name].encode()) for name in _ANSWERED if name in upgraded.headers]
        await tunnel.accept(
            [(b"Connection", b"Upgrade"), (b"Sec-WebSocket-Protocol", TUNNEL_PROTOCOL.encode()), *answer]
        )
        about = f"run {run.metadata.name}, rank {rank}, all ports"
        api.audit.note(socket.scope, user.name, "forward ports of run", namespace=run.metadata.namespace, object=about)
        tunnel.join(upstream)
        upstream.join(tunnel)
        with while_allowed(api, socket, user) as revoked:
            await _until_over(tunnel, upstream, revoked)
    finally:
        upgraded.close()


async def _until_over(tunnel: Tunnel, upstream: JoinedEnd, revoked: asyncio.Future[KajitoriError]) -> None:
    ends: set[asyncio.Future[Any]] = {asyncio.ensure_future(until_either_ends(tunnel, upstream)), revoked}
    try:
        while not (await asyncio.wait(ends, timeout=SILENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED))[0]:
            if tunnel.is_gone():
                return
    finally:
        for end in ends - {revoked}:
            end.cancel()


async def _upload(socket: WebSocket, stream: PortStream, ended: asyncio.Event) -> None:
    """Pass on the caller's data until it hangs up. Set `ended` when it has ended its direction."""
    while (message := await socket.receive())["type"] != "websocket.disconnect":
        data = message.get("bytes")
        if data:
            await stream.write(data)
        elif data is not None:
            await stream.end_writing()
            ended.set()


async def _download(socket: WebSocket, stream: PortStream, upload_ended: asyncio.Event) -> None:
    """Pass on the program's data until both directions have ended."""
    while data := await stream.read():
        await socket.send_bytes(data)
    await socket.send_bytes(b"")
    await upload_ended.wait()
