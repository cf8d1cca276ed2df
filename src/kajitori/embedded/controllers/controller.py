"""The base class of the embedded cluster's small controllers: reconcile everything after a change."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kajitori import errors
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.tasks import run_until
from kajitori.kube.client import KubeClient
from kajitori.kube.events import EventRecorder

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.05
"""Pause after a change, so that changes that come together are reconciled together."""
RETRY_SECONDS = 1.0


class Controller(ABC):
    """A level-triggered loop: calls `reconcile` after changes, and again a moment later if it failed.

    The creator of a shared cache runs it. A controller without a shared cache runs its own.
    """

    name = "kajitori-controller"
    interval_seconds: float | None = None
    """Interval at which `reconcile` is called even without a change; None means never."""

    def __init__(
        self,
        client: KubeClient,
        cache: Cache | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self.clock = clock
        self.events = EventRecorder(client, self.name, clock=clock)
        self._is_own_cache = cache is None
        self.cache = cache if cache is not None else Cache(client)
        self._wake = asyncio.Event()

    @abstractmethod
    async def reconcile(self) -> None:
        """Bring the cluster closer to its wanted state. After an error of `kajitori.errors` it is called again soon."""

    async def prepare(self) -> None:
        """Create what has to exist before the first `reconcile`. It is repeated until it succeeds."""
        return

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        loops = [self.events.run(), self._loop()]
        if self._is_own_cache:
            loops.append(self.cache.run())
        await run_until(stop, *loops)

    def changed(self, _key: object = None, _old: object = None, _new: object = None) -> None:
        """Reconcile soon, because something has changed. Serves as a listener of informers."""
        self._wake.set()

    async def _loop(self) -> None:
        await self._until_it_succeeds(self.prepare)
        await self.cache.wait_synced()
        while True:
            self._wake.clear()
            await self._until_it_succeeds(self.reconcile)
            try:
                async with asyncio.timeout(self.interval_seconds):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(SETTLE_SECONDS)

    async def _until_it_succeeds(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                return
            except errors.KajitoriError as cause:
                log.warning("%s: %s; trying again", self.name, cause)
            await asyncio.sleep(RETRY_SECONDS)
