"""Due times of many keys. Only the time that was set last for a key counts."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from datetime import datetime
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """A heap of due times; setting a key again replaces its time."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, K]] = []
        self._current: dict[K, tuple[datetime, int]] = {}
        self._number = 0

    def set(self, key: K, due: datetime) -> None:
        self._number += 1
        self._current[key] = (due, self._number)
        heapq.heappush(self._heap, (due, self._number, key))

    def cancel(self, key: K) -> None:
        self._current.pop(key, None)

    def next_due(self) -> datetime | None:
        """Return the earliest time that is set."""
        while self._heap:
            due, number, key = self._heap[0]
            if self._current.get(key) == (due, number):
                return due
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: datetime) -> list[K]:
        """Return the keys that are due, earliest first, and remove them."""
        found = []
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._current[key]
            found.append(key)
        return found
