"""A store of blobs in memory, with a clock of its own, where every call takes a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable
from datetime import UTC, datetime, timedelta

from kajitori.blobs.stores.blobs import Blob, Blobs, check_key, no_such_blob


class MemoryBlobs(Blobs):
    """Blobs in a dictionary. With `chance`, other tasks may run before and after each call; `step` is how long a call
    takes."""

    def __init__(self, chance: random.Random | None = None, step: timedelta = timedelta()) -> None:
        super().__init__("memory:")
        self.time = datetime(2026, 11, 21, tzinfo=UTC)
        self.held: dict[str, tuple[bytes, datetime]] = {}
        self._chance = chance
        self._step = step

    async def put(self, key: str, content: bytes | AsyncIterable[bytes]) -> int:
        whole = content if isinstance(content, bytes) else b"".join([piece async for piece in content])
        await self._others()
        self.held[check_key(key)] = (whole, self.time)
        await self._others()
        return len(whole)

    async def create(self, key: str, content: bytes) -> bool:
        await self._others()
        is_new = check_key(key) not in self.held
        if is_new:
            self.held[key] = (content, self.time)
        await self._others()
        return is_new

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        await self._others()
        if key not in self.held:
            raise no_such_blob(key, self.where)
        yield self.held[key][0][start : None if length is None else start + length]

    async def head(self, key: str) -> Blob:
        await self._others()
        if key not in self.held:
            raise no_such_blob(key, self.where)
        content, modified_at = self.held[key]
        return Blob(key, len(content), modified_at)

    async def under(self, prefix: str = "") -> AsyncGenerator[Blob, None]:
        await self._others()
        found = sorted((key, held) for key, held in self.held.items() if not prefix or key.startswith(f"{prefix}/"))
        await self._others()
        for key, (content, modified_at) in found:
            yield Blob(key, len(content), modified_at)

    async def delete(self, *keys: str) -> None:
        for key in keys:
            await self._others()
            self.held.pop(key, None)

    async def _others(self) -> None:
        if self._chance is not None:
            for _ in range(self._chance.randint(0, 3)):
                await asyncio.sleep(0)
            self.time += self._step * self._chance.random()
