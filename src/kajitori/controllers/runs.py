"""The run controller: reads the mirror, asks `core` what each run needs next, and does it.

Level-triggered: every decision is made from what the mirror holds now, never from an event's contents. Safe to kill
between any two calls: what was intended stands in the Run's status before anything else happens.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from kajitori.controllers.attempts import (
    StartRefused,
    create_members,
    delete_member,
    delete_members,
    is_meddled_with,
    key_of_tickets,
    prepare,
    put_right,
    write_status,
)
from kajitori.controllers.budgets import BudgetKeeper
from kajitori.controllers.checkpoints import delete_checkpoint
from kajitori.controllers.health import HealthKeeper
from kajitori.controllers.kills import Spared
from kajitori.controllers.logs import LogKeeper
from kajitori.controllers.memory import MemoryKeeper
from kajitori.controllers.provisioning import Asking, Provisioning
from kajitori.controllers.queue import DOUBT_PATIENCE, Admitted, Cycle, Queue, Waiting
from kajitori.controllers.results import ResultKeeper
from kajitori.controllers.tidying import tidy_forever
from kajitori.controllers.workqueue import REST, Key, WorkQueue
from kajitori.core import gang, manifests, names, nodelist
from kajitori.core.budgets import budget_spec
from kajitori.core.decide import Decision
from kajitori.core.explain import Explainer
from kajitori.core.giving_way import Request
from kajitori.core.planner import Placement, Shortage
from kajitori.core.ports import choose_port
from kajitori.core.reasons import Phase, Reason
from kajitori.core.run import RunSpec
from kajitori.core.status import GivesWay, RunStatus
from kajitori.errors import Forbidden, InvalidInput, NotFound
from kajitori.kube.applicants import request_of
from kajitori.kube.client import KubeClient
from kajitori.kube.cluster import ClusterView, life_of
from kajitori.kube.events import About, EventRecorder
from kajitori.kube.giving_way import ASKS, key_of, still_waits
from kajitori.kube.members import member_of
from kajitori.kube.mirror import CATCH_UP_SECONDS, Mirror
from kajitori.kube.objects import Pod, RunObject
from kajitori.kube.resources import NODES, PODS, RUNS, Resource
from kajitori.settings import LEASE_NAMESPACE
from kajitori.store.code import CodeStore
from kajitori.store.logs import KeptLogs

log = logging.getLogger(__name__)

STATUS_INTERVAL = timedelta(seconds=1)
"""A Run is written at most this often while only its counts change (rule 8)."""

WAITING_INTERVAL = timedelta(seconds=5)
"""How often the words of a waiting run are renewed while its reason stays the same."""

WAITING_WRITES_PER_SECOND = 10
"""Of all waiting runs together, for such words: where many wait, each is renewed less often."""

TOLD_AT_ONCE = 32
"""Waiting runs that are being told why, at a time: where many wait, what starts and what ends goes before words."""

UNSEEN_PATIENCE = timedelta(seconds=10)
"""How long the mirror may take to show what was just written before it is believed all the same."""

NODE_PATIENCE = timedelta(seconds=15)
"""How long a node has to be silent before its members are given up. After an outage of the API server all nodes look
dead for a moment, and kubelets report every ten seconds: no reason to start every gang of the cluster anew."""


@dataclass(slots=True)
class Memory:
    """What the controller remembers of a run between two looks; nothing that a restart may not forget."""

    written_version: int = 0
    written_at: datetime | None = None
    unseen_pods: set[str] = field(default_factory=set)
    unseen_since: datetime | None = None
    decided_for: tuple[str, int, int] | None = None
    decided: tuple[RunSpec, Decision] | None = None


class RunController:
    """Takes every Run of the cluster from Queued to its end."""

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
    ) -> None:
        """`namespace` is where the key of members' tickets lies; without `kept_logs` logs go with their Pods;
        `code` is tidied up."""
        self._client = client
        self._namespace = namespace
        self._mirror = mirror
        self._cluster = cluster
        self._now = now = now or mirror.now
        self._node_patience = node_patience
        self._silent_since: dict[str, datetime] = {}
        """Nodes that don't answer, and since when that is known here."""
        self._events = EventRecorder(client, names.MANAGED_BY, clock=now)
        self._logs = LogKeeper(client, kept_logs) if kept_logs is not None else None
        self._code = code
        self._budgets = BudgetKeeper(client)
        self._peaks = MemoryKeeper(client, mirror, self._note_peak, now)
        self._spared = Spared(client)
        self._provisioning = Provisioning(client, cluster, self._events, self._note_request)
        self._health = HealthKeeper(client, mirror, cluster, self._events, now)
        self._work = WorkQueue(now, self._note_done)
        results = kept_logs.results if kept_logs is not None else None
        self._results = ResultKeeper(client, self._logs, results, self._work.wake)
        self._memory: dict[Key, Memory] = {}
        self._queue = Queue(mirror, cluster)
        self._orphans: dict[Key, str] = {}
        """Namespace and UID of Runs that Pods have as their owner though the mirror does not show them; their names."""
        self._first_look: set[Key] = set()
        self._replan = False
        """Something changed that may let a run start."""
        self._replan_all = False
        """The whole queue is to be looked at again, as soon as that has rested."""
        self._plan_rests_until = 0.0
        self._heads_rest_until = 0.0
        self._passed_over: set[Key] = set()
        self._being_told: set[Key] = set()
        self._asked_under = 0
        """The version of the policy that all who wait were asked about last."""
        self._retell_at: datetime | None = None
        self._catch_up_at: datetime | None = None
        """When the mirror will show all that was missed while a watch of it was broken."""

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set; what was begun is finished or given up within the client's time limits."""
        unsubscribe = self._mirror.on_change(self._note)
        no_longer_told = self._mirror.on_health(self._note_health)
        stopping = asyncio.create_task(stop.wait())
        telling = asyncio.create_task(self._events.run())
        asking = asyncio.create_task(self._peaks.ask_forever(lambda: self._cluster.policy))
        provisioning = asyncio.create_task(self._provisioning.follow())
        tidying = asyncio.create_task(tidy_forever(self._mirror, self._cluster, self._logs, self._code))
        caring = asyncio.create_task(self._health.keep_forever())
        try:
            await self._mirror.wait_synced()
            await self._mirror.wait_fresh()  # another may have led until now
            await self._mirror.set_clock()  # by which he judged, too
            self._first_look.update(self._mirror.runs)
            self._work.add(*self._mirror.runs)
            for node in self._mirror.nodes:
                self._note_silence(node)
            for pod in list(self._mirror.pods.values()):
                self._note_owner(pod)
            while not stop.is_set():
                # 1. Wait until something changed or is due, then for the burst to settle.
                await self._wait(stopping)
                # 2. Ask each changed run's life what is next, and do it; runs do not wait for each other.
                self._catch_up()
                for key in self._work.take():
                    self._work.begin(key, partial(self._reconcile, key))
                # 3. Plan all that wait as one queue; not before every run was looked at once, since any may hold nodes.
                self._plan()
        finally:
            unsubscribe()
            no_longer_told()
            tasks = [stopping, telling, asking, provisioning, tidying, caring]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, self._work.close(), return_exceptions=True)
            await self._results.close()
            if self._logs is not None:
                await self._logs.close()

    # ------------------------------------------------------------------------------------------ what changed

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._work.add((namespace, name))
        elif resource == PODS:
            key = (namespace, name.rsplit("-", 2)[0])
            if key in self._mirror.runs:
                self._work.add(key)
                memory = self._memory.get(key)
                if memory is not None:
                    memory.unseen_pods.discard(name)
            pod = self._mirror.pods.get((namespace, name))
            if pod is not None:
                self._note_owner(pod)
            self._replan = True
        elif resource == NODES:
            self._note_silence(name)
            if self._cluster.note_node(name):
                self._replan = True
                for pod in self._mirror.pods_on_node(name):
                    member = pod.member if pod.run_uid else None
                    if member is not None:
                        self._work.add((pod.metadata.namespace, member.run))
        self._work.nudge()

    def _note_peak(self, key: Key) -> None:
        """More is known of what members of a run needed."""
        self._work.add(key)
        self._work.nudge()

    def _note_request(self, key: Key | None) -> None:
        """An autoscaler said something about a run's request for nodes; or such requests are possible now, or not."""
        if key in self._mirror.runs:
            self._work.add(key)
        self._replan = True
        self._work.nudge()

    def _note_health(self) -> None:
        """A watch broke or is well again: what failed meanwhile, or could not be judged, is done when all caught up."""
        self._catch_up_at = None if self._mirror.trouble else self._now() + timedelta(seconds=CATCH_UP_SECONDS)
        self._work.nudge()

    def _note_silence(self, name: str) -> None:
        node = self._mirror.nodes.get(name)
        if node is None or node.is_ready:
            self._silent_since.pop(name, None)
        else:
            self._silent_since.setdefault(name, self._now())

    def _note_owner(self, pod: Pod) -> None:
        """A Pod of ours without its Run: somebody died between the two, and nobody else would take it away soon."""
        uid, owner = pod.run_uid, pod.metadata.controller
        if not uid or owner is None or pod.metadata.deletion_timestamp:
            return
        name = owner.name
        run = self._mirror.runs.get((pod.metadata.namespace, name))
        if run is None or run.metadata.uid != uid:
            key = (pod.metadata.namespace, uid)
            self._orphans[key] = name
            self._work.add(key)

    def _note_done(self, key: Key) -> None:
        if key in self._passed_over:
            self._passed_over.discard(key)
            self._replan = True

    async def _wait(self, stopping: asyncio.Task[bool]) -> None:
        rest = None
        if (self._replan or self._replan_all) and len(self._queue) and not self._first_look:
            until = min(self._plan_rests_until, self._heads_rest_until if self._replan else math.inf)
            rest = until - asyncio.get_running_loop().time()
        await self._work.wait(stopping, (each for each in (self._retell_at, self._catch_up_at) if each), rest)

    def _catch_up(self) -> None:
        """Looks at everything once the mirror shows all that was missed."""
        now = self._now()
        if self._catch_up_at is not None and self._catch_up_at <= now:
            self._catch_up_at = now + timedelta(seconds=CATCH_UP_SECONDS) if self._mirror.age_seconds() else None
            self._work.add(*self._mirror.runs, *self._orphans)

    # ------------------------------------------------------------------------------------------ one run

    async def _reconcile(self, key: Key) -> None:
        if key in self._orphans:
            await self._sweep(key)
            return
        run = self._mirror.runs.get(key)
        if run is None:
            self._forget(key)
            return
        memory = self._memory.setdefault(key, Memory())
        if not self._has_caught_up(run, memory):
            await self._doubt_what_was_written(run, memory)
            self._work.wake(key, UNSEEN_PATIENCE)
            return
        self._first_look.discard(key)
        deleting = bool(run.metadata.deletion_timestamp)
        if names.FINALIZER not in run.metadata.finalizers:
            if not deleting:
                await self._add_finalizer(run)
            return
        status = run.standing
        admitted = await self._admit(run, status, memory)
        if admitted is None:
            return
        pods = self._mirror.pods_of_run(run.metadata.uid)
        is_over = deleting or status.phase.is_final
        spared, unclear_seconds = await self._spared.among(() if is_over else pods)
        if unclear_seconds:
            self._work.wake(key, timedelta(seconds=unclear_seconds))
            return
        began = asyncio.get_running_loop().time()
        for pod in pods:
            if is_meddled_with(run, pod):
                await self._put_right(run, pod)
        seen = [(pod, m) for pod in pods if (m := member_of(pod, self._mirror.nodes, spared)) is not None]
        members = [self._patient(key, member) for _, member in seen]
        asked = status.gives_way
        life = replace(
            admitted.life,
            status=self._peaks.noted(run, admitted.life.status, seen),
            wanted=asked is None or still_waits(self._mirror, asked),
        )
        step = gang.next_step(life, members, self._time_of_facts())
        ended = asyncio.get_running_loop().time()
        self._work.rest(key, ended - began)
        if admitted.life.sweep is not None:
            step = self._take_away(run, step, seen)
        await self._perform(key, run, admitted, step, members)

    def _take_away(self, run: RunObject, step: gang.Step, seen: Sequence[tuple[Pod, gang.Member]]) -> gang.Step:
        """Begins to keep what members of a sweep said that have ended, and to take their Pods away; the other steps."""
        over = {pod.metadata.uid for pod, member in seen if member.is_over}
        ended = [act for act in step.actions if isinstance(act, gang.DeleteMember) and act.uid in over]
        self._results.take_away(run, ended, seen, self._cluster.policy.sweeps)
        return replace(step, actions=tuple(act for act in step.actions if act not in ended))

    async def _put_right(self, run: RunObject, pod: Pod) -> None:
        """Somebody edited a member's labels, or took its owner away: collections would not find it any more."""
        meta = pod.metadata
        try:
            await put_right(self._client, run, pod)
        except (Forbidden, InvalidInput) as error:
            log.warning("Pod %s/%s was edited, and can't be put right: %s", meta.namespace, meta.name, error)
        else:
            log.warning("Pod %s/%s was edited; its labels and owner are put right", meta.namespace, meta.name)

    def _patient(self, key: Key, member: gang.Member) -> gang.Member:
        """The member; one whose node has been silent for a moment only as if it were not."""
        since = self._silent_since.get(member.node)
        if member.node_ready or since is None:
            return member
        left = self._node_patience - (self._time_of_facts() - since)
        if left <= timedelta():
            return member
        self._work.wake(key, left)
        return replace(member, node_ready=True)

    def _time_of_facts(self) -> datetime:
        """Now; while the mirror is cut off, the last moment that it shows: no deadline passes unseen."""
        return self._now() - timedelta(seconds=self._mirror.age_seconds())

    async def _sweep(self, key: Key) -> None:
        """Takes away the Pods of a Run that is gone; the API server is asked whether it really is."""
        (namespace, uid), name = key, self._orphans[key]
        try:
            found = await self._client.get(RUNS, name, namespace)
        except NotFound:
            found = None
        if found is None or found["metadata"]["uid"] != uid:
            log.info("Pods of run %s/%s are left though it is gone; they are deleted", namespace, name)
            await delete_members(self._client, namespace, uid, self._mirror.pods_of_run(uid))
        self._orphans.pop(key, None)
        self._forget(key)

    def _has_caught_up(self, run: RunObject, memory: Memory) -> bool:
        """Whether the mirror shows what this controller wrote last; deciding on older facts would do things twice."""
        if int(run.metadata.resource_version or 0) < memory.written_version:
            return False
        if memory.unseen_pods and memory.unseen_since and self._time_of_facts() - memory.unseen_since < UNSEEN_PATIENCE:
            return False
        memory.unseen_pods.clear()
        return True

    async def _doubt_what_was_written(self, run: RunObject, memory: Memory) -> None:
        """What is not seen for long may be lost: an API server that was given a backup's data knows nothing of it."""
        if memory.written_at is None or self._now() - memory.written_at < UNSEEN_PATIENCE:
            return
        found = await self._client.get(RUNS, run.metadata.name, run.metadata.namespace)
        if int(found["metadata"]["resourceVersion"]) < memory.written_version:
            memory.written_version = 0

    async def _admit(self, run: RunObject, status: RunStatus, memory: Memory) -> Admitted | None:
        """The run as policy has it now; None where policy refuses it and it was ended for that (rule 12).

        A run that is refused while an attempt of it is alive is left alone until that attempt is over.
        """
        policy_version = self._cluster.policy_version
        version = (run.metadata.uid, run.metadata.generation, self._cluster.version)
        try:
            if memory.decided is None or memory.decided_for != version:
                memory.decided = self._cluster.decide(run)
                memory.decided_for = version
        except InvalidInput as refused:
            waits = status.phase in (Phase.QUEUED, Phase.RESTARTING) or status.attempt is None
            waits = waits and not status.phase.is_final
            if waits and not run.metadata.deletion_timestamp:
                reasons = "; ".join(str(fault) for fault in refused.faults)
                await self._write(run, gang.refuse(status, reasons, run.metadata.generation, self._now()))
                return None
            return Admitted(*self._cluster.outline(run, status))
        spec, decision = memory.decided
        status = msgspec.structs.replace(status, findings=list(decision.findings))
        life = life_of(run, spec, decision, status)
        return Admitted(life, spec, decision, policy_version)

    async def _perform(
        self, key: Key, run: RunObject, admitted: Admitted, step: gang.Step, members: Sequence[gang.Member]
    ) -> None:
        """Writes the intent, then acts."""
        over = admitted.life.deleting or admitted.life.stopped or step.status.phase.is_final
        step = replace(step, status=await self._provisioning.settle(run, step.status, over=over))
        version = run.metadata.resource_version
        waits = any(isinstance(action, gang.NeedsNodes) for action in step.actions)
        if step.status != run.status and not (waits and run.status is None):  # its start, or why it waits, says it all
            if self._may_write(key, run.status, step.status):
                version = await self._write(run, step.status)
            else:
                self._work.wake(key, STATUS_INTERVAL)
        if step.wake_at is not None and not self._mirror.age_seconds():  # else it is looked at when all has caught up
            self._work.wake_at(key, step.wake_at)
        if not waits:
            self._queue.leave(key)
        if self._logs is not None and step.actions and not admitted.life.deleting:
            meta, rules = run.metadata, self._cluster.policy.logs
            alone = admitted.life.sweep is not None
            await self._logs.before(meta.namespace, meta.uid, step.actions, members, rules, of_sweep=alone)  # rule 11
        for action in step.actions:
            match action:
                case gang.NeedsNodes():
                    self._enqueue(key, run, admitted, step.status, action, version)
                case gang.CreateMembers(ranks):
                    await self._create(key, run, admitted, step.status, ranks, version)
                case gang.DeleteMembers():
                    await self._delete(run, action)
                case gang.DeleteMember():
                    await delete_member(self._client, run, action)
                case gang.Release():
                    await self._release(run)
        if not admitted.life.deleting:
            await self._budgets.keep(run, self._budget_of(run, admitted, step.status, members))

    async def _delete(self, run: RunObject, action: gang.DeleteMembers) -> None:
        uid = run.metadata.uid
        await delete_members(self._client, run.metadata.namespace, uid, self._mirror.pods_of_run(uid), action)

    def _budget_of(
        self, run: RunObject, admitted: Admitted, status: RunStatus, members: Sequence[gang.Member]
    ) -> dict[str, Any] | None:
        if not self._cluster.policy.disruption_budgets:
            return None
        return budget_spec(admitted.life.type, run.metadata.uid, status, members)

    def _may_write(self, key: Key, old: RunStatus | None, new: RunStatus) -> bool:
        """Turning points are written at once, counts at most once a second; so is that a run runs by now, where others
        wait for the API server to start or to end."""
        memory = self._memory[key]
        if old is None or memory.written_at is None:
            return True
        runs_now = (old.phase, new.phase) == (Phase.STARTING, Phase.RUNNING) and self._client.limiter.is_full
        if not runs_now and _turning_point(old) != _turning_point(new):
            return True
        return self._now() - memory.written_at >= STATUS_INTERVAL

    async def _write(
        self, run: RunObject, status: RunStatus, version: str = "", *, before: RunStatus | None = None
    ) -> str:
        """Stores the status by compare-and-swap, with an Event where it is a turn; answers the new resource version."""
        key = (run.metadata.namespace, run.metadata.name)
        version = await write_status(self._client, run, status, resource_version=version)
        memory = self._memory.setdefault(key, Memory())
        memory.written_version = int(version)
        memory.written_at = self._now()
        old = before or run.status or RunStatus(phase=Phase.QUEUED, queued_at="-")
        if (status.phase, status.reason) != (old.phase, old.reason) or run.status is None:
            warning = status.phase is Phase.FAILED or (status.interruptions, status.restarts) != (
                old.interruptions,
                old.restarts,
            )
            message = status.message or status.phase.value
            kind = "Warning" if warning else "Normal"
            self._events.say(_about(run), kind, status.reason.value or status.phase.value, message)
        return version

    async def _add_finalizer(self, run: RunObject) -> None:
        meta = run.metadata
        patch = {
            "metadata": {
                "finalizers": [*meta.finalizers, names.FINALIZER],
                "resourceVersion": meta.resource_version,
            }
        }
        await self._client.patch(RUNS, meta.name, patch, meta.namespace)

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

    def _forget(self, key: Key) -> None:
        self._memory.pop(key, None)
        self._work.forget(key)
        self._first_look.discard(key)
        self._queue.forget(key)
        self._replan = True

    # ------------------------------------------------------------------------------------------ planning

    def _enqueue(
        self, key: Key, run: RunObject, admitted: Admitted, status: RunStatus, needs: gang.NeedsNodes, version: str
    ) -> None:
        if admitted.decision is None:
            self._queue.leave(key)
            return  # refused; the next look ends it
        request = request_of(run, admitted.decision, needs, status)
        if self._queue.wait(Waiting(key, run, admitted, status, request, version)):
            self._replan = True
        if admitted.policy_version < self._cluster.policy_version:  # it changed while this run was looked at
            self._work.add(key)

    def _plan(self) -> None:
        """Looks at the whole queue if it is time to; else, where something has changed, at its heads alone. Each rests
        for a multiple of what it takes."""
        loop, retell = asyncio.get_running_loop(), self._retell_at is not None and self._now() >= self._retell_at
        if not len(self._queue) or self._first_look:
            return
        began = loop.time()
        if began >= self._plan_rests_until:
            if self._replan or self._replan_all or retell:
                self._replan = self._replan_all = False
                self._plan_all()
                self._plan_rests_until = loop.time() + REST * (loop.time() - began)
        elif self._replan and began >= self._heads_rest_until:
            self._replan, self._replan_all = False, True
            self._begin_all(self._queue.plan_heads(self._work.busy, self._time_of_facts()))
            self._heads_rest_until = loop.time() + REST * (loop.time() - began)

    def _begin_all(self, cycle: Cycle) -> None:
        """Starts what has its nodes."""
        taken = self._ports_in_use() if cycle.starts else set()
        for waiting, placement in cycle.starts:
            self._work.begin(waiting.key, partial(self._start, waiting, placement, taken))

    def _plan_all(self) -> None:
        """Starts what fits, and tells the others why they wait."""
        self._retell_at = None
        in_force = self._cluster.policy_version
        outdated = self._queue.decided_before(in_force)
        if outdated and in_force != self._asked_under:  # policy is asked for each attempt, and it is another one now
            self._asked_under = in_force
            self._work.add(*outdated)
        cycle = self._queue.plan(self._work.busy | outdated, self._time_of_facts())
        self._passed_over.update(cycle.busy)
        for key in cycle.doubtful:
            self._work.wake(key, DOUBT_PATIENCE)
        self._begin_all(cycle)
        for request in cycle.requests.requests:
            self._make_way(request)
        if cycle.requests.look_again_in_seconds < math.inf:
            self._plan_at(self._now() + timedelta(seconds=cycle.requests.look_again_in_seconds))
        if cycle.look_again_at is not None:
            self._plan_at(cycle.look_again_at)
        others_give_way = self._queue.giving_way.words_for
        asking = self._provisioning.plan(cycle, self._time_of_facts(), lambda key: ASKS in others_give_way(key))
        if asking.demand.look_again_at is not None:
            self._plan_at(asking.demand.look_again_at)
        if cycle.explainer is not None:
            for waiting, shortage in (each for each in cycle.waits if each[0].key not in self._work.busy):
                self._explain(waiting, shortage, cycle.explainer, asking)

    def _make_way(self, request: Request) -> None:
        """Has all of these give way; nobody for now if one of them is being worked on, and may be another soon."""
        keys = [key_of(victim.key) for victim in request.victims]
        waiting, runs = self._mirror.runs.get(key_of(request.key)), [self._mirror.runs.get(key) for key in keys]
        busy = self._work.busy & set(keys)
        if busy or waiting is None:
            self._passed_over.update(busy)
            return
        asked = self._queue.giving_way.intent(request, waiting, self._now())
        for key, run in zip(keys, runs, strict=True):
            if run is not None:
                self._queue.giving_way.note_asking(key, asked, run.metadata.resource_version)
                self._work.begin(key, partial(self._give_way, key, run, asked))

    async def _give_way(self, key: Key, run: RunObject, asked: GivesWay) -> None:
        """Writes that this run gives way; its life does the rest."""
        try:
            assert run.status is not None
            await self._write(run, gang.give_way(run.status, asked))
        except BaseException:
            self._queue.giving_way.note_failed(key)
            self._replan = True
            raise

    def _explain(self, waiting: Waiting, shortage: Shortage, explainer: Explainer, asking: Asking) -> None:
        """Tells a new reason at once, new words for the same reason only now and then."""
        told = waiting.status
        why = asking.reason_for(waiting) or explainer.reason(waiting.request, shortage)
        reason, request = gang.why_it_waits(told, why), asking.request_of(waiting)
        asks = self._queue.giving_way.words_for(waiting.request.key)
        is_told = gang.is_told(told, reason) and (ASKS in asks) == (ASKS in told.message)
        asked = request == told.node_request and not asking.lacks(waiting)
        if is_told and asked and not self._may_retell(waiting.key):
            return
        if len(self._being_told) >= TOLD_AT_ONCE:
            self._plan_at(self._now() + STATUS_INTERVAL)
            return
        explanation = explainer.explain(waiting.request, shortage)
        message = "; ".join(each for each in (asks, asking.words_for(waiting), explanation.message) if each)
        status = gang.keep_waiting(msgspec.structs.replace(told, node_request=request), why, message)
        if status != told or not asked:
            self._being_told.add(waiting.key)
            self._work.begin(waiting.key, partial(self._tell, waiting, status))

    def _may_retell(self, key: Key) -> bool:
        """Whether a waiting run's words may be renewed now; else they are looked at when the time has come."""
        memory = self._memory.setdefault(key, Memory())
        if memory.written_at is None:
            return True
        interval = max(WAITING_INTERVAL, timedelta(seconds=len(self._queue) / WAITING_WRITES_PER_SECOND))
        due = memory.written_at + interval
        if self._now() >= due:
            return True
        self._plan_at(due)
        return False

    def _plan_at(self, moment: datetime) -> None:
        """The queue is looked at again then, or earlier."""
        self._retell_at = min(moment, self._retell_at or moment)

    async def _tell(self, waiting: Waiting, status: RunStatus) -> None:
        try:
            await self._provisioning.tell(waiting, status, self._write)
        finally:
            self._being_told.discard(waiting.key)

    async def _start(self, waiting: Waiting, placement: Placement, taken: set[int]) -> None:
        """A new attempt: its placement and template are stored before its first Pod exists (rule 2)."""
        run, (spec, decision) = waiting.run, waiting.admitted.resolved()
        number = waiting.status.attempts + 1
        try:
            nodes, told, now = nodelist.compress(placement.nodes), waiting.status, self._now()
            template = self._provisioning.template_of(waiting, placement.nodes, decision.template)
            how: Any = {"launcher": manifests.launcher_of(spec), "bind_direct": decision.bind_direct}
            if spec.array is not None:
                status = gang.place_sweep(told, placement.ranks, nodes, template, now, **how)
            else:
                port = self._choose_port(run, number, taken)
                status = gang.place_on(told, placement.ranks, nodes, template, port, spec.replicas, now, **how)
            version = await self._write(run, status, waiting.version, before=waiting.status)
        except BaseException:
            self._queue.doubt(waiting.key, self._now())
            raise
        await self._create(waiting.key, run, waiting.admitted, status, placement.ranks, version)

    def _ports_in_use(self) -> set[int]:
        return {
            other.status.attempt.port
            for other in self._mirror.runs.values()
            if other.status and other.status.attempt and not other.status.phase.is_final
        }

    def _choose_port(self, run: RunObject, number: int, taken: set[int]) -> int:
        """One that nobody has; from now on it is taken."""
        ports = self._cluster.policy.rendezvous
        port = choose_port(run.metadata.uid, number, taken, ports.first_port, ports.last_port)
        taken.add(port)
        return port

    async def _create(
        self, key: Key, run: RunObject, admitted: Admitted, status: RunStatus, ranks: Sequence[int], version: str
    ) -> None:
        """The burst. What is refused for good takes the attempt down; else the attempt is marked as created."""
        attempt = status.attempt
        if attempt is None:
            return
        spec, decision = admitted.spec, admitted.decision
        try:
            if spec is None:
                raise StartRefused(Reason.ADMISSION, "its spec was edited meanwhile, and can't be read any more")
            await prepare(self._client, run, spec, decision.claim if decision else None)
            ticket_key = await key_of_tickets(self._client, attempt, self._namespace)
            created = await create_members(self._client, run, attempt, ranks, ticket_key=ticket_key)
        except StartRefused as refused:
            if admitted.life.sweep is not None:
                why, not_made = (refused.reason, refused.message), () if refused.begun else ranks
                paused = gang.sweep_refused(admitted.life, status, *why, not_made, self._now())
                await self._write(run, paused, version, before=status)
                return
            step = gang.failed_to_create(admitted.life, status, refused.reason, refused.message, self._now())
            await self._write(run, step.status, version, before=status)
            for action in step.actions:
                if isinstance(action, gang.DeleteMembers):
                    await self._delete(run, action)
            return
        memory = self._memory[key]
        memory.unseen_pods = {name for name in created if (key[0], name) not in self._mirror.pods}
        memory.unseen_since = self._now()
        whole = msgspec.structs.replace(status, attempt=msgspec.structs.replace(attempt, created=True))
        if len(created) < len(ranks):
            made = {names.pod_name(key[1], attempt.number, rank): rank for rank in ranks}
            whole = gang.made_in_part(whole, [rank for name, rank in made.items() if name not in created])
        await self._write(run, whole, version, before=status)


def _turning_point(status: RunStatus) -> tuple[object, ...]:
    attempt = status.attempt
    return (
        status.phase,
        status.reason,
        status.restarts,
        status.interruptions,
        attempt and (attempt.number, attempt.created, attempt.started_at),
        status.finished_at,
    )


def _about(run: RunObject) -> About:
    meta = run.metadata
    return About(names.KIND, meta.name, meta.uid, meta.namespace, names.API_VERSION)
