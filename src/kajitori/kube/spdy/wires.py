"""The transports that carry the bytes of a SPDY connection: an upgraded connection, or the messages of a WebSocket."""

from __future__ import annotations

import asyncio
import collections
import mmap
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:  # the command line imports this module and does without aiohttp
    from aiohttp import ClientWebSocketResponse, web

READ_BYTES = 256 * 1024
"""Largest number of bytes that are read from a socket at once. If a buffer has less room, the socket is not read until
the session has read everything."""


class Wire(Protocol):
    """Carries the bytes of one connection."""

    def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        """Yield the bytes that the peer sends, until the connection ends. Raises ConnectionError.

        A piece is valid until the next one is requested: then its memory is used again.
        """
        ...

    async def send(self, *parts: bytes | memoryview) -> None:
        """Send bytes in the order of the calls; wait while the peer does not read. Raises ConnectionError.

        The memory of the parts may be used again afterwards.
        """

    async def close(self) -> None:
        """Close the connection after all bytes are sent."""


def _read_buffer() -> memoryview:
    return memoryview(mmap.mmap(-1, 2 * READ_BYTES))  # the kernel provides only the pages that are used


class TransportWire(asyncio.BufferedProtocol):
    """A connection that is handed over after its upgrade. It reads into one buffer, which is used again and again."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._buffer = _read_buffer()
        self._filled = 0
        """Bytes of the buffer that hold unread pieces, or pieces that were read before them."""
        self._unread: collections.deque[memoryview] = collections.deque()
        self._is_lent = False
        """Whether the session works on a piece."""
        self._is_full = False
        self._changed = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._has_ended = False
        self.is_lost = False
        """Whether the connection is gone in both directions."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not asyncio's by inheritance

    async def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        while True:
            while self._unread:
                self._is_lent = True
                for part in self._parts_of(self._unread.popleft()):
                    yield part
                self._is_lent = False
            if self._has_ended:
                return
            if self._is_full:
                self._is_full = False
                self._transport.resume_reading()
            self._changed.clear()
            await self._changed.wait()

    async def send(self, *parts: bytes | memoryview) -> None:
        await self._may_write.wait()
        if self.is_lost or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._write(parts)

    async def close(self) -> None:
        self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._unread and not self._is_lent:
            self._filled = 0
        elif self._filled == len(self._buffer):
            self._buffer, self._filled = _read_buffer(), 0
        return self._buffer[self._filled : self._filled + READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        before, self._filled = self._filled, self._filled + nbytes
        self._unread.append(self._buffer[before : self._filled])
        if len(self._buffer) - self._filled < READ_BYTES and not self._is_full:
            self._is_full = True
            self._transport.pause_reading()
        self._changed.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._has_ended = self.is_lost = True
        self._may_write.set()
        self._changed.set()

    def _write(self, parts: Sequence[bytes | memoryview]) -> None:
        self._transport.write(b"".join(parts))

    def _parts_of(self, piece: memoryview) -> Iterable[memoryview]:
        """Return the parts of a piece that are bytes of the connection."""
        return (piece,)


class WebSocketWire:
    """A connection that sends its bytes as binary messages of a WebSocket (KEP-4006)."""

    def __init__(self, socket: web.WebSocketResponse | ClientWebSocketResponse) -> None:
        self._socket = socket

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        async for message in self._socket:
            if isinstance(message.data, bytes):
                yield message.data

    async def send(self, *parts: bytes | memoryview) -> None:
        await self._socket.send_bytes(b"".join(parts))

    async def close(self) -> None:
        await self._socket.close()
