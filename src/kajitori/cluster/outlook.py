"""What becomes of the queue, by all that the mirror holds: its order, who starts, and for whom nodes are kept.

The controller acts on it and the Web API tells about it: both ask the same of their own mirrors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter

import numpy as np

from kajitori.cluster.occupancy import RunOccupancy, request_of_pod
from kajitori.cluster.past import Past, totals_of
from kajitori.cluster.view import ClusterView
from kajitori.core.placement.planner import GangRequest
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.backfill import Queued, Reservation, Schedule, schedule
from kajitori.core.queue.expected import Expectation, Source
from kajitori.core.queue.ordering import Candidate, Place, Ranking, dominant_part, rank
from kajitori.core.words import names
from kajitori.core.words.times import parse_time
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import RunObject


@dataclass(frozen=True, slots=True)
class Applicant:
    """A run that waits for nodes, as policy has it."""

    run: RunObject
    request: GangRequest


@dataclass(frozen=True)
class Line:
    """All that wait, in order."""

    now: float
    """Seconds since 1970, as all times here."""
    ranking: Ranking
    expected: Mapping[str, Expectation]
    """Of each that waits, by key: how long it is expected to take from its start on."""
    queue: Sequence[Queued]
    """The same as the planner takes it."""

    def place(self, key: str) -> Place:
        """The place of a run in the queue. Raises KeyError where it does not wait."""
        return self.ranking.place(key)

    def ends_at(self, key: str) -> float:
        """When a run that starts now is expected to have ended; infinite where nobody knows."""
        return self.now + _until_end(self.expected[key])


@dataclass(frozen=True)
class Look(Line):
    """What one look at the whole queue found."""

    schedule: Schedule

    def reservation(self, key: str) -> Reservation | None:
        """The nodes that are kept for a run, and from when on; None where none are."""
        return next((each for each in self.schedule.reservations if each.key == key), None)


class Outlook:
    """Looks at queues. What it has learnt of Runs it keeps, and follows the mirror by itself."""

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self.past = Past(mirror, cluster)
        self._standing: dict[str, _Standing] = {}
        """Those who waited at the last look, by the gang's key."""

    def look(
        self,
        waiting: Sequence[Applicant],
        snapshot: Snapshot,
        now: datetime,
        *,
        placed: Sequence[Ending] = (),
        settled: Container[str] = (),
    ) -> Look:
        """The order of all that wait, and what starts on what is free in the snapshot, which is not changed.

        placed: what was given nodes and what the mirror does not show yet. settled: those for whom others gave way:
        they are not planned here.
        """
        line = self.line_up(waiting, now)
        queue = (queued for queued in line.queue if queued.gang.key not in settled)
        found = self.schedule(queue, snapshot, now, placed=placed)
        return Look(line.now, line.ranking, line.expected, line.queue, found)

    def schedule(
        self,
        queue: Iterable[Queued],
        snapshot: Snapshot,
        now: datetime,
        *,
        placed: Sequence[Ending] = (),
        most: int | None = None,
    ) -> Schedule:
        """Who of these starts, in their order, on what is free in the snapshot, which is not changed: `most` of them,
        the first; nobody behind them is looked at."""
        policy = self._cluster.policy.queue
        endings = [*(ending for _, ending in self.endings(now)), *placed]
        at, reserve, likely = now.timestamp(), policy.reservations, policy.likely
        return schedule(snapshot, queue, endings, at, reserve=reserve, likely=likely, most=most)

    def queued(self, applicant: Applicant) -> Queued:
        """One that has just come, as the planner takes it."""
        return Queued(applicant.request, _until_end(self.past.expect(applicant.run)))

    def line_up(self, waiting: Sequence[Applicant], now: datetime) -> Line:
        """The order of all that wait."""
        at = now.timestamp()
        self.past.refresh()
        totals = totals_of(self._cluster)
        self._standing = {each.request.key: self._standing_of(each, totals) for each in waiting}
        # Among equals, whoever was submitted first comes first.
        line = sorted(self._standing.values(), key=attrgetter("submitted"))
        expected = {each.key: self.past.expect(each.run) for each in line}
        candidates = [each.candidate(expected[each.key].seconds, at) for each in line]
        ranking = rank(candidates, self.past.users, self.past.teams, self._cluster.policy.queue.rules, at)
        overdue = ranking.overdue.tolist()
        queue = [line[i].queued(_until_end(expected[line[i].key]), overdue[i]) for i in ranking.order]
        return Line(at, ranking, expected, queue)

    def _standing_of(self, applicant: Applicant, totals: Sequence[float]) -> _Standing:
        known = self._standing.get(applicant.request.key)
        if known is None or not known.is_of(applicant, totals):
            return _Standing(applicant, totals, self.past.user_of(applicant.run))
        return known

    def endings(self, now: datetime) -> Iterator[tuple[str, Ending]]:
        """Yield what frees nodes and when, by the run's `namespace/name`: running gangs, and members that were asked to
        end. Services, and Pods that belong to no run, have no expected end."""
        occupancy = self._cluster.occupancy
        for held in occupancy.gangs():
            yield held.key, Ending(held.member, held.rows, self.ends_at(held, now))
        index, resource = self._cluster.table().index, self._cluster.policy.gpu.resource
        for held, pod in occupancy.leaving():
            member = request_of_pod(pod, self._mirror, resource)
            ends_at = max(now.timestamp(), _seconds(pod.metadata.deletion_timestamp))
            yield held.key, Ending(member, np.array([index[pod.spec.node_name]]), ends_at)

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


