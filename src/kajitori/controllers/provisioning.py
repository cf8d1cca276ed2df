"""Requests for nodes of the runs that wait: made once their status says so, and taken back before it no longer does.

What is asked for is decided in `core.provisioning`; the objects follow what stands in the Run. Killed between any two
calls, whoever leads next finds either the intent without an object, which is then made, or an object that is one of the
run's by its owner, and is the one that the status names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec

from kajitori.controllers.belongings import ensure_of_run
from kajitori.controllers.queue import Cycle, Waiting
from kajitori.controllers.workqueue import Key
from kajitori.core import gang, names
from kajitori.core.node_request import NodeRequest, RequestState, says
from kajitori.core.provisioning import Demand, Wanting, demand, failed, is_needed
from kajitori.core.provisioning_objects import Manifest, pod_template, provisioning_request, request_name, using
from kajitori.core.reasons import Phase, Reason
from kajitori.core.status import RunStatus
from kajitori.errors import AlreadyExists, Forbidden, InvalidInput, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.cluster import ClusterView
from kajitori.kube.events import About, EventRecorder
from kajitori.kube.node_requests import NodeRequests, answer_of
from kajitori.kube.objects import ProvisioningRequest, RunObject
from kajitori.kube.resources import POD_TEMPLATES

log = logging.getLogger(__name__)


_TURNS = {
    RequestState.PROVISIONED: ("Normal", "NodesProvisioned"),
    RequestState.FAILED: ("Warning", "NodesNotProvisioned"),
    RequestState.UNAVAILABLE: ("Warning", "NodesNotProvisioned"),
}
"""Type and reason of the Events that tell of a request's turns."""


