"""One reader of events: a bounded queue that never blocks the writer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kajitori.embedded.store.records import Event

QUEUE_LIMIT = 20_000
"""A reader that is further behind is cut off, and has to start again."""


class Watcher:
    """Events of one resource (and namespace, where one is given), in order, from a revision on.

    `wanted` is asked for each event before it is queued, so that idle watchers of a busy resource are not woken.
    """

    __slots__ = ("_events", "_waiting", "closed", "group", "key", "namespace", "resource", "wanted")

    def __init__(
        self, resource: str, namespace: str, key: str, group: str, wanted: Callable[[Event], bool] | None
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.key = key
        """Only this object; empty for all."""
        self.group = group
        """Only objects of this group; empty for all."""
        self.wanted = wanted
        self.closed = False
        """No further events will come: the reader was too slow, or the store was closed."""
        self._events: deque[Event] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def push(self, event: Event) -> None:
        """Queue an event if it is one for this reader."""
        if self.closed or (self.wanted is not None and not self.wanted(event)):
            return
        if len(self._events) >= QUEUE_LIMIT:
            self.close()
            return
        self._events.append(event)
        self._wake()

    def close(self) -> None:
        """Let the reader see the end."""
        self.closed = True
        self._wake()

    def take(self) -> list[Event]:
        """What has come since, without waiting."""
        events = list(self._events)
        self._events.clear()
        return events

    async def wait(self) -> None:
        """Until there is something to take, or the end."""
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
