"""The streams of one SPDY connection in asyncio, on an upgraded connection or tunnelled in a WebSocket."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Protocol, cast

from aiohttp import WSMsgType, web

from kajitori.embedded.kubelet.http.spdy import (
    Connection,
    DataReceived,
    Event,
    ProtocolError,
    ResetCode,
    StreamOpened,
    StreamReset,
)

log = logging.getLogger(__name__)

PING_SECONDS = 10.0
"""Interval of pings, since proxies close idle connections. A client need not answer: one that does not read for a while
can't, and TCP detects one that is gone."""
UNREAD_BYTES = 4 << 20
"""Unread bytes in all streams of a connection at which it stops reading from the client. Without flow control a single
stream can't be stopped."""
CLOSE_SECONDS = 2.0
"""Longest wait for the client when a connection is closed."""
RECEIVED_BYTES = 256 * 1024
"""Bytes between socket and session at which the socket is not read."""


class Wire(Protocol):
    """Carries the bytes of one connection."""

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes that the client sends, until the connection ends. Raises ConnectionError."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes in the order of the calls; wait while the client does not read. Raises ConnectionError."""

    async def close(self) -> None:
        """Close the connection after all bytes are sent."""


class TransportWire(asyncio.Protocol):
    """A connection that the web server handed over after its upgrade."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received: collections.deque[bytes] = collections.deque()
        self._received_bytes = 0
        self._changed = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not asyncio's by inheritance

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._received:
                piece = self._received.popleft()
                before, self._received_bytes = self._received_bytes, self._received_bytes - len(piece)
                if before > RECEIVED_BYTES >= self._received_bytes and not self._is_lost:
                    self._transport.resume_reading()
                yield piece
            if self._is_lost:
                return
            self._changed.clear()
            await self._changed.wait()

    async def send(self, data: bytes) -> None:
        await self._may_write.wait()
        if self._is_lost or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._transport.write(data)

    async def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        before, self._received_bytes = self._received_bytes, self._received_bytes + len(data)
        if before <= RECEIVED_BYTES < self._received_bytes:
            self._transport.pause_reading()
        self._changed.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._may_write.set()
        self._changed.set()


class WebSocketWire:
    """A connection that sends its bytes as binary messages of a WebSocket (KEP-4006)."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                yield message.data

    async def send(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self) -> None:
        await self._socket.close()


class Stream:
    """One stream of a session. Each side ends its own direction."""

    def __init__(self, session: Session, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.broken = asyncio.Event()
        """Set when the client has reset the stream, or the connection is gone."""
        self._session = session
        self._unread: collections.deque[bytes] = collections.deque()
        self._has_ended = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """Return the next bytes from the client, or no bytes after it has ended its direction.

        Raises ConnectionResetError if the client has reset the stream or the connection is gone.
        """
        while True:
            if self._unread:
                data = self._unread.popleft()
                self._session.forget_unread(len(data))
                return data
            if self.broken.is_set():
                raise ConnectionResetError("the client gave the stream up")
            if self._has_ended:
                return b""
            self._changed.clear()
            await self._changed.wait()

    async def write(self, data: bytes) -> None:
        """Send bytes; wait while the client does not read. Raises ConnectionError."""
        if self.broken.is_set():
            raise ConnectionResetError("the client gave the stream up")
        await self._session.send_data(self.number, data, end=False)

    async def close(self) -> None:
        """End this side's direction. Raises ConnectionError."""
        if not self.broken.is_set():
            await self._session.send_data(self.number, b"", end=True)

    async def reset(self) -> None:
        """Close both directions. Raises ConnectionError."""
        self.give_up()
        await self._session.reset(self.number)

    def take(self, data: bytes, ended: bool) -> None:
        """Add bytes from the client. Only the session calls this."""
        if data:
            self._unread.append(data)
        self._has_ended = self._has_ended or ended
        self._changed.set()

    def give_up(self) -> None:
        """Discard unread bytes and close both directions, without telling the client."""
        self._session.forget_unread(sum(map(len, self._unread)))
        self._unread.clear()
        self.broken.set()
        self._changed.set()


class Session:
    """The server's side. `opened` is called with each stream of the client and returns whether it is accepted."""

    def __init__(self, wire: Wire, opened: Callable[[Stream], bool]) -> None:
        self._wire = wire
        self._opened = opened
        self._connection = Connection()
        self._streams: dict[int, Stream] = {}
        self._unread_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Serve until the connection ends; then all its streams are broken."""
        pinging = asyncio.create_task(self._ping())
        try:
            async with contextlib.aclosing(self._wire.pieces()) as pieces:
                async for piece in pieces:
                    for event in self._connection.receive(piece):
                        self._take(event)
                    await self._send(self._connection.take_owed())
                    await self._has_room.wait()
        except ProtocolError as error:
            log.info("a client of exec or port-forward broke SPDY/3.1: %s", error)
        except ConnectionError:
            pass  # the client is gone
        finally:
            pinging.cancel()
            self._give_up_all()
            await asyncio.gather(pinging, return_exceptions=True)

    async def close(self) -> None:
        """Close the connection; wait at most CLOSE_SECONDS for a client that does not read."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._send(self._connection.go_away())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._wire.close()

    async def send_data(self, stream: int, data: bytes, *, end: bool) -> None:
        """Send bytes of a stream. Raises ConnectionError."""
        await self._send(self._connection.data(stream, data, end=end))
        if end:
            self._forget(stream)

    async def reset(self, stream: int) -> None:
        """Tell the client that a stream was reset. Raises ConnectionError."""
        self._streams.pop(stream, None)
        await self._send(self._connection.reset(stream))

    def forget_unread(self, count: int) -> None:
        """Subtract bytes that a stream has read or discarded from the unread ones."""
        self._unread_bytes -= count
        if self._unread_bytes <= UNREAD_BYTES:
            self._has_room.set()

    async def _send(self, data: bytes) -> None:
        if data:
            async with self._sending:  # keeps the order while several tasks wait for the client to read
                await self._wire.send(data)

    async def _ping(self) -> None:
        try:
            while True:
                await asyncio.sleep(PING_SECONDS)
                _, frame = self._connection.ping()
                await self._send(frame)
        except ConnectionError:
            # `run` does not notice the end of the connection while it waits for streams to be read.
            self._give_up_all()

    def _give_up_all(self) -> None:
        for stream in self._streams.values():
            stream.give_up()
        self._streams.clear()

    def _take(self, event: Event) -> None:
        match event:
            case StreamOpened(number, headers, ended):
                self._take_opened(Stream(self, number, dict(headers)), ended)
            case DataReceived(number, data, ended):
                if (stream := self._streams.get(number)) is not None:
                    self._unread_bytes += len(data)
                    if self._unread_bytes > UNREAD_BYTES:
                        self._has_room.clear()
                    stream.take(data, ended)
                    if ended:  # events that follow may have closed it already
                        self._forget(number)
            case StreamReset(number, _):
                if (stream := self._streams.pop(number, None)) is not None:
                    stream.give_up()

    def _take_opened(self, stream: Stream, ended: bool) -> None:
        self._streams[stream.number] = stream
        if ended:
            stream.take(b"", ended)
        if self._opened(stream):
            self._connection.owe(self._connection.reply(stream.number))
        else:
            self._connection.owe(self._connection.reset(stream.number, ResetCode.REFUSED_STREAM))
            self._streams.pop(stream.number, None)
            stream.give_up()

    def _forget(self, number: int) -> None:
        """Remove a stream if both sides have ended it."""
        if not self._connection.is_open(number):
            self._streams.pop(number, None)
