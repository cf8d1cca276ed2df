"""Hijacked connections: after the head of the answer, bytes go both ways without HTTP."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from kajitori.client.members.detach_keys import DetachKeys
from kajitori.errors import InvalidInput

STDIN, STDOUT, STDERR, SYSTEM_ERROR = 0, 1, 2, 3
CHUNK_BYTES = 64 * 1024
RAW = "application/vnd.docker.raw-stream"
MULTIPLEXED = "application/vnd.docker.multiplexed-stream"


def frame(stream: int, data: bytes) -> bytes:
    """Return a frame of a multiplexed stream: its kind, its length and its bytes."""
    return struct.pack(">BxxxL", stream, len(data)) + data


@dataclass
class Hijacked:
    """The raw connection of a request."""

    reader: asyncio.StreamReader
    """The client's input. It ends when the client closes its half of the connection."""
    writer: asyncio.StreamWriter
    lost: asyncio.Event
    """Set when the connection is closed in both directions."""
    is_raw: bool
    """Whether stdout and stderr are one stream, as with a terminal."""
    is_detached: bool = False
    """Whether the client has typed the keys that detach: the program goes on without it."""

    async def input(self) -> AsyncIterator[bytes]:
        """Yield what the client sends until it closes its half."""
        while data := await self.reader.read(CHUNK_BYTES):
            yield data

    async def typed(self, keys: bytes) -> AsyncIterator[bytes]:
        """Yield what is typed until `keys` are, which close the connection: the program goes on."""
        detaching = DetachKeys(keys)
        async for data in self.input():
            passed, is_detached = detaching.feed(data)
            if passed:
                yield passed
            if is_detached:
                self.is_detached = True
                self.writer.close()
                break
        await asyncio.Event().wait()  # the end of a client's input does not end that of a terminal

    async def write(self, stream: int, data: bytes) -> None:
        """Write output of the container. Raises ConnectionError if the client is gone."""
        self.writer.write(data if self.is_raw else frame(stream, data))
        await self.writer.drain()


class Answered(web.StreamResponse):
    """An answer that was written by hand on the raw connection."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


class _Tail:
    """Takes the bytes that arrived behind the request's head before the connection was hijacked."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()


@asynccontextmanager
async def hijacked(request: web.Request, *, is_raw: bool) -> AsyncIterator[Hijacked]:
    """Take the connection over from aiohttp: 101 if the client asked for an upgrade, else 200.

    aiohttp closes a connection as soon as the client has half-closed it, which ends `echo x | docker run -i` too early.
    So another protocol, which does not, is put in its place meanwhile.
    """
    transport, before = request.transport, request.protocol
    if transport is None:
        raise ConnectionResetError("the client is gone")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    tail: Any = _Tail(reader)
    before.set_parser(tail)
    protocol = _Raw(reader)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    writer.write(_head(request, is_raw=is_raw))
    try:
        yield Hijacked(reader, writer, protocol.lost, is_raw)
    finally:
        transport.set_protocol(before)
        if protocol.lost.is_set():
            loop.call_soon(before.connection_lost, None)
        else:
            transport.close()


class _Raw(asyncio.StreamReaderProtocol):
    """A protocol that tells when the connection is lost."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        super().connection_lost(exc)


def _head(request: web.Request, *, is_raw: bool) -> bytes:
    kind = RAW if is_raw else MULTIPLEXED
    if "upgrade" in request.headers.get("Connection", "").lower():
        return f"HTTP/1.1 101 UPGRADED\r\nContent-Type: {kind}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode()
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode()


def answered() -> Answered:
    """Return the answer of a handler that has hijacked its connection."""
    response = Answered()
    response.force_close()
    return response


async def until_either(*works: Any) -> None:
    """Run until one of them has ended; a client that is gone is no error."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, ConnectionError):
                raise result


def size_of(request: web.Request) -> tuple[int, int]:
    """Return columns and lines of the terminal that a request names. Raises InvalidInput."""
    try:
        return int(request.query["w"]), int(request.query["h"])
    except (KeyError, ValueError):
        raise InvalidInput.one("", "h and w must be numbers") from None
