"""Hostile callers: thousands of connections that send nothing, little or nonsense, and are opened again when closed.

    python -m tests.helpers.callers.hostile HOST PORT CONNECTIONS

A process of its own. It writes a line with the number of its open connections each second, until it is killed.
"""

from __future__ import annotations

import asyncio
import random
import resource
import secrets
import sys
from functools import partial
from typing import cast

import uvloop

KINDS = ("silent", "header", "body", "token")
"""What a connection sends: nothing, a header that never ends, part of a body with an invalid token, or whole requests
with invalid tokens."""

ADDRESSES = tuple(f"127.0.1.{number}" for number in range(1, 20))
"""Source addresses of three quarters of the connections; the others come from 127.0.0.1."""

AGAIN_SECONDS = 10.0
"""Time after which a closed connection is opened again, and interval at which open ones send a little more, or a
token."""

OPENED_AT_ONCE = 200
PART = b"x" * (64 << 10)


class Caller(asyncio.Protocol):
    """One connection."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._transport: asyncio.Transport | None = None
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self._transport = cast(asyncio.Transport, transport)
        begin = b"POST /v1/runs HTTP/1.1\r\nHost: kaji\r\n"
        if self._kind == "header":
            transport.write(begin)
        elif self._kind == "body":
            token = secrets.token_urlsafe(24).encode()
            transport.write(begin + b"Authorization: Bearer " + token + b"\r\nContent-Length: 1048576\r\n\r\n" + PART)
        self.go_on()

    def go_on(self) -> None:
        """Send a little, so that the connection does not look idle."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._kind == "header":
            transport.write(b"X-More: 1\r\n")
        elif self._kind == "body":
            transport.write(b"x")
        elif self._kind == "token":
            token = secrets.token_urlsafe(24).encode()
            transport.write(b"GET /v1/runs HTTP/1.1\r\nHost: kaji\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.go_on)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


async def attack(host: str, port: int, connections: int) -> None:
    """Keep `connections` connections open, as far as the server permits, until this is cancelled."""
    loop, turns, held = asyncio.get_running_loop(), asyncio.Semaphore(OPENED_AT_ONCE), 0

    async def one(number: int) -> None:
        nonlocal held
        source = "127.0.0.1" if number % 4 == 0 else ADDRESSES[number % len(ADDRESSES)]
        make = partial(Caller, KINDS[number // 4 % len(KINDS)])
        while True:
            try:
                async with turns:
                    _, caller = await loop.create_connection(make, host, port, local_addr=(source, 0))
                held += 1
                await caller.over
                held -= 1
            except OSError:
                pass
            await asyncio.sleep(random.uniform(0.5, 1.5) * AGAIN_SECONDS)

    async with asyncio.TaskGroup() as group:
        for number in range(connections):
            group.create_task(one(number))
        while True:
            print(held, flush=True)
            await asyncio.sleep(1)


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, int(sys.argv[3]) + 500), hard), hard))
    uvloop.run(attack(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
