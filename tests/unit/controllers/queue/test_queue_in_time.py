"""Simulated hours of the controller's queue: order and reservations hold while runs arrive and end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.queue_scene import NOW, QueueScene, in_queue

from kajitori.controllers.queue.queue import LONGEST_PAUSE, Cycle, Queue
from kajitori.core import gang
from kajitori.core.formats.node_lists import compress
from kajitori.core.formats.times import format_time
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.attempts import Ran

MINUTE, HOUR = 60.0, 3600.0


class SimulatedCluster:
    """A cluster over simulated time: runs are submitted, start when planned, and end after their true length."""

    def __init__(self, nodes: int, **policy: Any) -> None:
        self.scene = QueueScene(nodes, **policy)
        self.queue = Queue(self.scene.mirror, self.scene.cluster)
        self.now = 0.0
        self.ends: dict[str, float] = {}
        self.lengths: dict[str, float] = {}
        self.specs: dict[str, dict[str, Any]] = {}
        self.submitted: dict[str, float] = {}
        self.waited: dict[str, float] = {}

    def submit(self, name: str, members: int, seconds: float, **spec: Any) -> None:
        """Submit a run that takes this long, whatever its time limit says."""
        self.lengths[name], self.specs[name], self.submitted[name] = seconds, spec, self.now
        self.queue.wait(in_queue(self.scene.waits(name, members, since=self._time(), **spec)))

    def cycle(self) -> Cycle:
        """Run one cycle now; runs that it starts are running from now on."""
        found = self.queue.plan((), NOW + timedelta(seconds=self.now))
        for waiting, placement in found.starts:
            name = waiting.key[1]
            self.waited[name] = self.now - self.submitted[name]
            self.ends[name] = self.now + self.lengths[name]
            self.scene.runs(name, compress(placement.nodes), since=self._time(), **self.specs[name])
        return found

    def advance(self, seconds: float) -> None:
        """Let time pass, and end the runs that have run for their length."""
        self.now += seconds
        for name in [name for name, end in self.ends.items() if end <= self.now]:
            run = self.scene.mirror.runs["team", name]
            assert run.status is not None and run.status.attempt is not None
            for rank, node in gang.node_by_rank(run.status.attempt).items():
                self.scene.pod(run, rank, node, phase="Succeeded")
            ran = Ran(seconds=int(self.lengths[name]), until=self._time())
            status = msgspec.structs.replace(run.status, phase=Phase.SUCCEEDED, ran=ran)
            self.scene.show(name, status, **self.specs[name])
            del self.ends[name]

    def _time(self) -> str:
        return format_time(NOW + timedelta(seconds=self.now))


def steady_stream(cluster: SimulatedCluster, random: Random, *, until: float) -> Iterator[None]:
    """Submit a run of up to one hour every five minutes, more than ten nodes can run."""
    count = 0
    while cluster.now < until:
        cluster.submit(f"s{count}", 1, random.uniform(50 * MINUTE, HOUR), timeLimit="1h")
        count += 1
        cluster.cycle()
        yield
        cluster.advance(5 * MINUTE)


@settings(max_examples=5, deadline=None)
@given(st.randoms())
def test_a_gang_of_all_nodes_starts_under_a_steady_stream_of_small_runs(random: Random) -> None:
    """It waits at most for the policy's bound, and until the runs that are running then have ended."""
    cluster = SimulatedCluster(10, queue={"bound": "3h", "backlog": 0})
    for _ in steady_stream(cluster, random, until=2 * HOUR):
        pass
    cluster.submit("all", 10, HOUR, image="other")
    for _ in steady_stream(cluster, random, until=12 * HOUR):
        if "all" in cluster.waited:
            break
    assert cluster.waited["all"] <= 3 * HOUR + HOUR + 10 * MINUTE


def test_a_gang_of_all_nodes_never_starts_without_reservations() -> None:
    cluster = SimulatedCluster(10, queue={"reservations": False})
    random = Random(1)
    for _ in steady_stream(cluster, random, until=2 * HOUR):
        pass
    cluster.submit("all", 10, HOUR, image="other")
    for _ in steady_stream(cluster, random, until=9 * HOUR):
        pass
    assert "all" not in cluster.waited


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 90), st.integers(1, 20)), min_size=1, max_size=15))
def test_order_fifo_starts_runs_in_order_of_submission(runs: list[tuple[int, int, int]]) -> None:
    """A run passes another only if it ends before the runs ahead of it can start, so they wait no longer."""
    cluster = SimulatedCluster(4, queue={"order": "fifo", "likely": 1})
    for number, (members, minutes, gap) in enumerate(runs):
        cluster.advance(gap * MINUTE)
        cluster.submit(f"s{number}", members, minutes * MINUTE, timeLimit=f"{minutes}m", image=f"image-{number}")
        cluster.cycle()
    places = None
    while cluster.waited.keys() != cluster.submitted.keys():
        found = cluster.cycle()
        assert found.plan is not None
        ranking = found.plan.ranking
        waiting = [run.key for run in found.plan.queue]
        assert waiting == sorted(waiting, key=lambda key: int(key.removeprefix("team/s")))
        assert [ranking.place(key).position for key in waiting] == list(range(1, len(waiting) + 1))
        reservations = {reservation.key: reservation for reservation in found.plan.schedule.reservations}
        first = reservations.get(waiting[0])
        if places is not None and places[0] == waiting[0] and first is not None:
            assert first.starts_at <= places[1] + 1  # runs that passed it since have not delayed it
        places = (waiting[0], first.starts_at) if first is not None else None
        cluster.advance(MINUTE)


def test_a_cycle_is_due_when_a_reserving_run_should_have_ended() -> None:
    """At the latest it is due after half a minute, since the order depends on time. Without a reservation no cycle is
    due."""
    cluster = SimulatedCluster(2)
    cluster.submit("s1", 1, 9 * HOUR, timeLimit="40s")
    assert cluster.cycle().look_again_at is None
    cluster.submit("large", 2, HOUR)
    assert cluster.cycle().look_again_at == NOW + LONGEST_PAUSE
    cluster.advance(LONGEST_PAUSE.total_seconds())
    assert cluster.cycle().look_again_at == NOW + timedelta(seconds=40)
