"""Plans all that wait as one queue: starts what fits, has others give way, asks for nodes, says why the rest waits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

import msgspec

from kajitori.cluster.applicants import request_of
from kajitori.cluster.preemptions import ASKS, key_of
from kajitori.cluster.view import ClusterView
from kajitori.controllers.queue.controller import DOUBT_PATIENCE, Admitted, Cycle, Queue, Waiting
from kajitori.controllers.queue.growing import Growing, Grows
from kajitori.controllers.queue.provisioning import Ask, Provisioning
from kajitori.controllers.runs.start_slots import Turns
from kajitori.controllers.runs.starting import Starter
from kajitori.controllers.runs.statuses import STATUS_INTERVAL, Statuses
from kajitori.controllers.runs.takeover import FirstLook
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core import gang
from kajitori.core.placement.planner import Placement, Shortage
from kajitori.core.queue.explain import Explainer
from kajitori.core.queue.preemption_cycle import Request
from kajitori.core.spec.status import Preempted, RunStatus
from kajitori.core.words.times import parse_time
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import RunObject
from kajitori.monitoring.controller import ControllerMetrics

WAITING_INTERVAL = timedelta(seconds=5)
"""How often the words of a waiting run are renewed while its reason stays the same."""

WAITING_WRITES_PER_SECOND = 10
"""Of all waiting runs together, for such words: where many wait, each is renewed less often."""

REST_OF_WHOLE, REST_OF_HEADS = 9, 1
"""A look at the whole queue rests for this many times as long as it took: its heads, looked at between, are enough to
start what fits. The same of its heads alone."""

REST_OF_WHOLE_WHEN_BUSY, REST_OF_HEADS_WHEN_BUSY = 19, 4
"""The same while writes wait for the API server: to look more often starts nothing sooner."""

TOLD_AT_ONCE = 32
"""Waiting runs that are being told why, at a time: where many wait, what starts and what ends goes before words."""

TOLD_WHEN_BUSY = 4
"""The same while writes wait for the API server. `kaji explain` works out by itself why a run waits."""


class Planning:
    """The runs that wait, and when they are looked at again."""

    def __init__(
        self,
        mirror: Mirror,
        cluster: ClusterView,
        work: WorkQueue,
        statuses: Statuses,
        starter: Starter,
        provisioning: Provisioning,
        now: Callable[[], datetime],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._metrics = metrics = metrics or ControllerMetrics.unread()
        self._mirror = mirror
        self._cluster = cluster
        self._work = work
        self._statuses = statuses
        self._starter = starter
        self._provisioning = provisioning
        self._now = now
        self._queue = Queue(mirror, cluster, metrics)
        self.growing = Growing(cluster)
        self.first_look = FirstLook()
        self._changed = False
        """Something changed that may let a run start."""
        self._only_heads_seen = False
        """The whole queue is to be looked at again, as soon as that has rested."""
        self._rests_until = 0.0
        self._heads_rest_until = 0.0
        self._passed_over: set[Key] = set()
        """Runs that were being worked on when they might have been started, or asked to give way."""
        self._turns = Turns(lambda: starter.at_a_time)
        self._being_told: set[Key] = set()
        self._outdated: set[Key] = set()
        """Runs that wait and have to be decided about again before they start: policy or nodes have changed."""
        self._outdated_as_of = 0
        """The version of the cluster that these were looked for with."""
        self._look_again_at: datetime | None = None
        """When the queue is looked at again though nothing changes."""

    # ------------------------------------------------------------------------------------------ who waits

    def add(
        self, key: Key, run: RunObject, admitted: Admitted, status: RunStatus, needs: gang.NeedsNodes, version: str
    ) -> None:
        """The run needs nodes; `status` is stored under `version`."""
        self.first_look.note(key)
        if admitted.decision is None:
            self._queue.leave(key)
            return  # refused; the next look ends it
        request = request_of(run, admitted.decision, needs, status)
        if self._queue.wait(Waiting(key, run, admitted, status, request, version)):
            self._changed = True
        if admitted.is_outdated(self._cluster.policy_version, self._cluster.version):  # changed while it was looked at
            self._outdated.add(key)
            self._work.add(key)
        else:
            self._outdated.discard(key)

    def leave(self, key: Key) -> None:
        """The run does not need nodes now."""
        self.first_look.note(key)
        self._outdated.discard(key)
        self._queue.leave(key)

    def forget(self, key: Key) -> None:
        """The run is gone."""
        self.first_look.note(key)
        self._outdated.discard(key)
        self._queue.forget(key)
        self._changed = True

    def note_change(self) -> None:
        """Something changed that may let a run start."""
        self._changed = True

    def note_done(self, key: Key) -> None:
        """This run is not being worked on any more."""
        if key in self._passed_over:
            self._passed_over.discard(key)
            self._changed = True

    def rest_seconds(self) -> float | None:
        """How long until it is time to plan: what changed, or what time alone changes; None where neither is."""
        if first := self.first_look.seconds_left():
            return first
        if not len(self._queue):
            return None
        time = asyncio.get_running_loop().time()
        whole = self._rests_until - time
        if self._changed:
            return min(whole, self._heads_rest_until - time)
        if self._only_heads_seen:
            return whole
        if self._look_again_at is None:
            return None
        return max(whole, (self._look_again_at - self._now()).total_seconds())

    # ------------------------------------------------------------------------------------------ planning

    def plan(self) -> None:
        """Looks at the whole queue if it is time to; else, where something has changed, at its heads alone. Each rests
        for a multiple of what it takes."""
        self._plan_if_due()
        self._metrics.waiting_runs.set(len(self._queue))

    def _plan_if_due(self) -> None:
        if not len(self._queue) or self.first_look.seconds_left():
            return
        loop, again = asyncio.get_running_loop(), self._look_again_at
        began, is_due = loop.time(), again is not None and self._now() >= again
        if began >= self._rests_until:
            if self._changed or self._only_heads_seen or is_due:
                self._changed = self._only_heads_seen = False
                with self._metrics.step("whole"):
                    self._plan_all()
                rest = REST_OF_WHOLE_WHEN_BUSY if self._statuses.are_held_up else REST_OF_WHOLE
                self._rests_until = loop.time() + rest * (loop.time() - began)
        elif self._changed and began >= self._heads_rest_until:
            self._changed, self._only_heads_seen = False, True
            self._look_for_outdated()
            busy = self._work.busy | self._outdated
            with self._metrics.step("heads"):
                self._begin_all(self._queue.plan_heads(busy, self._time_of_facts(), self._turns.left))
            rest = REST_OF_HEADS_WHEN_BUSY if self._statuses.are_held_up else REST_OF_HEADS
            self._heads_rest_until = loop.time() + rest * (loop.time() - began)

    def _plan_all(self) -> None:
        """Starts what fits, and tells the others why they wait."""
        self._look_again_at = None
        self._look_for_outdated()
        cycle = self._queue.plan(self._work.busy | self._outdated, self._time_of_facts(), self._turns.left)
        self._passed_over.update(cycle.busy)
        for key in cycle.doubtful:
            self._work.wake(key, DOUBT_PATIENCE)
        self._begin_all(cycle)
        self._make_way(cycle.requests.requests)
        if cycle.requests.look_again_in_seconds < math.inf:
            self._plan_at(self._now() + timedelta(seconds=cycle.requests.look_again_in_seconds))
        if cycle.look_again_at is not None:
            self._plan_at(cycle.look_again_at)
        freed = self._freed(cycle)
        freed_for = [key for key, words in freed.items() if ASKS in words]
        with self._metrics.step("provision"):
            asking = self._provisioning.plan(cycle, self._time_of_facts(), freed_for)
        if asking.look_again_at is not None:
            self._plan_at(asking.look_again_at)
        if cycle.explainer is not None:
            with self._metrics.step("explain"):
                for waiting, shortage in (each for each in cycle.waits if each[0].key not in self._work.busy):
                    name = waiting.request.key
                    self._explain(waiting, shortage, cycle.explainer, freed.get(name, ""), asking.of(name))

    def _look_for_outdated(self) -> None:
        """Queue those runs for another decision whose policy or nodes have changed since the last one."""
        version = self._cluster.version
        if version == self._outdated_as_of:
            return
        self._outdated_as_of = version
        self._outdated = self._queue.decided_before(self._cluster.policy_version, version)
        if self._outdated:
            self._work.add(*self._outdated)

    def _freed(self, cycle: Cycle) -> dict[str, str]:
        """By the gang's key: who gives way to those that wait, in words."""
        if not self._queue.preemptions.is_asked:
            return {}
        keys = (waiting.request.key for waiting, _ in cycle.waits)
        return {key: words for key in keys if (words := self._queue.preemptions.words_for(key))}

    def _plan_at(self, moment: datetime) -> None:
        """The queue is looked at again then, or earlier."""
        self._look_again_at = min(moment, self._look_again_at or moment)

    def _time_of_facts(self) -> datetime:
        return self._mirror.shown_until(self._now())

    # ------------------------------------------------------------------------------------------ who starts

    def _begin_all(self, cycle: Cycle) -> None:
        """Starts what has its nodes."""
        self._turns.hold_back(cycle.held_back)
        taken = self._starter.ports_in_use() if cycle.starts else set()
        for waiting, placement in cycle.starts:
            self._turns.begin(waiting.key, waiting.request.priority)
            self._work.begin(waiting.key, partial(self._start, waiting, placement, taken))

    async def _start(self, waiting: Waiting, placement: Placement, taken: set[int]) -> None:
        """A new attempt."""
        try:
            try:
                status, version = await self._starter.place(waiting, placement, taken)
            except BaseException:
                self._queue.doubt(waiting.key, self._now())
                raise
            self._note_nodes_given(waiting)
            ranks = list(gang.node_by_rank(status.attempt)) if status.attempt is not None else ()
            await self._starter.create(waiting.run, waiting.admitted, status, ranks, version)
        finally:
            self._note_begun(waiting.key)

    def _note_nodes_given(self, waiting: Waiting) -> None:
        self._metrics.attempts.inc()
        before, queued_at = waiting.status, parse_time(waiting.status.queued_at)
        if queued_at is not None and not before.started_at and not before.failed_starts:
            self._metrics.queue_wait_seconds.observe(max(0.0, (self._now() - queued_at).total_seconds()))

    def _note_begun(self, key: Key) -> None:
        """Another may begin."""
        if self._turns.end(key):
            self._changed = True

    # ------------------------------------------------------------------------------------------ who gives way

    def _make_way(self, requests: Iterable[Request]) -> None:
        """Has others give way, to each all that it asks; nobody for now if one of these is being worked on, and may be
        another soon. A sweep of which several ask members is told of all at once."""
        told: dict[Key, tuple[RunObject, Preempted]] = {}
        for request in requests:
            waiting = self._mirror.runs.get(key_of(request.key))
            busy = self._work.busy & {key_of(victim.key) for victim in request.victims}
            if busy or waiting is None:
                self._passed_over.update(busy)
                continue
            for key, asked in self._queue.preemptions.intents(request, waiting, self._now()).items():
                run = self._mirror.runs.get(key)
                if run is not None:
                    self._queue.preemptions.note_preempting(key, asked)
                    told[key] = run, asked
        for key, (run, asked) in told.items():
            self._work.begin(key, partial(self._preempt, key, run, asked))

    async def _preempt(self, key: Key, run: RunObject, asked: Preempted) -> None:
        """Writes that this run gives way; its life does the rest."""
        try:
            await self._statuses.write(run, gang.preempt(self._statuses.standing(run), asked))
        except BaseException:
            self._queue.preemptions.note_failed(key)
            self._changed = True
            raise

    # ------------------------------------------------------------------------------------------ who grows

    def grow(self) -> None:
        """Has elastic gangs go on with more members, into room that is nobody else's."""
        if self.first_look.seconds_left():
            return
        for grows in self._queue.growing(self.growing, self._work.busy, self._time_of_facts()):
            self._work.begin(grows.key, partial(self._grow, grows))

    async def _grow(self, grows: Grows) -> None:
        """Writes that this gang grows; its life does the rest."""
        try:
            if not await self._starter.grow(grows):
                self._queue.take_back(grows.key)
                self.note_change()
                self.growing.put_off(grows.key)
        except BaseException:
            self._queue.doubt(grows.key, self._now())
            raise

    # ------------------------------------------------------------------------------------------ why the others wait

    def _explain(self, waiting: Waiting, shortage: Shortage, explainer: Explainer, freed: str, ask: Ask) -> None:
        """Tells a new reason at once, new words for the same reason only now and then. freed: who gives way to it."""
        told = waiting.status
        why = ask.reason or explainer.reason(waiting.request, shortage)
        is_told = gang.already_says(told, gang.waiting_reason(told, why)) and (ASKS in freed) == (ASKS in told.message)
        if is_told and ask.is_done and not self._may_retell(waiting.key):
            return
        if len(self._being_told) >= (TOLD_WHEN_BUSY if self._statuses.are_held_up else TOLD_AT_ONCE):
            self._plan_at(self._now() + STATUS_INTERVAL)
            return
        explanation = explainer.explain(waiting.request, shortage)
        message = "; ".join(each for each in (freed, ask.words, explanation.message) if each)
        status = gang.keep_waiting(msgspec.structs.replace(told, node_request=ask.request), why, message)
        if status != told or not ask.is_done:
            self._being_told.add(waiting.key)
            self._work.begin(waiting.key, partial(self._tell, waiting, status))

    def _may_retell(self, key: Key) -> bool:
        """Whether a waiting run's words may be renewed now; else they are looked at when the time has come."""
        written_at = self._statuses.written_at(key)
        if written_at is None:
            return True
        due = written_at + max(WAITING_INTERVAL, timedelta(seconds=len(self._queue) / WAITING_WRITES_PER_SECOND))
        if self._now() >= due:
            return True
        self._plan_at(due)
        return False

    async def _tell(self, waiting: Waiting, status: RunStatus) -> None:
        """Writes why a run waits. What it does not ask for any more is taken back before, what it asks for from now on
        is made after that."""
        run, version, request = waiting.run, waiting.version, status.node_request
        try:
            await self._provisioning.keep_only(run, request)
            if status != waiting.status:
                version = await self._statuses.write(run, status, version, before=waiting.status)
            made = await self._provisioning.make(waiting, request)
            if made != request:
                failed = msgspec.structs.replace(status, node_request=made)
                await self._statuses.write(run, failed, version, before=status)
        finally:
            self._being_told.discard(waiting.key)
