"""A client that lets a test act just before a Pod is created, so that a race happens every time."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kajitori.kube.client import KubeClient, Object
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import PODS, Resource


class MeddlingClient(KubeClient):
    """A client that awaits `before` with each Pod that it is about to create, except for dry runs. `before` may change
    it."""

    def __init__(self, config: KubeConfig, before: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        super().__init__(config)
        self._before = before

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any] | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Object:
        if resource == PODS and not dry_run and not isinstance(body, bytes):
            body = copy.deepcopy(dict(body))
            await self._before(body)
        return await super().create(resource, body, namespace, dry_run=dry_run)
