"""Preemption over the whole queue: the running gangs to preempt, and the waiting runs that get the freed nodes.

A waiting run may preempt gangs of low priority if its own priority is higher. A team that holds less than its guarantee
gets back what other teams hold beyond theirs. A preempted gang leaves within its grace period, so its nodes count as
becoming free: no second gang is preempted for the same need. Nodes that a preemption frees stay reserved for the run
that caused it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kajitori.core.placement.planner import GangRequest, Placement, Shortage, nodes_for, occupy, place
from kajitori.core.placement.snapshot import Mask, Snapshot
from kajitori.core.policy.queue.preemption import Guarantee, Preemption
from kajitori.core.queue.guarantees import Guaranteed
from kajitori.core.queue.victims import RunningGang, choose_victims, without
from kajitori.core.queue.waiting import WaitingRun

EXAMINED_PER_CYCLE = 100
"""Number of waiting runs, from the front of the queue, for which one cycle looks for victims."""

PREEMPTING_PER_CYCLE = 10
"""Number of waiting runs for which one cycle preempts others. The next cycle is soon, and each run costs a search over
all running gangs."""


@dataclass(frozen=True, slots=True)
class PreemptionRequest:
    """Gangs that are preempted, all of them, for one waiting run."""

    key: str
    """The waiting run."""
    victims: tuple[RunningGang, ...]
    guaranteed: bool
    """Whether the run's team is guaranteed what it asks for; else its priority is higher than that of all victims."""


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """All preemptions of one cycle."""

    requests: tuple[PreemptionRequest, ...] = ()
    look_again_in_seconds: float = math.inf
    """Time until a gang that would help has run for the minimum time that policy leaves every gang."""


@dataclass(frozen=True, slots=True)
class PromisedNodes:
    """The nodes that preemptions free or freed, and the runs that get them."""

    placements: tuple[Placement, ...]
    """Runs that start now."""
    reserved: tuple[Placement, ...]
    """Runs that wait until all of their nodes are free."""
    shortages: tuple[Shortage, ...]
    """The shortages of the runs in `reserved` until then."""
    snapshot: Snapshot
    """The snapshot for all other runs: the nodes of these runs count as used."""

    @property
    def keys(self) -> frozenset[str]:
        """The runs in `placements` and `reserved`."""
        return frozenset(placement.key for placement in (*self.placements, *self.reserved))


def place_preemptors(
    snapshot: Snapshot, preemptors: Iterable[GangRequest], leaving: Sequence[RunningGang]
) -> PromisedNodes:
    """Give runs for which others were preempted the freed nodes, before any other run is looked at.

    leaving: gangs on their way out. A run that does not fit even without these waits like every other run. `snapshot`
    is not changed.
    """
    now, then = snapshot.copy(), without(snapshot, leaving)
    placements, reserved, shortages = [], [], []
    for gang in preemptors:
        gang = next(_sizes_to_try(gang)) if gang.grows else gang
        found = place(now, gang)
        if isinstance(found, Placement):
            placements.append(found)
        else:
            lacks, found = found, place(then, gang)
            if not isinstance(found, Placement):
                continue
            reserved.append(found)
            shortages.append(lacks)
        occupy(now, gang.member, found.nodes)
        occupy(then, gang.member, found.nodes)
    return PromisedNodes(tuple(placements), tuple(reserved), tuple(shortages), now)


def choose_preemptions(
    snapshot: Snapshot,
    queue: Sequence[WaitingRun],
    running: Sequence[RunningGang],
    rules: Preemption,
    guarantees: Sequence[Guarantee],
    starts_in: Mapping[str, float],
) -> PreemptionPlan:
    """Choose which running gangs are preempted for which waiting runs.

    snapshot: everything that is used or reserved. queue: the runs that do not start in this cycle, in order. starts_in:
    seconds until runs with a reservation are expected to start without any preemption.
    """
    if not rules.enabled or not queue:
        return PreemptionPlan()
    running = [replace(gang, leaving=True) if gang.ends_in_seconds <= gang.grace_seconds else gang for gang in running]
    search = _Search(snapshot, running, rules, Guaranteed(guarantees, snapshot.table, running))
    requests: list[PreemptionRequest] = []
    for run in queue[:EXAMINED_PER_CYCLE]:
        request = search.preempt_for(run, starts_in.get(run.key, math.inf))
        if request is not None:
            requests.append(request)
        if len(requests) == PREEMPTING_PER_CYCLE:
            return PreemptionPlan(tuple(requests), 0.0)
    return PreemptionPlan(tuple(requests), search.look_again_in_seconds)


