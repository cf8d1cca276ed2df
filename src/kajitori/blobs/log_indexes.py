"""Indexes of kept logs, stored beside them. An index may always be lost: it is made again from its log."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from datetime import timedelta

import msgspec

from kajitori.blobs.blobs import Blob, Blobs
from kajitori.core.logs.line_index import LineIndex
from kajitori.errors import KajitoriError

PREFIX = "log-indexes"
MAX_BYTES = 1 << 20

_decode = msgspec.msgpack.Decoder(LineIndex).decode


class LogIndexes:
    """Indexes in a store of blobs, by namespace, UID of the run, attempt and rank."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def read(self, log: Blob) -> LineIndex:
        """Return the index of a kept log as it is now; an empty one if there is none for it."""
        try:
            index = _decode(await self._blobs.read(_key(log), limit_bytes=MAX_BYTES))
        except (KajitoriError, msgspec.MsgspecError):
            return LineIndex(version=_version(log))
        return index if index.version == _version(log) else LineIndex(version=_version(log))

    async def keep(self, log: Blob, index: LineIndex) -> None:
        """Store what is known of a kept log now."""
        await self._blobs.put(_key(log), await asyncio.to_thread(msgspec.msgpack.encode, index))

    async def forget(self, namespace: str, run_uid: str, *, up_to_attempt: int | None = None) -> None:
        """Remove the indexes of a run, or only of its oldest attempts."""
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            keys = [
                blob.key
                async for blob in blobs
                if up_to_attempt is None or int(blob.key.split("/")[3]) <= up_to_attempt
            ]
        if keys:
            await self._blobs.delete(*keys)

    async def collect(self, runs: Collection[str], keep_for: timedelta, *, least_age: timedelta) -> int:
        """Remove what is older than `keep_for`, and what belongs to no run in `runs` (UIDs) and is at least `least_age`
        old. Return how many were removed."""
        now = await self._blobs.now()
        async with aclosing(self._blobs.under(PREFIX)) as blobs:
            left = [
                blob.key
                async for blob in blobs
                if now - blob.modified_at > keep_for
                or (now - blob.modified_at > least_age and blob.key.split("/")[2] not in runs)
            ]
        if left:
            await self._blobs.delete(*left)
        return len(left)


def _key(log: Blob) -> str:
    return f"{PREFIX}/{log.key.partition('/')[2]}"


def _version(log: Blob) -> str:
    return f"{log.size_bytes} {log.modified_at.isoformat()}"
