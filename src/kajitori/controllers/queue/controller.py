"""The runs that wait for nodes, planned as one queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache

import numpy as np

from kajitori.cluster.outlook import Applicant, Look, Outlook
from kajitori.cluster.preemptions import Preemptions, key_of
from kajitori.cluster.view import ClusterView
from kajitori.controllers.queue.growing import Growing, Grows
from kajitori.controllers.queue.heads import Heads
from kajitori.controllers.workqueue import Key
from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, Shortage, occupy
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.backfill import Queued
from kajitori.core.queue.elastic import come_back, grown
from kajitori.core.queue.explain import Explainer
from kajitori.core.queue.preemption_cycle import Requests, Settled
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.words import node_lists
from kajitori.errors import Fault, Refused
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import RunObject
from kajitori.monitoring.controller import ControllerMetrics

HEADS = 32
"""Runs of one shape that are looked at between two looks at the whole queue."""

DOUBT_PATIENCE = timedelta(seconds=10)
"""How long a write that failed may take to show in the mirror all the same."""

LEAST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(seconds=30)
"""Between two looks at a queue in which nothing happens but that time passes."""


Left = Callable[[int], int]
"""How many more attempts of a priority, and of higher ones, may begin now."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A run as policy has it; without a decision where policy refuses it now but an attempt of it is alive."""

    life: gang.Run
    spec: RunSpec | None = None
    """None only where it is refused because it can't be read."""
    decision: Decision | None = None
    policy_version: int = 0
    """Of the policy that was asked."""
    cluster_version: int = 0
    """Of the nodes that it was decided about with."""

    def is_outdated(self, policy_version: int, cluster_version: int) -> bool:
        """Whether policy may decide otherwise now. How much a run of whole nodes asks for follows from the nodes."""
        if self.policy_version < policy_version:
            return True
        of_nodes = self.spec is not None and self.spec.resources.whole_node
        return of_nodes and self.cluster_version < cluster_version

    def resolved(self) -> tuple[RunSpec, Decision]:
        """Spec and decision; raises where policy refuses the run: nothing new may be started for it."""
        if self.spec is None or self.decision is None:
            raise Refused([Fault("spec", "policy refuses this run now; no further member of it is started")])
        return self.spec, self.decision


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that needs nodes, with what is needed to start it."""

    key: Key
    run: RunObject
    admitted: Admitted
    status: RunStatus
    request: GangRequest
    version: str
    """The resource version that `status` was stored under."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An attempt that was just planned and that the mirror does not show yet."""

    member: MemberRequest
    nodes: tuple[str, ...]
    version: str
    """The Run's resource version before."""
    ends_at: float = math.inf
    """When it is expected to have ended; seconds since 1970."""
    doubtful_since: datetime | None = None
    """When the write of it failed: perhaps it was done all the same."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one look at the whole queue found."""

    starts: tuple[tuple[Waiting, Placement], ...] = ()
    waits: tuple[tuple[Waiting, Shortage], ...] = ()
    look: Look | None = None
    """The order of all that wait, and for whom nodes are kept; there whenever some wait."""
    requests: Requests = field(default_factory=Requests)
    """Who is to give way to those who wait."""
    explainer: Explainer | None = None
    """Says why those wait; there whenever some do."""
    doubtful: tuple[Key, ...] = ()
    """Runs that were passed over until it is clear whether they have their nodes already."""
    busy: tuple[Key, ...] = ()
    """Runs that were not started because they are being worked on, or are to be. They keep their places: nobody starts
    on what they would have had."""
    snapshot: Snapshot | None = None
    """What is used once those that start have what they got; there whenever some wait."""
    look_again_at: datetime | None = None
    """When the same queue may be decided about otherwise, though nothing has happened."""
    held_back: int | None = None
    """The priority of the first that would have started, too, if more were allowed to at a time."""


def _look_again_at(look: Look, now: datetime) -> datetime | None:
    """While nodes are kept for somebody, time alone changes who may start: the order follows it, and what was expected
    to end by then may not have."""
    if not look.schedule.reservations:
        return None
    soonest = min(reservation.starts_at for reservation in look.schedule.reservations) - look.now
    return now + min(max(timedelta(seconds=soonest), LEAST_PAUSE), LONGEST_PAUSE)


def _first(
    fit: Sequence[Placement], priority_of: Callable[[Placement], int], left: Left | None, own: Sequence[Placement] = ()
) -> tuple[list[Placement], int | None]:
    """Of those that fit, in order, as many as there are turns left for, behind their `own` that take some whatever is
    left; and the priority of the first that is too many."""
    begin = list(own)
    for each in fit:
        priority = priority_of(each)
        if left is not None and len(begin) >= left(priority):
            return begin, priority
        begin.append(each)
    return begin, None


def _asking(request: GangRequest, queued: Queued) -> Queued:
    """What waits, with this request: the run's own, or that kept off some nodes."""
    return queued if queued.gang is request else replace(queued, gang=request)


