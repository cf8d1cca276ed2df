"""NetworkPolicies of runs, kept as they should be: there before a run's first Pod, put right when somebody deletes or
edits them, gone when the run is over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from kajitori.controllers.runs.belongings import ensure_of_run
from kajitori.controllers.workqueue import Key
from kajitori.core.pods import manifests
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import NetworkPolicy, RunObject
from kajitori.kube.resources import NETWORK_POLICIES
from kajitori.kube.watch import Synced, watch_ours

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 30.0

Rules = Mapping[str, Any]
"""As `core.admission.reach.network_rules` says them."""


class NetworkKeeper:
    """Knows ours by a watch of its own, beside the mirror: where the kind may not be read, all else goes on. Then a
    restricted run still has its NetworkPolicy before its first Pod, or does not start; it is not looked after later."""

    def __init__(self, client: KubeClient, on_change: Callable[[Key | None], None]) -> None:
        """`on_change` is told of the run whose NetworkPolicy changed, and of None when all are known."""
        self._client = client
        self._on_change = on_change
        self._known: dict[Key, NetworkPolicy] = {}
        """By namespace and name, which is the run's."""
        self._synced = False
        self._written: dict[str, str] = {}
        """By the run's UID, the resource version that it was seen with last after a write."""
        self._refused: dict[str, Rules] = {}
        """By the run's UID, what could not be put right: not tried again before something else is wanted."""

    async def follow(self) -> None:
        """Until cancelled."""
        trouble = ""
        while True:
            try:
                await self._watch()
            except KajitoriError as error:
                if error.message != trouble:
                    log.warning("NetworkPolicies of runs can't be watched, nor put right: %s", error.message)
                trouble = error.message
            self._synced = False
            self._known.clear()
            await self._client.environment.sleep(LOOK_AGAIN_SECONDS)

    async def _watch(self) -> None:
        async with aclosing(watch_ours(self._client, NETWORK_POLICIES, NetworkPolicy, self._known)) as changes:
            async for change in changes:
                if isinstance(change, Synced):
                    self._synced = True
                    self._on_change(None)
                else:
                    meta = change.object.metadata
                    self._on_change((meta.namespace, meta.name))

    async def ensure(self, run: RunObject, rules: Rules) -> None:
        """Sees to it that the run's NetworkPolicy says this before any Pod is made.

        Raises AlreadyExists where a stranger's has its name, and what the API server says to the creation.
        """
        body = _body(run, rules)
        found = _read(await ensure_of_run(self._client, NETWORK_POLICIES, body, run))
        if found.spec != body["spec"]:
            found = await self._replace(found, body)
        # What is known is the watch's alone to say: it may have told already what somebody did since.
        if self._written.get(run.metadata.uid, "") not in ("", found.metadata.resource_version):
            log.warning("the NetworkPolicy of run %s/%s is put right", run.metadata.namespace, run.metadata.name)
        self._written[run.metadata.uid] = found.metadata.resource_version

    async def is_there(self, run: RunObject) -> bool:
        """Whether the run has one, whatever it says."""
        try:
            found = _read(await self._client.get(NETWORK_POLICIES, run.metadata.name, run.metadata.namespace))
        except NotFound:
            return False
        return found.run_uid == run.metadata.uid

    async def keep(self, run: RunObject, rules: Rules | None) -> None:
        """Sees to it that the run's NetworkPolicy says this, or is gone, as far as is known. No write where it is so
        already."""
        if not self._synced:
            return
        meta = run.metadata
        there = self._known.get((meta.namespace, meta.name))
        if there is not None and there.run_uid != meta.uid:
            there = None
        if rules is None:
            self._refused.pop(meta.uid, None)
            self._written.pop(meta.uid, None)
            if there is not None:
                with suppress(NotFound, Conflict):
                    await self._client.delete(NETWORK_POLICIES, meta.name, meta.namespace, uid=there.metadata.uid)
            return
        wanted = _body(run, rules)["spec"]
        if (there is not None and there.spec == wanted) or self._refused.get(meta.uid) == rules:
            return
        try:
            await self.ensure(run, rules)
        except (AlreadyExists, Forbidden, InvalidInput) as error:
            log.warning("run %s/%s lacks its NetworkPolicy: %s", meta.namespace, meta.name, error.message)
            self._refused[meta.uid] = rules

    async def _replace(self, found: NetworkPolicy, body: dict[str, Any]) -> NetworkPolicy:
        version = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        return _read(await self._client.replace(NETWORK_POLICIES, {**body, "metadata": body["metadata"] | version}))


def _body(run: RunObject, rules: Rules) -> dict[str, Any]:
    meta = run.metadata
    return manifests.network_policy(run_name=meta.name, namespace=meta.namespace, run_uid=meta.uid, rules=rules)


def _read(found: Mapping[str, Any]) -> NetworkPolicy:
    return msgspec.convert(found, NetworkPolicy)
