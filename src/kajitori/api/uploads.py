"""How much is taken in at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

AT_ONCE = 12
AT_ONCE_FOR_ONE = 4


class Uploads:
    """Turns for those who send large bodies: each is held in memory while it is checked. Others wait unread.

    Nobody has so many turns that he keeps others from theirs.
    """

    def __init__(self, at_once: int = AT_ONCE, for_one: int = AT_ONCE_FOR_ONE) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._for_one = for_one
        self._by_name: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """One turn of somebody's."""
        own = self._by_name.get(name)
        if own is None:
            own = self._by_name[name] = asyncio.Semaphore(self._for_one)
        async with own, self._all:
            yield
