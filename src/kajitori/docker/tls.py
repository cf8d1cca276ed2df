"""TLS for the Engine API, with connections that clients may half-close.

Docker's client ends its half of a connection with close_notify and reads on, as `docker run` without `-i` does at
once. asyncio closes both halves then, so TLS is ended here, and the API sees a socket that can be half-closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kajitori.errors import InvalidInput

HANDSHAKE_SECONDS = 60.0
PIECE_BYTES = 64 * 1024

Protocols = Callable[[], asyncio.BaseProtocol]


def tls_of(certificate: Path, key: Path, clients: Path) -> ssl.SSLContext:
    """Return TLS settings that refuse clients without a certificate of the authority in `clients`.

    Raises InvalidInput if a file can't be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(clients)
    except (OSError, ssl.SSLError) as error:
        files = f"{certificate}, {key}, {clients}"
        raise InvalidInput.one("--tls-cert", f"the certificates can't be read: {error}", value=files) from error
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@asynccontextmanager
async def tls_served(protocols: Protocols, host: str, port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve connections over TLS with the protocols that `protocols` makes, and yield the port."""
    relays: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.create_task(_relay(_Secured(reader, writer, context), protocols))
        relays.add(relay)
        relay.add_done_callback(relays.discard)

    server = await asyncio.start_server(begin, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for relay in list(relays):
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)


class _Secured:
    """The server's side of one TLS connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self._reader, self._writer = reader, writer
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)

    async def shake_hands(self) -> None:
        """Raises SSLError if the client is refused, and ConnectionError if it went away."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send()
                if not await self._receive():
                    raise ConnectionResetError("the client left during the handshake") from None
            except ssl.SSLError:
                await self._send()  # the alert that tells the client why it is refused
                raise
            else:
                await self._send()
                return

    async def read(self) -> bytes:
        """Return bytes of the client; none once it has ended its half. Raises ConnectionError if it went away."""
        while True:
            try:
                return self._tls.read(PIECE_BYTES)
            except ssl.SSLWantReadError:
                await self._send()  # answers of the protocol itself
                if not await self._receive():
                    raise ConnectionResetError("the client left without ending its half") from None

    async def write(self, data: bytes) -> None:
        self._tls.write(data)
        await self._send()

    async def gone(self) -> None:
        """Return once the client, which has ended its half, has closed the connection."""
        while await self._reader.read(PIECE_BYTES):
            pass

    async def close(self) -> None:
        """End this half and close the connection."""
        with contextlib.suppress(OSError, ssl.SSLError):
            try:
                self._tls.unwrap()
            finally:
                await self._send()
        self._writer.close()

    async def _receive(self) -> bool:
        data = await self._reader.read(PIECE_BYTES)
        self._received.write(data)
        return bool(data)

    async def _send(self) -> None:
        if data := self._to_send.read():
            self._writer.write(data)
            await self._writer.drain()


async def _relay(client: _Secured, protocols: Protocols) -> None:
    """Connect one client with a protocol over a pair of sockets, until either of them closes the connection."""
    with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):  # the client was told, or is gone
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await client.shake_hands()
            await _connect(client, protocols)
        finally:
            await client.close()


async def _connect(client: _Secured, protocols: Protocols) -> None:
    outer, inner = socket.socketpair()
    await asyncio.get_running_loop().connect_accepted_socket(protocols, inner)
    reader, writer = await asyncio.open_connection(sock=outer)
    directions = [asyncio.create_task(_up(client, writer)), asyncio.create_task(_down(reader, client))]
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        writer.close()


async def _up(client: _Secured, writer: asyncio.StreamWriter) -> None:
    while data := await client.read():
        writer.write(data)
        await writer.drain()
    writer.write_eof()
    await client.gone()


async def _down(reader: asyncio.StreamReader, client: _Secured) -> None:
    while data := await reader.read(PIECE_BYTES):
        await client.write(data)
