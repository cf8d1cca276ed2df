"""Indexes of kept logs, stored beside them. A lost index does no harm, since it is made again from its log."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta

import msgspec

from kajitori.blobs.run_blobs import collect_runs, forget_run
from kajitori.blobs.stores.blobs import Blob, Blobs
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
            index = _decode(await self._blobs.read(_blob_key(log), limit_bytes=MAX_BYTES))
        except (KajitoriError, msgspec.MsgspecError):
            return LineIndex(version=_log_version(log))
        return index if index.version == _log_version(log) else LineIndex(version=_log_version(log))

    async def keep(self, log: Blob, index: LineIndex) -> None:
        """Store the index of a kept log."""
        await self._blobs.put(_blob_key(log), await asyncio.to_thread(msgspec.msgpack.encode, index))

    async def forget(self, namespace: str, run_uid: str, *, up_to_attempt: int | None = None) -> None:
        """Remove the indexes of a run, or only of its oldest attempts."""
        await forget_run(self._blobs, PREFIX, namespace, run_uid, up_to_attempt=up_to_attempt)

    async def collect(self, runs: Collection[str], keep_for: timedelta, *, least_age: timedelta) -> int:
        """Remove indexes that are too old or belong to no run in `runs`, as collect_runs; return their number."""
        return await collect_runs(self._blobs, PREFIX, runs, keep_for, least_age=least_age)


def _blob_key(log: Blob) -> str:
    return f"{PREFIX}/{log.key.partition('/')[2]}"


def _log_version(log: Blob) -> str:
    return f"{log.size_bytes} {log.modified_at.isoformat()}"
