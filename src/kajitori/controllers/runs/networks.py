"""NetworkPolicies of runs: created before a run's first Pod, restored when a user deletes or edits them, and deleted
when the run has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from kajitori.cluster.objects import NetworkPolicy
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.belongings import ensure_of_run
from kajitori.controllers.workqueue import Key
from kajitori.core.naming import names
from kajitori.core.pods import manifests
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NETWORK_POLICIES
from kajitori.kube.watch import Synced, watch_if_allowed
from kajitori.monitoring.lasting_failure import LastingFailure

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 30.0

Rules = Mapping[str, Any]
"""Rules in the form of `core.pods.reach.network_rules`."""


class NetworkKeeper:
    """Writes the NetworkPolicies of runs, and follows them with a watch of its own.

    If the controller may not watch them, a restricted run still gets its NetworkPolicy before its first Pod or does not
    start, but later changes by others are not restored.
    """

    def __init__(self, client: KubeClient, on_change: Callable[[Key | None], None]) -> None:
        """`on_change` is called with the run when its NetworkPolicy changed, and with None once all are known."""
        self._client = client
        self._on_change = on_change
        self._known: dict[Key, NetworkPolicy] = {}
        """The NetworkPolicies of runs, by namespace and name of the run."""
        self._synced = False
        self._failure = LastingFailure(log, "NetworkPolicies of runs can't be watched and restored: %s")
        self._written: dict[str, str] = {}
        """The resource version after the last write, by the UID of the run."""
        self._refused: dict[str, Rules] = {}
        """Rules that the API server refused, by the UID of the run. The same rules are not tried again."""

    async def follow(self) -> None:
        """Follow the NetworkPolicies until cancelled."""
        while True:
            await self._failure.note_failure_of(self._watch)
            self._synced = False
            self._known.clear()
            await self._client.environment.sleep(LOOK_AGAIN_SECONDS)

    async def _watch(self) -> None:
        """Follow the NetworkPolicies until the watch fails or is not allowed."""
        by_label = names.MANAGED
        watched = watch_if_allowed(self._client, NETWORK_POLICIES, NetworkPolicy, self._known, label_selector=by_label)
        async with aclosing(watched) as changes:
            async for change in changes:
                if isinstance(change, Synced):
                    self._synced = True
                    self._failure.end()
                    self._on_change(None)
                else:
                    meta = change.object.metadata
                    self._on_change((meta.namespace, meta.name))

    async def ensure(self, run: RunObject, rules: Rules) -> None:
        """Create or update the run's NetworkPolicy before any Pod is created.

        Raises AlreadyExists if a foreign object has its name, and the API server's error if it refuses.
        """
        body = _policy_body(run, rules)
        found = _parse_policy(await ensure_of_run(self._client, NETWORK_POLICIES, body, run))
        if found.spec != body["spec"]:
            found = await self._replace_rules(found, body)
        # Only the watch changes `_known`: it may already have shown a later change by another client.
        if self._written.get(run.metadata.uid, "") not in ("", found.metadata.resource_version):
            log.warning("the NetworkPolicy of run %s/%s is restored", run.metadata.namespace, run.metadata.name)
        self._written[run.metadata.uid] = found.metadata.resource_version

    async def is_there(self, run: RunObject) -> bool:
        """Whether the run has a NetworkPolicy, with any rules."""
        try:
            found = _parse_policy(await self._client.get(NETWORK_POLICIES, run.metadata.name, run.metadata.namespace))
        except NotFound:
            return False
        return found.run_uid == run.metadata.uid

    async def keep(self, run: RunObject, rules: Rules | None) -> None:
        """Update the run's NetworkPolicy, or delete it if `rules` is None. Does nothing if it is as wanted already, and
        before the NetworkPolicies are known."""
        if not self._synced:
            return
        meta = run.metadata
        present = self._known.get((meta.namespace, meta.name))
        if present is not None and present.run_uid != meta.uid:
            present = None
        if rules is None:
            self._refused.pop(meta.uid, None)
            self._written.pop(meta.uid, None)
            if present is not None:
                with suppress(NotFound, Conflict):
                    await self._client.delete(NETWORK_POLICIES, meta.name, meta.namespace, uid=present.metadata.uid)
            return
        wanted = _policy_body(run, rules)["spec"]
        if (present is not None and present.spec == wanted) or self._refused.get(meta.uid) == rules:
            return
        try:
            await self.ensure(run, rules)
        except (AlreadyExists, Forbidden, InvalidInput) as error:
            log.warning("run %s/%s lacks its NetworkPolicy: %s", meta.namespace, meta.name, error.message)
            self._refused[meta.uid] = rules

    async def _replace_rules(self, found: NetworkPolicy, body: dict[str, Any]) -> NetworkPolicy:
        version = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        return _parse_policy(
            await self._client.replace(NETWORK_POLICIES, {**body, "metadata": body["metadata"] | version})
        )


def _policy_body(run: RunObject, rules: Rules) -> dict[str, Any]:
    meta = run.metadata
    return manifests.network_policy(run_name=meta.name, namespace=meta.namespace, run_uid=meta.uid, rules=rules)


def _parse_policy(found: Mapping[str, Any]) -> NetworkPolicy:
    return msgspec.convert(found, NetworkPolicy)
