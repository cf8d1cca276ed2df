"""Keeps the status of PodDisruptionBudgets: how many Pods of each may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from kajitori import errors
from kajitori.core.words import names
from kajitori.embedded.controllers import budgets
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.controllers.informer import Key
from kajitori.embedded.objects import Pod, no_metadata
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import ObjectMeta
from kajitori.kube.resources import BUDGETS, PODS, RUNS


class _RunSpec(msgspec.Struct):
    replicas: int = 1


class _Run(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: _RunSpec = msgspec.field(default_factory=_RunSpec)


class Disruption(Controller):
    """Looks at a budget after a change of it or of its Pods: every run has one, and others cost nothing."""

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
        self._budgets.listen(self._note_budget)
        self._pods.listen(self._note_pod)
        self._of_run: dict[Key, set[Key]] = {}
        """Pods by the namespace and UID of the run that they are members of."""
        self._changed: set[tuple[str, ...]] = set()
        """What was not looked at since: budgets, runs (by UID) and namespaces with Pods that changed."""

    def _note_budget(self, key: Key, old: budgets.Budget | None, new: budgets.Budget | None) -> None:
        self._changed.add(("budget", *key))
        self.changed()

    def _note_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        namespace = key[0]
        self._changed.add(("namespace", namespace))
        for pod in (old, new):
            uid = pod.metadata.labels.get(names.LABEL_RUN_UID) if pod is not None and pod.metadata.labels else None
            if uid:
                self._changed.add(("run", namespace, uid))
                members = self._of_run.setdefault((namespace, uid), set())
                if pod is new:
                    members.add(key)
                else:
                    members.discard(key)
                if not members:
                    del self._of_run[namespace, uid]
        self.changed()

    async def reconcile(self) -> None:
        """Write every status that is not true any more."""
        changed, self._changed = self._changed, set()
        try:
            for (namespace, name), budget in sorted(self._budgets.items.items()):
                uid = _run_of(budget)
                causes = {("budget", namespace, name), ("run", namespace, uid) if uid else ("namespace", namespace)}
                # Whoever was evicted and is still there counts again after a while, though nothing changes.
                if not budget.status.disrupted_pods and causes.isdisjoint(changed):
                    continue
                pods = self._covered(namespace, uid, budget)
                wanted = budgets.status(budget, pods, self.clock(), await self._expected(namespace, budget, pods))
                if not budgets.is_same(budget, wanted):
                    await self._write(namespace, name, budget, wanted)
        except BaseException:
            self._changed |= changed
            raise

    def _covered(self, namespace: str, run_uid: str, budget: budgets.Budget) -> list[Pod]:
        if budget.spec.selector is None:
            return []
        if run_uid:
            keys: Iterable[Key] = self._of_run.get((namespace, run_uid), ())
        else:
            keys = [key for key in self._pods.items if key[0] == namespace]
        pods = [self._pods.items[key] for key in keys if key in self._pods.items]
        return [pod for pod in pods if budget.spec.selector.matches(pod.metadata.labels)]

    async def _write(self, namespace: str, name: str, budget: budgets.Budget, wanted: dict[str, Any]) -> None:
        """Only if nobody changed it meanwhile: an eviction writes its Pod there, and that must not get lost."""
        version = {"metadata": {"resourceVersion": budget.metadata.resource_version}}
        gone = {pod: None for pod in budget.status.disrupted_pods or {} if pod not in (wanted["disruptedPods"] or {})}
        status = {**wanted, "disruptedPods": {**(wanted["disruptedPods"] or {}), **gone} or None}
        try:
            await self.client.patch(BUDGETS, name, {**version, "status": status}, namespace, subresource="status")
        except errors.NotFound:
            pass
        except errors.Conflict:
            self._note_budget((namespace, name), None, None)

    async def _expected(self, namespace: str, budget: budgets.Budget, pods: Sequence[Pod]) -> int | None:
        """How many Pods the owners want, where all of them are Runs that still exist; None where that is not known, or
        does not matter."""
        if isinstance(budget.spec.min_available, int):
            return None
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


def _run_of(budget: budgets.Budget) -> str:
    """The UID of the run whose members alone it covers; empty where it covers others."""
    selector = budget.spec.selector
    return (selector.match_labels or {}).get(names.LABEL_RUN_UID, "") if selector is not None else ""
