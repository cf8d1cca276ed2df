"""WebSockets between a browser and a program, passed on in bytes, with pings that keep idle ones open.

Proxies cut idle connections, some after 10 s. JupyterLab pings every 30 s, and many programs never do. So the server
pings the browser between the program's frames. The browser's answer goes to the program: RFC 6455 (5.5.3) allows a pong
that was not asked for. Between the server and the program, the port-forward has pings of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kajitori.api.programs.connections import Duplex, Tunnel
from kajitori.errors import KajitoriError
from kajitori.kube.connection.joined import PING_SECONDS

PING = b"\x89\x00"
"""A ping without content, as a server sends it."""


class FrameEnds:
    """Follows the frames in a program's bytes, and knows when one has ended."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        """Bytes of the current payload that have not passed."""

    @property
    def is_between(self) -> bool:
        """Whether the last frame has ended."""
        return not self._head and not self._left

    def passed(self, data: bytes) -> None:
        """Note bytes that were passed on, split anywhere."""
        position = 0
        while position < len(data):
            if self._left:
                step = min(self._left, len(data) - position)
                self._left -= step
                position += step
                continue
            self._head.append(data[position])
            position += 1
            size = {126: 2, 127: 8}.get(self._head[1] & 0x7F, 0) if len(self._head) > 1 else 0
            masked = 4 if len(self._head) > 1 and self._head[1] & 0x80 else 0
            if len(self._head) > 1 and len(self._head) == 2 + size + masked:
                self._left = int.from_bytes(self._head[2 : 2 + size], "big") if size else self._head[1] & 0x7F
                self._head.clear()


async def pass_bytes(tunnel: Tunnel, program: Duplex, first: bytes) -> None:
    """Pass bytes in both directions until one side ends. `first` arrived from the program with its answer."""
    frames, writing = FrameEnds(), asyncio.Lock()

    async def pass_down(data: bytes) -> None:
        async with writing:
            await tunnel.write(data)
            frames.passed(data)

    async def download() -> None:
        with suppress(KajitoriError, OSError):
            while data := await program.read():
                await pass_down(data)

    async def upload() -> None:
        with suppress(KajitoriError, OSError):
            while data := await tunnel.read():
                await program.write(data)

    async def ping() -> None:
        with suppress(OSError):
            while True:
                await asyncio.sleep(PING_SECONDS)
                if frames.is_between and not writing.locked():  # otherwise data is on its way
                    async with writing:
                        await tunnel.write(PING)

    if first:
        await pass_down(first)
    tasks = [asyncio.create_task(each()) for each in (download, upload, ping)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
