"""Connections to ports of one member that share a few WebSockets.

A WebSocket takes the Web API, the API server and the kubelet a handshake each, so it carries several connections and is
kept for some time after the last. The first connections have a WebSocket each, since its streams have no flow
control: one that is not read at one side stops the others of its WebSocket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial

from kajitori.client.members.streams import PortConnection, connected, open_tunnel
from kajitori.client.members.tunnel_wire import TunnelConnection
from kajitori.client.target import Target
from kajitori.client.views import View
from kajitori.errors import Unavailable
from kajitori.kube.connection.joined import acknowledges
from kajitori.kube.errors import PortUnreachable
from kajitori.kube.spdy.ports import PortChannel
from kajitori.kube.spdy.session import PeerLiveness, Session

SPREAD = 8
"""Number of WebSockets at which connections begin to share them."""
MOST = 64
"""Largest number of WebSockets. There are more than SPREAD only while some are clogged."""
CLOGGED_BYTES = 1 << 20
"""Unread bytes of a WebSocket at which new connections avoid it: a local program does not read."""
KEPT_SECONDS = 30.0
"""Time for which a WebSocket without connections is kept."""


class TunnelBroken(Unavailable):
    """A WebSocket broke before a connection began on it."""


class PortTunnels:
    """Opens connections to the ports of one member."""

    def __init__(self, run: View, rank: int) -> None:
        self._run = run
        self._rank = rank
        self._tunnels: list[_Tunnel] = []
        self._serves_tunnels = True

    @asynccontextmanager
    async def connected(self, target: Target, port: int) -> AsyncIterator[PortChannel | PortConnection]:
        """Connect to a port of the member; the connection closes at the end.

        Raises:
            Unavailable: the server cannot be reached.
            KajitoriError: the server refuses the connection.
        """
        while self._serves_tunnels:
            tunnel = self._choose_tunnel(target, port)
            was_used = tunnel.number > 0
            tunnel.users += 1
            try:
                session = await asyncio.shield(tunnel.opening)
                if session is None:
                    self._serves_tunnels = False
                    break
                async with aclosing(await tunnel.connect(session, port)) as channel:
                    yield channel
                return
            except TunnelBroken:
                if not was_used:
                    raise
            except PortUnreachable as error:
                if not error.is_refusal:  # the tunnel may lead to a Pod that is gone
                    tunnel.retire()
                raise
            finally:
                tunnel.users -= 1
                self._keep_or_close(tunnel)
        async with connected(target, self._run, port, self._rank) as single:  # an older server
            yield single

    async def close(self) -> None:
        """Break all connections."""
        tunnels, self._tunnels = self._tunnels, []
        for tunnel in tunnels:
            await tunnel.close()

    def _choose_tunnel(self, target: Target, port: int) -> _Tunnel:
        """Return the tunnel for a new connection: an unused one, or a new one until there are SPREAD; else that with
        the fewest connections."""
        usable = [tunnel for tunnel in self._tunnels if tunnel.is_usable(target)]
        fluent = [tunnel for tunnel in usable if not tunnel.is_clogged()]
        least = min(fluent or usable, key=lambda tunnel: tunnel.users, default=None)
        if least is not None and (not least.users or len(fluent) >= SPREAD or len(self._tunnels) >= MOST):
            return least
        made = _Tunnel(target, self._run, port, self._rank)
        self._tunnels.append(made)
        return made

    def _keep_or_close(self, tunnel: _Tunnel) -> None:
        if tunnel.users or tunnel not in self._tunnels:
            return
        if tunnel.is_usable(tunnel.target):
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._close_if_unused, tunnel, tunnel.number)
        else:
            self._close_tunnel(tunnel)

    def _close_if_unused(self, tunnel: _Tunnel, number: int) -> None:
        if not tunnel.users and tunnel.number == number and tunnel in self._tunnels:
            self._close_tunnel(tunnel)

    def _close_tunnel(self, tunnel: _Tunnel) -> None:
        self._tunnels.remove(tunnel)
        tunnel.closing = asyncio.create_task(tunnel.close())


class _Tunnel:
    """One WebSocket, from the moment when it begins to open."""

    def __init__(self, target: Target, run: View, port: int, rank: int) -> None:
        self.target = target
        self.users = 0
        self.number = 0
        """Number of connections so far."""
        self.closing: asyncio.Task[None] | None = None
        self._name = f"rank {rank} of {run['name']}"
        self._is_over = False
        self._session: Session | None = None
        self._serving: asyncio.Task[None] | None = None
        self.opening = asyncio.create_task(self._open_tunnel(run, port, rank))

    def is_usable(self, target: Target) -> bool:
        """Return whether it takes new connections."""
        return not self._is_over and self.target == target

    def is_clogged(self) -> bool:
        """Return whether connections of it are not read."""
        return self._session is not None and self._session.unread_bytes >= CLOGGED_BYTES

    def retire(self) -> None:
        """Take no new connections."""
        self._is_over = True

    async def connect(self, session: Session, port: int) -> PortChannel:
        """Connect to a port. Raises TunnelBroken."""
        self.number += 1
        try:
            return await PortChannel.open(session, port, self.number, f"port {port} of {self._name}")
        except ConnectionError as error:
            self.retire()
            raise TunnelBroken("the connection to the server broke", hint="try again") from error

    async def close(self) -> None:
        """Close the WebSocket, also while it opens."""
        self.retire()
        self.opening.cancel()
        await asyncio.gather(self.opening, return_exceptions=True)
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _open_tunnel(self, run: View, port: int, rank: int) -> Session | None:
        """Open the WebSocket; return None if the server is too old to serve tunnels."""
        try:
            socket = await open_tunnel(self.target, run, port, rank)
            if socket is None:
                self.retire()
                return None
        except BaseException:
            self.retire()
            raise
        liveness = PeerLiveness(partial(acknowledges, socket.transport))
        session = self._session = Session(socket.wire, is_client=True, liveness=liveness, abort=socket.transport.abort)
        self._serving = asyncio.create_task(self._run_session(session, socket), name=f"tunnel to {self._name}")
        return session

    async def _run_session(self, session: Session, socket: TunnelConnection) -> None:
        try:
            await session.run()
        finally:
            self.retire()
            socket.transport.abort()  # a closing handshake would wait for what the server still sends
