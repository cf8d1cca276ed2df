"""The budgets that are computed after a change: each workload may have one, so there may be thousands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kajitori.embedded.controllers import budgets
from kajitori.embedded.controllers.disruption import Disruption, Workload
from kajitori.embedded.objects import Pod
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import Resource

NS = "team"
JOBS = Resource("example.com", "v1", "jobs", "Job")
UID_LABEL = "example.com/job-uid"


def budget(name: str, labels: dict[str, str], disrupted: dict[str, str] | None = None) -> budgets.Budget:
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    meta = {"name": name, "namespace": NS, "generation": 1, "resourceVersion": "1"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"disruptedPods": disrupted}}, budgets.Budget)


def pod(name: str, labels: dict[str, str], *, ready: bool = True, namespace: str = NS) -> Pod:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "status": status}, Pod
    )


def of(uid: str) -> dict[str, str]:
    return {UID_LABEL: uid}


class RecordingDisruption(Disruption):
    """A controller that keeps what it would write."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client, workload=Workload(JOBS, UID_LABEL))
        self.written: dict[str, int] = {}

    async def _write(self, namespace: str, name: str, budget: budgets.Budget, wanted: dict[str, Any]) -> None:
        self.written[name] = wanted["currentHealthy"]

    async def after(self, old: Pod | None, new: Pod | None) -> dict[str, int]:
        """Return what is written after a change of a Pod."""
        self.written.clear()
        self._pods._notify(old, new)
        await self.reconcile()
        return dict(self.written)


async def test_only_budgets_that_a_change_affects_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets of the workload, and those of the namespace that might match any Pod of it."""
    async with KubeClient(KubeConfig(server="https://127.0.0.1:1")) as client:
        disruption = RecordingDisruption(client)
        for name, labels in (("r1", of("u1")), ("r2", of("u2")), ("web", {"app": "web"})):
            disruption._budgets._notify(None, budget(name, labels))
        first, second = pod("r1-1-0", of("u1")), pod("r2-1-0", of("u2"))
        disruption._pods._notify(None, first)
        assert await disruption.after(None, second) == {"r1": 1, "r2": 1, "web": 0}
        looked_at = []
        judge = budgets.status

        def counted(one: budgets.Budget, *rest: Any) -> dict[str, Any]:
            looked_at.append(one.metadata.name)
            return judge(one, *rest)

        monkeypatch.setattr(budgets, "status", counted)
        assert await disruption.after(first, again := pod("r1-1-0", of("u1"), ready=False)) == {"r1": 0, "web": 0}
        assert await disruption.after(None, pod("x", of("u1"), namespace="other")) == {}
        assert looked_at == ["r1", "web"]
        assert await disruption.after(again, None) == {"r1": 0, "web": 0}
        await disruption.reconcile()
        assert looked_at == ["r1", "web"] * 2


async def test_a_pod_with_an_edited_label_leaves_its_runs_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    async with KubeClient(KubeConfig(server="https://127.0.0.1:1")) as client:
        disruption = RecordingDisruption(client)
        disruption._budgets._notify(None, budget("r1", of("u1")))
        mine = pod("r1-1-0", of("u1"))
        assert await disruption.after(None, mine) == {"r1": 1}
        assert await disruption.after(mine, pod("r1-1-0", of("u2"))) == {"r1": 0}


async def test_an_evicted_pod_is_checked_again_without_a_change() -> None:
    """It counts as available again after a while."""
    async with KubeClient(KubeConfig(server="https://127.0.0.1:1")) as client:
        disruption = RecordingDisruption(client)
        disruption._budgets._notify(None, budget("r1", of("u1"), {"r1-1-0": "2020-01-01T00:00:00Z"}))
        await disruption.after(None, pod("r1-1-0", of("u1")))
        disruption.written.clear()
        await disruption.reconcile()
        assert disruption.written == {"r1": 1}
