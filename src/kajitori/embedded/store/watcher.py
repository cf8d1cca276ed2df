"""A watcher: a bounded queue of events that never blocks the writer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kajitori.embedded.store.records import Event

QUEUE_LIMIT = 20_000
"""Maximum backlog. A watcher with a longer one is ended and must start again."""


class Watcher:
    """Events of one resource (and namespace, if given), in order, from a revision on.

    `wanted` is called for each event before it is queued, so that watchers of a busy resource are not woken needlessly.
    """

    __slots__ = ("_events", "_waiting", "closed", "group", "key", "namespace", "resource", "wanted")

    def __init__(
        self, resource: str, namespace: str, key: str, group: str, wanted: Callable[[Event], bool] | None
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.key = key
        """The name of the only object that is watched; empty for all."""
        self.group = group
        """The group of objects that is watched; empty for all."""
        self.wanted = wanted
        self.closed = False
        """Whether the watcher has ended: it was too slow, or the store was closed."""
        self._events: deque[Event] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def push(self, event: Event) -> None:
        """Queue an event if it is within the selection."""
        if self.closed or (self.wanted is not None and not self.wanted(event)):
            return
        if len(self._events) >= QUEUE_LIMIT:
            self.close()
            return
        self._events.append(event)
        self._wake()

    def close(self) -> None:
        """End the watcher."""
        self.closed = True
        self._wake()

    def take(self) -> list[Event]:
        """Return the queued events without waiting."""
        events = list(self._events)
        self._events.clear()
        return events

    async def wait(self) -> None:
        """Wait until there are events, or the end."""
        if self._events or self.closed:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
