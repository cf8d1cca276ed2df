"""A log of gangs, replayed in simulated time through the production planner."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from bench.scheduling.swf import Job
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, place
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.queue.order import LIKELY, OrderRules
from kajitori.core.queue.backfill.schedule import schedule
from kajitori.core.queue.expected import Expectation, Finished, History, Size, Source, corrected
from kajitori.core.queue.ordering import DecayedUsage, rank
from kajitori.core.queue.waiting import WaitingRun

WITHOUT_LIMIT_SECONDS = 24 * 3600.0
"""Length that is assumed for a job without a limit by systems that know only limits."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to run the queue."""

    name: str
    rules: OrderRules = field(default_factory=OrderRules)
    expects: Literal["history", "limits"] = "history"
    reserve: bool = True
    strict: bool = False
    """Strict FIFO: no run starts before one that was submitted earlier."""
    likely: float = LIKELY


FIFO = OrderRules(order="fifo")
DEFAULT = Policy("default")
EASY = Policy("FIFO with EASY backfill, users' limits", FIFO, expects="limits", likely=1.0)
WITHOUT_RESERVATION = Policy("FIFO, whatever fits starts", FIFO, expects="limits", reserve=False)
STRICT = Policy("strict FIFO", FIFO, expects="limits", strict=True)
SHARE = Policy("share first, with backfill", OrderRules(order="share"))
POLICIES = (DEFAULT, EASY, WITHOUT_RESERVATION, STRICT)

_MEMBER = MemberRequest(cpu_millis=1000, memory_bytes=1 << 30, whole_node=True)


@dataclass(slots=True)
class _Running:
    job: Job
    expected: Expectation
    started: float
    ending: Ending

    def ends_at(self, now: float) -> Ending:
        """Return when a job that still runs is expected to end."""
        if self.ending.ends_at <= now:
            self.expected = corrected(self.expected, now - self.started, self.job.limit_seconds)
            self.ending = Ending(_MEMBER, self.ending.rows, self.started + self.expected.seconds)
        return self.ending


