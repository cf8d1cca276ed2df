"""Node requests of waiting runs. A request is made after the run's status names it, and is withdrawn before the status
stops naming it.

`core.nodes.provisioning` decides what is requested; the objects follow the status of the Run. If the controller is
killed between any two calls, the next leader finds either a status without an object, which it then creates, or an
object that the run owns and that the status names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from kajitori.cluster.nodes.node_requests import NodeRequests, answer_of
from kajitori.cluster.objects import ProvisioningRequest
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.queue.queue import Cycle, QueueEntry
from kajitori.controllers.runs.belongings import ensure_of_run
from kajitori.controllers.workqueue import Key
from kajitori.core import gang
from kajitori.core.formats.times import time_at
from kajitori.core.naming import names
from kajitori.core.nodes.provisioning import UnplacedRun, demand, is_needed, with_failure
from kajitori.core.nodes.provisioning_objects import Manifest, pod_template, provisioning_request, request_name, using
from kajitori.core.placement.planner import Shortage
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.node_request import NodeRequest, describe_request
from kajitori.errors import AlreadyExists, Forbidden, InvalidInput, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import POD_TEMPLATES

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """The node request of a waiting run from now on."""

    request: NodeRequest | None = None
    note: str = ""
    """Why no nodes are requested, if users should know that."""
    is_done: bool = True
    """Whether its status says so already, and the request was made."""

    @property
    def reason(self) -> Reason:
        """PROVISIONING_NODES if nodes were requested, else NONE."""
        return Reason.PROVISIONING_NODES if self.request is not None and self.request.is_live else Reason.NONE

    @property
    def words(self) -> str:
        """The request as text, or why there is none."""
        description = describe_request(self.request) if self.request is not None else ""
        return "; ".join(text for text in (description, self.note) if text)


@dataclass(frozen=True, slots=True)
class CycleAsks:
    """The node requests that one cycle decided."""

    asks: Mapping[str, Ask] = field(default_factory=dict)
    """Requests by `namespace/name`."""
    look_again_at: datetime | None = None
    """When the decision may change although nothing else does."""

    def of(self, key: str) -> Ask:
        """Return the request of a run."""
        return self.asks.get(key, Ask())


class Provisioning:
    """Requests nodes for runs, if policy names node pools that can grow."""

    def __init__(
        self,
        client: KubeClient,
        cluster: ClusterView,
        on_change: Callable[[Key | None], None],
    ) -> None:
        """on_change: called with the run of each changed request; with None when requests became possible or
        impossible."""
        self._client = client
        self._cluster = cluster
        self._on_change = on_change
        self._requests = NodeRequests(client, lambda: bool(cluster.policy.node_pools), self._note)

    async def follow(self) -> None:
        """Follow the answers of autoscalers, until cancelled."""
        await self._requests.follow()

    def _note(self, request: ProvisioningRequest | None) -> None:
        owner = request.metadata.controller if request is not None else None
        self._on_change((request.metadata.namespace, owner.name) if request is not None and owner is not None else None)

    # ------------------------------------------------------------------------------------------ deciding

    def plan(self, cycle: Cycle, now: datetime, freed_for: Collection[str]) -> CycleAsks:
        """Return the node requests of the runs that do not start in this cycle.

        freed_for: runs for which others were preempted: nodes become free for them anyway.
        """
        asked = any(waiting.status.node_request is not None for waiting, _ in cycle.waits)
        is_known = self._requests.resource is not None or bool(self._requests.why_not)
        if cycle.plan is None or not cycle.waits or not (asked or (self._cluster.pools and is_known)):
            return CycleAsks()
        starts = {reservation.key: time_at(reservation.starts_at) for reservation in cycle.plan.schedule.reservations}
        starts |= dict.fromkeys(freed_for, now)
        unplaced = [self._unplaced_run(waiting, shortage, starts) for waiting, shortage in cycle.waits]
        keys = {run.gang.key for run in unplaced}
        others = [(key, request) for key, request in self._cluster.node_requests() if key not in keys]
        pools = self._cluster.pools if is_known else {}
        found = demand(
            unplaced, others, self._cluster.kept(), cycle.plan.snapshot, pools, now, unavailable=self._requests.why_not
        )
        asks = {}
        for run in unplaced:
            key, before = run.gang.key, run.request
            request = found.changed.get(key, before)
            is_lost = request is not None and request.is_live and self._requests.resource is not None and not run.answer
            asks[key] = Ask(request, found.notes.get(key, ""), request == before and not is_lost)
        return CycleAsks(asks, found.look_again_at)

    def _unplaced_run(self, waiting: QueueEntry, shortage: Shortage, starts: Mapping[str, datetime]) -> UnplacedRun:
        request = waiting.status.node_request
        found = self._find_request(waiting.run, request) if request is not None else None
        answer = answer_of(found) if found is not None else None
        starts_at = starts.get(waiting.request.key)
        return UnplacedRun(waiting.request, shortage, waiting.status.attempts + 1, request, answer, starts_at)

    def _find_request(self, run: RunObject, request: NodeRequest) -> ProvisioningRequest | None:
        """Return the object of a request, if the run owns it; another owner's object of that name does not count."""
        meta = run.metadata
        found = self._requests.known.get((meta.namespace, request_name(meta.name, request)))
        owner = found.metadata.controller if found is not None else None
        return found if owner is not None and owner.uid == meta.uid else None

    # ------------------------------------------------------------------------------------------ doing

    async def make(self, waiting: QueueEntry, request: NodeRequest | None) -> NodeRequest | None:
        """Create the objects of the request in the run's status, if they are missing. Return the request, as failed if
        the API server refuses it."""
        if request is None or not request.is_live or self._find_request(waiting.run, request) is not None:
            return request
        rules, resource = self._cluster.policy.node_pools.get(request.pool), self._requests.resource
        if rules is None or resource is None:
            return request  # policy or cluster changed meanwhile: the next cycle decides
        meta, (_, decision) = waiting.run.metadata, waiting.admitted.resolved()
        owner = {"run": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        template = pod_template(request, rules, decision.template, **owner)
        body = provisioning_request(request, rules, waiting.request.least, api_version=resource.api_version, **owner)
        try:
            await ensure_of_run(self._client, POD_TEMPLATES, template, waiting.run)
            await ensure_of_run(self._client, resource, body, waiting.run)
        except (AlreadyExists, Forbidden, InvalidInput) as error:
            await self._withdraw(waiting.run)
            return with_failure(request, error.message, rules, self._client.now())
        return request

    async def _withdraw(self, run: RunObject) -> None:
        """Delete all requests of this run, by label."""
        meta = run.metadata
        selector = f"{names.MANAGED},{names.LABEL_RUN_UID}={meta.uid}"
        # Templates first: a template without a request would never be found again.
        for resource in (POD_TEMPLATES, self._requests.resource):
            if resource is None:
                continue
            try:
                with suppress(NotFound):
                    await self._client.delete_collection(resource, meta.namespace, label_selector=selector)
            except Forbidden as error:
                log.warning(
                    "the node request of run %s/%s can't be withdrawn: %s", meta.namespace, meta.name, error.message
                )

    async def settle(self, run: RunObject, status: RunStatus, *, over: bool) -> RunStatus:
        """Return the status without a request that the run no longer needs, after withdrawing it."""
        request, used = status.node_request, False
        starting = status.phase is Phase.STARTING
        if starting and status.attempt is not None:
            used = self._uses_provided_nodes(run, status, gang.node_by_rank(status.attempt).values())
        if request is not None and not is_needed(request, status.attempts, starting=starting, used=used, over=over):
            request = None
        await self.keep_only(run, request)
        return msgspec.structs.replace(status, node_request=request)

    async def keep_only(self, run: RunObject, wanted: NodeRequest | None) -> None:
        """Withdraw all requests of this run apart from `wanted`, also those that its status does not name. If `wanted`
        is deleted with them, it is made anew later."""
        last, unwanted = run.current_status.node_request, self._requests_owned_by(run)
        unwanted |= {request_name(run.metadata.name, last)} if last is not None and last.is_live else set()
        if wanted is not None and wanted.is_live:
            unwanted.discard(request_name(run.metadata.name, wanted))
        if unwanted:
            await self._withdraw(run)

    def _requests_owned_by(self, run: RunObject) -> set[str]:
        """Return the names of the ProvisioningRequests that this run owns."""
        return {
            request.metadata.name
            for request in self._requests.known.values()
            if (owner := request.metadata.controller) is not None
            and owner.uid == run.metadata.uid
            and not request.metadata.deletion_timestamp
        }

    def template_of(self, waiting: QueueEntry, nodes: Collection[str], template: Manifest) -> Manifest:
        """Return the template of an attempt on these nodes: its members use the nodes that were provided for it."""
        run, status = waiting.run, waiting.status
        request = status.node_request
        rules = self._cluster.policy.node_pools.get(request.pool) if request is not None else None
        if request is None or rules is None:
            return template
        used = self._uses_provided_nodes(run, status, nodes)
        if not is_needed(request, status.attempts + 1, starting=True, used=used, over=False):
            return template
        return using(template, request, rules.provisioning_class, run.metadata.name)

    def _uses_provided_nodes(self, run: RunObject, status: RunStatus, nodes: Collection[str]) -> bool:
        """Whether some of these nodes came because the run requested them."""
        if status.node_request is None or not status.node_request.is_live:
            return False
        table = self._cluster.table()
        kept = self._cluster.kept().get(f"{run.metadata.namespace}/{run.metadata.name}", ())
        return any(table.nodes[row].name in nodes for row in kept)
