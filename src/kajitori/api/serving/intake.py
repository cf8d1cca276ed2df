"""How much is taken in at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from kajitori.configuration.settings import WebLimits
from kajitori.core.protection.token_bucket import Allowances
from kajitori.errors import Busy, Unauthenticated

UPLOADS_AT_ONCE = 12
UPLOADS_OF_ONE = 4
"""Parts of code are held in memory while they are checked."""

UNKNOWN_AT_ONCE = 16
UNKNOWN_OF_ONE = 4
UNKNOWN_WAITING = 512
"""Tokens that were never seen, about which the API server is asked at a time, and that wait for that."""


class Turns:
    """Turns to do something that is costly: a number in all, and fewer for each caller, so that none keeps the others
    from theirs. Those without a turn wait."""

    def __init__(self, at_once: int, for_one: int, *, waiting: int | None = None) -> None:
        """waiting: how many may have a turn or wait for one; None: any number."""
        self._all = asyncio.Semaphore(at_once)
        self._for_one = for_one
        self._left = waiting
        self._by_name: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """One turn of the caller of that name. Raises Busy if too many wait already."""
        if self._left == 0:
            raise Busy("too many callers wait for the same thing", hint="try again in a moment")
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
    """Questions to the API server about tokens that were never seen: a few at a time, and few that turn out wrong."""

    def __init__(self, limits: WebLimits, clock: Callable[[], float]) -> None:
        self._turns = Turns(UNKNOWN_AT_ONCE, UNKNOWN_OF_ONE, waiting=UNKNOWN_WAITING)
        self._wrong = Allowances(limits.wrong_tokens, limits.wrong_tokens_per_address)
        self._clock = clock

    @asynccontextmanager
    async def one(self, address: str) -> AsyncIterator[None]:
        """One question for a caller at this address. Unauthenticated that leaves the context counts as a wrong token.

        Raises Busy if too many wait, or if too many from there were wrong lately.
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
            raise Busy("too many wrong tokens came from your address lately", hint="try again in a minute")


class Budget:
    """Bytes that may be held in memory at a time, for all callers together and for each of them."""

    def __init__(self, size_bytes: int, for_one_bytes: int) -> None:
        self._left_bytes = size_bytes
        self._for_one_bytes = for_one_bytes
        self._taken: Counter[str] = Counter()

    def take(self, name: str, size_bytes: int) -> None:
        """Count these bytes as held for a caller. Raises Busy if there is no room for them."""
        own = self._taken[name] + size_bytes
        if size_bytes > self._left_bytes or own > self._for_one_bytes:
            raise Busy("too much is being sent at once", hint="try again in a moment")
        self._left_bytes -= size_bytes
        self._taken[name] = own

    def give_back(self, name: str, size_bytes: int) -> None:
        """These bytes are held no more."""
        self._left_bytes += size_bytes
        self._taken[name] -= size_bytes
        if not self._taken[name]:
            del self._taken[name]
