"""Concurrent readers of one part cause one read of the store."""

from __future__ import annotations

import asyncio

import pytest

from kajitori.blobs.code import PartsCache
from kajitori.errors import Unavailable


class Source:
    """Blobs that take until `ready`."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.ready = asyncio.Event()
        self.fails = False

    async def get(self, cache: PartsCache, key: str, size: int = 10) -> bytes:
        async def load() -> bytes:
            self.loads.append(key)
            await self.ready.wait()
            if self.fails:
                raise Unavailable("no")
            return key.encode() * size

        return await cache.get(key, load)


async def test_concurrent_readers_share_a_load_and_may_be_cancelled() -> None:
    cache, source = PartsCache(), Source()
    readers = [asyncio.create_task(source.get(cache, "a")) for _ in range(100)]
    await asyncio.sleep(0)
    readers[0].cancel()
    source.ready.set()
    answers = await asyncio.gather(*readers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [b"a" * 10] * 99
    assert await source.get(cache, "a") == b"a" * 10
    assert source.loads == ["a"]


async def test_the_least_recently_used_part_is_dropped() -> None:
    cache, source = PartsCache(limit_bytes=25), Source()
    source.ready.set()
    for key in ("a", "b", "a", "c", "a", "b"):
        await source.get(cache, key)
    assert source.loads == ["a", "b", "c", "b"]


async def test_a_part_larger_than_the_cache_is_not_kept() -> None:
    cache, source = PartsCache(limit_bytes=25), Source()
    source.ready.set()
    for _ in range(2):
        assert len(await source.get(cache, "a", size=26)) == 26
    assert source.loads == ["a", "a"]


async def test_a_failure_reaches_all_readers_and_is_not_cached() -> None:
    cache, source = PartsCache(), Source()
    source.fails = True
    source.ready.set()
    answers = await asyncio.gather(*(source.get(cache, "a") for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 3
    source.fails = False
    assert await source.get(cache, "a") == b"a" * 10
    with pytest.raises(Unavailable):
        source.fails = True
        await source.get(cache, "b")
