"""The telemetry of one server: its book, what it exchanges with other servers, and what history keeps.

Any server takes any agent's report. Each writes what it received of a minute to the store that all servers share
(`telemetry/MINUTE/SERVER`), and reads what the others wrote, so that every server makes the same bands. A server that
starts reads the last minutes from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime

import msgspec
import zstandard

from kajitori.api.streams.node_lines import Lines
from kajitori.blobs.blobs import Blobs
from kajitori.core.telemetry.book import KEPT_MINUTES, Book, decode_part
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MINUTE_SECONDS
from kajitori.errors import KajitoriError, NotFound
from kajitori.history.store import History

log = logging.getLogger(__name__)

PREFIX = "telemetry"
LOOK_SECONDS = 5.0
"""Time between two looks at the store and at minutes that are complete."""
DOWNSAMPLE_SECONDS = 600.0
_MAX_PART_BYTES = 256 << 20
_ROWS_AT_ONCE = 2000
"""Bands that are written in one transaction, and made before other tasks get their turn."""


class TelemetryKeeper:
    """What one server knows of telemetry."""

    def __init__(self, blobs: Blobs | None, history: History | None, now: Callable[[], datetime]) -> None:
        self.book = Book()
        self.lines = Lines()
        self.changed = asyncio.Event()
        """Replaced and set when new bands were made."""
        self._blobs = blobs
        self._history = history
        self._now = now
        self._id = secrets.token_hex(4)
        self._seen: dict[str, datetime] = {}
        """Blobs of other servers as they were last read, with their times."""
        self._unstored: list[Interval] = []
        self._downsampled_at = 0.0

    async def look(self) -> None:
        """Exchange values with other servers, make the bands that are due, and store them. Raises the errors of store
        and database; call it again then, nothing is lost."""
        now = self._now().timestamp()
        if self._blobs is not None:
            await self._exchange(self._blobs, now)
        await self._settle(now)
        self.book.forget(now)
        await self._record(now)

    async def run(self) -> None:
        """Call `look` periodically until cancelled, and write what was received then."""
        said = ""
        try:
            while True:
                try:
                    await self.look()
                    said = ""
                except KajitoriError as error:
                    if str(error) != said:
                        log.error("telemetry cannot be stored now; it is tried again: %s", error)
                    said = str(error)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            if self._blobs is not None:
                with contextlib.suppress(KajitoriError, TimeoutError):
                    async with asyncio.timeout(2.0):
                        await self._write(self._blobs, math.inf)

    async def _exchange(self, blobs: Blobs, now: float) -> None:
        await self._write(blobs, now)
        oldest = int(now // MINUTE_SECONDS) - KEPT_MINUTES
        listed: dict[str, datetime] = {}
        old = []
        async with aclosing(blobs.under(PREFIX)) as found:
            async for blob in found:
                minute, _, server = blob.key.removeprefix(f"{PREFIX}/").partition("/")
                if not minute.isdigit():
                    continue
                if int(minute) <= oldest:
                    old.append(blob.key)
                elif server != self._id:
                    listed[blob.key] = blob.modified_at
        for key, modified_at in listed.items():
            if self._seen.get(key) != modified_at:
                await self._read(blobs, key, now)
        self._seen = listed
        if old:
            await blobs.delete(*old)

    async def _write(self, blobs: Blobs, now: float) -> None:
        for minute in self.book.unshared(now):
            content = self.book.part(minute)
            try:
                packed = await asyncio.to_thread(zstandard.ZstdCompressor(level=1).compress, content)
                await blobs.put(f"{PREFIX}/{minute}/{self._id}", packed)
            except BaseException:
                self.book.keep_unshared(minute)
                raise

    async def _read(self, blobs: Blobs, key: str, now: float) -> None:
        try:
            content = await blobs.read(key, limit_bytes=_MAX_PART_BYTES)
        except NotFound:
            return
        try:
            unpacker = zstandard.ZstdDecompressor()
            part = decode_part(await asyncio.to_thread(unpacker.decompress, content, max_output_size=_MAX_PART_BYTES))
        except (zstandard.ZstdError, msgspec.MsgspecError) as error:
            log.error("%s is not telemetry of a server of this version; it is left out: %s", key, error)
            return
        self.book.take(part, now)

    async def _settle(self, now: float) -> None:
        count = 0
        for count, interval in enumerate(self.book.settle(now), 1):
            self._unstored.append(interval)
            if count % _ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        if count:
            self.changed.set()
            self.changed = asyncio.Event()

    async def _record(self, now: float) -> None:
        if self._history is None:
            self._unstored.clear()
            return
        while self._unstored:
            several = self._unstored[:_ROWS_AT_ONCE]
            await self._history.record_telemetry(several)
            del self._unstored[: len(several)]
        if now - self._downsampled_at >= DOWNSAMPLE_SECONDS:
            while await self._history.downsample_telemetry(int(now)):
                pass
            self._downsampled_at = now
