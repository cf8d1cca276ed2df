"""uvicorn's protocols with deadlines, so that slow callers do not keep connections and their memory."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from kajitori.api.serving.listener import Connection

HEADER_BYTES = 32 << 10
"""Largest size of a request's header; a token alone may have 16 KiB."""

LINGER_SECONDS = 10.0
"""Time for which the rest of a body is read and dropped after its answer. A caller whose connection is closed while it
sends would not see the answer."""

FLUSH_SECONDS = 30.0
LEAST_BYTES_PER_SECOND = 1024
"""Lowest speed at which a caller may read an answer; a slower one is cut off. It does not hold for streams, which take
almost no memory."""


class HttpProtocol(H11Protocol):
    """HTTP/1.1 with deadlines for a request's header and for reading the answer. A body is read on demand."""

    def __init__(self, connection: Connection, header_seconds: float, **options: Any) -> None:
        options["app_state"] = {**options["app_state"], "connection": connection}
        super().__init__(**options)
        self._connection = connection
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._is_upgraded = False

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
        super().handle_websocket_upgrade(event)

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


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets that read nothing before the application has accepted the connection."""

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

    @property
    def _connection(self) -> Connection:
        return cast(Connection, self.app_state["connection"])
