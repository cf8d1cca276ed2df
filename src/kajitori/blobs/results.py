"""Results of members of sweeps, and how they ended: a small record for each, kept while its run exists."""

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
CONCURRENT_READS = 32
MAX_RECORD_BYTES = 64 * 1024
"""Larger records can't be valid: a result has at most 4096 bytes, a message fewer."""


class KeptResults:
    """Records in a store of blobs, one for each member's index: a later end replaces an earlier one."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def keep(self, namespace: str, run_uid: str, result: MemberResult) -> None:
        """Store how a member ended."""
        await self._blobs.put(_key(namespace, run_uid, result.index), encode(result))

    async def read(self, namespace: str, run_uid: str, indices: Iterable[int]) -> dict[int, MemberResult]:
        """Return what is known of these members."""
        slots = asyncio.Semaphore(CONCURRENT_READS)

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
        """Return the members of a run that are known to have succeeded."""
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            indices = [int(name) async for blob in blobs if (name := blob.key.rpartition("/")[2]).isdecimal()]
        found = await self.read(namespace, run_uid, indices)
        return {index for index, result in found.items() if result.state == "Succeeded"}

    async def forget(self, namespace: str, run_uid: str) -> None:
        """Remove what was kept of a run."""
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            keys = [blob.key async for blob in blobs]
        if keys:
            await self._blobs.delete(*keys)

    async def collect(self, runs: Collection[str], *, least_age: timedelta = NEW_RUN) -> int:
        """Remove records of no run in `runs` (UIDs); return how many. Younger records are kept, since their run may be
        new."""
        now = await self._blobs.now()
        async with aclosing(self._blobs.under(PREFIX)) as blobs:
            old = [blob.key async for blob in blobs if now - blob.modified_at > least_age]
        left = [key for key in old if key.split("/")[2] not in runs]
        if left:
            await self._blobs.delete(*left)
        return len(left)


def _key(namespace: str, run_uid: str, index: int) -> str:
    return f"{PREFIX}/{namespace}/{run_uid}/{index}"
