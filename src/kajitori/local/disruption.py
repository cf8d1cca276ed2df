"""Keeps the status of PodDisruptionBudgets: how many Pods of each may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from kajitori import errors
from kajitori.core import names
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import ObjectMeta
from kajitori.kube.resources import BUDGETS, PODS, RUNS
from kajitori.local import budgets
from kajitori.local.cache import Cache
from kajitori.local.controller import Controller
from kajitori.local.objects import Pod, no_metadata


class _RunSpec(msgspec.Struct):
    replicas: int = 1


class _Run(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: _RunSpec = msgspec.field(default_factory=_RunSpec)


class Disruption(Controller):
    """Looks at all budgets after a change of any Pod: there are few of them."""

    name = "disruption-controller"
    interval_seconds = 30.0

    def __init__(
        self,
        client: KubeClient,
        cache: Cache | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(client, cache, clock=clock)
        self._budgets = self.cache.informer(BUDGETS, budgets.Budget)
        self._pods = self.cache.informer(PODS, Pod)
        for informer in (self._budgets, self._pods):
            informer.listen(self.changed)

    async def reconcile(self) -> None:
        """Write every status that is not true any more."""
        for (namespace, name), budget in sorted(self._budgets.items.items()):
            pods = [
                pod
                for (pod_namespace, _), pod in self._pods.items.items()
                if pod_namespace == namespace
                and budget.spec.selector is not None
                and budget.spec.selector.matches(pod.metadata.labels)
            ]
            wanted = budgets.status(budget, pods, self.clock(), await self._expected(namespace, pods))
            if budgets.is_same(budget, wanted):
                continue
            await self._write(namespace, name, budget, wanted)

    async def _write(self, namespace: str, name: str, budget: budgets.Budget, wanted: dict[str, Any]) -> None:
        """Only if nobody changed it meanwhile: an eviction writes its Pod there, and that must not get lost."""
        version = {"metadata": {"resourceVersion": budget.metadata.resource_version}}
        gone = {pod: None for pod in budget.status.disrupted_pods or {} if pod not in (wanted["disruptedPods"] or {})}
        status = {**wanted, "disruptedPods": {**(wanted["disruptedPods"] or {}), **gone} or None}
        try:
            await self.client.patch(BUDGETS, name, {**version, "status": status}, namespace, subresource="status")
        except (errors.NotFound, errors.Conflict):
            self.changed()

    async def _expected(self, namespace: str, pods: Sequence[Pod]) -> int | None:
        """How many Pods the owners want, where all of them are Runs that still exist; None where that is not known."""
        owners = {}
        for pod in pods:
            owner = next((o for o in pod.metadata.owner_references or () if o.controller), None)
            if owner is None or owner.kind != names.KIND:
                return None
            owners[owner.uid] = owner.name
        total = 0
        for uid, name in owners.items():
            try:
                run = await self.client.get(RUNS, name, namespace, type=_Run)
            except errors.NotFound:
                return None
            if run.metadata.uid != uid:
                return None
            total += run.spec.replicas
        return total or None
