"""Parts of code that many members read at once: fetched from the store once, and held for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

CACHE_BYTES = 128 << 20


class PartsCache:
    """Blobs that never change, by their keys. What was used last stays, up to a limit of bytes."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._held_bytes = 0
        self._loading: dict[str, asyncio.Task[bytes]] = {}

    async def get(self, key: str, load: Callable[[], Awaitable[bytes]]) -> bytes:
        """The blob. Whoever comes while it is loaded gets the same; what loading raises is raised to all of them."""
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(self._load(key, load))
        return await asyncio.shield(loading)  # one reader that leaves takes nothing from the others

    async def _load(self, key: str, load: Callable[[], Awaitable[bytes]]) -> bytes:
        try:
            blob = await load()
        finally:
            del self._loading[key]
        self._held[key] = blob
        self._held_bytes += len(blob)
        while self._held_bytes > self._limit_bytes:
            _, dropped = self._held.popitem(last=False)
            self._held_bytes -= len(dropped)
        return blob
