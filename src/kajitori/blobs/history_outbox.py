"""Records for history that its database could not take: they wait in the store of blobs until it answers again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from kajitori.blobs.stores.blobs import Blobs

PREFIX = "history-outbox"
MAX_BYTES = 8 << 20


class HistoryOutbox:
    """The waiting records, one per run. A later record replaces an earlier one."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def put(self, run_uid: str, record: bytes) -> None:
        """Keep a record until it is removed."""
        await self._blobs.put(f"{PREFIX}/{run_uid}", record)

    async def waiting(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield UID and record of each run that waits."""
        async with aclosing(self._blobs.under(PREFIX)) as blobs:
            keys = [blob.key async for blob in blobs]
        for key in keys:
            yield key.rpartition("/")[2], await self._blobs.read(key, limit_bytes=MAX_BYTES)

    async def remove(self, run_uid: str) -> None:
        """Remove the record of a run."""
        await self._blobs.delete(f"{PREFIX}/{run_uid}")
