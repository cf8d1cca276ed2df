"""Garbage collection in processes that keep hundreds of thousands of objects for a while.

A collection stops the process while it traverses objects. A server keeps a request of each agent open for half a
minute. With 7,500 agents these are 750,000 objects, which live long enough to be traversed three times, for up to 0.8 s
each time, although none of them is ever garbage. So objects that survived a long collection are exempted from later
ones. Reference counting still frees them; only exempted objects that refer to each other in a circle are not freed.
Therefore, if the number of exempted objects has doubled after an hour, one collection traverses all of them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Protocol

ALLOCATIONS_BETWEEN_COLLECTIONS = 20_000
"""With Python's default of 700 a busy controller spends a tenth of its time on collections."""

LONG_COLLECTION_SECONDS = 0.02
"""Survivors of collections that take longer are exempted."""

MOST_GROWTH, LEAST_GROWTH = 2.0, 1_000_000
"""All objects are collected once if the number of exempted objects has grown by this factor and by this number."""

HOUR_SECONDS = 3600.0
"""Shortest time between two collections of all objects, and before the first one."""

OLDEST_GENERATION = 2


class Collector(Protocol):
    """The part of the module `gc` that is used here."""

    def freeze(self) -> None: ...

    def unfreeze(self) -> None: ...

    def get_freeze_count(self) -> int: ...


class LongCollections:
    """Exempts objects that survived a long collection from later ones. It is called through `gc.callbacks`."""

    def __init__(
        self,
        collector: Collector = gc,
        busy: Callable[[], float] = time.thread_time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """busy: processor time of this thread, in which a collection is measured. now: a clock for longer times."""
        self._collector = collector
        self._busy = busy
        self._now = now
        self._began = 0.0
        self._looked_at_all = now()
        self._exempted = collector.get_freeze_count()
        """Number of exempted objects at the beginning, or after the last collection that looked at all objects."""
        self._looks_at_all = False
        """Whether no object is exempted until the next full collection."""

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._began = self._busy()
            return
        is_full = info["generation"] == OLDEST_GENERATION
        if self._looks_at_all and is_full:
            self._collector.freeze()
            self._exempted, self._looks_at_all = self._collector.get_freeze_count(), False
            self._looked_at_all = self._now()
        elif not self._looks_at_all and self._busy() - self._began >= LONG_COLLECTION_SECONDS:
            self._exempt_survivors()

    def _exempt_survivors(self) -> None:
        """Exempt the objects that survived this collection, and all older ones."""
        self._collector.freeze()
        if self._now() - self._looked_at_all < HOUR_SECONDS:
            return
        if self._collector.get_freeze_count() > max(MOST_GROWTH * self._exempted, self._exempted + LEAST_GROWTH):
            self._collector.unfreeze()
            self._looks_at_all = True


def reduce_garbage_collection() -> None:
    """Exempt imported modules from garbage collection, collect less often, and keep collections short."""
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    gc.callbacks.append(LongCollections())
