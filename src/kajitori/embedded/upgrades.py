"""Takes connections over from aiohttp's server after their upgrade from HTTP to another protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter


class TakenOver(web.StreamResponse):
    """The response of a connection that was taken over: aiohttp writes nothing for it."""

    def __init__(self) -> None:
        super().__init__(status=101)

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


@contextlib.asynccontextmanager
async def taken_over(
    request: web.BaseRequest, headers: Mapping[str, str], protocol: asyncio.Protocol | asyncio.BufferedProtocol
) -> AsyncIterator[asyncio.Transport]:
    """Answer 101 with these headers; `protocol` handles the connection from then on, and it is closed at the end.

    Raises ConnectionResetError if the client has disconnected. Return `TakenOver()` afterwards.
    """
    http = request.protocol
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client has gone")
    lines = ("HTTP/1.1 101 Switching Protocols", *(f"{name}: {value}" for name, value in headers.items()), "", "")
    transport.write("\r\n".join(lines).encode())
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    transport.resume_reading()
    try:
        yield transport
    finally:
        transport.close()
        http.connection_lost(None)  # otherwise aiohttp counts it as open for ever
