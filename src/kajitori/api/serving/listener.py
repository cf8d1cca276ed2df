"""The listening socket: accepts connections, limits their number, and tracks which are authenticated.

uvicorn limits requests (`limit_concurrency`), but neither connections nor the time that a header may take. So this
module accepts the connections and passes them to protocols with deadlines (`api/serving/protocols.py`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kajitori.core.protection.connections import ConnectionTable
from kajitori.monitoring.metrics import ApiMetrics

log = logging.getLogger(__name__)

ACCEPTED_AT_ONCE = 64
"""Connections that are accepted in a row before the event loop serves open ones again."""

PAUSE_SECONDS = 1.0
"""Pause after the system had no file descriptor or memory for a connection."""

LOGGED_SECONDS = 60.0
"""Shortest time between two log lines about closed connections."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Connection:
    """One accepted connection, until it is closed. Requests find it in their ASGI scope, as `state["connection"]`."""

    __slots__ = ("_listener", "address", "is_authenticated", "is_streaming", "task", "transport")

    def __init__(self, listener: Listener, address: str) -> None:
        self.address = address
        self.is_authenticated = False
        self.is_streaming = False
        """Whether a stream is being written, which may take as long as its caller likes."""
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self._listener = listener

    def authenticated(self) -> None:
        """Note that a caller was authenticated on this connection."""
        if not self.is_authenticated:
            self.is_authenticated = True
            self._listener.table.authenticated(self)

    def closed(self) -> None:
        """Note that the connection is closed."""
        self._listener.table.forget(self)

    def abort(self) -> None:
        """Close the connection at once, even during a request."""
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class Listener:
    """Accepts connections; takes the place of asyncio's servers in `uvicorn.Server.servers`."""

    def __init__(
        self,
        sock: socket.socket,
        make_protocol: Callable[[Connection], asyncio.Protocol],
        table: ConnectionTable[Connection],
        metrics: ApiMetrics,
        *,
        tls: ssl.SSLContext | None,
        tls_seconds: float,
    ) -> None:
        """`sock` is bound, listening and non-blocking. Listeners of one server share its `table`. `tls_seconds` is the
        longest time for a TLS handshake."""
        self.table = table
        self._socket = sock
        self._make_protocol = make_protocol
        self._metrics = metrics
        self._options: dict[str, Any] = {"ssl": tls, "ssl_handshake_timeout": tls_seconds} if tls else {}
        self._loop = asyncio.get_running_loop()
        self._closed_lately = 0
        self._logged_at = -LOGGED_SECONDS
        self._loop.add_reader(sock, self._accept)
        self._is_open = True

    def close(self) -> None:
        """Stop accepting connections. Open ones stay open."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)

    async def wait_closed(self) -> None:
        """Do nothing: uvicorn calls this, but waits for the connections itself."""

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.error("cannot accept connections: %s", error.strerror)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(PAUSE_SECONDS, self._resume)
                return
            connection = Connection(self, str(address[0]))
            if self._admit(connection):
                connection.task = self._loop.create_task(self._open(connection, accepted))
            else:
                accepted.close()

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._accept)

    def _admit(self, connection: Connection) -> bool:
        victim = self.table.admit(connection, connection.address, self._loop.time())
        if victim is None:
            return True
        self._metrics.closed_connections.labels("refused" if victim is connection else "evicted").inc()
        self._note_closed()
        if victim is connection:
            return False
        victim.abort()
        return True

    def _note_closed(self) -> None:
        self._closed_lately += 1
        now = self._loop.time()
        if now - self._logged_at >= LOGGED_SECONDS:
            log.warning(
                "%d connections closed because too many are open (%d, %d of them without credentials); see --limit",
                self._closed_lately,
                len(self.table),
                self.table.unauthenticated,
            )
            self._closed_lately, self._logged_at = 0, now

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(lambda: self._make_protocol(connection), accepted, **self._options)
        except OSError:  # ssl.SSLError and TimeoutError are among them
            connection.closed()
        except BaseException:
            connection.closed()
            raise
