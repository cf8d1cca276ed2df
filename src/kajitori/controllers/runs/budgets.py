"""PodDisruptionBudgets of runs, kept as they should be: written with a run's members, gone when the run is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kajitori.controllers.runs.belongings import ensure_of_run, owning_run
from kajitori.core.pods import manifests
from kajitori.core.words import names
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import BUDGETS

log = logging.getLogger(__name__)

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Budget:
    uid: str
    spec: Spec


class BudgetKeeper:
    """What is there is read once and remembered: nobody else writes it, and most looks at a run change nothing.

    A run never waits for its budget: where one may not be written, its members are evicted like any others.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, _Budget] | None = None
        """By the UID of the run that owns it, as it was written last."""
        self._reading = asyncio.Lock()
        self._refused: dict[str, Spec] = {}
        """By the same, what the API server did not take: not tried again before something else is wanted."""

    async def keep(self, run: RunObject, wanted: Spec | None) -> None:
        """Sees to it that the run's budget says this, or is gone. One write where that changes, else none."""
        known, uid = await self._read(), run.metadata.uid
        there = known.get(uid)
        if wanted is None:
            self._refused.pop(uid, None)
            if there is not None:
                await self._delete(run, there.uid)
                known.pop(uid, None)
            return
        if wanted in (there.spec if there is not None else None, self._refused.get(uid)):
            return
        try:
            if there is None:
                there = await self._create(run, wanted)
            if there.spec != wanted:
                known.pop(uid, None)  # where this fails, it is looked for anew
                patch = {"metadata": {"uid": there.uid}, "spec": _all_of(wanted)}
                await self._client.patch(BUDGETS, run.metadata.name, patch, run.metadata.namespace)
            known[uid] = _Budget(there.uid, wanted)
        except (AlreadyExists, Forbidden, InvalidInput) as error:
            name = f"{run.metadata.namespace}/{run.metadata.name}"
            log.warning("run %s has no budget against evictions: %s", name, error.message)
            self._refused[uid] = wanted

    async def _read(self) -> dict[str, _Budget]:
        async with self._reading:
            if self._known is None:
                ours = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
                try:
                    items = (await self._client.list(BUDGETS, label_selector=ours)).items
                except Forbidden as error:
                    log.warning("budgets against evictions can't be read: %s", error.message)
                    items = []
                self._known = {owning_run(each): _Budget(each["metadata"]["uid"], each["spec"]) for each in items}
            return self._known

    async def _create(self, run: RunObject, wanted: Spec) -> _Budget:
        meta = run.metadata
        body = manifests.disruption_budget(run_name=meta.name, namespace=meta.namespace, run_uid=meta.uid, spec=wanted)
        made = await ensure_of_run(self._client, BUDGETS, body, run)
        return _Budget(made["metadata"]["uid"], made["spec"])

    async def _delete(self, run: RunObject, uid: str) -> None:
        with suppress(NotFound, Conflict):
            await self._client.delete(BUDGETS, run.metadata.name, run.metadata.namespace, uid=uid)


def _all_of(spec: Spec) -> dict[str, Any]:
    """As a merge patch that leaves nothing of an earlier selector."""
    return {**spec, "selector": {"matchExpressions": None, **spec["selector"]}}
