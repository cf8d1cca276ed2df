"""Runs the queue's cycles and carries them out: starts runs, preempts others, requests nodes, and writes why the other
runs wait."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

import msgspec

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.queue.pending import request_of
from kajitori.cluster.queue.preemptions import PREEMPTS, key_of
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.queue.growing import Growing, Growth
from kajitori.controllers.queue.provisioning import Ask, Provisioning
from kajitori.controllers.queue.queue import DOUBT_PATIENCE, Admitted, Cycle, Queue, QueueEntry
from kajitori.controllers.queue.start_slots import StartSlots
from kajitori.controllers.queue.starting import Starter
from kajitori.controllers.queue.takeover import Takeover
from kajitori.controllers.queue.trigger import CycleTrigger
from kajitori.controllers.runs.statuses import STATUS_INTERVAL, Statuses
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core import gang
from kajitori.core.formats.times import parse_time
from kajitori.core.placement.planner import Placement, Shortage
from kajitori.core.queue.explain import Explainer
from kajitori.core.queue.preemption import PreemptionRequest
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

WAITING_INTERVAL = timedelta(seconds=5)
"""How often the message of a waiting run is renewed while its reason stays the same."""

WAITING_WRITES_PER_SECOND = 10
"""Limit for such renewals, over all waiting runs together: in a long queue each message is renewed less often."""

FULL_REST, PARTIAL_REST = 9, 1
"""Pause after a full and after a partial cycle, as a multiple of the time that it took. Between full cycles, partial
cycles start what fits."""

FULL_REST_WHEN_BUSY, PARTIAL_REST_WHEN_BUSY = 19, 4
"""The same while writes wait for the API server: more cycles would start nothing sooner."""

MESSAGES_AT_ONCE = 32
"""Number of messages of waiting runs that are written at a time. It is small so that starts and ends of runs are
written first."""

MESSAGES_WHEN_BUSY = 4
"""The same while writes wait for the API server. `kaji explain` needs no message: it computes why a run waits."""


class Planning:
    """Decides when the queue is planned, and carries out each cycle."""

    def __init__(
        self,
        mirror: Mirror,
        cluster: ClusterView,
        work: WorkQueue,
        trigger: CycleTrigger,
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
        self._trigger = trigger
        self._statuses = statuses
        self._starter = starter
        self._provisioning = provisioning
        self._now = now
        self._queue = Queue(mirror, cluster, metrics)
        self._growing = Growing(cluster)
        self.takeover = Takeover()
        """Existing runs that this leader has to reconcile before it plans."""
        self._full_is_due = False
        """Whether a partial cycle ran since the last full one: a full one follows after its pause."""
        self._full_rests_until = 0.0
        self._partial_rests_until = 0.0
        self._start_slots = StartSlots(lambda: starter.at_a_time)
        self._writing_message: set[Key] = set()
        """Waiting runs with a write of their message under way."""
        self._outdated: set[Key] = set()
        """Waiting runs that policy has to decide about again before they start: policy or nodes have changed."""
        self._outdated_as_of = 0
        """The version of the cluster at the last search for outdated runs."""
        self._look_again_at: datetime | None = None
        """When the next full cycle is due although nothing changes."""

    # ------------------------------------------------------------------------------------------ waiting runs

    def close(self) -> None:
        """Stop following the mirror."""
        self._queue.close()

    def add(
        self, key: Key, run: RunObject, admitted: Admitted, status: RunStatus, needs: gang.NeedsNodes, version: str
    ) -> None:
        """Add a run that needs nodes; its `status` is stored under `version`."""
        self.takeover.note(key)
        if admitted.decision is None:
            self._queue.leave(key)
            return  # policy refuses it: its next reconciliation ends it
        request = request_of(run, admitted.decision, needs, status)
        if self._queue.wait(QueueEntry(run, request, admitted=admitted, status=status, version=version)):
            self._trigger.note_change()
        if admitted.is_outdated(self._cluster.policy_version, self._cluster.version):  # changed meanwhile
            self._outdated.add(key)
            self._work.add(key)
        else:
            self._outdated.discard(key)

    def leave(self, key: Key) -> None:
        """Remove a run that does not need nodes now."""
        self.takeover.note(key)
        self._outdated.discard(key)
        self._queue.leave(key)

    def forget(self, key: Key) -> None:
        """Remove a run that is deleted."""
        self.takeover.note(key)
        self._outdated.discard(key)
        self._queue.forget(key)
        self._trigger.note_change()

    def rest_seconds(self) -> float | None:
        """Return the time until the next cycle; None if neither a change nor time alone makes one due."""
        if first := self.takeover.seconds_left():
            return first
        if not len(self._queue):
            return None
        time = asyncio.get_running_loop().time()
        until_full = self._full_rests_until - time
        if self._trigger.is_set:
            return min(until_full, self._partial_rests_until - time)
        if self._full_is_due:
            return until_full
        if self._look_again_at is None:
            return None
        return max(until_full, (self._look_again_at - self._now()).total_seconds())

    # ------------------------------------------------------------------------------------------ planning

    def plan(self) -> None:
        """Run a full cycle if one is due and its pause is over; else a partial one if something has changed."""
        self._plan_if_due()
        self._metrics.waiting_runs.set(len(self._queue))

    def _plan_if_due(self) -> None:
        if not len(self._queue) or self.takeover.seconds_left():
            return
        began = asyncio.get_running_loop().time()
        if began >= self._full_rests_until and self._needs_full_cycle():
            self._trigger.clear()
            self._full_is_due = False
            with self._metrics.step("full"):
                self._plan_all()
            self._full_rests_until = self._end_of_pause(began, FULL_REST, FULL_REST_WHEN_BUSY)
        elif self._trigger.is_set and began >= self._partial_rests_until:
            self._trigger.clear()
            self._full_is_due = True
            self._look_for_outdated()
            busy = self._work.busy | self._outdated
            with self._metrics.step("partial"):
                self._begin_all(self._queue.plan_partially(busy, self._time_of_facts(), self._start_slots.left))
            self._partial_rests_until = self._end_of_pause(began, PARTIAL_REST, PARTIAL_REST_WHEN_BUSY)

    def _needs_full_cycle(self) -> bool:
        again = self._look_again_at
        return self._trigger.is_set or self._full_is_due or (again is not None and self._now() >= again)

    def _end_of_pause(self, began: float, rest: int, rest_when_busy: int) -> float:
        """Return when to run the next cycle of a kind at the earliest, after one of this kind that began at `began`."""
        ended = asyncio.get_running_loop().time()
        return ended + (rest_when_busy if self._statuses.are_held_up else rest) * (ended - began)

    def _plan_all(self) -> None:
        """Run a full cycle and act on it."""
        # 1. Decide.
        self._look_again_at = None
        self._look_for_outdated()
        cycle = self._queue.plan(self._work.busy | self._outdated, self._time_of_facts(), self._start_slots.left)
        self._trigger.pass_over(cycle.busy)
        for key in cycle.doubtful:
            self._work.wake(key, DOUBT_PATIENCE)
            self._plan_at(self._now() + DOUBT_PATIENCE)
        if cycle.look_again_at is not None:
            self._plan_at(cycle.look_again_at)

        # 2. Start runs, and preempt others.
        self._begin_all(cycle)
        self._preempt_all(cycle.preemptions.requests)
        if cycle.preemptions.look_again_in_seconds < math.inf:
            self._plan_at(self._now() + timedelta(seconds=cycle.preemptions.look_again_in_seconds))

        # 3. Decide which runs ask an autoscaler for nodes.
        preempting = self._describe_preemptions(cycle)
        freed_for = [key for key, text in preempting.items() if PREEMPTS in text]
        with self._metrics.step("provision"):
            asks = self._provisioning.plan(cycle, self._time_of_facts(), freed_for)
        if asks.look_again_at is not None:
            self._plan_at(asks.look_again_at)

        # 4. Write why the other runs wait, and their requests for nodes.
        if cycle.explainer is not None:
            with self._metrics.step("explain"):
                for waiting, shortage in (pair for pair in cycle.waits if pair[0].key not in self._work.busy):
                    name = waiting.request.key
                    self._write_reason(waiting, shortage, cycle.explainer, preempting.get(name, ""), asks.of(name))

    def _look_for_outdated(self) -> None:
        """Queue the runs for another decision if policy or nodes have changed since the last one."""
        version = self._cluster.version
        if version == self._outdated_as_of:
            return
        self._outdated_as_of = version
        self._outdated = self._queue.decided_before(self._cluster.policy_version, version)
        if self._outdated:
            self._work.add(*self._outdated)

    def _describe_preemptions(self, cycle: Cycle) -> dict[str, str]:
        """Return, by key, a text for each waiting run about the runs that were preempted for it."""
        preemptions = self._queue.preemptions
        if not preemptions.are_any:
            return {}
        keys = (entry.request.key for entry, _ in cycle.waits)
        return {key: text for key in keys if (text := preemptions.describe(key))}

    def _plan_at(self, moment: datetime) -> None:
        """Run a full cycle at this time at the latest."""
        self._look_again_at = min(moment, self._look_again_at or moment)

    def _time_of_facts(self) -> datetime:
        """Return the latest moment that the mirror shows."""
        return self._mirror.shown_until(self._now())

    # ------------------------------------------------------------------------------------------ starts

    def _begin_all(self, cycle: Cycle) -> None:
        """Start the runs that have their nodes."""
        self._start_slots.hold_back(cycle.held_back)
        taken = self._starter.ports_in_use() if cycle.starts else set()
        for waiting, placement in cycle.starts:
            self._start_slots.begin(waiting.key, waiting.request.priority)
            self._work.begin(waiting.key, partial(self._start_run, waiting, placement, taken))

    async def _start_run(self, waiting: QueueEntry, placement: Placement, taken: set[int]) -> None:
        """Store the placement of a new attempt and create its Pods."""
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

    def _note_nodes_given(self, waiting: QueueEntry) -> None:
        self._metrics.attempts.inc()
        before, queued_at = waiting.status, parse_time(waiting.status.queued_at)
        if queued_at is not None and not before.started_at and not before.failed_starts:
            self._metrics.queue_wait_seconds.observe(max(0.0, (self._now() - queued_at).total_seconds()))

    def _note_begun(self, key: Key) -> None:
        """Free the run's start slot; plan again if a run waits for it."""
        if self._start_slots.end(key):
            self._trigger.note_change()

    # ------------------------------------------------------------------------------------------ preemption

    def _preempt_all(self, requests: Iterable[PreemptionRequest]) -> None:
        """Preempt the victims of each request. A request is put off if the controller is working on one of its victims,
        which may change it. If members of a sweep are preempted for several runs, the sweep is written once."""
        preempted: dict[Key, tuple[RunObject, Preempted]] = {}
        for request in requests:
            waiting = self._mirror.runs.get(key_of(request.key))
            busy = self._work.busy & {key_of(victim.key) for victim in request.victims}
            if busy or waiting is None:
                self._trigger.pass_over(busy)
                continue
            for key, status in self._queue.preemptions.statuses_for(request, waiting, self._now()).items():
                run = self._mirror.runs.get(key)
                if run is not None:
                    self._queue.preemptions.note_preempting(key, status)
                    preempted[key] = run, status
        for key, (run, status) in preempted.items():
            self._work.begin(key, partial(self._write_preemption, key, run, status))

    async def _write_preemption(self, key: Key, run: RunObject, preemption: Preempted) -> None:
        """Write that this run is preempted; its state machine acts on it."""
        try:
            await self._statuses.write(run, gang.preempt(self._statuses.current_status(run), preemption))
        except BaseException:
            self._queue.preemptions.note_failed(key)
            self._trigger.note_change()
            raise

    # ------------------------------------------------------------------------------------------ growth

    async def grow_forever(self) -> None:
        """Let elastic gangs grow after there has been room for them for long enough, until cancelled."""
        while True:
            await asyncio.sleep(self._growing.pause_seconds)
            if self._mirror.age_seconds():
                continue  # the mirror is behind: nodes that look free may be taken
            try:
                self.grow()
            except Exception:
                log.exception("could not look for room for elastic gangs; tried again")

    def grow(self) -> None:
        """Let elastic gangs grow into nodes that no other run could use."""
        if self.takeover.seconds_left():
            return
        for growth in self._queue.growing(self._growing, self._work.busy, self._time_of_facts()):
            self._work.begin(growth.key, partial(self._write_growth, growth))

    async def _write_growth(self, growth: Growth) -> None:
        """Write that this gang grows; its state machine acts on it."""
        try:
            if not await self._starter.grow(growth):
                self._queue.take_back(growth.key)
                self._trigger.note_change()
                self._growing.put_off(growth.key)
        except BaseException:
            self._queue.doubt(growth.key, self._now())
            raise

    # ------------------------------------------------------------------------------------------ messages

    def _write_reason(
        self, waiting: QueueEntry, shortage: Shortage, explainer: Explainer, preempting: str, ask: Ask
    ) -> None:
        """Write why a run waits: a new reason at once, a new message for the same reason at intervals.

        preempting: the text about the runs that were preempted for it.
        """
        present = waiting.status
        why = ask.reason or explainer.reason(waiting.request, shortage)
        is_same_reason = gang.already_says(present, gang.waiting_reason(present, why))
        is_same_reason = is_same_reason and (PREEMPTS in preempting) == (PREEMPTS in present.message)
        if is_same_reason and ask.is_done and not self._may_renew_message(waiting.key):
            return
        if len(self._writing_message) >= (MESSAGES_WHEN_BUSY if self._statuses.are_held_up else MESSAGES_AT_ONCE):
            self._plan_at(self._now() + STATUS_INTERVAL)
            return
        explanation = explainer.explain(waiting.request, shortage)
        message = "; ".join(text for text in (preempting, ask.words, explanation.message) if text)
        status = gang.keep_waiting(msgspec.structs.replace(present, node_request=ask.request), why, message)
        if status != present or not ask.is_done:
            self._writing_message.add(waiting.key)
            self._work.begin(waiting.key, partial(self._write_message, waiting, status))

    def _may_renew_message(self, key: Key) -> bool:
        """Whether a waiting run's message may be renewed now; else plan a cycle for when it may."""
        written_at = self._statuses.written_at(key)
        if written_at is None:
            return True
        due = written_at + max(WAITING_INTERVAL, timedelta(seconds=len(self._queue) / WAITING_WRITES_PER_SECOND))
        if self._now() >= due:
            return True
        self._plan_at(due)
        return False

    async def _write_message(self, waiting: QueueEntry, status: RunStatus) -> None:
        """Write why a run waits. Node requests that the status no longer names are withdrawn before the write; new ones
        are made after it."""
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
            self._writing_message.discard(waiting.key)
