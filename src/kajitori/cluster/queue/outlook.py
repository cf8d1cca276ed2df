"""The waiting runs in order, with their expected lengths, and the expected ends of running gangs.

The controller acts on them and the Web API shows them. Both compute them from their own mirrors alone, and get the same
results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter

import numpy as np

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.occupancy.entries import RunOccupancy
from kajitori.cluster.queue.usage_history import UsageHistory, totals_of
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.core.formats.times import parse_time
from kajitori.core.naming import names
from kajitori.core.placement.planner import GangRequest
from kajitori.core.placement.releases import Ending
from kajitori.core.queue.expected import Expectation, Source
from kajitori.core.queue.ordering import Place, Ranking, dominant_part, rank
from kajitori.core.queue.waiting import WaitingRun


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A stored Run that waits for nodes, with what policy lets it ask for."""

    run: RunObject
    request: GangRequest

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.run.metadata.namespace, self.run.metadata.name


@dataclass(frozen=True)
class QueueOrder:
    """All waiting runs, in order, with the numbers behind it."""

    ranking: Ranking
    expected: Mapping[str, Expectation]
    """How long each run is expected to take from its start on, by key."""
    queue: Sequence[WaitingRun]

    def place(self, key: str) -> Place:
        """Return the place of a run in the queue. Raises KeyError if it does not wait."""
        return self.ranking.place(key)


class Outlook:
    """Expectations about waiting and running runs. Facts about a Run are cached until it changes."""

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self.past = UsageHistory(mirror, cluster)
        self._known: dict[str, _KnownRun] = {}
        """The runs that waited at the last question, by key."""

    def close(self) -> None:
        """Stop following the mirror. An outlook that lives as long as its process need not be closed."""
        self.past.close()

    # ------------------------------------------------------------------------------------------ waiting runs

    def order(self, pending: Sequence[PendingRun], now: datetime) -> QueueOrder:
        """Return all waiting runs, in order."""
        runs, expected = self._read_waiting(pending, now)
        ranking = rank(runs, self.past.users, self.past.teams, self._cluster.policy.queue.rules, now.timestamp())
        return QueueOrder(ranking, expected, ranking.ordered())

    def waiting_runs(self, pending: Sequence[PendingRun], now: datetime) -> list[WaitingRun]:
        """Return these runs as the queue's cycle takes them, in the order of their submission."""
        return self._read_waiting(pending, now)[0]

    def waiting_run(self, pending: PendingRun) -> WaitingRun:
        """Return one run that has just been submitted, without the numbers that the order needs."""
        return WaitingRun(pending.request, _until_end(self.past.expect(pending.run)))

    def _read_waiting(
        self, pending: Sequence[PendingRun], now: datetime
    ) -> tuple[list[WaitingRun], Mapping[str, Expectation]]:
        self.past.refresh()
        at, totals = now.timestamp(), totals_of(self._cluster)
        self._known = {run.request.key: self._known_run(run, totals) for run in pending}
        known = sorted(self._known.values(), key=attrgetter("submitted"))  # among equals the earliest comes first
        expected = {run.key: self.past.expect(run.run) for run in known}
        return [run.waiting_run(expected[run.key], at) for run in known], expected

    def _known_run(self, pending: PendingRun, totals: Sequence[float]) -> _KnownRun:
        known = self._known.get(pending.request.key)
        if known is None or not known.is_of(pending, totals):
            may_preempt = not self._cluster.tested_node(pending.run)
            return _KnownRun(pending, totals, self.past.user_of(pending.run), may_preempt=may_preempt)
        return known

    # ------------------------------------------------------------------------------------------ running gangs

    def endings(self, now: datetime) -> Iterator[tuple[str, Ending]]:
        """Yield the expected ends of running gangs and of members that were asked to end, by the run's
        `namespace/name`. Services, and Pods that belong to no run, have no expected end."""
        occupancy = self._cluster.occupancy
        for held in occupancy.gangs():
            yield from ((held.key, ending) for ending in self._endings_of(held, now.timestamp()))
        index = self._cluster.table().index
        for held, pod in occupancy.leaving():
            member = occupancy.request_of(pod)
            ends_at = max(now.timestamp(), _parse_seconds(pod.metadata.deletion_timestamp))
            yield held.key, Ending(member, np.array([index[pod.spec.node_name]]), ends_at)

    def _endings_of(self, held: RunOccupancy, at: float) -> Iterator[Ending]:
        """Yield the expected end of a running gang; of a sweep, those of its members by their start."""
        assert held.since is not None, "only a running gang has an expected end"
        policy = self._cluster.policy
        priority = policy.priorities[self._cluster.specs.of(held.run).priority or policy.defaults.priority].value
        starts = np.array(held.starts)
        for since in set(held.starts) or {held.since}:
            more = self.past.expect_more(held.run, since, at)
            rows = held.rows[starts == since] if held.starts else held.rows
            yield Ending(held.member, rows, at + more.seconds, priority, since if more.is_late else None)

    def known_ends(self, now: datetime) -> Callable[[str], bool]:
        """Return a test of runs (`namespace/name`): whether a time that depends on the run's end may be shown, because
        the evidence for that end is enough and agrees."""

        def is_known(key: str) -> bool:
            namespace, _, name = key.partition("/")
            held = self._cluster.occupancy.gang((namespace, name))
            if held is not None and held.since is not None:
                return self.past.expect_more(held.run, held.since, now.timestamp()).sure
            run = self._mirror.runs.get((namespace, name))
            return run is None or self.past.expect(run).sure

        return is_known

    def ends_at(self, gang: RunOccupancy, now: datetime) -> float:
        """Return when a running gang is expected to have ended; later than now."""
        assert gang.since is not None, "only a running gang has an expected end"
        at = now.timestamp()
        return at + self.past.expect_more(gang.run, gang.since, at).seconds


