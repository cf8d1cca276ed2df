"""PodDisruptionBudgets of runs: written while a run has members, and deleted when it has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.belongings import ensure_of_run, owning_run
from kajitori.core.naming import names
from kajitori.core.pods import manifests
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import BUDGETS

log = logging.getLogger(__name__)

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Budget:
    uid: str
    spec: Spec


class BudgetKeeper:
    """Writes the budgets of runs. They are read once and then remembered, because only the leader writes them.

    A run never waits for its budget. If one may not be written, members are evicted like other Pods.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, _Budget] | None = None
        """The budgets as they were written last, by the UID of their run."""
        self._reading = asyncio.Lock()
        self._refused: dict[str, Spec] = {}
        """Budgets that the API server refused, by the UID of their run. The same budget is not tried again."""

    async def keep(self, run: RunObject, wanted: Spec | None) -> None:
        """Write the run's budget, or delete it if `wanted` is None. Does nothing if it is as wanted already."""
        known, uid = await self._read_all(), run.metadata.uid
        present = known.get(uid)
        if wanted is None:
            self._refused.pop(uid, None)
            if present is not None:
                await self._delete_budget(run, present.uid)
                known.pop(uid, None)
            return
        if wanted in (present.spec if present is not None else None, self._refused.get(uid)):
            return
        try:
            if present is None:
                present = await self._create_budget(run, wanted)
            if present.spec != wanted:
                known.pop(uid, None)  # read again if the patch fails
                patch = {"metadata": {"uid": present.uid}, "spec": _merge_patch(wanted)}
                await self._client.patch(BUDGETS, run.metadata.name, patch, run.metadata.namespace)
            known[uid] = _Budget(present.uid, wanted)
        except (AlreadyExists, Forbidden, InvalidInput) as error:
            name = f"{run.metadata.namespace}/{run.metadata.name}"
            log.warning("run %s has no disruption budget: %s", name, error.message)
            self._refused[uid] = wanted

    async def _read_all(self) -> dict[str, _Budget]:
        async with self._reading:
            if self._known is None:
                try:
                    items = (await self._client.list(BUDGETS, label_selector=names.MANAGED)).items
                except Forbidden as error:
                    log.warning("disruption budgets can't be read: %s", error.message)
                    items = []
                self._known = {owning_run(item): _Budget(item["metadata"]["uid"], item["spec"]) for item in items}
            return self._known

    async def _create_budget(self, run: RunObject, wanted: Spec) -> _Budget:
        meta = run.metadata
        body = manifests.disruption_budget(run_name=meta.name, namespace=meta.namespace, run_uid=meta.uid, spec=wanted)
        made = await ensure_of_run(self._client, BUDGETS, body, run)
        return _Budget(made["metadata"]["uid"], made["spec"])

    async def _delete_budget(self, run: RunObject, uid: str) -> None:
        with suppress(NotFound, Conflict):
            await self._client.delete(BUDGETS, run.metadata.name, run.metadata.namespace, uid=uid)


def _merge_patch(spec: Spec) -> dict[str, Any]:
    """Return the merge patch that sets this spec and removes an earlier selector."""
    return {**spec, "selector": {"matchExpressions": None, **spec["selector"]}}
