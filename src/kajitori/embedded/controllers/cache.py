"""The objects that the embedded cluster's controllers read: watched once and shared."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from kajitori.embedded.controllers.informer import Informer
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import Resource
from kajitori.kube.watch import Watched

T = TypeVar("T", bound=Watched)


class Cache:
    """Informers by kind. A controller asks for its kinds before `run`."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self._informers: dict[tuple[Resource, type, str], Informer[Any]] = {}

    def informer(self, resource: Resource, type_: type[T], *, label_selector: str = "") -> Informer[T]:
        """Return the one informer of this kind, decoded as `type_`."""
        key = (resource, type_, label_selector)
        if key not in self._informers:
            self._informers[key] = Informer(self.client, resource, type_, label_selector=label_selector)
        return self._informers[key]

    async def run(self) -> None:
        """Keep all informers up to date until cancelled."""
        await asyncio.gather(*(informer.run() for informer in self._informers.values()))

    async def wait_synced(self) -> None:
        """Wait until every kind has been listed once."""
        for informer in self._informers.values():
            await informer.synced.wait()
