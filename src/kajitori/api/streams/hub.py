"""Wakes those who wait for changes of single runs, with one callback of the mirror for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS
from kajitori.kube.resources import PODS, Resource


class Subscription:
    """A wait for changes of one run, and with `pods` of its members. Use it as a context manager."""

    def __init__(self, hub: RunHub, key: Key, *, pods: bool, on_change: Callable[[], None] | None) -> None:
        self._hub = hub
        self._on_change = on_change
        self.event = asyncio.Event()
        self.key = key
        self.pods = pods

    def notify(self) -> None:
        """Note a change and wake the holder."""
        if self._on_change is not None:
            self._on_change()
        self.event.set()

    async def changed(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the next change since the last call. Returns False after the timeout."""
        if timeout_seconds is None or self.event.is_set():
            await self.event.wait()
        else:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self.event.wait()
            except TimeoutError:
                return False
        self.event.clear()
        return True

    def __enter__(self) -> Subscription:
        self._hub.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.remove(self)


class RunHub:
    """Passes the mirror's changes on to the subscriptions of each run."""

    def __init__(self, mirror: Mirror) -> None:
        self._waiting: dict[Key, set[Subscription]] = {}
        self._unsubscribe = mirror.on_change(self._note)

    def close(self) -> None:
        """Stop listening to the mirror."""
        self._unsubscribe()

    def subscribe(
        self, namespace: str, name: str, *, pods: bool = False, on_change: Callable[[], None] | None = None
    ) -> Subscription:
        """Return a subscription to one run, which need not exist yet. `on_change` is called at each change, without
        delay."""
        return Subscription(self, (namespace, name), pods=pods, on_change=on_change)

    def add(self, subscription: Subscription) -> None:
        """Start to notify a subscription."""
        self._waiting.setdefault(subscription.key, set()).add(subscription)

    def remove(self, subscription: Subscription) -> None:
        """Stop notifying a subscription."""
        waiting = self._waiting.get(subscription.key)
        if waiting is not None:
            waiting.discard(subscription)
            if not waiting:
                del self._waiting[subscription.key]

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            for subscription in self._waiting.get((namespace, name), ()):
                subscription.notify()
        elif resource == PODS and self._waiting:
            run_name = name.rsplit("-", 2)[0]  # {run}-{attempt}-{rank}; a foreign Pod of that form wakes needlessly
            for subscription in self._waiting.get((namespace, run_name), ()):
                if subscription.pods:
                    subscription.notify()
