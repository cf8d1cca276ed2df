"""Who waits for which run to change. One callback of the mirror, however many wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.resources import PODS, RUNS, Resource


class Subscription:
    """Wakes its holder when a run, or with `pods` a member of it, has changed. Use it as a context manager."""

    def __init__(self, hub: RunHub, key: Key, *, pods: bool, on_change: Callable[[], None] | None) -> None:
        self._hub = hub
        self._on_change = on_change
        self.event = asyncio.Event()
        self.key = key
        self.pods = pods

    def notify(self) -> None:
        """Something changed."""
        if self._on_change is not None:
            self._on_change()
        self.event.set()

    async def changed(self, timeout_seconds: float | None = None) -> bool:
        """Waits for the next change since the last call; False where none came in time."""
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
    """Spreads the mirror's changes to those who wait for one run."""

    def __init__(self, mirror: Mirror) -> None:
        self._waiting: dict[Key, set[Subscription]] = {}
        self._unsubscribe = mirror.on_change(self._note)

    def close(self) -> None:
        """Nobody is woken any more."""
        self._unsubscribe()

    def subscribe(
        self, namespace: str, name: str, *, pods: bool = False, on_change: Callable[[], None] | None = None
    ) -> Subscription:
        """Changes of one run, whether or not it exists already. `on_change` is called at each, at once."""
        return Subscription(self, (namespace, name), pods=pods, on_change=on_change)

    def add(self, subscription: Subscription) -> None:
        """From now on it is woken."""
        self._waiting.setdefault(subscription.key, set()).add(subscription)

    def remove(self, subscription: Subscription) -> None:
        """It is woken no more."""
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
            run_name = name.rsplit("-", 2)[0]  # {run}-{attempt}-{rank}; a stranger of that form wakes for nothing
            for subscription in self._waiting.get((namespace, run_name), ()):
                if subscription.pods:
                    subscription.notify()
