"""What members of sweeps said as their results, and how they ended: a small record of each, as long as its run is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from contextlib import aclosing
from datetime import timedelta

from kajitori.blobs.blobs import Blobs
from kajitori.core.gang.results import MemberResult, decode, encode
from kajitori.errors import NotFound

PREFIX = "results"
NEW_RUN = timedelta(hours=1)
AT_ONCE = 32
MAX_RECORD_BYTES = 64 * 1024
"""Larger ones are none of ours: a result has 4096 bytes at most, a message less."""


class KeptResults:
    """Records in a store of blobs, each under its member's index: a later end of it replaces an earlier one."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def keep(self, namespace: str, run_uid: str, result: MemberResult) -> None:
        """Stores how a member ended."""
        await self._blobs.put(_key(namespace, run_uid, result.index), encode(result))

    async def read(self, namespace: str, run_uid: str, indices: Iterable[int]) -> dict[int, MemberResult]:
        """What is known of these members."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(index: int) -> MemberResult | None:
            async with slots:
                try:
                    record = await self._blobs.read(_key(namespace, run_uid, index), limit_bytes=MAX_RECORD_BYTES)
                    return decode(record)
                except (NotFound, ValueError):
                    return None

        found = await asyncio.gather(*(one(index) for index in indices))
        return {result.index: result for result in found if result is not None}

    async def succeeded(self, namespace: str, run_uid: str) -> set[int]:
        """Of a run's members, those that are known to have succeeded."""
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            indices = [int(name) async for blob in blobs if (name := blob.key.rpartition("/")[2]).isdecimal()]
        found = await self.read(namespace, run_uid, indices)
        return {index for index, result in found.items() if result.state == "Succeeded"}

    async def forget(self, namespace: str, run_uid: str) -> None:
        """Removes what was kept of a run."""
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            keys = [blob.key async for blob in blobs]
        if keys:
            await self._blobs.delete(*keys)

    async def collect(self, runs: Collection[str]) -> int:
        """Removes what no run of these UIDs has; answers how many records went. A new one's run may not be seen yet."""
        now = await self._blobs.now()
        async with aclosing(self._blobs.under(PREFIX)) as blobs:
            old = [blob.key async for blob in blobs if now - blob.modified_at > NEW_RUN]
        left = [key for key in old if key.split("/")[2] not in runs]
        if left:
            await self._blobs.delete(*left)
        return len(left)


def _key(namespace: str, run_uid: str, index: int) -> str:
    return f"{PREFIX}/{namespace}/{run_uid}/{index}"
