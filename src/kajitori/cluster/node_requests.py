"""ProvisioningRequests of ours as the cluster has them: a kind that may not be there, or be installed later.

A watch of its own, beside the mirror: where the kind is missing or forbidden, nothing else stands still.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing

from kajitori.core.nodes.provisioning import Answer
from kajitori.core.nodes.provisioning_objects import GROUP
from kajitori.core.spec.node_request import RequestState
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import ProvisioningRequest
from kajitori.kube.resources import PROVISIONING_REQUESTS, Resource
from kajitori.kube.watch import Synced, watch_ours

log = logging.getLogger(__name__)

ABSENT = (
    "this cluster knows no ProvisioningRequests: install the CustomResourceDefinition "
    f"provisioningrequests.{GROUP} and an autoscaler that serves it"
)
FORBIDDEN = "Kajitori may not make ProvisioningRequests here: bind its controller to the role of deploy/rbac.yaml"
LOOK_AGAIN_SECONDS = 30.0

Key = tuple[str, str]


def answer_of(request: ProvisioningRequest) -> Answer:
    """What the autoscaler says of it. What was taken back or has expired before anybody used it is a failure."""
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
    """Follows ProvisioningRequests of ours for as long as `wanted` says that any may be made."""

    def __init__(
        self, client: KubeClient, wanted: Callable[[], bool], on_change: Callable[[ProvisioningRequest | None], None]
    ) -> None:
        """`on_change` is told of each that changed, and None when it became possible or impossible to make any."""
        self._client = client
        self._wanted = wanted
        self._on_change = on_change
        self.known: dict[Key, ProvisioningRequest] = {}
        """By namespace and name."""
        self.resource: Resource | None = None
        """The kind as it is served, where all are known; else None."""
        self.why_not = ""
        """Why none can be made now; nothing also where nobody has found out yet."""

    async def follow(self) -> None:
        """Until cancelled."""
        sleep = self._client.environment.sleep
        while True:
            if self._wanted():
                await self._watch_any()
            await sleep(LOOK_AGAIN_SECONDS if self.why_not else 1.0)

    async def _watch_any(self) -> None:
        """Watches the first version that is served; comes back when none is, or not any more."""
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
            log.warning("policy names pools that can grow, but no nodes can be asked for: %s", why_not)
            self.why_not = why_not
            self._on_change(None)

    async def _watch(self, resource: Resource) -> None:
        async with aclosing(watch_ours(self._client, resource, ProvisioningRequest, self.known)) as changes:
            async for change in changes:
                if isinstance(change, Synced):
                    self.resource, self.why_not = resource, ""
                    self._on_change(None)
                else:
                    self._on_change(change.object)
