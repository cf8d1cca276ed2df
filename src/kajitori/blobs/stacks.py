"""Stacks of the ranks of an attempt, kept beside its logs. They show why ranks hung, or what they did before they were
ended."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from datetime import timedelta

import msgspec
import zstandard

from kajitori.blobs.run_blobs import collect_runs, forget_run
from kajitori.blobs.stores.blobs import Blobs
from kajitori.core.telemetry.hangs.evidence import Evidence, Occasion
from kajitori.errors import NotFound

PREFIX = "stacks"
MAX_BYTES = 256 << 20

_decode = msgspec.msgpack.Decoder(Evidence).decode


class KeptStacks:
    """Evidence in a store of blobs: one record for each attempt and occasion."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def keep(self, namespace: str, run_uid: str, attempt: int, evidence: Evidence) -> None:
        """Store evidence; it replaces earlier evidence about the same attempt and occasion."""
        content = await asyncio.to_thread(_pack, evidence)
        await self._blobs.put(f"{PREFIX}/{namespace}/{run_uid}/{attempt}/{evidence.occasion}", content)

    async def read(self, namespace: str, run_uid: str, attempt: int) -> list[Evidence]:
        """Return the stored evidence about an attempt, the oldest first."""
        found = []
        for occasion in Occasion:
            key = f"{PREFIX}/{namespace}/{run_uid}/{attempt}/{occasion}"
            try:
                found.append(await asyncio.to_thread(_unpack, await self._blobs.read(key, limit_bytes=MAX_BYTES)))
            except (NotFound, zstandard.ZstdError, msgspec.MsgspecError):
                continue
        return sorted(found, key=lambda evidence: evidence.at)

    async def attempts(self, namespace: str, run_uid: str) -> list[int]:
        """Return the attempts that have evidence."""
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            return sorted({int(blob.key.split("/")[3]) async for blob in blobs})

    async def forget(self, namespace: str, run_uid: str, *, up_to_attempt: int | None = None) -> None:
        """Remove the evidence of a run, or only of its oldest attempts."""
        await forget_run(self._blobs, PREFIX, namespace, run_uid, up_to_attempt=up_to_attempt)

    async def collect(self, runs: Collection[str], keep_for: timedelta, *, least_age: timedelta) -> int:
        """Remove evidence that is too old or belongs to no run in `runs`, as collect_runs; return the number."""
        return await collect_runs(self._blobs, PREFIX, runs, keep_for, least_age=least_age)


def _pack(evidence: Evidence) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(evidence))


def _unpack(content: bytes) -> Evidence:
    return _decode(zstandard.ZstdDecompressor().decompress(content, max_output_size=MAX_BYTES))
