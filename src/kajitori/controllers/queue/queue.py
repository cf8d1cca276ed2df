"""The runs that wait for nodes, planned as one queue: the shell around the pure cycle of `core.queue.cycle`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache

import numpy as np

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.queue.outlook import Outlook, PendingRun
from kajitori.cluster.queue.preemptions import Preemptions, key_of
from kajitori.cluster.view import ClusterView
from kajitori.controllers.queue.growing import Growing, Growth
from kajitori.controllers.queue.shapes import QueueByShape
from kajitori.controllers.workqueue import Key
from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.formats import node_lists
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, Shortage, occupy
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.backfill.schedule import schedule
from kajitori.core.queue.cycle import ClusterState, CyclePlan, place_promised, run_cycle
from kajitori.core.queue.explain import Explainer
from kajitori.core.queue.preemption import PreemptionPlan
from kajitori.core.queue.waiting import WaitingRun
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.errors import Fault, Refused
from kajitori.monitoring.controller import ControllerMetrics

RUNS_PER_SHAPE = 32
"""Number of runs of each shape that a partial cycle looks at."""

DOUBT_PATIENCE = timedelta(seconds=10)
"""How long a failed write may take to appear in the mirror after all."""

SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(seconds=30)
"""Limits of the time between two full cycles while reservations exist and nothing but time changes."""

FreeSlots = Callable[[int], int]
"""Returns how many more attempts of this priority, or of higher ones, may begin now."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A run with policy's decision about it; without a decision if policy refuses it now but its attempt runs on."""

    life: gang.Run
    spec: RunSpec | None = None
    """None only if the run is refused because its spec cannot be read."""
    decision: Decision | None = None
    policy_version: int = 0
    """Version of the policy that decided."""
    cluster_version: int = 0
    """Version of the nodes that the decision was made with."""

    def is_outdated(self, policy_version: int, cluster_version: int) -> bool:
        """Whether policy may decide differently now. The request of a run of whole nodes depends on the nodes, too."""
        if self.policy_version < policy_version:
            return True
        has_whole_nodes = self.spec is not None and self.spec.resources.whole_node
        return has_whole_nodes and self.cluster_version < cluster_version

    def resolved(self) -> tuple[RunSpec, Decision]:
        """Return spec and decision. Raises Refused if policy refuses the run: nothing new may start for it."""
        if self.spec is None or self.decision is None:
            raise Refused([Fault("spec", "policy refuses this run now; no further member of it is started")])
        return self.spec, self.decision


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry(PendingRun):
    """A run of the controller's queue, with what is needed to start it."""

    admitted: Admitted
    status: RunStatus
    version: str
    """The resource version that `status` was stored under."""


@dataclass(frozen=True, slots=True)
class UnseenAttempt:
    """A planned attempt that the mirror does not show yet."""

    member: MemberRequest
    nodes: tuple[str, ...]
    version: str
    """The Run's resource version before."""
    ends_at: float = math.inf
    """Expected end, in seconds since 1970."""
    doubtful_since: datetime | None = None
    """Time at which its write failed. It may have been stored nevertheless."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The decisions of one cycle, as the controller acts on them."""

    starts: tuple[tuple[QueueEntry, Placement], ...] = ()
    waits: tuple[tuple[QueueEntry, Shortage], ...] = ()
    plan: CyclePlan | None = None
    """The decision over the whole queue; None if no run waits, and for a partial cycle."""
    explainer: Explainer | None = None
    """Says why runs wait; present with `plan`."""
    doubtful: tuple[Key, ...] = ()
    """Runs that were left out because it is unknown whether they have their nodes already."""
    busy: tuple[Key, ...] = ()
    """Runs that were not started because the controller is working on them, or has to work on them first. They keep
    their places: no other run starts on the nodes that they would have got."""
    look_again_at: datetime | None = None
    """When time alone may change the decision."""
    held_back: int | None = None
    """Priority of the first run that fits but has to wait for a free start slot."""

    @property
    def preemptions(self) -> PreemptionPlan:
        """The preemptions of this cycle."""
        return self.plan.preemptions if self.plan is not None else PreemptionPlan()


