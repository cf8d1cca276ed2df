"""The work of kube-controller-manager: garbage collection, deletion of namespaces' and definitions' contents.

One queue and one worker. Level-triggered: an entry only names an object to check.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from kajitori.embedded.apiserver.upkeep.garbage import GarbageCollector
from kajitori.embedded.apiserver.upkeep.terminations import Terminations
from kajitori.embedded.apiserver.writes.objects import Objects
from kajitori.embedded.store import Event, NotStored, Stale

_RETRY_SECONDS = 1.0
_TURN = 32
"""Number of entries that are processed before requests get their turn."""

_log = logging.getLogger(__name__)


class Controllers:
    """All controllers, from `start` to `stop`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._queue: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._garbage = GarbageCollector(objects, self._add)
        self._terminations = Terminations(objects, self._add)

    async def start(self) -> None:
        """Check every object once, then those that change."""
        for resource in self._objects.store.resources():
            for record in self._objects.store.records(resource):
                self._garbage.track(record)
                self._terminations.track(record)
        self._objects.store.listen(self._on_event)
        self._task = asyncio.create_task(self._work(), name="apiserver-controllers")

    async def stop(self) -> None:
        """Stop. Remaining work is found again at the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _on_event(self, event: Event) -> None:
        self._garbage.on_event(event)
        self._terminations.on_event(event)

    def _add(self, resource: str, key: str) -> None:
        self._queue[(resource, key)] = None
        self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                taken = [self._queue.popitem(last=False)[0] for _ in range(min(_TURN, len(self._queue)))]
                for resource, key in taken:
                    self._look_at(resource, key)
                try:
                    await self._objects.store.durable(self._objects.store.revision)
                except NotStored as error:
                    _log.warning("controllers: tried again in %s s: %s", _RETRY_SECONDS, error)
                    await asyncio.sleep(_RETRY_SECONDS)
                    for resource, key in taken:
                        self._add(resource, key)
                await asyncio.sleep(0)

    def _look_at(self, resource: str, key: str) -> None:
        namespace, _, name = key.rpartition("/")
        try:
            record = self._objects.store.get(resource, namespace, name)
            if record is not None:
                self._garbage.process(record)
            record = self._objects.store.get(resource, namespace, name)
            if record is not None:
                self._terminations.process(record)
        except Stale:
            self._add(resource, key)
        except NotStored as error:
            _log.warning("%s %s: tried again in %s s: %s", resource, key, _RETRY_SECONDS, error)
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._add, resource, key)
        except Exception:
            # An object that cannot be handled must not block other objects.
            _log.exception("%s %s: left as it is", resource, key)
