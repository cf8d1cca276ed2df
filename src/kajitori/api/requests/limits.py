"""Limits on what callers use: uploads, checks of unknown tokens, memory for request bodies, logs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from kajitori.configuration.web_limits import WebLimits
from kajitori.core.protection.token_bucket import Allowances
from kajitori.errors import Busy, Unauthenticated, Unavailable

UPLOADS_AT_ONCE = 12
UPLOADS_PER_USER = 4
"""Simultaneous uploads of parts, since a part is held in memory while it is checked."""

UNKNOWN_AT_ONCE = 16
UNKNOWN_PER_ADDRESS = 4
UNKNOWN_WAITING = 512
"""Unknown tokens that are checked at the same time, in total and per address, and the most that may be checked or wait.
"""

MAX_LOGS = 4096
"""Largest number of logs that are read at the same time for all callers; each is a connection to the API server."""


class Turns:
    """Limits a costly operation to a number in total and a smaller one per caller; further callers wait."""

    def __init__(self, at_once: int, for_one: int, *, waiting: int | None = None) -> None:
        """`waiting`: the number of callers that may have a turn or wait for one; None: any number."""
        self._all = asyncio.Semaphore(at_once)
        self._for_one = for_one
        self._left = waiting
        self._by_name: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn of this caller and hold it while the context lasts. Raises Busy if too many callers wait."""
        if self._left == 0:
            raise Busy("too many requests of this kind are waiting", hint="try again in a moment")
        own = self._by_name.get(name)
        if own is None:
            own = self._by_name[name] = asyncio.Semaphore(self._for_one)
        if self._left is not None:
            self._left -= 1
        try:
            async with own, self._all:
                yield
        finally:
            if self._left is not None:
                self._left += 1


class Questions:
    """Limits checks of unknown tokens with the API server, and the number of wrong ones."""

    def __init__(self, limits: WebLimits, clock: Callable[[], float]) -> None:
        self._turns = Turns(UNKNOWN_AT_ONCE, UNKNOWN_PER_ADDRESS, waiting=UNKNOWN_WAITING)
        self._wrong = Allowances(limits.wrong_tokens, limits.wrong_tokens_per_address)
        self._clock = clock

    @asynccontextmanager
    async def one(self, address: str) -> AsyncIterator[None]:
        """Allow one check for a caller at this address. If the context raises Unauthenticated, the token was wrong.

        Raises Busy if too many checks wait, or if the address sent too many wrong tokens recently.
        """
        self._check(address)
        async with self._turns.turn(address):
            self._check(address)
            try:
                yield
            except Unauthenticated:
                self._wrong.count(address, self._clock())
                raise

    def _check(self, address: str) -> None:
        if self._wrong.is_spent(address, self._clock()):
            raise Busy("your address sent too many wrong tokens", hint="try again in a minute")


class Budget:
    """Limits the bytes that are held in memory at the same time, in total and per caller."""

    def __init__(self, size_bytes: int, for_one_bytes: int) -> None:
        self._left_bytes = size_bytes
        self._for_one_bytes = for_one_bytes
        self._taken: Counter[str] = Counter()

    def take(self, name: str, size_bytes: int) -> None:
        """Count bytes as held for a caller. Raises Busy if that would exceed a limit."""
        own = self._taken[name] + size_bytes
        if size_bytes > self._left_bytes or own > self._for_one_bytes:
            raise Busy("too much data is being uploaded at the same time", hint="try again in a moment")
        self._left_bytes -= size_bytes
        self._taken[name] = own

    def give_back(self, name: str, size_bytes: int) -> None:
        """Release bytes that were held for a caller."""
        self._left_bytes += size_bytes
        self._taken[name] -= size_bytes
        if not self._taken[name]:
            del self._taken[name]


class Slots:
    """Limits the logs, or the files of checkpoints, that are read at the same time."""

    def __init__(self, count: int, what: str = "logs") -> None:
        self.free = count
        self._count = count
        self._what = what

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a slot while the context lasts. Raises Unavailable if all are taken."""
        if self.free <= 0:
            hint = "try again later, or follow fewer members at once" if self._what == "logs" else "try again later"
            raise Unavailable(f"this server already reads {self._count} {self._what}", hint=hint)
        self.free -= 1
        try:
            yield
        finally:
            self.free += 1