def _look_again_at(plan: CyclePlan, now: datetime) -> datetime | None:
    """Return when to plan again. While there are reservations time alone changes what may start: the order depends on
    it, and runs may not have ended when expected."""
    if not plan.schedule.reservations:
        return None
    soonest = min(reservation.starts_at for reservation in plan.schedule.reservations) - now.timestamp()
    return now + min(max(timedelta(seconds=soonest), SHORTEST_PAUSE), LONGEST_PAUSE)


def _within_slots(
    placements: Sequence[Placement],
    priority_of: Callable[[Placement], int],
    free_slots: FreeSlots | None,
    promised: Sequence[Placement] = (),
) -> tuple[list[Placement], int | None]:
    """Return the placements that may begin now, in order, and the priority of the first that has no start slot.

    `promised` placements begin in any case, and take slots first.
    """
    begin = list(promised)
    for placement in placements:
        priority = priority_of(placement)
        if free_slots is not None and len(begin) >= free_slots(priority):
            return begin, priority
        begin.append(placement)
    return begin, None


def _with_request(run: WaitingRun, request: GangRequest) -> WaitingRun:
    """Return the run with its own request, or with the request that keeps it off some nodes."""
    return run if run.gang is request else replace(run, gang=request)


class Queue:
    """The waiting runs, and the nodes of attempts that the mirror does not show yet."""

    def __init__(self, mirror: Mirror, cluster: ClusterView, metrics: ControllerMetrics | None = None) -> None:
        self._metrics = metrics or ControllerMetrics.unread()
        self._mirror = mirror
        self._cluster = cluster
        self._outlook = Outlook(mirror, cluster)
        self.preemptions = Preemptions(mirror, cluster, self._outlook)
        self._waiting: dict[Key, QueueEntry] = {}
        self._unseen: dict[Key, UnseenAttempt] = {}
        self._by_shape = QueueByShape()
        self._returning: set[Key] = set()
        """Waiting elastic gangs between two attempts: nodes are kept for them."""

    def close(self) -> None:
        """Stop following the mirror."""
        self._outlook.close()
        self.preemptions.close()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, entry: QueueEntry) -> bool:
        """Add a run that needs nodes, or replace it; return whether it is new or asks for something else."""
        before = self._waiting.get(entry.key)
        self._waiting[entry.key] = entry
        if entry.status.resize is not None:
            self._returning.add(entry.key)
        else:
            self._returning.discard(entry.key)
        if before is not None and before.request == entry.request:
            self._waiting[entry.key] = replace(entry, request=before.request)
            return False
        self._by_shape.add(self._outlook.waiting_run(entry))
        return True

    def leave(self, key: Key) -> None:
        """Remove a run that does not need nodes now."""
        self._waiting.pop(key, None)
        self._returning.discard(key)

    def doubt(self, key: Key, now: datetime) -> None:
        """Note that the write of a placement failed. Its nodes stay taken until it is clear whether it was stored."""
        if key in self._unseen:
            self._unseen[key] = replace(self._unseen[key], doubtful_since=now)

    def take_back(self, key: Key) -> None:
        """Free the nodes that were given to a run that cannot use them."""
        self._unseen.pop(key, None)

    def forget(self, key: Key) -> None:
        """Remove a run that is deleted."""
        self.leave(key)
        self._unseen.pop(key, None)

    def decided_before(self, policy_version: int, cluster_version: int) -> set[Key]:
        """Return the waiting runs with a decision older than this policy, or than these nodes if it depends on them."""
        return {
            key for key, entry in self._waiting.items() if entry.admitted.is_outdated(policy_version, cluster_version)
        }

    # ------------------------------------------------------------------------------------------ cycles

    def plan(self, busy: Collection[Key], now: datetime, free_slots: FreeSlots | None = None) -> Cycle:
        """Run a full cycle: plan all waiting runs in order. Runs that the controller is working on (`busy`) do not
        start.

        No more runs start than there are free slots, apart from runs with promised nodes. The others keep waiting
        without a new reason, and the next cycle looks at them again.
        """
        # 1. Leave out runs that may have their nodes already.
        self._forget_shown(now)
        doubtful = tuple(key for key in self._waiting if key in self._unseen)
        passed_over = tuple(key for key in self._waiting if key in busy)
        entries = {entry.request.key: entry for key, entry in self._waiting.items() if key not in self._unseen}
        if not entries:
            return Cycle(doubtful=doubtful, busy=passed_over)

        # 2. Decide over the whole queue. Gangs are kept off nodes that an autoscaler made for other runs.
        barred = self._cluster.barred()
        pending = [PendingRun(entry.run, barred(entry.request)) for entry in entries.values()]
        queue = self._outlook.waiting_runs(pending, now)
        policy, at = self._cluster.policy, now.timestamp()
        plan = run_cycle(self._cluster_state(now), queue, policy, at, step=self._metrics.step)
        self._by_shape.replace([_with_request(run, entries[run.key].request) for run in plan.queue])

        # 3. Start as many of the placed runs as there are free slots.
        def not_busy(placements: Iterable[Placement]) -> list[Placement]:
            return [placement for placement in placements if entries[placement.key].key not in busy]

        begin, held_back = _within_slots(
            not_busy(plan.schedule.placements),
            lambda placement: entries[placement.key].request.priority,
            free_slots,
            not_busy(plan.promised.placements),
        )
        ends_at = {run.key: at + run.expected_seconds for run in queue} if begin else {}
        starts = tuple(
            self._record_start(entries[placement.key], placement, ends_at[placement.key]) for placement in begin
        )

        # 4. The others wait.
        waits = tuple(
            (entries[shortage.key], shortage) for shortage in plan.shortages if entries[shortage.key].key not in busy
        )
        explainer = Explainer(plan.snapshot, self._cluster.uses)
        again = _look_again_at(plan, now)
        return Cycle(starts, waits, plan, explainer, doubtful, passed_over, again, held_back)

    def plan_partially(self, busy: Collection[Key], now: datetime, free_slots: FreeSlots | None = None) -> Cycle:
        """Run a partial cycle: start those of the first runs of each shape that fit, which is quick in a long queue.

        Nothing starts while nodes are promised to some run: only a full cycle knows which.
        """
        if self.preemptions.are_any or self._returning:
            return Cycle()
        self._forget_shown(now)
        first = self._by_shape.first_of_each(self._still_waits, RUNS_PER_SHAPE)
        free_slots = cache(free_slots) if free_slots is not None else None  # cached: it is the same for every run
        queue = [run for run in first if free_slots is None or free_slots(run.gang.priority)]
        if not queue:
            return Cycle(held_back=first[0].gang.priority if first else None)
        snapshot, barred = self._usage(), self._cluster.barred()
        allowed = (_with_request(run, barred(run.gang)) for run in queue)
        max_starts = None
        if free_slots is not None:
            max_starts = free_slots(queue[0].gang.priority) + 1 + sum(key_of(run.key) in busy for run in queue)
        rules, at = self._cluster.policy.queue, now.timestamp()
        found = schedule(
            snapshot,
            allowed,
            self._expected_endings(now),
            at,
            reserve=rules.reservations,
            likely=rules.likely,
            max_starts=max_starts,
        )
        fit = [placement for placement in found.placements if key_of(placement.key) not in busy]
        begin, held_back = _within_slots(
            fit, lambda placement: self._waiting[key_of(placement.key)].request.priority, free_slots
        )
        expected = {run.key: run.expected_seconds for run in queue} if begin else {}
        starts = tuple(
            self._record_start(self._waiting[key_of(placement.key)], placement, at + expected[placement.key])
            for placement in begin
        )
        if held_back is None and len(queue) < len(first):
            held_back = first[len(queue)].gang.priority
        return Cycle(starts, held_back=held_back)

    def growing(self, growing: Growing, busy: Collection[Key], now: datetime) -> list[Growth]:
        """Return the elastic gangs that grow now, into nodes that no waiting run could use. The nodes are theirs from
        now on."""
        if not growing.is_needed():
            return []
        self._forget_shown(now)
        waiting = [entry.request for entry in self._waiting.values()]
        state = replace(self._cluster_state(now), snapshot=self._usage(), kept_nodes={})
        promised = place_promised(state, [WaitingRun(request, math.inf) for request in waiting])
        grows = [growth for growth in growing.look(promised.snapshot, waiting, now) if growth.key not in busy]
        for growth in grows:
            self._unseen[growth.key] = UnseenAttempt(growth.member, growth.more, growth.run.metadata.resource_version)
        return grows

    def _cluster_state(self, now: datetime) -> ClusterState:
        """Return the state of the cluster from which a cycle decides."""
        kept = {
            self._waiting[key].request.key: node_lists.expand(resize.nodes)
            for key in self._returning
            if (resize := self._waiting[key].status.resize) is not None
        }
        return ClusterState(
            snapshot=self._usage(but_for=self._returning),
            endings=self._expected_endings(now),
            running=self.preemptions.running_at(now),
            users=self._outlook.past.users,
            teams=self._outlook.past.teams,
            preemptors=self.preemptions.preemptors(),
            kept_nodes=kept,
        )

    def _usage(self, but_for: Collection[Key] = ()) -> Snapshot:
        """Return the usage of every node, by Pods and by promises to runs that are not in `but_for`."""
        snapshot = self._cluster.occupancy.used()
        for placed in self._unseen.values():
            occupy(snapshot, placed.member, self._existing_nodes(placed.nodes))
        for promise in self._cluster.occupancy.promises():
            if key_of(promise.run) not in but_for:
                occupy(snapshot, promise.member, promise.nodes)
        return snapshot

    def _still_waits(self, run: WaitingRun) -> bool:
        key = key_of(run.key)
        entry = self._waiting.get(key)
        return entry is not None and entry.request is run.gang and key not in self._unseen

    def _record_start(self, entry: QueueEntry, placement: Placement, ends_at: float) -> tuple[QueueEntry, Placement]:
        """Record the nodes of a run, and remove it from the waiting runs."""
        self.leave(entry.key)
        self._unseen[entry.key] = UnseenAttempt(entry.request.member, placement.nodes, entry.version, ends_at)
        return entry, placement

    def _expected_endings(self, now: datetime) -> list[Ending]:
        """Return when running gangs, and attempts that were just planned, are expected to have ended."""
        return [*(ending for _, ending in self._outlook.endings(now)), *self._endings_of_unseen(now)]

    def _endings_of_unseen(self, now: datetime) -> Iterator[Ending]:
        index, at = self._cluster.table().index, now.timestamp()
        for placed in self._unseen.values():
            rows = np.array([index[node] for node in self._existing_nodes(placed.nodes)], dtype=np.int64)
            if math.isfinite(placed.ends_at):
                yield Ending(placed.member, rows, max(at, placed.ends_at))

    def _forget_shown(self, now: datetime) -> None:
        """Forget placements that the mirror shows now, since the occupancy counts them as promises, and placements that
        were not stored. If the mirror has a newer version of the Run, it either shows the placement, or another writer
        was first and the placement was not stored.
        """
        for key, placed in list(self._unseen.items()):
            run = self._mirror.runs.get(key)
            moved_on = run is None or int(run.metadata.resource_version or 0) > int(placed.version or 0)
            doubted = placed.doubtful_since is not None and now - placed.doubtful_since >= DOUBT_PATIENCE
            if moved_on or doubted:
                del self._unseen[key]

    def _existing_nodes(self, nodes: Sequence[str]) -> list[str]:
        known = self._cluster.table().index
        return [node for node in nodes if node in known]
