"""Starting attempts. The intent is written to the Run's status before the first Pod exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.ticket_key import SigningKey
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.usage_ledger import begin_usage, saves_every
from kajitori.cluster.view import ClusterView
from kajitori.controllers.queue.growing import Growth
from kajitori.controllers.queue.provisioning import Provisioning
from kajitori.controllers.queue.queue import Admitted, QueueEntry
from kajitori.controllers.runs.attempts import (
    StartRefused,
    create_members,
    delete_members,
    key_for,
    prepare,
    prepare_devices,
    quota_room,
    reference_to,
    restrict,
)
from kajitori.controllers.runs.claims import check_claims
from kajitori.controllers.runs.networks import NetworkKeeper
from kajitori.controllers.runs.statuses import Statuses
from kajitori.core import gang
from kajitori.core.formats import node_lists
from kajitori.core.naming import names
from kajitori.core.placement.planner import Placement
from kajitori.core.pods import manifests
from kajitori.core.pods.ports import choose_port
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status import RunStatus
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.concurrency import preceding

BEGUN_PER_REQUEST = 4
"""Number of attempts to start at a time for each request that may be in flight. `bench.scheduling.kueue` measured it on
a busy machine: with 1 the API server was not kept busy; without a limit large runs waited 1.5 times as long."""


class Starter:
    """Stores the placement of a run's next attempt, and creates its Pods."""

    def __init__(
        self,
        client: KubeClient,
        mirror: Mirror,
        cluster: ClusterView,
        statuses: Statuses,
        provisioning: Provisioning,
        networks: NetworkKeeper,
        key: SigningKey,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._mirror = mirror
        self._cluster = cluster
        self._statuses = statuses
        self._provisioning = provisioning
        self._networks = networks
        self._key = key
        self._now = now

    @property
    def at_a_time(self) -> int:
        """Number of attempts to start at a time: enough to keep the API server busy. Further ones would only wait for
        their writes, while runs that come later and belong before them could not overtake them."""
        return BEGUN_PER_REQUEST * self._client.limiter.window.size

    def ports_in_use(self) -> set[int]:
        """Return the rendezvous ports of all current attempts."""
        begun = self._cluster.occupancy.begun()
        return {other.status.attempt.port for other in begun if other.status and other.status.attempt}

    async def place(self, waiting: QueueEntry, placement: Placement, taken: set[int]) -> tuple[RunStatus, str]:
        """Store placement and template of a new attempt (rule 2); return the status and its resource version.

        Its rendezvous port is not in `taken`, and is added to it.
        """
        run, (spec, decision) = waiting.run, waiting.admitted.resolved()
        before, now, members = waiting.status, self._now(), spec.replicas
        template = self._provisioning.template_of(waiting, placement.nodes, decision.template)
        if spec.fewest is not None:
            asked_before = len(node_lists.expand(before.resize.nodes)) if before.resize is not None else 0
            placement = await self._within_quota(run, spec.fewest, asked_before, placement, template)
            members = len(placement.ranks)
        nodes = node_lists.compress(placement.nodes)
        how: Any = {"launcher": manifests.launcher_of(spec), "bind_direct": decision.bind_direct}
        if spec.array is not None:
            status = gang.place_sweep(before, placement.ranks, nodes, template, now, **how)
        else:
            port = self._choose_port(run, waiting.status.attempts + 1, taken)
            status = gang.place_on(before, placement.ranks, nodes, template, port, members, now, **how)
        status = begin_usage(status, self._cluster, now, saves_every=saves_every(spec))
        with preceding(waiting.request.priority):
            return status, await self._statuses.write(run, status, waiting.version, before=waiting.status)

    async def _within_quota(
        self, run: RunObject, fewest: int, asked_before: int, placement: Placement, template: dict[str, Any]
    ) -> Placement:
        """Return the placement of an elastic gang, reduced to the members that the namespace's quotas allow.

        The placement is not reduced if the quotas allow less than `fewest`: creating the Pods then reports it. The
        quotas allowed `asked_before` members when the nodes were chosen, and may still count the members of the last
        attempt.
        """
        members = len(placement.ranks)
        if members <= asked_before:
            return placement
        room = max(asked_before, await quota_room(self._client, run.metadata.namespace, template, members))
        if not fewest <= room < members:
            return placement
        return replace(placement, ranks=placement.ranks[:room], nodes=placement.nodes[:room])

    async def grow(self, grows: Growth) -> bool:
        """Store the nodes on which an elastic gang continues with the additional members that quotas allow. Returns
        False, and stores nothing, if they allow none."""
        run = grows.run
        assert run.status is not None and run.status.attempt is not None
        template, has = run.status.attempt.pod_template, len(grows.nodes) - len(grows.more)
        more = await quota_room(self._client, run.metadata.namespace, template, len(grows.more))
        if more:
            status = gang.grow(run.status, grows.nodes[: has + more], grows.fewest, self._now())
            await self._statuses.write(run, status)
        return bool(more)

    def _choose_port(self, run: RunObject, number: int, taken: set[int]) -> int:
        ports = self._cluster.policy.rendezvous
        port = choose_port(run.metadata.uid, number, taken, ports.first_port, ports.last_port)
        taken.add(port)
        return port

    async def create(
        self, run: RunObject, admitted: Admitted, status: RunStatus, ranks: Sequence[int], version: str
    ) -> None:
        """Create all Pods at once. A permanent refusal ends the attempt. Otherwise the completed creation is recorded,
        and written when the run is reconciled next."""
        attempt = status.attempt
        if attempt is None:
            return
        spec, decision = admitted.spec, admitted.decision
        try:
            if spec is None:
                raise StartRefused(Reason.ADMISSION, "its spec was edited meanwhile and can't be read any more")
            nodes = len(set(attempt.node_by_rank().values()))
            with preceding(
                decision.priority if decision else 0
            ):  # its nodes are reserved and idle until the Pods exist
                await prepare(self._client, run, spec, decision.claim if decision else None, nodes)
                await prepare_devices(self._client, run, attempt)
                await restrict(self._networks, run, attempt, decision.network if decision else None)
                if status.failed_starts:
                    await check_claims(self._client, run, attempt, self._now())
                key = await key_for(attempt, self._key)
                created = await create_members(self._client, run, attempt, ranks, key=key)
        except StartRefused as refused:
            await self._give_up(run, admitted, status, ranks, version, refused)
            return
        meta = run.metadata
        self._statuses.note_made((meta.namespace, meta.name), meta.uid, attempt.number, created)
        if len(created) < len(ranks):
            made = {names.pod_name(meta.name, attempt.number, rank): rank for rank in ranks}
            whole = msgspec.structs.replace(status, attempt=msgspec.structs.replace(attempt, created=True))
            uncreated = [rank for name, rank in made.items() if name not in created]
            whole = gang.without_uncreated(whole, uncreated, self._now())
            await self._statuses.write(run, whole, version, before=status)

    async def _give_up(
        self,
        run: RunObject,
        admitted: Admitted,
        status: RunStatus,
        ranks: Sequence[int],
        version: str,
        refused: StartRefused,
    ) -> None:
        """End the attempt. A sweep continues with the members that were created, and the others wait."""
        now = self._now()
        if admitted.life.sweep is not None:
            not_made = () if refused.begun else ranks
            paused = gang.failed_to_create_in_sweep(
                admitted.life, status, refused.reason, refused.message, not_made, now
            )
            await self._statuses.write(run, paused, version, before=status)
            return
        step = gang.failed_to_create(admitted.life, status, refused.reason, refused.message, now)
        await self._statuses.write(run, step.status, version, before=status)
        for action in step.actions:
            if isinstance(action, gang.DeleteMembers):
                await delete_members(self._client, self._mirror, reference_to(run), action)
