"""The queue's cycle: one pure function that decides, over the whole queue, what starts, waits, and is preempted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

from kajitori.core.placement.planner import Placement, Shortage, occupy
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.policy.file import Policy
from kajitori.core.queue.backfill.schedule import Schedule, schedule
from kajitori.core.queue.elastic import larger_placement, place_on_kept_nodes
from kajitori.core.queue.ordering import Ranking, Shares, rank
from kajitori.core.queue.preemption import PreemptionPlan, PromisedNodes, choose_preemptions, place_preemptors
from kajitori.core.queue.victims import RunningGang
from kajitori.core.queue.waiting import WaitingRun

StepHook = Callable[[str], AbstractContextManager[object]]
"""Entered around each step of a cycle with the step's name, so that the caller can time it."""

STEPS = ("order", "promised", "schedule", "preempt")
"""Names of the steps, as `StepHook` gets them."""


class RunningGangs(Protocol):
    """The gangs that run, worked out only if a step needs them: it takes time in proportion to all of them."""

    def has_low(self) -> bool:
        """Whether any run of low priority runs."""
        ...

    def all(self) -> Sequence[RunningGang]:
        """Return all gangs that hold nodes, including those with members that are terminating."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of the cluster from which a cycle decides. A cycle does not change it."""

    snapshot: Snapshot
    """Usage by Pods and by attempts that start; without the nodes in `kept_nodes`."""
    endings: Sequence[Ending]
    """Expected ends of the running gangs and members."""
    running: RunningGangs
    users: Shares
    teams: Shares
    preemptors: Collection[str] = ()
    """Waiting runs, by key, for which others were preempted before."""
    kept_nodes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Nodes that are kept for elastic gangs between two attempts, by key."""


@dataclass(frozen=True, slots=True)
class CyclePlan:
    """The decisions of one cycle."""

    ranking: Ranking
    queue: Sequence[WaitingRun]
    """All waiting runs, in order."""
    promised: PromisedNodes
    """Runs that get nodes that were kept or freed for them."""
    schedule: Schedule
    """Runs that start on other free nodes, and reservations for those that do not."""
    preemptions: PreemptionPlan
    snapshot: Snapshot
    """Usage once the placements of this plan have started."""

    @property
    def shortages(self) -> tuple[Shortage, ...]:
        """Why each run that does not start waits."""
        return self.promised.shortages + self.schedule.shortages


def run_cycle(
    cluster: ClusterState, queue: Sequence[WaitingRun], policy: Policy, now: float, *, step: StepHook | None = None
) -> CyclePlan:
    """Decide, in one pass over the queue, which runs start, which nodes are reserved and which runs are preempted.

    Pure: neither `cluster` nor `queue` is changed. `now` is in seconds since the epoch. Takes time in proportion to the
    length of the queue, plus, for every reservation and preemption, to the number of running gangs.
    """
    step = step or _no_hook
    # 1. Order the queue: priority first, then waiting time measured in the run's own expected length.
    with step("order"):
        ranking = rank(queue, cluster.users, cluster.teams, policy.queue.rules, now)
        ordered = ranking.ordered()
    # 2. Give runs the nodes that were kept for them, or that earlier preemptions free for them.
    with step("promised"):
        promised = widened(place_promised(cluster, ordered), ordered)
    # 3. Start what fits; reserve nodes for the first run of each shape that does not; backfill behind the reservations.
    with step("schedule"):
        placed = promised.keys
        others = [run for run in ordered if run.gang.key not in placed] if placed else ordered
        rules = policy.queue
        scheduled = schedule(
            promised.snapshot, others, cluster.endings, now, reserve=rules.reservations, likely=rules.likely
        )
        snapshot = with_placements(promised.snapshot, others, scheduled.placements)
    # 4. Preempt, if policy allows it, for runs that still wait and outrank others or are guaranteed more.
    with step("preempt"):
        preemptions = preempt_for_waiting(snapshot, others, scheduled, cluster.running, policy, now)
    return CyclePlan(ranking, ordered, promised, scheduled, preemptions, snapshot)


def place_promised(cluster: ClusterState, queue: Sequence[WaitingRun]) -> PromisedNodes:
    """Place the runs that have a claim on nodes: elastic gangs on the nodes kept for them, and runs for which others
    were preempted on the freed nodes. Among the latter, higher priority and earlier submission come first."""
    snapshot = cluster.snapshot.copy()
    returning = []
    for run in queue if cluster.kept_nodes else ():
        kept = cluster.kept_nodes.get(run.key)
        placement = place_on_kept_nodes(snapshot, run.gang, kept) if kept is not None else None
        if placement is not None:
            occupy(snapshot, run.gang.member, placement.nodes)
            returning.append(placement)
    placed = {placement.key for placement in returning}
    preemptors = (run.gang for run in queue if run.key in cluster.preemptors) if cluster.preemptors else ()
    gangs = [gang for gang in preemptors if gang.key not in placed]
    if not gangs and not returning:
        return PromisedNodes((), (), (), snapshot)
    gangs.sort(key=lambda gang: (-gang.priority, gang.queued_at, gang.key))
    leaving = [gang for gang in cluster.running.all() if gang.leaving] if gangs else []
    promised = place_preemptors(snapshot, gangs, leaving)
    return replace(promised, placements=(*returning, *promised.placements))


def widened(promised: PromisedNodes, queue: Sequence[WaitingRun]) -> PromisedNodes:
    """Return the promised placements, with more nodes for elastic gangs if no other run of the queue could use these: a
    gang that starts larger need not be started again to grow.
    """
    gangs = {run.key: run.gang for run in queue} if promised.placements else {}
    if not any(gangs[placement.key].grows for placement in promised.placements):
        return promised
    snapshot, placed = promised.snapshot.copy(), promised.keys
    others = [gang for key, gang in gangs.items() if key not in placed]
    placements = []
    for placement in promised.placements:
        gang = gangs[placement.key]
        if gang.grows:
            larger = larger_placement(snapshot, gang, placement.nodes, others)
            occupy(snapshot, gang.member, larger.nodes[len(placement.nodes) :])
            placement = larger
        placements.append(placement)
    return replace(promised, placements=tuple(placements), snapshot=snapshot)


def with_placements(snapshot: Snapshot, queue: Sequence[WaitingRun], placements: Sequence[Placement]) -> Snapshot:
    """Return the usage once these placements of runs of the queue have started."""
    after = snapshot.copy()
    if placements:
        members = {run.gang.key: run.gang.member for run in queue}
        for placement in placements:
            occupy(after, members[placement.key], placement.nodes)
    return after


def preempt_for_waiting(
    snapshot: Snapshot,
    queue: Sequence[WaitingRun],
    scheduled: Schedule,
    running: RunningGangs,
    policy: Policy,
    now: float,
) -> PreemptionPlan:
    """Choose preemptions for the runs of the queue that `scheduled` does not start. snapshot: the usage once the
    placements of `scheduled` have started.
    """
    if not policy.preemption.enabled or not scheduled.shortages:
        return PreemptionPlan()
    short = {shortage.key for shortage in scheduled.shortages}
    waiting = [run for run in queue if run.may_preempt and run.gang.key in short]
    low = policy.priorities["low"].value
    by_priority = any(run.gang.priority > low for run in waiting)
    if not policy.guarantees and not (by_priority and running.has_low()):
        return PreemptionPlan()
    starts_in = {reservation.key: reservation.starts_at - now for reservation in scheduled.reservations}
    return choose_preemptions(snapshot, waiting, running.all(), policy.preemption, policy.guarantees, starts_in)


def _no_hook(name: str) -> AbstractContextManager[object]:
    return nullcontext()
