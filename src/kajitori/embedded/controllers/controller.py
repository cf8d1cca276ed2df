"""What the small controllers of the embedded cluster have in common: look at everything when something changed."""

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
"""Changes that come together are looked at together."""
RETRY_SECONDS = 1.0


class Controller(ABC):
    """A level-triggered loop: `reconcile` is called after changes, and again a moment later where it failed.

    With a shared cache somebody else runs that; without one the controller runs its own.
    """

    name = "kajitori-controller"
    interval_seconds: float | None = None
    """How often `reconcile` is called though nothing changed; never, where it is None."""

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
        """Bring the cluster nearer to what it should be. Errors of `kajitori.errors` mean: again, a moment later."""

    async def prepare(self) -> None:
        """What has to be there before the first look; tried until it succeeds."""
        return

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        loops = [self.events.run(), self._loop()]
        if self._is_own_cache:
            loops.append(self.cache.run())
        await run_until(stop, *loops)

    def changed(self, _key: object = None, _old: object = None, _new: object = None) -> None:
        """Something changed: look again. Serves as a listener of informers."""
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
