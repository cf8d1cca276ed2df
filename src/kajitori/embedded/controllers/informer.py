"""A local copy of one kind's objects that a watch keeps up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from kajitori.kube.client import KubeClient
from kajitori.kube.resources import Resource
from kajitori.kube.watch import Added, Deleted, Modified, Synced, Watched, watch

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""


T = TypeVar("T", bound=Watched)


class Informer(Generic[T]):
    """Objects of one kind by namespace and name. Listeners are called for each change, in order.

    `keep` selects the wanted objects. After a gap in the watch all objects are listed again, and listeners are called
    for those that are gone or have changed.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        type_: type[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[T], bool] | None = None,
    ) -> None:
        self.items: dict[Key, T] = {}
        self.synced = asyncio.Event()
        self.missed: set[Key] = set()
        """Objects that disappeared in a gap of the watch, without a deletion event; set while list listeners are
        called."""
        self._client = client
        self._resource = resource
        self._type = type_
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._listeners: list[Callable[[Key, T | None, T | None], None]] = []
        self._list_listeners: list[Callable[[], None]] = []
        self._keep = keep

    def listen(self, listener: Callable[[Key, T | None, T | None], None]) -> None:
        """Call `listener(key, old, new)` for each change; None means that the object did not or does not exist."""
        self._listeners.append(listener)

    def listen_to_lists(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever all objects were listed: `items` is then the current state, even if the caller has
        seen a newer object."""
        self._list_listeners.append(listener)

    async def run(self) -> None:
        """Follow the watch until cancelled. Raises ApiError if the server refuses for good."""
        async for event in watch(self._client, self._resource, self._type, **self._selectors):
            match event:
                case Synced():
                    self.synced.set()
                    for listener in self._list_listeners:
                        listener()
                    self.missed.clear()
                case Added(new):
                    self._notify(None, new)
                case Modified(new, old):
                    self._notify(old, new)
                case Deleted(old, missed):
                    if missed:
                        self.missed.add((old.metadata.namespace, old.metadata.name))
                    self._notify(old, None)

    def _notify(self, old: T | None, new: T | None) -> None:
        if self._keep is not None:
            old = old if old is not None and self._keep(old) else None
            new = new if new is not None and self._keep(new) else None
        last = new if new is not None else old
        if last is None:
            return
        key = (last.metadata.namespace, last.metadata.name)
        if new is None:
            self.items.pop(key, None)
        else:
            self.items[key] = new
        for listener in self._listeners:
            listener(key, old, new)