class Replay:
    """Replays one log with one policy. All nodes are equal, and every gang has nodes of its own."""

    def __init__(self, jobs: Sequence[Job], nodes: int, policy: Policy) -> None:
        self._jobs = jobs
        self._policy = policy
        self._table = NodeTable(
            NodeFacts(f"n{number:05d}", cpu_millis=1000, memory_bytes=1 << 30, gpus=0, pods=10)
            for number in range(nodes)
        )
        self._state = Snapshot.empty(self._table)
        self._free = nodes
        ranks = {size: tuple(range(size)) for size in {job.nodes for job in jobs}}
        self._gangs = [GangRequest(str(job.number), _MEMBER, ranks[job.nodes]) for job in jobs]
        self._waiting: dict[int, Job] = {}
        self._running: dict[int, _Running] = {}
        self._history = History()
        self._users = DecayedUsage(policy.rules.half_life_seconds)
        self._teams = DecayedUsage(policy.rules.half_life_seconds)
        self.waits = np.zeros(len(jobs))
        """Seconds that each job waited; shape (jobs,)."""
        self.cycles = 0

    def run(self) -> Replay:
        """Run until the last job has started."""
        ends: list[tuple[float, int]] = []
        coming = deque(self._jobs)
        while coming or ends:
            # 1. The next moment at which a job ends or is submitted.
            now = min(coming[0].submitted if coming else np.inf, ends[0][0] if ends else np.inf)
            while ends and ends[0][0] <= now:
                self._end(heapq.heappop(ends)[1], now)
            while coming and coming[0].submitted <= now:
                job = coming.popleft()
                self._waiting[job.number] = job
            # 2. One cycle, if jobs wait and nodes are free.
            if not self._waiting or not self._free:
                continue
            self.cycles += 1
            for number in self._strictly() if self._policy.strict else self._cycle(now):
                job = self._waiting.pop(number)
                self.waits[number] = now - job.submitted
                heapq.heappush(ends, (now + job.seconds, number))
                self._users.change(job.user, job.nodes / len(self._table), now)
                self._teams.change(job.team, job.nodes / len(self._table), now)
        return self

    def _cycle(self, now: float) -> list[int]:
        expected = {number: self._expect(job) for number, job in self._waiting.items()}
        size = len(self._table)
        queue = [
            WaitingRun(
                self._gangs[n],
                expected[n].seconds,
                work_seconds=expected[n].order_seconds,
                user=job.user,
                team=job.team,
                queued_at=job.submitted,
                size=job.nodes / size,
            )
            for n, job in self._waiting.items()
        ]
        ranking = rank(queue, self._users, self._teams, self._policy.rules, now)
        answer = schedule(
            self._state,
            ranking.ordered(),
            [running.ends_at(now) for running in self._running.values()],
            now,
            reserve=self._policy.reserve,
            likely=self._policy.likely,
        )
        for placement in answer.placements:
            number = int(placement.key)
            self._begin(self._jobs[number], placement, expected[number], now)
        return [int(placement.key) for placement in answer.placements]

    def _strictly(self) -> list[int]:
        started = []
        for number, job in self._waiting.items():
            placement = place(self._state, self._gangs[number]) if job.nodes <= self._free else None
            if not isinstance(placement, Placement):
                break
            self._begin(job, placement, self._expect(job), 0.0)
            started.append(number)
        return started

    def _expect(self, job: Job) -> Expectation:
        if self._policy.expects == "limits":
            return Expectation(job.limit_seconds or WITHOUT_LIMIT_SECONDS, Source.LIMIT)
        # The log names no programs: jobs of a user with the same limit count as the same kind.
        return self._history.expect(job.user, job.team, job.limit_seconds, Size(job.nodes), job.limit_seconds)

    def _begin(self, job: Job, placement: Placement, expected: Expectation, now: float) -> None:
        index = self._table.index
        rows = np.array([index[name] for name in placement.nodes], dtype=np.int64)
        self._state.used[rows] = _MEMBER.amounts(self._state.table)
        self._state.members[rows] = 1
        self._state.alone[rows] = True
        self._free -= job.nodes
        self._running[job.number] = _Running(job, expected, now, Ending(_MEMBER, rows, now + expected.seconds))

    def _end(self, number: int, now: float) -> None:
        job, rows = self._jobs[number], self._running.pop(number).ending.rows
        self._state.used[rows] = 0
        self._state.members[rows] = 0
        self._state.alone[rows] = False
        self._free += job.nodes
        self._users.change(job.user, -job.nodes / len(self._table), now)
        self._teams.change(job.team, -job.nodes / len(self._table), now)
        if self._policy.expects == "history":
            self._history.add(Finished(job.user, job.team, job.limit_seconds, Size(job.nodes), job.seconds, now))


@dataclass(frozen=True, slots=True)
class Figures:
    """Waits and slowdowns. Times are in minutes, except the longest wait, which is in hours."""

    mean_wait: float
    p95_wait: float
    slowdown: float
    """Mean of (wait + run) / max(run, 10 s), at least 1."""
    large_wait: float
    """Mean of gangs of half the machine and more."""
    longest_hours: float
    user_slowdown: float
    """Mean over users of each user's mean slowdown: all users count alike, however many jobs they have."""
    user_spread: float
    """Slowdown of the worst tenth of users, divided by that of the median user."""


def figures(jobs: Sequence[Job], waits: np.ndarray, nodes: int, since: float = 0.0) -> Figures:
    """The figures of all jobs that were submitted after `since` seconds."""
    chosen = [job for job in jobs if job.submitted >= since]
    if not chosen:
        raise ValueError("no job was submitted in that time")
    wait = np.array([waits[job.number] for job in chosen])
    seconds = np.array([job.seconds for job in chosen])
    slowdown = np.maximum(1.0, (wait + seconds) / np.maximum(seconds, 10.0))
    large = np.array([2 * job.nodes >= nodes for job in chosen])
    of_user: dict[str, list[float]] = {}
    for job, each in zip(chosen, slowdown.tolist(), strict=True):
        of_user.setdefault(job.user, []).append(each)
    users = np.array([np.mean(each) for each in of_user.values()])
    return Figures(
        mean_wait=float(wait.mean()) / 60,
        p95_wait=float(np.quantile(wait, 0.95)) / 60,
        slowdown=float(slowdown.mean()),
        large_wait=float(wait[large].mean()) / 60 if large.any() else 0.0,
        longest_hours=float(wait.max()) / 3600,
        user_slowdown=float(users.mean()),
        user_spread=float(np.quantile(users, 0.9) / np.median(users)),
    )
