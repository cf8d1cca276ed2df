"""Our ProvisioningRequests in the cluster: a kind that may be missing or be installed later.

They have a watch of their own beside the mirror: if the kind is missing or forbidden, nothing else is blocked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing

from kajitori.cluster.objects import ProvisioningRequest
from kajitori.core.naming import names
from kajitori.core.nodes.provisioning import Answer
from kajitori.core.nodes.provisioning_objects import GROUP
from kajitori.core.spec.status_parts.node_request import RequestState
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import PROVISIONING_REQUESTS, Resource
from kajitori.kube.watch import Synced, watch_if_allowed

log = logging.getLogger(__name__)

ABSENT = (
    "this cluster has no ProvisioningRequests: install the CustomResourceDefinition "
    f"provisioningrequests.{GROUP} and an autoscaler that serves it"
)
FORBIDDEN = "Kajitori may not make ProvisioningRequests here: bind its controller to the role of deploy/rbac.yaml"
LOOK_AGAIN_SECONDS = 30.0

Key = tuple[str, str]


def answer_of(request: ProvisioningRequest) -> Answer:
    """Return the autoscaler's answer. A request that was revoked, or that expired unused, counts as failed."""
    known = {condition.type: condition for condition in request.status.conditions}
    for kind in ("Failed", "CapacityRevoked", "BookingExpired"):
        if kind in known and known[kind].status == "True":
            return Answer(RequestState.FAILED, known[kind].message or known[kind].reason or kind)
    if "Provisioned" in known and known["Provisioned"].status == "True":
        return Answer(RequestState.PROVISIONED)
    if "Accepted" in known and known["Accepted"].status == "True":
        waits = known.get("Provisioned")
        return Answer(RequestState.ACCEPTED, waits.message if waits is not None else "")
    return Answer(RequestState.ASKED)


class NodeRequests:
    """Follows our ProvisioningRequests while `wanted` returns True, which means that any may be made."""

    def __init__(
        self, client: KubeClient, wanted: Callable[[], bool], on_change: Callable[[ProvisioningRequest | None], None]
    ) -> None:
        """on_change: called with each request that changed, and with None when requests became possible or
        impossible."""
        self._client = client
        self._wanted = wanted
        self._on_change = on_change
        self.known: dict[Key, ProvisioningRequest] = {}
        """Requests by namespace and name."""
        self.resource: Resource | None = None
        """The served kind once all requests are known; else None."""
        self.why_not = ""
        """Why no request can be made now; also empty before that is known."""

    async def follow(self) -> None:
        """Follow the requests until cancelled."""
        sleep = self._client.environment.sleep
        while True:
            if self._wanted():
                await self._watch_any()
            await sleep(LOOK_AGAIN_SECONDS if self.why_not else 1.0)

    async def _watch_any(self) -> None:
        """Watch the first served version; return when no version is served."""
        why_not = ABSENT
        for resource in PROVISIONING_REQUESTS:
            try:
                await self._watch(resource)
            except NotFound:
                continue
            except Forbidden:
                why_not = FORBIDDEN
                break
            except KajitoriError as error:
                why_not = error.message
                break
            finally:
                self.resource = None
                self.known.clear()
        if why_not != self.why_not:
            log.warning("policy names pools that can grow, but no nodes can be requested: %s", why_not)
            self.why_not = why_not
            self._on_change(None)

    async def _watch(self, resource: Resource) -> None:
        by_label = names.MANAGED
        watched = watch_if_allowed(self._client, resource, ProvisioningRequest, self.known, label_selector=by_label)
        async with aclosing(watched) as changes:
            async for change in changes:
                if isinstance(change, Synced):
                    self.resource, self.why_not = resource, ""
                    self._on_change(None)
                else:
                    self._on_change(change.object)
