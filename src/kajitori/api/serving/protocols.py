"""uvicorn's protocols with deadlines, so that slow callers do not keep connections and their memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import h11
from starlette.types import ASGIApp, Message
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import http11

from kajitori.api.answers.problems import malformed_response
from kajitori.api.programs.connections import TUNNEL, Tunnel
from kajitori.api.serving.listener import Connection
from kajitori.kube.connection.joined import acknowledges

log = logging.getLogger(__name__)

HEADER_BYTES = 32 << 10
"""Largest size of a request's header; a token alone may have 16 KiB."""

# The words of an exec are in the first line. The library's own limit is 8 KiB, beyond which it answers nothing.
http11.MAX_LINE_LENGTH = HEADER_BYTES

LINGER_SECONDS = 10.0
"""Time for which the rest of a body is read and dropped after its answer. A caller whose connection is closed while it
sends would not see the answer."""

GONE_PINGS = 3
"""Number of successive unacknowledged pings after which the caller of a WebSocket is gone."""

FLUSH_SECONDS = 30.0
LEAST_BYTES_PER_SECOND = 1024
"""Lowest speed at which a caller may read an answer; a slower one is cut off. It does not hold for streams, which take
almost no memory."""


TUNNEL_BYTES = 256 << 10
"""Bytes of a WebSocket that wait for its program. Beyond that, the caller's connection is not read."""