class _Standing:
    """One that waits, as order and planner take it: made anew only where something has changed of it since the last
    look, since most of a long queue has not."""

    def __init__(self, applicant: Applicant, totals: Sequence[float], user: str) -> None:
        self.run, self.request = applicant.run, applicant.request
        self.key = self.request.key
        self._totals = totals
        meta = self.run.metadata
        # Runs of one second are told apart by when the Web API was asked for them, as in lists.
        submitted = meta.annotations.get(names.ANNOTATION_SUBMITTED_AT) or meta.creation_timestamp
        self.submitted = self.request.queued_at, submitted, self.key
        self._queued_at = _seconds(self.request.queued_at)
        self._rounds = _rounds(applicant)
        self._size = dominant_part(_amounts(self.request), totals)
        self._user = user
        self._candidate: Candidate | None = None
        self._queued: Queued | None = None

    def is_of(self, applicant: Applicant, totals: Sequence[float]) -> bool:
        """Whether all is as it was, but for what is expected."""
        return self.run is applicant.run and self.request is applicant.request and self._totals == totals

    def candidate(self, expected_seconds: float, now: float) -> Candidate:
        """For the order. Who waits since nobody knows when has come now."""
        seconds, queued_at = expected_seconds * self._rounds, self._queued_at or now
        known = self._candidate
        if known is None or known.expected_seconds != seconds or known.queued_at != queued_at:
            team = self.run.metadata.namespace
            known = Candidate(self.key, self.request.priority, queued_at, seconds, self._size, self._user, team)
            self._candidate = known
        return known

    def queued(self, expected_seconds: float, overdue: bool) -> Queued:
        """For the planner."""
        known = self._queued
        if known is None or known.expected_seconds != expected_seconds or known.overdue != overdue:
            known = self._queued = Queued(self.request, expected_seconds, overdue)
        return known


def _until_end(expectation: Expectation) -> float:
    return math.inf if expectation.source is Source.ENDLESS else expectation.seconds


def _rounds(applicant: Applicant) -> float:
    """How often a sweep has to be filled with members until all have ended, as things are; 1 for what is none. So its
    place in the queue is that of all the work that is left of it, and not that of one short member."""
    status = applicant.run.status
    if status is None or status.sweep is None:
        return 1.0
    counts = status.members
    left = counts.total - counts.succeeded - counts.failed
    return max(1.0, left / (counts.running + counts.pending or len(applicant.request.ranks)))


def _amounts(request: GangRequest) -> tuple[int, ...]:
    """What a gang asks for, as `core.queue.ordering.AMOUNTS`. Members that share their nodes with their own gang alone
    may all find room on one."""
    member, members = request.member, request.least
    nodes = members if member.whole_node else 1 if member.unlimited else 0
    return member.cpu_millis * members, member.memory_bytes * members, member.gpus * members, nodes


@lru_cache(maxsize=16384)
def _seconds(time: str) -> float:
    moment = parse_time(time)
    return moment.timestamp() if moment is not None else 0.0
