"""The objects of one resource in memory, and their watchers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable

from kajitori.embedded.store.records import Event, Record
from kajitori.embedded.store.watcher import Watcher


class Collection:
    """The objects of one resource, their recent changes, and their watchers."""

    __slots__ = (
        "compacted",
        "group_of",
        "history",
        "keys",
        "records",
        "watchers",
        "watchers_by_group",
        "watchers_by_key",
    )

    def __init__(self, compacted: int) -> None:
        self.records: dict[str, Record] = {}
        self.keys: list[str] = []
        """Keys in the order of etcd."""
        self.history: deque[Event] = deque()
        self.compacted = compacted
        """Revision of the last event that was dropped from the history."""
        self.watchers: set[Watcher] = set()
        self.watchers_by_key: dict[str, set[Watcher]] = {}
        self.watchers_by_group: dict[str, set[Watcher]] = {}
        self.group_of: Callable[[Record], str] | None = None

    def put(self, record: Record) -> None:
        if record.key not in self.records:
            insort(self.keys, record.key)
        self.records[record.key] = record

    def remove(self, key: str) -> None:
        del self.records[key]
        del self.keys[bisect_left(self.keys, key)]

    def forget_objects(self) -> None:
        """Release the memory of decoded objects."""
        for record in self.records.values():
            record.forget_object()

    def in_namespace(self, namespace: str) -> list[str]:
        """Return the sorted keys of one namespace; with "" of all."""
        if not namespace:
            return self.keys
        # "0" is the character after "/".
        return self.keys[bisect_left(self.keys, f"{namespace}/") : bisect_left(self.keys, f"{namespace}0")]

    def add(self, watcher: Watcher) -> None:
        """Add a watcher."""
        if watcher.key:
            self.watchers_by_key.setdefault(watcher.key, set()).add(watcher)
        elif watcher.group:
            self.watchers_by_group.setdefault(watcher.group, set()).add(watcher)
        else:
            self.watchers.add(watcher)

    def discard(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        self.watchers.discard(watcher)
        for index, name in ((self.watchers_by_key, watcher.key), (self.watchers_by_group, watcher.group)):
            some = index.get(name)
            if some is not None:
                some.discard(watcher)
                if not some:
                    del index[name]

    def all_watchers(self) -> set[Watcher]:
        """Return all watchers."""
        return self.watchers.union(*self.watchers_by_key.values(), *self.watchers_by_group.values())

    def publish(self, event: Event) -> None:
        """Hand an event to the watchers that it concerns."""
        for watcher in self.watchers:
            if not watcher.namespace or watcher.namespace == event.record.namespace:
                watcher.push(event)
        for watcher in self.watchers_by_key.get(event.record.key, ()):
            watcher.push(event)
        if self.watchers_by_group:
            self._publish_to_groups(event)

    def _publish_to_groups(self, event: Event) -> None:
        assert self.group_of is not None
        groups = {self.group_of(event.record)}
        if event.previous is not None:
            groups.add(self.group_of(event.previous))
        for group in groups:
            for watcher in self.watchers_by_group.get(group, ()):
                if not watcher.namespace or watcher.namespace == event.record.namespace:
                    watcher.push(event)
