"""The book of traffic of one Web API, and how it is kept and shared with others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from datetime import datetime

from kajitori.blobs.blobs import Blobs
from kajitori.blobs.traffic import TrafficBlobs
from kajitori.core.traffic.book import Book
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

SYNC_SECONDS = 60.0
_LAST_SYNC_SECONDS = 2.0


class TrafficKeeper:
    """The book of one Web API, and how it is kept."""

    def __init__(self, blobs: Blobs | None, now: Callable[[], datetime]) -> None:
        self._now = now
        self.book = Book(now().timestamp())
        self._store = TrafficBlobs(blobs, self.book) if blobs is not None else None

    @property
    def kept(self) -> bool:
        """Whether what agents told outlives this process."""
        return self._store is not None

    async def sync(self) -> None:
        """Brings what others were told, and keeps what was told here. Raises what the store of blobs raises."""
        now = self._now().timestamp()
        if self._store is not None:
            await self._store.sync(now)
        else:
            self.book.forget_old(now)

    async def run(self) -> None:
        """Does so again and again, until it is cancelled; then once more."""
        try:
            while True:
                try:
                    await self.sync()
                except KajitoriError as error:
                    log.error("traffic is not kept for now; agents tell it again: %s", error)
                await asyncio.sleep(SYNC_SECONDS * random.uniform(0.5, 1.0))  # not all servers at once
        finally:
            with contextlib.suppress(KajitoriError, TimeoutError):
                async with asyncio.timeout(_LAST_SYNC_SECONDS):
                    await self.sync()
