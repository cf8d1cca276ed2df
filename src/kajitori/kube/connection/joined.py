"""Joins two upgraded connections: bytes that arrive at one end are sent at the other end, unchanged."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from typing import cast

PING_SECONDS = 4.0
"""Interval at which every end of an upgraded connection pings, since proxies cut idle connections, some after 10 s."""
READ_BYTES = 256 * 1024
"""Largest number of bytes that are read at once."""
RECEIVED_BYTES = 64 * 1024
"""An end that is not joined yet is read up to this number of bytes."""

_TCP_INFO_BYTES, _UNACKED_OFFSET = 104, 24
"""Size of Linux' `struct tcp_info`, and the offset of `tcpi_unacked` in it."""


class _ThreadBuffer(threading.local):
    """The memory into which all ends of a thread's event loop read. Each passes its bytes on before the next one reads.

    TLS decrypts into this memory and encrypts from it.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))


_buffer = _ThreadBuffer()


class JoinedEnd(asyncio.BufferedProtocol):
    """One end of the joined connection. Once joined, it sends received bytes to the other end."""

    def __init__(self, received_bytes: int = RECEIVED_BYTES) -> None:
        self.transport: asyncio.Transport
        self.ended = asyncio.Event()
        self.was_heard = False
        """Whether anything has arrived since this was last set to False."""
        self._encrypts = False
        """Whether the transport encrypts the given bytes at once. Other transports may keep a reference to them."""
        self._other: JoinedEnd | None = None
        self._received = bytearray()
        self._received_bytes = received_bytes
        self._changed = asyncio.Event()

    def join(self, other: JoinedEnd) -> None:
        """Send all received bytes to the other end, including those received before."""
        self._other = other
        if self._received:
            other.transport.write(bytes(self._received))
            self._received.clear()
        if not self.transport.is_closing():
            self.transport.resume_reading()

    async def arrived(self) -> None:
        """Wait until more bytes have arrived or the connection has ended."""
        self._changed.clear()
        await self._changed.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are not asyncio's by inheritance
        self._encrypts = transport.get_extra_info("ssl_object") is not None

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer.view

    def buffer_updated(self, nbytes: int) -> None:
        with _buffer.view[:nbytes] as data:
            self.take(data)

    def take(self, data: memoryview) -> None:
        """Pass bytes on, or keep them until the ends are joined."""
        self.was_heard = True
        if self._other is not None:
            self._other.send(data)
            return
        self._received += data
        if len(self._received) > self._received_bytes:
            self.transport.pause_reading()
        self._changed.set()

    def send(self, data: memoryview) -> None:
        """Send bytes. The caller uses their memory again when this returns."""
        if self.transport.is_closing():
            return
        self.transport.write(data if self._encrypts else bytes(data))

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()
        self._changed.set()


async def until_either_ends(*ends: JoinedEnd) -> None:
    """Wait until one of the ends has lost its connection."""
    waiting = [asyncio.create_task(end.ended.wait()) for end in ends]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def acknowledges(transport: asyncio.BaseTransport) -> bool:
    """Return whether the peer's kernel has acknowledged all bytes that were sent. False if it is not known."""
    connection = transport.get_extra_info("socket")
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return False
    (unacknowledged,) = struct.unpack_from("I", info, _UNACKED_OFFSET)
    return not unacknowledged
