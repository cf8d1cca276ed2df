"""Keeps the admission policies in the cluster that enforce the policy file."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kajitori.cluster.platform.applying import put
from kajitori.cluster.platform.keeping import Keeper
from kajitori.core.admission.enforced import ENFORCED, enforced_policies
from kajitori.core.admission.plain_pods.rules import Circumstances
from kajitori.core.policy.model import Policy
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)

log = logging.getLogger(__name__)

_BY_KIND = {
    resource.kind: resource
    for resource in (VALIDATING_POLICIES, VALIDATING_BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS)
}


class PolicyKeeper(Keeper[tuple[Policy, bool]]):
    """Applies the objects of `enforced_policies`, and deletes those that the policy no longer wants. It needs the
    ClusterRole `kajitori-policy-keeper`."""

    def __init__(
        self,
        client: KubeClient,
        policy: Callable[[], Policy],
        has_cpu_nodes: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(lambda: (policy(), has_cpu_nodes()), clock)
        self._client = client

    async def _apply(self, wanted: tuple[Policy, bool]) -> None:
        policy, has_cpu_nodes = wanted
        can_mutate = bool(policy.pods.namespaces) and await self._serves_mutations()
        objects = enforced_policies(policy, Circumstances(has_cpu_nodes=has_cpu_nodes, is_completed=can_mutate))
        for body in objects:
            await put(self._client, _BY_KIND[body["kind"]], body)
        kept = {(body["kind"], body["metadata"]["name"]) for body in objects}
        for kind, name in ENFORCED:
            if (kind, name) not in kept:
                await self._remove(kind, name)

    async def _serves_mutations(self) -> bool:
        try:
            await self._client.list(MUTATING_POLICIES)
        except NotFound:
            return False
        return True

    async def _remove(self, kind: str, name: str) -> None:
        try:
            await self._client.get(_BY_KIND[kind], name)
            await self._client.delete(_BY_KIND[kind], name)
        except NotFound:
            pass

    def _report(self, message: str, wanted: tuple[Policy, bool]) -> None:
        if enforced_policies(wanted[0], Circumstances()):
            log.warning(
                "the admission policies that enforce the policy are not applied: %s. To apply them by hand: "
                "kaji policy render | kubectl apply --server-side -f -",
                message,
            )
        else:  # without rules there is nothing that could be missing
            log.debug("old admission policies, if there are any, are not deleted: %s", message)
