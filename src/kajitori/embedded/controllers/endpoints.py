"""The EndpointSlice controller: keeps the EndpointSlices of Services that select Pods."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime

from kajitori import errors
from kajitori.embedded.controllers import slices
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.controllers.informer import Key
from kajitori.embedded.controllers.selectors import SelectorIndex
from kajitori.embedded.objects import Pod
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import ENDPOINT_SLICES, PODS, SERVICES


class Endpoints(Controller):
    """Reconciles one Service at a time, and only those that a change concerns."""

    name = "endpointslice-controller"

    def __init__(
        self,
        client: KubeClient,
        cache: Cache | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(client, cache, clock=clock)
        self._dirty: set[Key] = set()
        self._selectors = SelectorIndex()
        self._pods_of: defaultdict[str, dict[Key, Pod]] = defaultdict(dict)
        self._slices_of: defaultdict[Key, dict[Key, slices.Slice]] = defaultdict(dict)
        self._services = self.cache.informer(SERVICES, slices.Service)
        self._services.listen(self._see_service)
        self.cache.informer(PODS, Pod).listen(self._see_pod)
        ours = f"{slices.LABEL_MANAGED_BY}={slices.MANAGED_BY}"
        self.cache.informer(ENDPOINT_SLICES, slices.Slice, label_selector=ours).listen(self._see_slice)

    async def reconcile(self) -> None:
        """Write the slices of the changed Services. If the writes for a Service fail, it is tried again."""
        failure: errors.KajitoriError | None = None
        for key in sorted(self._dirty):
            self._dirty.discard(key)
            try:
                await self._reconcile_one(key)
            except errors.KajitoriError as cause:
                self._dirty.add(key)
                failure = cause
        if failure is not None:
            raise failure

    async def _reconcile_one(self, key: Key) -> None:
        namespace, _ = key
        pods = self._pods_of[namespace].values() if namespace in self._pods_of else ()
        existing = self._slices_of[key].values() if key in self._slices_of else ()
        for change in slices.changes(self._services.items.get(key), pods, existing):
            if change.body is None:
                with contextlib.suppress(errors.NotFound):
                    await self.client.delete(ENDPOINT_SLICES, change.name, namespace)
            elif change.old is None:
                await self.client.create(ENDPOINT_SLICES, change.body, namespace)
            else:
                # If another program changed the slice, this fails and is repeated once the watch has shown the change.
                # If the slice is gone, then usually with its Service; the watch shows both.
                change.body["metadata"]["resourceVersion"] = change.old.metadata.resource_version
                with contextlib.suppress(errors.NotFound):
                    await self.client.replace(ENDPOINT_SLICES, change.body)

    def _see_service(self, key: Key, _old: slices.Service | None, new: slices.Service | None) -> None:
        self._selectors.set(key, (new.spec.selector if new is not None else None) or {})
        self._mark_changed(key)

    def _see_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            self._pods_of[key[0]].pop(key, None)
        else:
            self._pods_of[key[0]][key] = new
        for pod in (old, new):
            if pod is not None:
                for service_key in self._selectors.selecting(key[0], pod.metadata.labels or {}):
                    self._mark_changed(service_key)

    def _see_slice(self, key: Key, old: slices.Slice | None, new: slices.Slice | None) -> None:
        for found in (old, new):
            if found is not None:
                service_key = (key[0], (found.metadata.labels or {}).get(slices.LABEL_SERVICE, ""))
                there = self._slices_of[service_key]
                there.pop(key, None)
                if not there:
                    del self._slices_of[service_key]
                self._mark_changed(service_key)
        if new is not None:
            self._slices_of[service_key][key] = new

    def _mark_changed(self, key: Key) -> None:
        self._dirty.add(key)
        self.changed()