class Queue:
    """Waiting runs, and what placed ones take before their Pods show it."""

    def __init__(self, mirror: Mirror, cluster: ClusterView, metrics: ControllerMetrics | None = None) -> None:
        self._metrics = metrics or ControllerMetrics.unread()
        self._mirror = mirror
        self._cluster = cluster
        self._outlook = Outlook(mirror, cluster)
        self.preemptions = Preemptions(mirror, cluster, self._outlook)
        self._waiting: dict[Key, Waiting] = {}
        self._placed: dict[Key, Placed] = {}
        self._heads = Heads()
        self._returning: set[Key] = set()
        """Elastic gangs that nodes are kept for, and that may have them now."""

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, waiting: Waiting) -> bool:
        """The run needs nodes; whether it needs others than it did before."""
        before = self._waiting.get(waiting.key)
        self._waiting[waiting.key] = waiting
        if waiting.status.resize is not None:
            self._returning.add(waiting.key)
        else:
            self._returning.discard(waiting.key)
        if before is not None and before.request == waiting.request:
            self._waiting[waiting.key] = replace(waiting, request=before.request)
            return False
        self._heads.add(self._outlook.queued(Applicant(waiting.run, waiting.request)))
        return True

    def leave(self, key: Key) -> None:
        """The run does not need nodes now."""
        self._waiting.pop(key, None)
        self._returning.discard(key)

    def doubt(self, key: Key, now: datetime) -> None:
        """The write of a placement failed. The nodes are kept until it is clear that it was not done all the same."""
        if key in self._placed:
            self._placed[key] = replace(self._placed[key], doubtful_since=now)

    def take_back(self, key: Key) -> None:
        """What was given to the run is free again: it can't have it."""
        self._placed.pop(key, None)

    def forget(self, key: Key) -> None:
        """The run is gone."""
        self.leave(key)
        self._placed.pop(key, None)

    def decided_before(self, policy_version: int, cluster_version: int) -> set[Key]:
        """Runs that wait as an older policy, or one that was asked about other nodes, had them."""
        waiting = self._waiting.items()
        return {key for key, each in waiting if each.admitted.is_outdated(policy_version, cluster_version)}

    def plan(self, busy: Collection[Key], now: datetime, left: Left | None = None) -> Cycle:
        """One cycle: all waiting runs in order, on what is free; those that are worked on (`busy`) don't start.

        No more start than have turns `left`, but for those that nodes were freed or kept for; others wait on, without
        a reason, and are looked at again by the next cycle.
        """
        self._forget_shown(now)
        doubtful = tuple(key for key in self._waiting if key in self._placed)
        passed_over = tuple(key for key in self._waiting if key in busy)
        by_key = {w.request.key: w for w in self._waiting.values() if w.key not in self._placed}
        if not by_key:
            return Cycle(doubtful=doubtful, busy=passed_over)
        snapshot = self._used(but_for=self._returning)
        barred = self._cluster.barred()
        applicants = [Applicant(waiting.run, barred(waiting.request)) for waiting in by_key.values()]
        back = self._come_back(applicants, snapshot)
        keys = {placement.key for placement in back}
        others = (each for each in applicants if each.request.key not in keys)
        with self._metrics.step("settle"):
            settled = self.preemptions.settle(others, snapshot, now)
            settled = self._widened(replace(settled, placements=(*back, *settled.placements)), applicants)
        snapshot, placed = settled.state, list(self._endings(now))
        with self._metrics.step("schedule"):
            look = self._outlook.look(applicants, snapshot, now, placed=placed, settled=settled.keys)
        with self._metrics.step("preempt"):
            requests = self.preemptions.ask(look, applicants, settled, now)
        for placement in look.schedule.placements:
            occupy(snapshot, by_key[placement.key].request.member, placement.nodes)
        own, fit = (
            [each for each in placements if by_key[each.key].key not in busy]
            for placements in (settled.placements, look.schedule.placements)
        )
        begin, held_back = _first(fit, lambda each: by_key[each.key].request.priority, left, own)
        starts = tuple(self._start(by_key[each.key], each, look.ends_at(each.key)) for each in begin)
        self._heads.order([_asking(by_key[each.gang.key].request, each) for each in look.queue])
        waits = tuple(
            (by_key[shortage.key], shortage)
            for shortage in settled.shortages + look.schedule.shortages
            if by_key[shortage.key].key not in busy
        )
        explainer = Explainer(snapshot, self._cluster.uses)
        again = _look_again_at(look, now)
        return Cycle(starts, waits, look, requests, explainer, doubtful, passed_over, snapshot, again, held_back)

    def plan_heads(self, busy: Collection[Key], now: datetime, left: Left | None = None) -> Cycle:
        """What of a long queue may start at once on what has come free since the last look at the whole of it: the
        first of each shape are looked at. Nothing where nodes come free for somebody: that is for the whole look."""
        if self.preemptions.is_asked or self._returning:
            return Cycle()
        self._forget_shown(now)
        all_heads = self._heads.take(self._still_waits, HEADS)
        left = cache(left) if left is not None else None  # it does not change meanwhile, and is asked for each of them
        queue = [each for each in all_heads if left is None or left(each.gang.priority)]
        if not queue:
            return Cycle(held_back=all_heads[0].gang.priority if all_heads else None)
        snapshot, barred = self._used(), self._cluster.barred()
        allowed = (_asking(barred(each.gang), each) for each in queue)
        most = None if left is None else left(queue[0].gang.priority) + 1
        if most is not None:
            most += sum(key_of(each.gang.key) in busy for each in queue)
        found = self._outlook.schedule(allowed, snapshot, now, placed=list(self._endings(now)), most=most)
        fit = [each for each in found.placements if key_of(each.key) not in busy]
        begin, held_back = _first(fit, lambda each: self._waiting[key_of(each.key)].request.priority, left)
        expected = {each.gang.key: each.expected_seconds for each in queue} if begin else {}
        starts = tuple(
            self._start(self._waiting[key_of(each.key)], each, now.timestamp() + expected[each.key]) for each in begin
        )
        if held_back is None and len(queue) < len(all_heads):
            held_back = all_heads[len(queue)].gang.priority
        return Cycle(starts, held_back=held_back)

    def growing(self, growing: Growing, busy: Collection[Key], now: datetime) -> list[Grows]:
        """Elastic gangs that are to grow, into room that is nobody else's. It is theirs from now on."""
        if not growing.is_needed():
            return []
        self._forget_shown(now)
        applicants = [Applicant(waiting.run, waiting.request) for waiting in self._waiting.values()]
        free_for_all = self.preemptions.settle(applicants, self._used(), now).state
        waiting = [each.request for each in applicants]
        grows = [each for each in growing.look(free_for_all, waiting, now) if each.key not in busy]
        for each in grows:
            self._placed[each.key] = Placed(each.member, each.more, each.run.metadata.resource_version)
        return grows

    def _come_back(self, applicants: Sequence[Applicant], snapshot: Snapshot) -> list[Placement]:
        """Elastic gangs on the nodes that are kept for them; these are used in the snapshot from now on."""
        found = []
        for each in applicants:
            resize = self._waiting[key_of(each.request.key)].status.resize
            placement = (
                come_back(snapshot, each.request, node_lists.expand(resize.nodes)) if resize is not None else None
            )
            if placement is not None:
                occupy(snapshot, each.request.member, placement.nodes)
                found.append(placement)
        return found

    def _widened(self, settled: Settled, applicants: Sequence[Applicant]) -> Settled:
        """The same with elastic gangs on more nodes than were kept or freed for them, if these are nobody else's: they
        need not be started again for those."""
        requests = {each.request.key: each.request for each in applicants}
        others = [request for key, request in requests.items() if key not in settled.keys]
        placements = []
        for placement in settled.placements:
            gang = requests[placement.key]
            if gang.grows:
                before, placement = placement, grown(settled.state, gang, placement.nodes, others)
                occupy(settled.state, gang.member, placement.nodes[len(before.nodes) :])
            placements.append(placement)
        return replace(settled, placements=tuple(placements))

    def _used(self, but_for: Collection[Key] = ()) -> Snapshot:
        """What is used on every node, or promised to others than these."""
        snapshot = self._cluster.occupancy.used()
        for placed in self._placed.values():
            occupy(snapshot, placed.member, self._existing(placed.nodes))
        for promise in self._cluster.occupancy.promises():
            if key_of(promise.run) not in but_for:
                occupy(snapshot, promise.member, promise.nodes)
        return snapshot

    def _still_waits(self, queued: Queued) -> bool:
        key = key_of(queued.gang.key)
        waiting = self._waiting.get(key)
        return waiting is not None and waiting.request is queued.gang and key not in self._placed

    def _start(self, waiting: Waiting, placement: Placement, ends_at: float) -> tuple[Waiting, Placement]:
        """It has its nodes, and waits no more."""
        self.leave(waiting.key)
        self._placed[waiting.key] = Placed(waiting.request.member, placement.nodes, waiting.version, ends_at)
        return waiting, placement

    def _endings(self, now: datetime) -> Iterator[Ending]:
        """When attempts that were just planned are expected to have ended."""
        index, at = self._cluster.table().index, now.timestamp()
        for placed in self._placed.values():
            rows = np.array([index[node] for node in self._existing(placed.nodes)], dtype=np.int64)
            if math.isfinite(placed.ends_at):
                yield Ending(placed.member, rows, max(at, placed.ends_at))

    def _forget_shown(self, now: datetime) -> None:
        """Placements that the mirror shows are promises from now on; those that were not written are nothing.

        A Run newer than the one that was placed shows it; or somebody else wrote first, and it was not stored.
        """
        for key, placed in list(self._placed.items()):
            run = self._mirror.runs.get(key)
            moved_on = run is None or int(run.metadata.resource_version or 0) > int(placed.version or 0)
            doubted = placed.doubtful_since is not None and now - placed.doubtful_since > DOUBT_PATIENCE
            if moved_on or doubted:
                del self._placed[key]

    def _existing(self, nodes: Sequence[str]) -> list[str]:
        known = self._cluster.table().index
        return [node for node in nodes if node in known]
