"""The disruption controller: keeps the status of PodDisruptionBudgets, which says how many Pods may be evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from kajitori import errors
from kajitori.embedded.controllers import budgets
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.controllers.informer import Key
from kajitori.embedded.objects import Pod, no_metadata
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import BUDGETS, PODS, Resource


@dataclass(frozen=True, slots=True)
class Workload:
    """A custom kind of objects that own Pods and have a budget each; `spec.replicas` is the wanted number of Pods."""

    resource: Resource
    uid_label: str
    """The label by which an object's Pods, and the selector of its budget, name the object's UID."""


class _WorkloadSpec(msgspec.Struct):
    replicas: int = 1


class _WorkloadObject(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)


class Disruption(Controller):
    """Computes the status of a budget after the budget or one of its Pods has changed.

    Each object of `workload` may have a budget. Its Pods are indexed, so a change costs only the budgets that it
    concerns.
    """

    name = "disruption-controller"
    interval_seconds = 30.0

    def __init__(
        self,
        client: KubeClient,
        cache: Cache | None = None,
        *,
        workload: Workload | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(client, cache, clock=clock)
        self._budgets = self.cache.informer(BUDGETS, budgets.Budget)
        self._pods = self.cache.informer(PODS, Pod)
        self._budgets.listen(self._note_budget)
        self._pods.listen(self._note_pod)
        self._workload = workload
        self._pods_of: dict[Key, set[Key]] = {}
        """Pods by the namespace and UID of the workload that they belong to."""
        self._changed: set[tuple[str, ...]] = set()
        """Changes since the last pass: budgets, workloads (by UID) and namespaces in which a Pod changed."""

    def _note_budget(self, key: Key, old: budgets.Budget | None, new: budgets.Budget | None) -> None:
        self._changed.add(("budget", *key))
        self.changed()

    def _note_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        namespace = key[0]
        self._changed.add(("namespace", namespace))
        for pod in (old, new):
            uid = self._workload_uid(pod.metadata.labels) if pod is not None else ""
            if uid:
                self._changed.add(("workload", namespace, uid))
                pods = self._pods_of.setdefault((namespace, uid), set())
                if pod is new:
                    pods.add(key)
                else:
                    pods.discard(key)
                if not pods:
                    del self._pods_of[namespace, uid]
        self.changed()

    async def reconcile(self) -> None:
        """Write the status of every budget that has an outdated one."""
        changed, self._changed = self._changed, set()
        try:
            for (namespace, name), budget in sorted(self._budgets.items.items()):
                selector = budget.spec.selector
                uid = self._workload_uid(selector.match_labels) if selector is not None else ""
                pods_changed = ("workload", namespace, uid) if uid else ("namespace", namespace)
                causes = {("budget", namespace, name), pods_changed}
                # An evicted Pod that still exists after a while counts as available again, though nothing changed.
                if not budget.status.disrupted_pods and causes.isdisjoint(changed):
                    continue
                pods = self._covered_pods(namespace, uid, budget)
                wanted = budgets.status(budget, pods, self.clock(), await self._expected_pods(namespace, budget, pods))
                if not budgets.is_same(budget, wanted):
                    await self._write(namespace, name, budget, wanted)
        except BaseException:
            self._changed |= changed
            raise

    def _workload_uid(self, labels: Mapping[str, str] | None) -> str:
        """Return the UID of the workload that these labels name; empty if they name none."""
        return (labels or {}).get(self._workload.uid_label, "") if self._workload is not None else ""

    def _covered_pods(self, namespace: str, workload_uid: str, budget: budgets.Budget) -> list[Pod]:
        if budget.spec.selector is None:
            return []
        if workload_uid:
            keys: Iterable[Key] = self._pods_of.get((namespace, workload_uid), ())
        else:
            keys = [key for key in self._pods.items if key[0] == namespace]
        pods = [self._pods.items[key] for key in keys if key in self._pods.items]
        return [pod for pod in pods if budget.spec.selector.matches(pod.metadata.labels)]

    async def _write(self, namespace: str, name: str, budget: budgets.Budget, wanted: dict[str, Any]) -> None:
        """Write the status unless the budget has changed meanwhile: an eviction adds its Pod there, which must stay."""
        version = {"metadata": {"resourceVersion": budget.metadata.resource_version}}
        gone = {pod: None for pod in budget.status.disrupted_pods or {} if pod not in (wanted["disruptedPods"] or {})}
        status = {**wanted, "disruptedPods": {**(wanted["disruptedPods"] or {}), **gone} or None}
        try:
            await self.client.patch(BUDGETS, name, {**version, "status": status}, namespace, subresource="status")
        except errors.NotFound:
            pass
        except errors.Conflict:
            self._note_budget((namespace, name), None, None)

    async def _expected_pods(self, namespace: str, budget: budgets.Budget, pods: Sequence[Pod]) -> int | None:
        """Return the number of Pods that the owners want; None if it does not matter or is not known.

        It is known if each Pod's controller is a workload that still exists.
        """
        if isinstance(budget.spec.min_available, int) or self._workload is None:
            return None
        owners = {}
        for pod in pods:
            owner = next((o for o in pod.metadata.owner_references or () if o.controller), None)
            if owner is None or owner.kind != self._workload.resource.kind:
                return None
            owners[owner.uid] = owner.name
        total = 0
        for uid, name in owners.items():
            try:
                workload = await self.client.get(self._workload.resource, name, namespace, type=_WorkloadObject)
            except errors.NotFound:
                return None
            if workload.metadata.uid != uid:
                return None
            total += workload.spec.replicas
        return total or None
