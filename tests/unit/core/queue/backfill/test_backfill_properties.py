"""Properties of backfill on random clusters and queues."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.helpers.scenes.backfill_scene import Cluster, nodes, queued
from tests.helpers.scenes.plain_plan import plan

from kajitori.core.placement.planner import occupy_rows
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.backfill import schedule as backfill
from kajitori.core.queue.backfill.schedule import schedule
from kajitori.core.queue.waiting import WaitingRun

mixed = st.lists(
    st.tuples(
        st.integers(1, 6), st.sampled_from([0, 1, 2, 4, 8]), st.booleans(), st.sampled_from(["", "h100", "a100"]),
        st.integers(1, 20),
    ),
    min_size=1,
    max_size=10,
)  # fmt: skip


busy = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([1, 2, 4]), st.one_of(st.none(), st.integers(1, 20))), max_size=8
)


def cluster_with(running: list[tuple[int, int, int | None]]) -> Cluster:
    cluster = Cluster(nodes(3) + nodes(3, gpu_type="a100"))
    for row, gpus, ends_at in running:
        if cluster.state.used[row, 2] + gpus <= 8:
            cluster.runs(cluster.state.table.nodes[row].name, ends_at, gpus=gpus)
    return cluster


def queue_of(wanted: list[tuple[int, int, bool, str, int]]) -> list[WaitingRun]:
    return [
        queued(members, seconds, key=f"g{i}", gpus=gpus, whole_node=whole, gpu_type=gpu_type if gpus else "")
        for i, (members, gpus, whole, gpu_type, seconds) in enumerate(wanted)
    ]


@given(busy, mixed)
def test_without_reservations_it_equals_the_plain_planner(
    running: list[tuple[int, int, int | None]], wanted: list[tuple[int, int, bool, str, int]]
) -> None:
    """Results that are remembered by shape change nothing: placements and shortages are the same."""
    cluster, queue = cluster_with(running), queue_of(wanted)
    answer = schedule(cluster.state, queue, cluster.endings, 0.0, reserve=False)
    plain = plan(cluster.state, [waiting.gang for waiting in queue])
    assert answer.placements == plain.placements
    found = [(s.key, s.members, s.fit_now, s.fit_ever, s.fit_repaired) for s in answer.shortages]
    assert found == [(s.key, s.members, s.fit_now, s.fit_ever, s.fit_repaired) for s in plain.shortages]


few_shapes = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([4, 8]), st.just(False), st.just("h100"), st.integers(1, 20)),
    min_size=5,
    max_size=12,
)


@given(busy, st.one_of(mixed, few_shapes), *[st.integers(0, 12)] * 3, st.booleans(), st.integers(0, 3))
@example(
    [(3, 4, 5), (4, 4, 10), (5, 4, 15)],
    [(1, 8, False, "h100", 3), (1, 8, False, "h100", 4), *[(1, 4, False, "h100", 20)] * 3],
    9,
    2,
    12,
    True,
    3,
)  # fmt: skip — the second run equals the first, and nodes are still reserved for it against lower priority
@example(
    [(3, 4, None), (3, 4, None), (4, 4, None), (4, 4, None), (5, 4, 9)],
    [(1, 8, False, "h100", 20), (1, 4, False, "h100", 10), (1, 4, False, "h100", 10)],
    9,
    12,
    1,
    True,
    0,
)  # fmt: skip — the third may pass; the elastic second starts smaller, and has not ended by the reservation
@example([(3, 4, None)], [(3, 8, False, "h100", 3), (1, 8, False, "h100", 9)], 9, 12, 12, True, 0)  # it is smaller
def test_limited_starts_are_the_first_of_all_starts(
    running: list[tuple[int, int, int | None]],
    wanted: list[tuple[int, int, bool, str, int]],
    most: int,
    lower_from: int,
    elastic: int,
    reserve: bool,
    further: int,
) -> None:
    """With `max_starts`, placements are the same as without it. Runs that are skipped, because a run with the same
    request did not fit, would have changed nothing."""
    cluster, queue = cluster_with(running), queue_of(wanted)
    for place, waiting in enumerate(queue):
        fewest = 1 if place == elastic else None
        queue[place] = replace(waiting, gang=replace(waiting.gang, priority=-(place >= lower_from), fewest=fewest))
    with mock.patch.object(backfill, "FURTHER_RESERVATIONS", further):
        all_of_them = schedule(cluster.state, queue, cluster.endings, 0.0, reserve=reserve)
        answer = schedule(cluster.state, iter(queue), cluster.endings, 0.0, reserve=reserve, max_starts=most)
    assert answer.placements == all_of_them.placements[:most]


class Eager(backfill.BackfillPass):
    """Makes all reservations of a priority before any run of lower priority is tried, whether or not they matter."""

    def note_priority(self, priority: int) -> None:
        super().note_priority(priority)
        self.reserve_for_higher_priorities()


@given(busy, st.lists(mixed, min_size=2, max_size=4), st.integers(0, 9))
@example(
    [(0, 1, None)],
    [
        [(1, 1, False, "h100", 1), (3, 1, True, "h100", 1)],
        [(1, 0, False, "", 1), (2, 0, True, "", 1), (1, 0, True, "", 1)],
        [
            (1, 8, False, "a100", 1)
        ],  # no node is reserved against it yet, and it would get the first reservation of its own
    ],
    0,
)
def test_reservations_made_late_change_nothing(
    running: list[tuple[int, int, int | None]], wanted: list[list[tuple[int, int, bool, str, int]]], most: int
) -> None:
    """With `max_starts`, reservations that are never made change nothing either."""
    cluster = cluster_with(running)
    queue = [
        WaitingRun(replace(waiting.gang, key=f"{level}-{waiting.gang.key}", priority=-level), waiting.expected_seconds)
        for level, part in enumerate(wanted)
        for waiting in queue_of(part)
    ]
    lazy, few = cluster.schedule(*queue), cluster.schedule(*queue, max_starts=most)
    with mock.patch.object(backfill, "BackfillPass", Eager):
        assert cluster.schedule(*queue) == lazy
        assert cluster.schedule(*queue, max_starts=most).placements == few.placements


@given(busy, mixed, st.lists(st.integers(0, 10), max_size=2))
def test_nothing_is_given_twice_and_no_reservation_is_delayed(
    running: list[tuple[int, int, int | None]], wanted: list[tuple[int, int, bool, str, int]], lower_from: list[int]
) -> None:
    """If all runs end when expected, every reserved gang finds its nodes free at its time, also next to the other gangs
    that have started by then."""
    cluster, queue = cluster_with(running), queue_of(wanted)
    for place, waiting in enumerate(queue):
        priority = -sum(start <= place for start in lower_from)
        queue[place] = replace(waiting, gang=replace(waiting.gang, priority=priority))
    by_key = {waiting.gang.key: waiting for waiting in queue}
    answer = cluster.schedule(*queue)
    assert {p.key for p in answer.placements} | {s.key for s in answer.shortages} == set(by_key)
    state, index = cluster.state.copy(), cluster.state.table.index
    ends = [(ending.ends_at, ending.member, ending.rows) for ending in cluster.endings]
    for placement in answer.placements:
        rows = np.array([index[name] for name in placement.nodes])
        member = by_key[placement.key].gang.member
        occupy_rows(state, member, rows)
        ends.append((by_key[placement.key].expected_seconds, member, rows))
    assert (state.used <= state.table.total).all()
    for reservation in answer.reservations:
        then = Snapshot.empty(state.table)
        then.used += state.used
        for ends_at, member, rows in ends:
            if ends_at <= reservation.starts_at:
                np.subtract.at(then.used, rows, member.amounts(then.table))
        for other in answer.reservations:
            if other.starts_at <= reservation.starts_at:
                rows = np.array([index[name] for name in other.placement.nodes])
                np.add.at(then.used, rows, by_key[other.key].gang.member.amounts(then.table))
        assert (then.used <= then.table.total).all()
