"""Connections to programs that outlive the connections of callers: if a caller's connection breaks, the caller comes
back and gets exactly the bytes that it missed.

A kubelet sends attached clients no position. This server counts the bytes that it has received from the kubelet, and
keeps the last ones for a caller that says how many of them have arrived.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field

from kajitori.kube.streams import Channel, ExecStream

KEPT_BYTES = 256 * 1024
"""Number of bytes that are kept of each program. One that prints more than its caller reads has to wait."""
_PIECE_BYTES = 4096
"""Size up to which short pieces, such as the echo of keys, are joined."""
KEPT_SECONDS = 60.0
"""Time for which a connection to a program waits for its caller: longer than it takes to notice that a server is
silent."""
MOST_WAITING = 256
"""Number of connections that wait for their callers. The one that waited longest ends first."""


@dataclass(frozen=True)
class Attached:
    """The caller of a connection, and the program to which it leads."""

    user: str
    run_uid: str
    attempt: int
    rank: int
    stdin: bool = field(compare=False)
    """Whether the caller sends standard input."""
    is_command: bool = False
    """Whether an exec started the program for this caller. No other caller sees its output, so the program waits for a
    caller that is away instead of losing some."""


class Attachment:
    """A connection to a program. `pieces` yields the output of the program; its last bytes are kept."""

    def __init__(self, about: Attached, program: ExecStream) -> None:
        self.about = about
        self.id = secrets.token_urlsafe(16)
        self.program = program
        self.failure: Exception | None = None
        """Why the connection to the program broke."""
        self.is_over = False
        """Whether all output has come, also if the connection broke."""
        self.is_told = False
        """Whether a caller was told the end."""
        self._pieces: deque[tuple[int, Channel, bytes]] = deque()
        """Pieces of output, each with the position of its first byte."""
        self._begin = self._end = 0
        """Positions of the first kept byte, and after the last one."""
        self._sent = 0
        """Position after the last byte that the present caller was sent."""
        self._caller = 0
        """Number of the present caller; 0 while there is none."""
        self._callers = 0
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="output of an attached program")

    def has(self, position: int) -> bool:
        """Whether the bytes from this position on are here, or are still to come."""
        return self._begin <= position <= self._end

    def begin(self, position: int) -> int:
        """Take over from an earlier caller, and return the number of the new one."""
        self._callers += 1
        self._caller, self._sent = self._callers, position
        self._tell()
        return self._caller

    def leave(self, caller: int) -> bool:
        """Whether this was still the present caller, so that the connection has none now."""
        if caller != self._caller:
            return False
        self._caller = 0
        self._tell()
        return True

    async def pieces(self, caller: int) -> AsyncGenerator[tuple[Channel, bytes]]:
        """Yield the output from the caller's position on, until it is over or another caller has come."""
        while caller == self._caller and not (self.is_over and self._end == self._sent):
            for at, channel, data in list(self._pieces):
                if caller == self._caller and at + len(data) > self._sent:
                    yield channel, data[max(self._sent - at, 0) :]
                    if caller == self._caller:
                        self._sent = at + len(data)
            self._tell()
            while caller == self._caller and self._end == self._sent and not self.is_over:
                await self._changed.wait()

    async def close(self) -> None:
        """End the connection to the program."""
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        await self.program.aclose()

    def _tell(self) -> None:
        """Wake all tasks that wait for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _read(self) -> None:
        try:
            async for channel, data in self.program:
                self._add(channel, data)
                self._tell()
                while (self._caller or self.about.is_command) and self._end - self._sent >= KEPT_BYTES:
                    await self._changed.wait()
        except Exception as error:
            self.failure = error
        self.is_over = True
        self._tell()

    def _add(self, channel: Channel, data: bytes) -> None:
        self._end += len(data)
        if self._pieces and self._pieces[-1][1] is channel and len(self._pieces[-1][2]) < _PIECE_BYTES:
            at, _, last = self._pieces.pop()
            data = last + data
        else:
            at = self._end - len(data)
        self._pieces.append((at, channel, data))
        while self._end - self._begin > KEPT_BYTES and len(self._pieces) > 1:
            at, _, first = self._pieces[0]
            if self._caller and at + len(first) > self._sent:
                return  # the caller has not got it yet
            if not self._caller and self.about.is_command:
                return  # what was sent last may not have arrived
            self._pieces.popleft()
            self._begin = self._pieces[0][0]


@dataclass
class Attachments:
    """The connections to programs, and how long they wait for their callers."""

    _by_id: dict[str, Attachment] = field(default_factory=dict)
    _waiting: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)

    def add(self, about: Attached, program: ExecStream) -> Attachment:
        """Begin to read a program's output."""
        made = Attachment(about, program)
        self._by_id[made.id] = made
        return made

    def find(self, session: str, position: int, about: Attached) -> Attachment | None:
        """Return the connection of a caller that comes back; None if it has ended or has no longer what is missing."""
        found = self._by_id.get(session)
        if found is None or found.about != about or not found.has(position) or about.stdin > found.about.stdin:
            return None
        if (timer := self._waiting.pop(session, None)) is not None:
            timer.cancel()
        return found

    def keep(self, attachment: Attachment) -> None:
        """Wait for the caller, whose connection broke."""
        while len(self._waiting) >= MOST_WAITING:
            self._end(next(iter(self._waiting)))
        loop = asyncio.get_running_loop()
        self._waiting[attachment.id] = loop.call_later(KEPT_SECONDS, self._end, attachment.id)

    async def drop(self, attachment: Attachment) -> None:
        """End a connection, because the program has ended or the caller has left."""
        self._by_id.pop(attachment.id, None)
        await attachment.close()

    async def close(self) -> None:
        """End all connections."""
        for session in list(self._waiting):
            self._end(session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _end(self, session: str) -> None:
        self._waiting.pop(session).cancel()
        task = asyncio.create_task(self._by_id.pop(session).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