class HttpProtocol(H11Protocol):
    """HTTP/1.1 with deadlines for a request's header and for reading the answer. A body is read on demand."""

    def __init__(
        self,
        connection: Connection,
        header_seconds: float,
        tunnels: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        """`tunnels` returns the ASGI scope of a WebSocket that is passed on in bytes (TunnelProtocol), and None for
        any other WebSocket."""
        options["app_state"] = {**options["app_state"], "connection": connection}
        super().__init__(**options)
        self._connection = connection
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._is_upgraded = False
        self._tunnels = tunnels

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connection.transport = transport
        self._expect_within(self._header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        if self._flush is not None:
            self._flush.cancel()
        super().connection_lost(exc)
        self._connection.closed()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_upgraded or self.transport.is_closing():
            return
        if self._is_answering:
            self._forget_deadline()
            if self.cycle.body and self.cycle.more_body:
                self.flow.pause_reading()  # resumes when the application asks for more
        elif self._deadline is None:
            self._expect_within(self._header_seconds)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._is_upgraded = True
        self._forget_deadline()
        scope = self._tunnels(self.scope) if self._tunnels is not None else None
        if scope is None:
            super().handle_websocket_upgrade(event)
            return
        self.connections.discard(self)
        tunnel = TunnelProtocol(self._connection, self.transport, self.connections)
        ended = self.conn.next_event()  # a handshake has no body
        self.transport.set_protocol(tunnel)
        task = self.loop.create_task(tunnel.serve(self.app, scope, bytes(self.conn.trailing_data[0])))
        if not isinstance(ended, h11.EndOfMessage):
            tunnel.close()
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def send_400_response(self, msg: str) -> None:
        """Answer with a problem if the bytes are not a request, or if the head of the request is too large."""
        response = malformed_response(HEADER_BYTES)
        headers = [*response.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        self.cycle.body = bytearray()
        waiting = self.transport.get_write_buffer_size()
        if waiting and self._flush is None:
            self._flush = self.loop.call_later(FLUSH_SECONDS, self._check_flush, waiting)
        super().on_response_complete()
        if not self._is_answering and self.conn.their_state is h11.SEND_BODY:
            self._expect_within(LINGER_SECONDS)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_within(self, seconds: float) -> None:
        self._forget_deadline()
        self._deadline = self.loop.call_later(seconds, self._connection.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _check_flush(self, before: int) -> None:
        """Abort the connection if the caller read too little since the last check, unless a stream has begun since."""
        self._flush = None
        waiting = self.transport.get_write_buffer_size()
        if not waiting or self._connection.is_streaming:
            return
        if before - waiting < FLUSH_SECONDS * LEAST_BYTES_PER_SECOND:
            self._connection.abort()
        else:
            self._flush = self.loop.call_later(FLUSH_SECONDS, self._check_flush, waiting)


class TunnelProtocol(Tunnel):
    """The caller's side of a WebSocket that is passed on in bytes: to a program, or to the ports of a member.

    The application finds it in its scope, under `extensions`. Until it calls `accept`, nothing is read, and it may
    refuse with an ordinary answer, after which the connection is closed.
    """

    def __init__(self, connection: Connection, transport: asyncio.Transport, connections: set[Any]) -> None:
        """`connections` are those that the server waits for when it stops."""
        super().__init__(TUNNEL_BYTES)
        self.connection_made(transport)
        self._connection = connection
        self._connections = connections
        self._writable = asyncio.Event()
        self._writable.set()
        self._was_asked = False
        transport.pause_reading()
        connections.add(self)

    async def serve(self, app: ASGIApp, scope: Any, first: bytes) -> None:
        """Let the application answer the handshake; `first` arrived after it."""
        self._received += first
        scope["extensions"] = {**scope.get("extensions", {}), TUNNEL: self, "websocket.http.response": {}}
        try:
            await app(scope, self._no_body, self._refuse)
        except ConnectionResetError:
            log.debug("a caller hung up before the handshake was answered")
        except Exception:
            log.exception("a WebSocket is closed because of a bug")
        finally:
            self.close()

    async def accept(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer that the protocol is switched, and begin to read."""
        self._connection.is_streaming = True
        await self.write(_head(HTTPStatus.SWITCHING_PROTOCOLS, headers))
        if not self.transport.is_closing():
            self.transport.resume_reading()

    async def read(self) -> bytes:
        """Return the next bytes, or none at the end."""
        while not self._received and not self.ended.is_set():
            await self.arrived()
        data = bytes(self._received)
        self._received.clear()
        if not self.transport.is_closing():
            self.transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes; wait while the caller does not read. Raises ConnectionResetError if it has hung up."""
        await self._writable.wait()
        if self.transport.is_closing():
            raise ConnectionResetError
        self.transport.write(data)

    def close(self) -> None:
        """Close the connection after what was written."""
        self.transport.close()

    def shutdown(self) -> None:
        """Close the connection, because the server stops."""
        self.transport.close()

    def is_gone(self) -> bool:
        """Whether the caller has vanished: nothing arrived since the last question, and its kernel does not
        acknowledge what was sent to it. A caller that waits for a slow program sends nothing, either."""
        was_heard, self.was_heard = self.was_heard, False
        return not was_heard and not acknowledges(self.transport)

    def eof_received(self) -> None:
        self._end()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._writable.set()
        self._connections.discard(self)
        self._connection.closed()

    def pause_writing(self) -> None:
        self._writable.clear()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._writable.set()
        super().resume_writing()

    def _end(self) -> None:
        self.ended.set()
        self._changed.set()

    async def _no_body(self) -> Message:
        if not self._was_asked:
            self._was_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()  # `read` tells when the caller hangs up
        raise AssertionError

    async def _refuse(self, message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            kept = [(name, value) for name, value in message["headers"] if name.lower() != b"connection"]
            await self.write(_head(message["status"], [*kept, (b"connection", b"close")]))
        elif message["type"] == "websocket.close":
            await self.write(_head(HTTPStatus.FORBIDDEN, [(b"content-length", b"0"), (b"connection", b"close")]))
        elif message.get("body"):
            await self.write(message["body"])


_STATUSES = frozenset(HTTPStatus)


def _head(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    phrase = HTTPStatus(status).phrase if status in _STATUSES else ""  # programs have statuses of their own
    lines = [f"HTTP/1.1 {status} {phrase}".encode(), *(name + b": " + value for name, value in headers)]
    return b"\r\n".join([*lines, b"", b""])


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets that read nothing before the application has accepted the connection.

    Unanswered pings end a connection only if the caller is gone. A caller cannot answer pings while it does not read,
    because the program behind it is slow, or while its answers wait behind data that this server does not read.
    """

    _unacknowledged_pings = 0
    """Number of the last pings that not even the caller's kernel has acknowledged."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.transport = self.transport

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.closed()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.handshake_initiated and not self.handshake_complete and not self.read_paused:
            self.read_paused = True  # resumed by `receive`, which the application calls to accept
            self.transport.pause_reading()

    def handle_pong(self, event: Any) -> None:
        self._unacknowledged_pings = 0
        super().handle_pong(event)

    def keepalive_timeout(self) -> None:
        self._unacknowledged_pings = 0 if acknowledges(self.transport) else self._unacknowledged_pings + 1
        if self._unacknowledged_pings < GONE_PINGS:
            self.send_keepalive_ping()  # keeps proxies from closing the connection, and checks again
        else:
            super().keepalive_timeout()

    @property
    def _connection(self) -> Connection:
        return cast(Connection, self.app_state["connection"])
