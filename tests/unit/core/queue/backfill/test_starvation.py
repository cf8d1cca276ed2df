"""A gang of many nodes starts, however many other runs could pass it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.backfill_scene import HOUR, Cluster, nodes, queued, started

from kajitori.core.placement.planner import MemberRequest, Placement, occupy_rows
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.policy.queue.order import OrderRules
from kajitori.core.queue.backfill.schedule import schedule
from kajitori.core.queue.expected import Expectation, Source, remaining
from kajitori.core.queue.ordering import DecayedUsage, rank
from kajitori.core.queue.waiting import WaitingRun


@pytest.mark.parametrize("likely", [1.0, 0.8])
def test_a_gang_of_all_nodes_starts_under_a_steady_stream_of_small_runs(likely: float) -> None:
    """It waits at most the bound plus twice the longest run. Without a reservation it would never start."""
    waited = _waits_of_a_gang_of_all_nodes(likely, reserve=True)
    assert waited is not None and waited <= 2 * HOUR + 2 * 1900
    assert _waits_of_a_gang_of_all_nodes(likely, reserve=False) is None


def _waits_of_a_gang_of_all_nodes(likely: float, *, reserve: bool) -> float | None:
    """Return how long the gang waits on eight nodes, if every four minutes a run of half an hour for one node arrives.

    These runs use 15/16 of the nodes' time. None if the gang never starts.
    """
    cluster, count = Cluster(nodes(8)), 8
    rules, nobody = OrderRules(bound_seconds=2 * HOUR), DecayedUsage(1.0)
    ends: list[tuple[float, int, Ending]] = []
    waiting = {"all": (HOUR, queued(count, HOUR, key="all"))}
    for step in range(600):
        now = 240.0 * step
        while ends and ends[0][0] <= now:
            ending = heapq.heappop(ends)[2]
            np.subtract.at(cluster.state.used, ending.rows, ending.member.amounts(cluster.state.table))
            np.subtract.at(cluster.state.members, ending.rows, 1)
        waiting[f"s{step}"] = (now, queued(1, 1800 + step % 100, key=f"s{step}"))
        here = [key for key, (since, _) in waiting.items() if since <= now]
        runs = [
            replace(waiting[key][1], queued_at=waiting[key][0], size=len(waiting[key][1].gang.ranks) / count)
            for key in here
        ]
        queue = rank(runs, nobody, nobody, rules, now).ordered()
        answer = schedule(cluster.state, queue, [end[2] for end in ends], now, reserve=reserve, likely=likely)
        for placement in answer.placements:
            if placement.key == "all":
                return now - HOUR
            _, item = waiting.pop(placement.key)
            _begin(cluster, ends, placement, item, now)
    return None


def _begin(
    cluster: Cluster, ends: list[tuple[float, int, Ending]], placement: Placement, item: WaitingRun, now: float
) -> None:
    rows = np.array([cluster.state.table.index[name] for name in placement.nodes])
    occupy_rows(cluster.state, item.gang.member, rows)
    ends_at = now + item.expected_seconds
    heapq.heappush(ends, (ends_at, int(placement.key[1:]), Ending(item.gang.member, rows, ends_at)))


def test_a_gang_of_all_nodes_starts_though_a_sweep_always_has_more_members() -> None:
    """A sweep's waiting time begins anew whenever it gets nodes, so a gang that waited before comes first."""
    cluster = Cluster(nodes(4))
    gang, running, left, now, placed_at = queued(4, HOUR, key="gang"), [], 40, 0.0, -1.0
    started_at = None
    while started_at is None:
        assert now < 10 * HOUR, "the gang starves"
        order = [queued(min(left, 4), HOUR, key="sweep", fewest=1)]
        order.insert(0 if placed_at >= 0 else 1, gang)  # submitted a moment after the sweep
        answer = cluster.schedule(*order, now=now, likely=0.8)
        for placement in answer.placements:
            if placement.key == "gang":
                started_at = now
                break
            placed_at = now
            left -= len(placement.ranks)
            for place, node in enumerate(placement.nodes):
                running.append((now + HOUR * (1 + place / 8), node))
                cluster.runs(node, running[-1][0])
        if started_at is None:
            running.sort()
            now, over = running.pop(0)
            row = cluster.state.table.index[over]
            cluster.state.used[row], cluster.state.members[row] = 0, 0
            cluster.endings = [e for e in cluster.endings if e.rows[0] != row]
    assert started_at <= 2 * HOUR


@dataclass
class Run:
    """A run on one node."""

    row: int
    started_at: float
    expected_seconds: float
    actual_seconds: float

    def ending(self, member: MemberRequest, now: float) -> Ending:
        whole = Expectation(self.expected_seconds, Source.SIMILAR)
        more = remaining(whole, now - self.started_at, None)
        late_since = self.started_at if more.source is Source.CORRECTED else None
        return Ending(member, np.array([self.row]), now + more.seconds, late_since=late_since)

    @property
    def ends_at(self) -> float:
        return self.started_at + self.actual_seconds

    @property
    def latest_expected_end(self) -> float:
        """The latest end that it is expected to have at any time: twice its length, if that surprises."""
        return self.started_at + 2 * max(self.actual_seconds, self.expected_seconds)


lengths = st.tuples(st.integers(1, 6), st.integers(1, 15))
"""Expected and actual length."""


@given(
    st.lists(st.tuples(lengths, st.integers(0, 8)), min_size=4, max_size=4),
    st.lists(lengths, min_size=1, max_size=6),
    st.integers(2, 4),
)
@settings(max_examples=30)
@example([((3, 3), 2), ((3, 5), 2), ((3, 8), 2), ((3, 15), 2)], [(1, 15)], 4)
@example([((1, 1), 0), ((1, 1), 0), ((1, 2), 0), ((1, 3), 0)], [(1, 3)], 3)
def test_a_reservation_is_not_postponed_by_runs_of_lower_priority_that_started_after_it(
    running: list[tuple[tuple[int, int], int]], stream: list[tuple[int, int]], members: int
) -> None:
    """However much longer than expected they take. A stream of them always has another run that seems to end in time.

    They pass the gang only until the runs from before it were expected to have ended, so it starts once the last of
    those that passed by then has ended.
    """
    cluster, now = Cluster(nodes(4)), 0.0
    member = queued(1, 1).gang.member
    gang = replace(queued(members, 100, key="gang", priority=100), queued_at=now)
    runs = [Run(row, -age, expected, max(actual, age + 1)) for row, ((expected, actual), age) in enumerate(running)]
    latest = max(run.latest_expected_end for run in runs) + max(actual for _, actual in stream) + 1
    began = 0
    while True:
        runs = [run for run in runs if run.ends_at > now]
        cluster.state = Snapshot.empty(cluster.state.table)
        for run in runs:
            occupy_rows(cluster.state, member, np.array([run.row]))
        cluster.endings = [run.ending(member, now) for run in runs]
        expected, actual = stream[began % len(stream)]
        small = [queued(1, expected, key=f"small-{number}") for number in range(4)]
        answer = cluster.schedule(gang, *small, now=now)
        if "gang" in started(answer):
            break
        for placement in answer.placements:
            began += 1
            runs.append(Run(cluster.state.table.index[placement.nodes[0]], now, expected, actual))
        now += 1
        assert now <= latest, "the gang is postponed"