class _KnownRun:
    """A waiting run, kept between questions: most of a long queue has not changed since the last one."""

    def __init__(self, pending: PendingRun, totals: Sequence[float], user: str, *, may_preempt: bool) -> None:
        self.run, self.request = pending.run, pending.request
        self.key = self.request.key
        self._totals = totals
        meta = self.run.metadata
        # Runs of one second are told apart by the time of their request to the Web API, as in lists.
        submitted = meta.annotations.get(names.ANNOTATION_SUBMITTED_AT) or meta.creation_timestamp
        self.submitted = self.request.queued_at, submitted, self.key
        self._queued_at = _parse_seconds(self.request.queued_at)
        self._rounds = _rounds_of_sweep(pending)
        self._size = dominant_part(_amounts_of(self.request), totals)
        self._user = user
        self._may_preempt = may_preempt
        self._waiting_run: WaitingRun | None = None

    def is_of(self, pending: PendingRun, totals: Sequence[float]) -> bool:
        """Whether nothing has changed, apart from expectations."""
        return self.run is pending.run and self.request is pending.request and self._totals == totals

    def waiting_run(self, expected: Expectation, now: float) -> WaitingRun:
        """Return it for the queue's cycle. A run without a known submission time counts as submitted now."""
        until_end, work = _until_end(expected), expected.order_seconds * self._rounds
        queued_at = self._queued_at or now
        known = self._waiting_run
        if (
            known is None
            or known.expected_seconds != until_end
            or known.work_seconds != work
            or known.queued_at != queued_at
        ):
            known = self._waiting_run = WaitingRun(
                self.request,
                until_end,
                user=self._user,
                team=self.run.metadata.namespace,
                queued_at=queued_at,
                size=self._size,
                work_seconds=work,
                may_preempt=self._may_preempt,
            )
        return known


def _until_end(expectation: Expectation) -> float:
    return math.inf if expectation.source is Source.ENDLESS else expectation.seconds


def _rounds_of_sweep(pending: PendingRun) -> float:
    """Return how many times a sweep's present members have to be replaced until all of its members have ended; 1 for
    other runs. So a sweep's place follows from all work that is left, not from one short member."""
    status = pending.run.status
    if status is None or status.sweep is None:
        return 1.0
    counts = status.members
    left = counts.total - counts.succeeded - counts.failed
    return max(1.0, left / (counts.running + counts.pending or len(pending.request.ranks)))


def _amounts_of(request: GangRequest) -> tuple[int, ...]:
    """Return what a gang asks for, as `core.queue.ordering.AMOUNTS`. Members without a memory limit share nodes with
    their own gang alone: all of them may fit on one."""
    member, members = request.member, request.least
    nodes = members if member.whole_node else 1 if member.unlimited else 0
    return member.cpu_millis * members, member.memory_bytes * members, member.gpus * members, nodes


@lru_cache(maxsize=16384)
def _parse_seconds(time: str) -> float:
    moment = parse_time(time)
    return moment.timestamp() if moment is not None else 0.0
