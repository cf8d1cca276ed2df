"""The run controller: reads the mirror, asks `core` for the next step of each run, and carries it out.

It is level-triggered: every decision follows from the present contents of the mirror, never from the contents of an
event. It may be killed between any two calls, because the intent is written to the Run's status before it is acted on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from kajitori.blobs.code import CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.queue.preemptions import preemptor_waits
from kajitori.cluster.runs.members import member_of
from kajitori.cluster.runs.stored_runs import life_of
from kajitori.cluster.view import ClusterView
from kajitori.configuration.settings import LEASE_NAMESPACE
from kajitori.controllers.nodes.health import HealthKeeper
from kajitori.controllers.nodes.silence import NODE_PATIENCE, Silence
from kajitori.controllers.queue.controller import Admitted
from kajitori.controllers.queue.planning import Planning
from kajitori.controllers.queue.provisioning import Provisioning
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.records.memory import MemoryKeeper
from kajitori.controllers.records.results import ResultKeeper
from kajitori.controllers.records.tidying import expire_forever, tidy_forever
from kajitori.controllers.runs.attempts import delete_member, delete_members, is_meddled_with, put_right, reference_to
from kajitori.controllers.runs.budgets import BudgetKeeper
from kajitori.controllers.runs.checkpoints import delete_checkpoint
from kajitori.controllers.runs.memory_kills import Spared
from kajitori.controllers.runs.networks import NetworkKeeper
from kajitori.controllers.runs.orphans import Orphans
from kajitori.controllers.runs.starting import Starter
from kajitori.controllers.runs.statuses import STATUS_INTERVAL, UNSEEN_PATIENCE, Statuses
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.logs.kept import without
from kajitori.core.pods.budgets import budget_spec
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.words import names
from kajitori.errors import Forbidden, InvalidInput, KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.events import EventRecorder
from kajitori.kube.mirror.mirror import CATCH_UP_SECONDS, Mirror
from kajitori.kube.mirror.pod_index import coverage_of
from kajitori.kube.objects import Pod, RunObject
from kajitori.kube.platform.ticket_key import SigningKey
from kajitori.kube.resources import NODES, PODS, RUNS, Resource
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

REMOVAL_REFUSED = timedelta(minutes=10)
"""Time until a removal that the API server refused is tried again. An older role may lack the permission."""


class RunController:
    """Drives every Run of the cluster from Queued to its end."""

    def __init__(
        self,
        client: KubeClient,
        mirror: Mirror,
        cluster: ClusterView,
        *,
        namespace: str = LEASE_NAMESPACE,
        kept_logs: KeptLogs | None = None,
        code: CodeStore | None = None,
        now: Callable[[], datetime] | None = None,
        node_patience: timedelta = NODE_PATIENCE,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """Create a controller that `run` starts.

        `namespace` holds the key that signs members and their tickets. Without `kept_logs`, logs are lost with their
        Pods. Unused code is deleted from `code`. Silent nodes count as lost after `node_patience`.
        """
        self._metrics = metrics = metrics or ControllerMetrics.unread()
        self._client = client
        self._mirror = mirror
        self._cluster = cluster
        self._now = now = now or mirror.now
        self._silence = Silence(mirror, now, node_patience)
        self._events = EventRecorder(client, names.MANAGED_BY, clock=now)
        self._code = code
        self._budgets = BudgetKeeper(client)
        self._networks = NetworkKeeper(client, self._note_network)
        self._peaks = MemoryKeeper(client, mirror, self._note_peak, now)
        self._spared = Spared(client)
        self._provisioning = Provisioning(client, cluster, self._note_request)
        self._health = HealthKeeper(client, mirror, cluster, self._events, now)
        self._work = WorkQueue(now, self._note_done)
        self._logs: LogKeeper | None = None
        if kept_logs is not None:
            self._logs = LogKeeper(client, kept_logs, events=self._events, metrics=metrics, wake=self._work.wake)
        self._statuses = Statuses(client, mirror, self._events, now, metrics)
        self._key = SigningKey(client, namespace, mirror.believe)
        self._starter = Starter(
            client, mirror, cluster, self._statuses, self._provisioning, self._networks, self._key, now
        )
        self._planning = Planning(
            mirror, cluster, self._work, self._statuses, self._starter, self._provisioning, now, metrics
        )
        results = kept_logs.results if kept_logs is not None else None
        self._results = ResultKeeper(client, self._logs, results, self._work.wake)
        self._decided: dict[Key, tuple[tuple[str, int, int], tuple[RunSpec, Decision]]] = {}
        """Policy's decision on each run, with the UID, generation and version of policy and cluster that it is for."""
        self._orphans = Orphans(client, mirror)
        self._catch_up_at: datetime | None = None
        """Time at which the mirror will show everything that was missed while one of its watches was broken."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Calls that have begun end within the client's time limits."""
        unsubscribe = self._mirror.on_change(self._note)
        no_longer_told = self._mirror.on_health(self._note_health)
        stopping = asyncio.create_task(stop.wait())
        telling = asyncio.create_task(self._events.run())
        asking = asyncio.create_task(self._peaks.ask_forever(lambda: self._cluster.policy))
        provisioning = asyncio.create_task(self._provisioning.follow())
        restricting = asyncio.create_task(self._networks.follow())
        tidying = asyncio.create_task(tidy_forever(self._mirror, self._cluster, self._logs, self._code))
        caring = asyncio.create_task(self._health.keep_forever())
        growing = asyncio.create_task(self._grow_forever())
        expiring = asyncio.create_task(expire_forever(self._mirror, self._cluster, self._now, self._work.add))
        self._metrics.terms.inc()
        try:
            await self._mirror.wait_synced()
            await self._mirror.wait_fresh()  # another controller may have led until now
            await self._mirror.set_clock()  # all controllers use the API server's time
            await self._learn_key()
            self._planning.takeover.begin(self._mirror.runs)
            self._work.add(*self._mirror.runs)
            for node in self._mirror.nodes:
                self._silence.note(node)
            for pod in list(self._mirror.pods.values()):
                self._note_owner(pod)
            while not stop.is_set():
                # 1. Wait until something changed or is due, then for the burst to settle.
                await self._wait(stopping)
                # 2. Decide the next step of each changed run and carry it out. Runs do not wait for each other.
                self._catch_up()
                for key in self._work.take(self._is_new):
                    self._work.begin(key, partial(self._reconcile, key))
                # 3. Plan all waiting runs as one queue.
                self._planning.plan()
        finally:
            self._metrics.waiting_runs.set(0)
            unsubscribe()
            no_longer_told()
            tasks = [stopping, telling, asking, provisioning, restricting, tidying, caring, growing, expiring]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, self._work.close(), return_exceptions=True)
            await self._results.close()
            if self._logs is not None:
                await self._logs.close()

    async def _learn_key(self) -> None:
        """Read the signing key first: it identifies members whose owner reference was removed."""
        try:
            await self._key.read()
        except KajitoriError as error:
            log.warning("the signing key can't be read; members are identified by owner references alone: %s", error)

    async def _grow_forever(self) -> None:
        """Let elastic gangs grow after there has been room for them for long enough, until cancelled."""
        while True:
            await asyncio.sleep(self._planning.growing.pause_seconds)
            if self._mirror.age_seconds():
                continue  # the mirror is behind: nodes that look free may be taken
            try:
                self._planning.grow()
            except Exception:
                log.exception("could not look for room for elastic gangs; tried again")

    def _is_new(self, key: Key) -> bool:
        """Whether the run was only submitted, so that no node depends on it."""
        run = self._mirror.runs.get(key)
        return run is not None and run.status is None and not run.metadata.deletion_timestamp

    # ------------------------------------------------------------------------------------------ what changed

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._work.add((namespace, name))
            run = self._mirror.runs.get((namespace, name))
            if run is not None and self._cluster.occupancy.may_free(run):
                self._planning.note_change()
        elif resource == PODS:
            key = (namespace, name.rsplit("-", 2)[0])
            if key in self._mirror.runs:
                self._work.add(key)
                self._statuses.note_seen(key, name)
            pod = self._mirror.pods.get((namespace, name))
            if pod is not None:
                self._note_owner(pod)
            self._planning.note_change()
        elif resource == NODES:
            self._silence.note(name)
            if self._cluster.note_node(name):
                self._planning.note_change()
                for pod in self._mirror.pods_on_node(name):
                    run = self._mirror.run_of(pod)
                    if run is not None:
                        self._work.add((run.metadata.namespace, run.metadata.name))
        self._work.nudge()

    def _note_peak(self, key: Key) -> None:
        """React to a new memory reading of a run's members."""
        self._work.add(key)
        self._work.nudge()

    def _note_network(self, key: Key | None) -> None:
        """React to a change of a run's NetworkPolicy, or, with None, to the first complete list of them."""
        self._work.add(*(self._mirror.runs if key is None else (key,)))
        self._work.nudge()

    def _note_request(self, key: Key | None) -> None:
        """React to a change of a run's request for nodes, or, with None, of whether the cluster has such requests."""
        if key in self._mirror.runs:
            self._work.add(key)
        self._planning.note_change()
        self._work.nudge()

    def _note_health(self) -> None:
        """React to a broken or recovered watch: everything is reconciled again once the mirror has caught up."""
        self._catch_up_at = None if self._mirror.trouble else self._now() + timedelta(seconds=CATCH_UP_SECONDS)
        self._work.nudge()

    def _note_owner(self, pod: Pod) -> None:
        if (key := self._orphans.note(pod)) is not None:
            self._work.add(key)

    def _note_done(self, key: Key) -> None:
        self._planning.note_done(key)

    async def _wait(self, stopping: asyncio.Task[bool]) -> None:
        moments = () if self._catch_up_at is None else (self._catch_up_at,)
        await self._work.wait(stopping, moments, self._planning.rest_seconds())

    def _catch_up(self) -> None:
        """Reconcile everything once the mirror shows all that was missed."""
        now = self._now()
        if self._catch_up_at is not None and self._catch_up_at <= now:
            self._catch_up_at = now + timedelta(seconds=CATCH_UP_SECONDS) if self._mirror.age_seconds() else None
            self._work.add(*self._mirror.runs, *self._orphans)

    # ------------------------------------------------------------------------------------------ one run

    async def _reconcile(self, key: Key) -> None:
        if key in self._orphans:
            await self._orphans.delete(key)
            self._forget(key)
            return
        run = self._mirror.runs.get(key)
        if run is None:
            self._forget(key)
            return
        if not self._statuses.is_shown(run):
            await self._statuses.doubt(run)
            self._work.wake(key, UNSEEN_PATIENCE)
            return
        deleting = bool(run.metadata.deletion_timestamp)
        if names.FINALIZER not in run.metadata.finalizers:
            if deleting:
                self._planning.leave(key)
            else:
                await self._add_finalizer(run)
            return
        if run.status is None and not self._statuses.knows(run):
            await self._recall_attempts(run)
        status = self._statuses.current_status(run)
        admitted = await self._admit(key, run, status)
        if admitted is None:
            self._planning.leave(key)
            return
        pods = self._mirror.owned_pods(*reference_to(run))
        is_over = deleting or status.phase.is_final
        spared, unclear_seconds = await self._spared.among(() if is_over else pods)
        if unclear_seconds:
            self._planning.takeover.note(key)
            self._work.wake(key, timedelta(seconds=unclear_seconds))
            return
        began = asyncio.get_running_loop().time()
        covered = {pod.metadata.uid for pod in self._mirror.pods_of_run(run)}
        for pod in pods:
            is_earlier = pod.member is not None and pod.member.attempt < status.attempts
            if (is_earlier or pod.metadata.uid in covered) and is_meddled_with(run, pod):
                await self._put_right(run, pod)
        seen = [(pod, m) for pod in pods if (m := member_of(pod, self._mirror.nodes, spared)) is not None]
        members = [self._patient(key, member) for _, member in seen]
        counted = [each for each in seen if each[1].uid in covered]
        still_waits = partial(preemptor_waits, self._mirror, self._cluster.specs)
        life = replace(
            admitted.life,
            status=self._peaks.noted(run, admitted.life.status, counted),
            withdrawn=frozenset(each.waiting for each in gang.preemptions_of(status) if not still_waits(each)),
        )
        if gang.has_lost_ledger(life, members):
            kept = await self._results.succeeded(run.metadata.namespace, run.metadata.uid)
            life = gang.with_succeeded(life, kept)
        step = gang.next_step(life, members, self._mirror.shown_until(self._now()))
        ended = asyncio.get_running_loop().time()
        self._work.rest(key, ended - began)
        self._metrics.note_step("reconcile", ended - began)
        if admitted.life.sweep is not None:
            step = self._take_away(run, step, seen)
        await self._perform(key, run, admitted, step, members)

    def _take_away(self, run: RunObject, step: gang.Step, seen: Sequence[tuple[Pod, gang.Member]]) -> gang.Step:
        """Start keeping the results of ended members of a sweep and deleting their Pods; return the remaining step."""
        over = {pod.metadata.uid for pod, member in seen if member.is_over}
        ended = [act for act in step.actions if isinstance(act, gang.DeleteMember) and act.uid in over]
        policy = self._cluster.policy
        self._results.take_away(run, ended, seen, policy.sweeps, policy.logs.keep_within_seconds)
        return replace(step, actions=tuple(act for act in step.actions if act not in ended))

    async def _put_right(self, run: RunObject, pod: Pod) -> None:
        """Restore the labels and the owner of a member that was edited, so that requests by label find it again."""
        meta = pod.metadata
        try:
            await put_right(self._client, run, pod)
        except (Forbidden, InvalidInput) as error:
            log.warning("Pod %s/%s was edited and can't be restored: %s", meta.namespace, meta.name, error)
        else:
            log.warning("Pod %s/%s was edited; its labels and owner are restored", meta.namespace, meta.name)

    def _patient(self, key: Key, member: gang.Member) -> gang.Member:
        """Return the member. Its node counts as ready while it has been silent for less than the patience."""
        left = self._silence.patience_left(member)
        if not left:
            return member
        self._work.wake(key, left)
        return replace(member, node_ready=True)

    async def _admit(self, key: Key, run: RunObject, status: RunStatus) -> Admitted | None:
        """Return the run as policy admits it now; None if policy refuses it, which ends the run (rule 12).

        A refused run with a live attempt continues until the attempt ends.
        """
        policy_version = self._cluster.policy_version
        version = (run.metadata.uid, run.metadata.generation, self._cluster.version)
        try:
            known = self._decided.get(key)
            if known is None or known[0] != version:
                known = self._decided[key] = version, self._cluster.decide(run)
        except InvalidInput as refused:
            waits = status.phase in (Phase.QUEUED, Phase.RESTARTING) or status.attempt is None
            waits = waits and not status.phase.is_final
            if waits and not run.metadata.deletion_timestamp:
                reasons = "; ".join(str(fault) for fault in refused.faults)
                await self._statuses.write(run, gang.refuse(status, reasons, run.metadata.generation, self._now()))
                return None
            return Admitted(*self._cluster.outline(run, status))
        spec, decision = known[1]
        status = msgspec.structs.replace(status, findings=list(decision.findings))
        life = life_of(run, spec, decision, status)
        return Admitted(life, spec, decision, policy_version, version[-1])

    async def _perform(
        self, key: Key, run: RunObject, admitted: Admitted, step: gang.Step, members: Sequence[gang.Member]
    ) -> None:
        """Write the intent to the run's status, then act on it."""
        over = admitted.life.deleting or admitted.life.stopped or step.status.phase.is_final
        step = replace(step, status=await self._provisioning.settle(run, step.status, over=over))
        version = run.metadata.resource_version
        waits = any(isinstance(action, gang.NeedsNodes) for action in step.actions)
        if step.status != run.status and not (waits and run.status is None):  # planning writes a new run's first status
            if self._statuses.may_write(key, run.status, step.status):
                version = await self._statuses.write(run, step.status)
            else:
                self._work.wake(key, STATUS_INTERVAL)
        if step.wake_at is not None and not self._mirror.age_seconds():  # else it is reconciled after catching up
            self._work.wake_at(key, step.wake_at)
        if not waits:
            self._planning.leave(key)
        actions = step.actions
        if self._logs is not None and not admitted.life.deleting:
            actions = (*actions, *self._logs.due_deletions(reference_to(run)))
            rules, alone = self._cluster.policy.logs, admitted.life.sweep is not None
            left = await self._logs.keep_before(reference_to(run), actions, members, rules, of_sweep=alone)  # rule 11
            actions = without(actions, members, left)
        for action in actions:
            match action:
                case gang.NeedsNodes():
                    self._planning.add(key, run, admitted, step.status, action, version)
                case gang.CreateMembers(ranks):
                    await self._starter.create(run, admitted, step.status, ranks, version)
                case gang.DeleteMembers():
                    await delete_members(self._client, self._mirror, reference_to(run), action)
                case gang.DeleteMember():
                    await delete_member(self._client, run, action)
                case gang.Release():
                    await self._release(run)
                case gang.Remove():
                    await self._remove(key, run, version)
        if not admitted.life.deleting:
            await self._budgets.keep(run, self._budget_of(run, admitted, step.status, members))
            await self._keep_network(run, admitted, step.status)

    async def _keep_network(self, run: RunObject, admitted: Admitted, status: RunStatus) -> None:
        """Update the run's NetworkPolicy to the present policy, which needs no restart of members. It is left unchanged
        if policy no longer admits the run."""
        if status.phase.is_final or not status.attempts:
            await self._networks.keep(run, None)
        elif admitted.decision is not None:
            await self._networks.keep(run, admitted.decision.network)

    def _budget_of(
        self, run: RunObject, admitted: Admitted, status: RunStatus, members: Sequence[gang.Member]
    ) -> dict[str, Any] | None:
        if not self._cluster.policy.disruption_budgets:
            return None
        covered = coverage_of(run)
        counted = [member for member in members if covered.covers(member.attempt, member.rank)]
        return budget_spec(admitted.life.type, run.metadata.uid, status, counted)

    async def _add_finalizer(self, run: RunObject) -> None:
        meta = run.metadata
        patch = {
            "metadata": {
                "finalizers": [*meta.finalizers, names.FINALIZER],
                "resourceVersion": meta.resource_version,
            }
        }
        await self._client.patch(RUNS, meta.name, patch, meta.namespace)
        if run.status is None:
            self._statuses.note_attempts(run, 0)

    async def _recall_attempts(self, run: RunObject) -> None:
        """Find the number of attempts of a run without a status. It is new, or its status was removed; then the kept
        logs show how many attempts it had."""
        meta = run.metadata
        kept = await self._logs.last_attempt(meta.namespace, meta.uid) if self._logs is not None else 0
        self._statuses.note_attempts(run, kept)

    async def _release(self, run: RunObject) -> None:
        meta = run.metadata
        if self._logs is not None:
            await self._logs.forget(meta.namespace, meta.uid)
        await self._results.forget(meta.namespace, meta.uid)
        await self._budgets.keep(run, None)
        await delete_checkpoint(self._client, self._cluster.policy, meta.namespace, meta.name)
        left = [finalizer for finalizer in meta.finalizers if finalizer != names.FINALIZER]
        patch = {"metadata": {"finalizers": left or None, "uid": meta.uid}}
        await self._client.patch(RUNS, meta.name, patch, meta.namespace)

    async def _remove(self, key: Key, run: RunObject, version: str) -> None:
        """Delete a run that ended long ago, unless it has changed since it was read."""
        meta = run.metadata
        try:
            await self._client.delete(
                RUNS, meta.name, meta.namespace, propagation="Background", uid=meta.uid, resource_version=version
            )
        except Forbidden as error:
            log.warning("run %s/%s has ended and is to be removed: %s", *key, error)
            self._work.wake(key, REMOVAL_REFUSED)

    def _forget(self, key: Key) -> None:
        self._decided.pop(key, None)
        self._statuses.forget(key)
        self._work.forget(key)
        self._planning.forget(key)