class _Search:
    """The search for victims: the gangs that may still be preempted, and the usage once all preempted gangs have
    ended.
    """

    def __init__(
        self, snapshot: Snapshot, running: Sequence[RunningGang], rules: Preemption, guaranteed: Guaranteed
    ) -> None:
        self._then = without(snapshot, [gang for gang in running if gang.leaving])
        self._running = [gang for gang in running if not gang.leaving]
        self._minimum_run_seconds = rules.minimum_run_seconds
        self._guaranteed = guaranteed
        self._awaited: Mask = ~snapshot.table.usable & snapshot.table.usable
        """Nodes for which an earlier run waits although no preemption helps it: no later run may take them."""
        self.look_again_in_seconds = math.inf

    def preempt_for(self, run: WaitingRun, starts_in_seconds: float) -> PreemptionRequest | None:
        """Return the gangs that are preempted for this run; None if none helps, or if none is needed."""
        gang, table = run.gang, self._then.table
        covered = self._guaranteed.covers(run.team, gang)
        eligible = nodes_for(table, gang) & table.usable_by(gang.member.tolerations)
        if not covered and bool((self._awaited & eligible).any()):
            return None
        victims: tuple[RunningGang, ...] = ()
        found = place(self._then, gang)
        if not isinstance(found, Placement):
            victims = self._victims_for(run, starts_in_seconds, covered)
            if not victims:
                self._awaited |= eligible
                return None
            chosen = {(victim.key, victim.rank) for victim in victims}
            self._running = [other for other in self._running if (other.key, other.rank) not in chosen]
            self._then = without(self._then, victims)
            found = place(self._then, gang)
            assert isinstance(found, Placement), "the chosen victims are enough"
        occupy(self._then, gang.member, found.nodes)
        self._guaranteed.take(run.team, gang)
        if not victims:
            return None
        by_guarantee = not all(victim.low and victim.priority < gang.priority for victim in victims)
        return PreemptionRequest(gang.key, victims, by_guarantee)

    def _victims_for(self, run: WaitingRun, starts_in_seconds: float, covered: bool) -> tuple[RunningGang, ...]:
        """Return victims of the lowest priorities that suffice. Victims above low priority are only chosen for a
        guarantee.
        """
        candidates = [gang for gang in self._running if self._may_preempt(run, gang, covered)]
        old_enough = [gang for gang in candidates if gang.ran_seconds >= self._minimum_run_seconds]
        for gang in _sizes_to_try(run.gang):
            for highest in sorted({candidate.priority for candidate in old_enough}):
                among = [candidate for candidate in old_enough if candidate.priority <= highest]
                victims = choose_victims(self._then, gang, among)
                if victims:
                    helps_in = max(victim.grace_seconds for victim in victims)
                    return victims if helps_in < starts_in_seconds else ()
        young = [
            left
            for gang in candidates
            if gang.ran_seconds >= 0 and (left := self._minimum_run_seconds - gang.ran_seconds) > 0
        ]
        self.look_again_in_seconds = min([self.look_again_in_seconds, *young])
        return ()

    def _may_preempt(self, run: WaitingRun, gang: RunningGang, covered: bool) -> bool:
        other_team = gang.namespace != run.team
        if other_team and not self._guaranteed.is_borrowed(gang):
            return False
        return (gang.low and gang.priority < run.gang.priority) or (covered and other_team)


def _sizes_to_try(gang: GangRequest) -> Iterator[GangRequest]:
    """Yield the gang; if it may start with fewer members, also half as many and so on down to the fewest. A gang that
    can grow later is yielded with the fewest members alone."""
    members = gang.least if gang.grows else len(gang.ranks)
    while members > gang.least:
        yield replace(gang.fitting(members), fewest=None)
        members = max(gang.least, members // 2)
    yield replace(gang.fitting(members), fewest=None)
