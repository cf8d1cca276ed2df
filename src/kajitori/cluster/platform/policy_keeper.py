"""Keeps the admission policies in the cluster that enforce the policy file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kajitori.cluster.platform.applying import put
from kajitori.core.admission.enforced import ENFORCED, enforced_policies
from kajitori.core.admission.plain_pods.rules import Circumstances
from kajitori.core.policy.model import Policy
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often the policy file and the nodes are compared with what was applied."""
RENEW_SECONDS = 600.0
"""Interval at which the objects are applied again, because a user may have changed them."""

_BY_KIND = {
    resource.kind: resource
    for resource in (VALIDATING_POLICIES, VALIDATING_BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS)
}


class PolicyKeeper:
    """Applies the objects of `enforced_policies`, and deletes those that the policy no longer wants. Only the leader
    runs it. Without the right to do so (ClusterRole `kajitori-policy-keeper`) it changes nothing and says so in the
    log."""

    def __init__(
        self,
        client: KubeClient,
        policy: Callable[[], Policy],
        has_cpu_nodes: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._policy = policy
        self._has_cpu_nodes = has_cpu_nodes
        self._clock = clock
        self._applied: tuple[Policy, bool] | None = None
        self._renew_at = 0.0
        self._reported = ""

    async def keep_forever(self) -> None:
        """Follow the policy file and the nodes until cancelled."""
        while True:
            await self.keep()
            await asyncio.sleep(LOOK_SECONDS)

    async def keep(self) -> None:
        """Apply what has changed, or is due to be applied again. A failure is logged, and repeated later."""
        wanted = self._policy(), self._has_cpu_nodes()
        if wanted == self._applied and self._clock() < self._renew_at:
            return
        try:
            await self._apply(*wanted)
        except KajitoriError as error:
            self._report(error)
            if not isinstance(error, Forbidden):
                return  # tried again at the next look
        self._applied, self._renew_at = wanted, self._clock() + RENEW_SECONDS

    async def _apply(self, policy: Policy, has_cpu_nodes: bool) -> None:
        can_mutate = bool(policy.pods.namespaces) and await self._serves_mutations()
        objects = enforced_policies(policy, Circumstances(has_cpu_nodes=has_cpu_nodes, is_completed=can_mutate))
        for body in objects:
            await put(self._client, _BY_KIND[body["kind"]], body)
        kept = {(body["kind"], body["metadata"]["name"]) for body in objects}
        for kind, name in ENFORCED:
            if (kind, name) not in kept:
                await self._remove(kind, name)
        self._reported = ""

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

    def _report(self, error: KajitoriError) -> None:
        """Log a failure once, at the level that it deserves: without rules there is nothing that could be missing."""
        if error.message == self._reported:
            return
        self._reported = error.message
        if enforced_policies(self._policy(), Circumstances()):
            log.warning(
                "the admission policies that enforce the policy are not applied: %s. To apply them by hand: "
                "kaji policy render | kubectl apply --server-side -f -",
                error.message,
            )
        else:
            log.debug("old admission policies, if there are any, are not deleted: %s", error.message)