class Write(Protocol):
    """Stores a Run's status by compare-and-swap; answers the new resource version."""

    async def __call__(
        self, run: RunObject, status: RunStatus, version: str = "", *, before: RunStatus | None = None
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class Asking:
    """What one cycle found that runs ask for."""

    demand: Demand = field(default_factory=lambda: Demand({}, {}))
    missing: frozenset[str] = frozenset()
    """By the gang's key: those whose ProvisioningRequest is not there, though it is asked for by their status."""

    def request_of(self, waiting: Waiting) -> NodeRequest | None:
        """What the run asks for from now on."""
        return self.demand.changed.get(waiting.request.key, waiting.status.node_request)

    def lacks(self, waiting: Waiting) -> bool:
        """Whether its ProvisioningRequest is still to be made."""
        return waiting.request.key in self.missing

    def reason_for(self, waiting: Waiting) -> Reason:
        """That nodes were asked for, where they were."""
        request = self.request_of(waiting)
        return Reason.PROVISIONING_NODES if request is not None and request.is_live else Reason.NONE

    def words_for(self, waiting: Waiting) -> str:
        """The same in words; or why nothing is asked for, where somebody should know."""
        request = self.request_of(waiting)
        said = says(request) if request is not None else ""
        return "; ".join(each for each in (said, self.demand.notes.get(waiting.request.key, "")) if each)


class Provisioning:
    """Asks for nodes in the name of runs, where policy names pools that can grow."""

    def __init__(
        self,
        client: KubeClient,
        cluster: ClusterView,
        events: EventRecorder,
        on_change: Callable[[Key | None], None],
    ) -> None:
        """`on_change` is told of the run whose request changed; of None when any run may be able to ask, or not."""
        self._client = client
        self._cluster = cluster
        self._events = events
        self._on_change = on_change
        self._there = NodeRequests(client, lambda: bool(cluster.policy.node_pools), self._note)

    async def follow(self) -> None:
        """Follows what autoscalers say, until cancelled."""
        await self._there.follow()

    def _note(self, request: ProvisioningRequest | None) -> None:
        owner = request.metadata.controller if request is not None else None
        self._on_change((request.metadata.namespace, owner.name) if request is not None and owner is not None else None)

    # ------------------------------------------------------------------------------------------ deciding

    def plan(self, cycle: Cycle, now: datetime, others_give_way: Callable[[str], object]) -> Asking:
        """What is asked for by those who found no place in this cycle. `others_give_way` tells by a gang's key whether
        nodes come free for it anyway."""
        asked = any(waiting.status.node_request is not None for waiting, _ in cycle.waits)
        knows = self._there.resource is not None or bool(self._there.why_not)
        if cycle.snapshot is None or not cycle.waits or not (asked or (self._cluster.pools and knows)):
            return Asking()
        reserved = cycle.look.schedule.reservations if cycle.look is not None else ()
        starts = {each.key: datetime.fromtimestamp(each.starts_at, now.tzinfo) for each in reserved}
        wanting, missing = [], set()
        for waiting, shortage in cycle.waits:
            request, key = waiting.status.node_request, waiting.request.key
            found = self._find(waiting.run, request) if request is not None else None
            if request is not None and request.is_live and found is None and self._there.resource is not None:
                missing.add(key)
            wanting.append(
                Wanting(
                    waiting.request,
                    shortage,
                    waiting.status.attempts + 1,
                    request,
                    answer_of(found) if found is not None else None,
                    now if others_give_way(key) else starts.get(key),
                )
            )
        keys = {each.gang.key for each in wanting}
        others = [(key, request) for key, request in self._cluster.node_requests() if key not in keys]
        found_out = demand(
            wanting,
            others,
            self._cluster.kept(),
            cycle.snapshot,
            self._cluster.pools if knows else {},
            now,
            unavailable=self._there.why_not,
        )
        return Asking(found_out, frozenset(missing - found_out.changed.keys()))

    def _find(self, run: RunObject, request: NodeRequest) -> ProvisioningRequest | None:
        """The object that stands for a request; nobody else's of that name (rule 1)."""
        meta = run.metadata
        found = self._there.known.get((meta.namespace, request_name(meta.name, request)))
        owner = found.metadata.controller if found is not None else None
        return found if owner is not None and owner.uid == meta.uid else None

    # ------------------------------------------------------------------------------------------ doing

    async def tell(self, waiting: Waiting, status: RunStatus, write: Write) -> None:
        """Writes why a run waits, and does what its status asks for from then on: an older request is taken back
        before, a new one is made after that is written."""
        run, before, request = waiting.run, waiting.status.node_request, status.node_request
        goes_on = request is not None and request.is_live and before is not None and request.number == before.number
        if before is not None and before.is_live and not goes_on:
            await self._take_back(run)
        version = waiting.version
        if status != waiting.status:
            version = await write(run, status, version, before=waiting.status)
        self._announce(run, before, request)
        if request is None or not request.is_live:
            return
        made = await self._make(waiting, request)
        if made != request:
            await write(run, msgspec.structs.replace(status, node_request=made), version, before=status)
            self._announce(run, request, made)

    def _announce(self, run: RunObject, before: NodeRequest | None, request: NodeRequest | None) -> None:
        """Turns that the run's reason does not tell, as Events."""
        said = _TURNS.get(request.state) if request is not None else None
        if request is None or said is None or (before is not None and before.state is request.state):
            return
        meta = run.metadata
        about = About(names.KIND, meta.name, meta.uid, meta.namespace, names.API_VERSION)
        self._events.say(about, *said, says(request))

    async def _make(self, waiting: Waiting, request: NodeRequest) -> NodeRequest:
        """Sees to it that what the run's status asks for is asked for. Answers the request; one that has failed where
        the API server does not take it."""
        rules, resource = self._cluster.policy.node_pools.get(request.pool), self._there.resource
        if rules is None or resource is None:
            return request  # policy or cluster changed meanwhile: the next cycle decides
        meta, (_, decision) = waiting.run.metadata, waiting.admitted.resolved()
        whose = {"run": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        template = pod_template(request, rules, decision.template, **whose)
        body = provisioning_request(request, rules, waiting.request.least, api_version=resource.api_version, **whose)
        try:
            await ensure_of_run(self._client, POD_TEMPLATES, template, waiting.run)
            await ensure_of_run(self._client, resource, body, waiting.run)
        except (AlreadyExists, Forbidden, InvalidInput) as error:
            return failed(request, error.message, rules, self._client.now())
        return request

    async def _take_back(self, run: RunObject) -> None:
        """Nothing is asked for in the name of this run any more. By label: whatever was asked for goes (rule 10)."""
        meta = run.metadata
        ours = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY},{names.LABEL_RUN_UID}={meta.uid}"
        for resource in (POD_TEMPLATES, self._there.resource):  # a template alone would never be found again
            if resource is None:
                continue
            try:
                with suppress(NotFound):
                    await self._client.delete_collection(resource, meta.namespace, label_selector=ours)
            except Forbidden as error:
                log.warning("what run %s/%s asked for stays: %s", meta.namespace, meta.name, error.message)

    async def settle(self, run: RunObject, status: RunStatus, *, over: bool) -> RunStatus:
        """The status without a request that the run does not need any more: that is taken back first. So is what stands
        in its name and not in its status."""
        request = status.node_request
        starting, used = status.phase is Phase.STARTING, False
        if starting and status.attempt is not None:
            used = self._uses(run, status, gang.node_by_rank(status.attempt).values())
        if request is not None and is_needed(request, status.attempts, starting=starting, used=used, over=over):
            wanted = request_name(run.metadata.name, request) if request.is_live else ""
            if not self._made_in_name_of(run) - {wanted}:
                return status
            log.warning("run %s/%s: stray requests for nodes are deleted", run.metadata.namespace, run.metadata.name)
            await self._take_back(run)  # what is still wanted of it is made anew
            return status
        if (request is not None and request.is_live) or self._made_in_name_of(run):
            await self._take_back(run)
        return msgspec.structs.replace(status, node_request=None) if request is not None else status

    def _made_in_name_of(self, run: RunObject) -> set[str]:
        """Names of the ProvisioningRequests whose owner is this run."""
        return {
            each.metadata.name
            for each in self._there.known.values()
            if (owner := each.metadata.controller) is not None
            and owner.uid == run.metadata.uid
            and not each.metadata.deletion_timestamp
        }

    def template_of(self, waiting: Waiting, nodes: Collection[str], template: Manifest) -> Manifest:
        """The template of an attempt that begins on these nodes: its members use up what was provided for it."""
        run, status = waiting.run, waiting.status
        request = status.node_request
        rules = self._cluster.policy.node_pools.get(request.pool) if request is not None else None
        if request is None or rules is None:
            return template
        used = self._uses(run, status, nodes)
        if not is_needed(request, status.attempts + 1, starting=True, used=used, over=False):
            return template
        return using(template, request, rules.provisioning_class, run.metadata.name)

    def _uses(self, run: RunObject, status: RunStatus, nodes: Collection[str]) -> bool:
        """Whether some of these nodes came for the run, because it asked for them."""
        if status.node_request is None or not status.node_request.is_live:
            return False
        table = self._cluster.table()
        kept = self._cluster.kept().get(f"{run.metadata.namespace}/{run.metadata.name}", ())
        return any(table.nodes[row].name in nodes for row in kept)
