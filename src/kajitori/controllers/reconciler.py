"""The reconciliation of one run: asks `core` for its next step, writes the intent to its status, and acts on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from kajitori.cluster.mirror.pod_index import coverage_of
from kajitori.cluster.objects import Pod
from kajitori.cluster.queue.preemptions import preemptor_waits
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.cluster.runs.stored_runs import life_of
from kajitori.cluster.usage_ledger import adopt_usage
from kajitori.controllers.parts import ClusterParts, NodeParts, QueueParts, RecordParts, RunParts
from kajitori.controllers.queue.queue import Admitted
from kajitori.controllers.removal import Removal
from kajitori.controllers.runs.attempts import (
    delete_member,
    delete_members,
    hold_and_release,
    lacks_metadata,
    reference_to,
    restore_metadata,
)
from kajitori.controllers.runs.statuses import STATUS_INTERVAL, UNSEEN_PATIENCE
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.gang.status.progress import earliest
from kajitori.core.logs.kept import without
from kajitori.core.messages.idle_question import due_at
from kajitori.core.messages.notices import warning_at, with_notices
from kajitori.core.naming import names
from kajitori.core.pods.budgets import budget_spec
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.errors import Forbidden, InvalidInput

log = logging.getLogger(__name__)

LOGS_OF_DELETED_SECONDS = 15
"""Longest time for which the Pod of a run that is being deleted stays so that its log can be saved."""


class _Observed(NamedTuple):
    """The members of a run, as their Pods show them now."""

    pods: Sequence[tuple[Pod, gang.Member]]
    """All Pods of the run with the name of a member, each with that member."""
    counted: Sequence[tuple[Pod, gang.Member]]
    """The Pods among them that count as members now."""
    members: Sequence[gang.Member]
    """The members of `pods`. Nodes that are silent for a moment count as ready, and missing storage is explained."""


class Reconciler:
    """Takes the next step of each Run that changed, from Queued to its end."""

    def __init__(
        self,
        cluster: ClusterParts,
        work: WorkQueue,
        *,
        runs: RunParts,
        queue: QueueParts,
        nodes: NodeParts,
        records: RecordParts,
    ) -> None:
        """`work` is told when to reconcile a run again."""
        self._client = cluster.client
        self._mirror = cluster.mirror
        self._cluster = cluster.view
        self._now = cluster.now
        self._metrics = cluster.metrics
        self._work = work
        self._removal = Removal(cluster, work, runs=runs, records=records)
        self._runs = runs
        self._planning = queue.planning
        self._starter = queue.starter
        self._provisioning = queue.provisioning
        self._silent_nodes = nodes.silent_nodes
        self._records = records
        self._decided: dict[Key, tuple[tuple[str, int, int], tuple[RunSpec, Decision]]] = {}
        """Policy's decision on each run, with the UID, generation and version of policy and cluster that it is for."""

    async def reconcile(self, key: Key) -> None:
        """Take the next step of one run, as the mirror shows it now."""
        if key in self._runs.orphans:
            await self._runs.orphans.delete(key)
            self._forget_run(key)
            return
        run = self._mirror.runs.get(key)
        if run is None:
            self._forget_run(key)
            return
        if not self._runs.statuses.is_shown(run):
            await self._runs.statuses.doubt(run)
            self._work.wake(key, UNSEEN_PATIENCE)
            return
        deleting = bool(run.metadata.deletion_timestamp)
        if run.status is None and names.ANNOTATION_RESTORED in run.metadata.annotations and not deleting:
            self._planning.leave(key)  # kaji restore is about to write its status; now it would look like a new run
            return
        if names.FINALIZER not in run.metadata.finalizers:
            if deleting:
                self._planning.leave(key)
            else:
                await self._removal.add_finalizer(run)
            return
        if run.status is None and not self._runs.statuses.knows(run):
            await self._recall_attempts(run)
        status = adopt_usage(self._runs.statuses.current_status(run), self._cluster, self._now())
        admitted = await self._admit(key, run, status)
        if admitted is None:
            self._planning.leave(key)
            return
        await self._take_next_step(key, run, status, admitted)

    async def _take_next_step(self, key: Key, run: RunObject, status: RunStatus, admitted: Admitted) -> None:
        """Decide the next step of a run from its members, and carry it out."""
        # 1. Wait until it is known which members were killed for their node's memory.
        pods = self._mirror.owned_pods(*reference_to(run))
        is_over = admitted.life.deleting or status.phase.is_final
        node_victims, unclear_seconds = await self._runs.node_victims.among(() if is_over else pods)
        if unclear_seconds:
            self._planning.takeover.note(key)
            self._work.wake(key, timedelta(seconds=unclear_seconds))
            return

        # 2. Observe the members, and add what other parts of the controller know about the run.
        began = asyncio.get_running_loop().time()
        observed = await self._observe(key, run, status, pods, node_victims)
        life = self._with_observations(run, admitted.life, observed)
        if gang.has_lost_ledger(life, observed.members):
            kept = await self._records.results.succeeded(run.metadata.namespace, run.metadata.uid)
            life = gang.with_succeeded(life, kept)

        # 3. Decide.
        step = gang.next_step(life, observed.members, self._mirror.shown_until(self._now()))
        ended = asyncio.get_running_loop().time()
        self._work.rest(key, ended - began)
        self._metrics.note_step("reconcile", ended - began)

        # 4. Carry the step out.
        if admitted.life.sweep is not None:
            step = self._start_removals(run, step, observed.pods)
        if not admitted.life.deleting:  # before the status says that the run runs
            await self._runs.names.keep(run, admitted.spec, pods)
        await self._perform(key, run, admitted, step, observed.members)

    async def _observe(
        self, key: Key, run: RunObject, status: RunStatus, pods: Sequence[Pod], node_victims: Container[str]
    ) -> _Observed:
        """Return the members of a run, given its Pods and the UIDs of those that were killed for their node's memory.
        Labels and owners that were edited away are restored."""
        covered = {pod.metadata.uid for pod in self._mirror.pods_of_run(run)}
        for pod in pods:
            is_earlier = pod.member is not None and pod.member.attempt < status.attempts
            if (is_earlier or pod.metadata.uid in covered) and lacks_metadata(run, pod):
                await self._restore_metadata(run, pod)
        seen = [(pod, m) for pod in pods if (m := member_of(pod, self._mirror.nodes, node_victims)) is not None]
        present = [self._with_node_patience(key, member) for _, member in seen]
        members = await self._runs.claims.explained(key, run, status.attempt, present)
        return _Observed(seen, [pair for pair in seen if pair[1].uid in covered], members)

    def _with_observations(self, run: RunObject, life: gang.Run, observed: _Observed) -> gang.Run:
        """Return the run with its memory peak, with findings from telemetry, with the preemptions that were withdrawn,
        and with the part of its usage that history has."""
        status = self._records.peaks.noted(run, life.status, observed.counted)
        if self._records.stuck is not None:
            status = self._records.stuck.noted(run, status)
        if self._records.stragglers is not None:
            status = self._records.stragglers.noted(run, status)
        still_waits = partial(preemptor_waits, self._mirror, self._cluster.specs)
        return replace(
            life,
            status=status,
            withdrawn=frozenset(
                preemption.waiting for preemption in gang.preemptions_of(status) if not still_waits(preemption)
            ),
            confirmed=self._records.history.confirmed(run) if self._records.history is not None else 0,
        )

    def _start_removals(self, run: RunObject, step: gang.Step, seen: Sequence[tuple[Pod, gang.Member]]) -> gang.Step:
        """Start keeping the results of ended members of a sweep and deleting their Pods; return the remaining step."""
        over = {pod.metadata.uid for pod, member in seen if member.is_over}
        ended = [act for act in step.actions if isinstance(act, gang.DeleteMember) and act.uid in over]
        policy = self._cluster.policy
        self._records.results.start_removals(run, ended, seen, policy.sweeps, policy.logs.keep_within_seconds)
        return replace(step, actions=tuple(act for act in step.actions if act not in ended))

    async def _restore_metadata(self, run: RunObject, pod: Pod) -> None:
        """Restore the labels and the owner of a member that was edited, so that requests by label find it again."""
        meta = pod.metadata
        try:
            await restore_metadata(self._client, run, pod)
        except (Forbidden, InvalidInput) as error:
            log.warning("Pod %s/%s was edited and can't be restored: %s", meta.namespace, meta.name, error)
        else:
            log.warning("Pod %s/%s was edited; its labels and owner are restored", meta.namespace, meta.name)

    def _with_node_patience(self, key: Key, member: gang.Member) -> gang.Member:
        """Return the member. Its node counts as ready while it has been silent for less than the patience."""
        left = self._silent_nodes.patience_left(member)
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
                await self._runs.statuses.write(run, gang.refuse(status, reasons, run.metadata.generation, self._now()))
                return None
            return Admitted(*self._cluster.outline(run, status))
        spec, decision = known[1]
        status = msgspec.structs.replace(status, findings=list(decision.findings))
        life = life_of(run, spec, decision, status, self._cluster.dependencies.awaited(run))
        return Admitted(life, spec, decision, policy_version, version[-1])

    async def _perform(
        self, key: Key, run: RunObject, admitted: Admitted, step: gang.Step, members: Sequence[gang.Member]
    ) -> None:
        """Write the intent to the run's status, then act on it."""
        # 1. Complete the status: the request for nodes, the output of health checks, the question about idle GPUs,
        # notices for people.
        over = admitted.life.deleting or admitted.life.stopped or step.status.phase.is_final
        step = replace(step, status=await self._provisioning.settle(run, step.status, over=over))
        step = replace(step, status=await self._runs.health.added(key, run, step.status, members))
        step = self._with_question(run, step)
        step = self._with_notices(run, step, admitted.life.limits.time_limit_seconds)

        # 2. Write it, before anything is done.
        waits = any(isinstance(action, gang.NeedsNodes) for action in step.actions)
        version = run.metadata.resource_version
        if not (waits and run.status is None):  # planning writes the first status of a new run
            version = await self._write_intent(key, run, step.status)
        if step.wake_at is not None and not self._mirror.age_seconds():  # else it is reconciled after catching up
            self._work.wake_at(key, step.wake_at)
        if not waits:
            self._planning.leave(key)

        # 3. Save stacks and logs of the members that are about to be deleted.
        await self._keep_evidence(run, admitted, step)
        actions = await self._keep_logs(run, admitted, step.actions, members)

        # 4. Carry out the actions.
        await hold_and_release(self._client, run.metadata.namespace, actions)
        for action in actions:
            await self._act(key, run, admitted, step.status, action, version)
        if not admitted.life.deleting:
            await self._runs.budgets.keep(run, self._budget_of(run, admitted, step.status, members))
            await self._keep_network(run, admitted, step.status)

    async def _write_intent(self, key: Key, run: RunObject, status: RunStatus) -> str:
        """Write the status if it has changed, and return the resource version. If only counts have changed since a
        moment ago, the write is put off."""
        if status == run.status:
            return run.metadata.resource_version
        if self._runs.statuses.may_write(key, run.status, status):
            return await self._runs.statuses.write(run, status)
        self._runs.statuses.put_off(run, status)
        self._work.wake(key, STATUS_INTERVAL)
        return run.metadata.resource_version

    async def _keep_logs(
        self, run: RunObject, admitted: Admitted, actions: tuple[gang.Action, ...], members: Sequence[gang.Member]
    ) -> tuple[gang.Action, ...]:
        """Keep the logs of members that the actions delete (rule 11). Return the actions that are due now: without
        deletions that have to wait for a log, and with earlier deletions that need not wait any longer."""
        logs = self._records.logs
        if logs is None or (admitted.life.deleting and self._records.history is None):
            return actions
        reference, rules = reference_to(run), self._cluster.policy.logs
        if admitted.life.deleting:
            within = min(LOGS_OF_DELETED_SECONDS, rules.keep_within_seconds)
            rules = rules.model_copy(update={"keep_within_seconds": within})
        actions = (*actions, *logs.due_deletions(reference))
        of_sweep = admitted.life.sweep is not None
        unread = await logs.keep_terminating(reference, members, rules)
        actions = tuple(
            action for action in actions if not (isinstance(action, gang.ReleaseMember) and action.uid in unread)
        )
        left = await logs.keep_before(reference, actions, members, rules, of_sweep=of_sweep)
        return without(actions, members, left)

    async def _act(
        self, key: Key, run: RunObject, admitted: Admitted, status: RunStatus, action: gang.Action, version: str
    ) -> None:
        """Carry out one action. `version` is the resource version of the run with this status."""
        match action:
            case gang.NeedsNodes():
                self._planning.add(key, run, admitted, status, action, version)
            case gang.CreateMembers(ranks):
                await self._starter.create(run, admitted, status, ranks, version)
            case gang.DeleteMembers():
                await delete_members(self._client, self._mirror, reference_to(run), action)
            case gang.DeleteMember():
                await delete_member(self._client, run, action)
            case gang.HoldMember() | gang.ReleaseMember():
                pass  # `hold_and_release` has done it
            case gang.Release():
                await self._removal.release(key, run, status, version)
            case gang.Remove():
                await self._removal.delete_expired(key, run, status, version)

    async def _keep_evidence(self, run: RunObject, admitted: Admitted, step: gang.Step) -> None:
        """Store the stacks of a failed gang's survivors before they are ended, within their grace at most."""
        stuck, evidence, attempt = self._records.stuck, self._records.evidence, step.status.attempt
        if stuck is None or evidence is None or attempt is None or admitted.life.deleting or admitted.life.stopped:
            return
        if not gang.ends_survivors(step):
            return
        if evidence.survivors_answer or stuck.measures(run.metadata.uid, attempt):
            seconds = admitted.life.limits.restart_grace_seconds
            await evidence.before_end(run, attempt.number, step.status.message, seconds)

    def _with_question(self, run: RunObject, step: gang.Step) -> gang.Step:
        """Add the finding about idle GPUs to the status, and the question to the owner."""
        watcher = self._records.idle
        if watcher is None:
            return step
        status = watcher.noted(run, step.status)
        due = due_at(status, self._cluster.policy.idle_gpus)
        is_ahead = due is not None and due > self._now()
        return replace(step, status=status, wake_at=earliest(step.wake_at, due) if is_ahead else step.wake_at)

    def _with_notices(self, run: RunObject, step: gang.Step, time_limit_seconds: int | None) -> gang.Step:
        """Add notices for the owner or the team to the status, and remove those that outboxes hold."""
        messages = self._records.messages
        if messages is None:
            return step
        rules, now, wanted = self._cluster.policy.notifications, self._now(), messages.is_wanted(run)
        status = with_notices(
            step.status,
            wanted=wanted,
            taken=messages.taken(run),
            rules=rules,
            now=now,
            time_limit_seconds=time_limit_seconds,
        )
        warning = warning_at(status, rules, time_limit_seconds) if wanted else None
        wake_at = min(warning, step.wake_at or warning) if warning is not None and warning > now else step.wake_at
        return replace(step, status=status, wake_at=wake_at)

    async def _keep_network(self, run: RunObject, admitted: Admitted, status: RunStatus) -> None:
        """Update the run's NetworkPolicy to the present policy, which needs no restart of members. It is left unchanged
        if policy no longer admits the run."""
        if status.phase.is_final or not status.attempts:
            await self._runs.networks.keep(run, None)
        elif admitted.decision is not None:
            await self._runs.networks.keep(run, admitted.decision.network)

    def _budget_of(
        self, run: RunObject, admitted: Admitted, status: RunStatus, members: Sequence[gang.Member]
    ) -> dict[str, Any] | None:
        """Return the disruption budget that the run should have now; None for no budget."""
        if not self._cluster.policy.disruption_budgets:
            return None
        covered = coverage_of(run)
        counted = [member for member in members if covered.covers(member.attempt, member.rank)]
        is_checked = admitted.life.health is not None
        return budget_spec(admitted.life.type, run.metadata.uid, status, counted, has_health_check=is_checked)

    async def _recall_attempts(self, run: RunObject) -> None:
        """Find the number of attempts of a run without a status. It is new, or its status was removed; then the kept
        logs show how many attempts it had."""
        meta = run.metadata
        kept = await self._records.logs.last_attempt(meta.namespace, meta.uid) if self._records.logs is not None else 0
        self._runs.statuses.note_attempts(run, kept)

    def _forget_run(self, key: Key) -> None:
        known = self._decided.pop(key, None)
        if known is not None:
            self._runs.names.forget(known[0][0])
            if self._records.evidence is not None:
                self._records.evidence.forget(known[0][0])
        self._runs.statuses.forget(key)
        self._runs.claims.forget(key)
        self._runs.health.forget(key)
        self._work.forget(key)
        self._planning.forget(key)
