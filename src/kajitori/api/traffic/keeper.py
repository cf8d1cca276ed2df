"""The traffic book of one Web API server: stored as blobs and shared with other servers."""

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
    """The traffic book of one server and its synchronisation with the store."""

    def __init__(self, blobs: Blobs | None, now: Callable[[], datetime]) -> None:
        self._now = now
        self.book = Book(now().timestamp())
        self._store = TrafficBlobs(blobs, self.book) if blobs is not None else None

    @property
    def kept(self) -> bool:
        """Whether the agents' reports outlive this process."""
        return self._store is not None

    async def sync(self) -> None:
        """Load reports that other servers received, and store our own. Raises the errors of the blob store."""
        now = self._now().timestamp()
        if self._store is not None:
            await self._store.sync(now)
        else:
            self.book.forget_old(now)

    async def run(self) -> None:
        """Call `sync` periodically until cancelled, and once more then."""
        try:
            while True:
                try:
                    await self.sync()
                except KajitoriError as error:
                    log.error("cannot store traffic now; agents will report it again: %s", error)
                await asyncio.sleep(SYNC_SECONDS * random.uniform(0.5, 1.0))  # not all servers at once
        finally:
            with contextlib.suppress(KajitoriError, TimeoutError):
                async with asyncio.timeout(_LAST_SYNC_SECONDS):
                    await self.sync()
