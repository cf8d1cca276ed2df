"""The controller's queue over hours: what the order and the reservations promise, with runs that come and end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.queue_scene import NOW, QueueScene, in_queue

from kajitori.controllers.queue.controller import LONGEST_PAUSE, Cycle, Queue
from kajitori.core import gang
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import Ran
from kajitori.core.words.node_lists import compress
from kajitori.core.words.times import format_time

MINUTE, HOUR = 60.0, 3600.0


class Hours:
    """A cluster over time: runs are submitted, start when the queue says so, and end when they have run long enough."""

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
        """A run that takes so long, whatever it says of itself."""
        self.lengths[name], self.specs[name], self.submitted[name] = seconds, spec, self.now
        self.queue.wait(in_queue(self.scene.waits(name, members, since=self._time(), **spec)))

    def cycle(self) -> Cycle:
        """One look at the queue, at this moment; what is started runs from now on."""
        found = self.queue.plan((), NOW + timedelta(seconds=self.now))
        for waiting, placement in found.starts:
            name = waiting.key[1]
            self.waited[name] = self.now - self.submitted[name]
            self.ends[name] = self.now + self.lengths[name]
            self.scene.runs(name, compress(placement.nodes), since=self._time(), **self.specs[name])
        return found

    def passes(self, seconds: float) -> None:
        """Time goes by; what has run long enough has ended."""
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


def a_steady_stream(hours: Hours, lot: Random, *, until: float) -> Iterator[None]:
    """Every five minutes a run of up to an hour comes for one of ten nodes, more than they can do."""
    count = 0
    while hours.now < until:
        hours.submit(f"s{count}", 1, lot.uniform(50 * MINUTE, HOUR), timeLimit="1h")
        count += 1
        hours.cycle()
        yield
        hours.passes(5 * MINUTE)


@settings(max_examples=5, deadline=None)
@given(st.randoms())
def test_a_gang_of_all_nodes_starts_under_a_steady_stream_of_small_runs(lot: Random) -> None:
    """In bounded time: what the bound says, and until all that runs then has ended."""
    hours = Hours(10, queue={"bound": "3h", "backlog": 0})
    for _ in a_steady_stream(hours, lot, until=2 * HOUR):
        pass
    hours.submit("all", 10, HOUR, image="other")
    for _ in a_steady_stream(hours, lot, until=12 * HOUR):
        if "all" in hours.waited:
            break
    assert hours.waited["all"] <= 3 * HOUR + HOUR + 10 * MINUTE


def test_without_reservations_it_never_does() -> None:
    hours = Hours(10, queue={"reservations": False})
    lot = Random(1)
    for _ in a_steady_stream(hours, lot, until=2 * HOUR):
        pass
    hours.submit("all", 10, HOUR, image="other")
    for _ in a_steady_stream(hours, lot, until=9 * HOUR):
        pass
    assert "all" not in hours.waited


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 90), st.integers(1, 20)), min_size=1, max_size=15))
def test_first_come_first_served_where_policy_says_so(runs: list[tuple[int, int, int]]) -> None:
    """No run passes another, unless it ends before the runs ahead can start: they wait no longer for it."""
    hours = Hours(4, queue={"order": "fifo", "likely": 1})
    for number, (members, minutes, gap) in enumerate(runs):
        hours.passes(gap * MINUTE)
        hours.submit(f"s{number}", members, minutes * MINUTE, timeLimit=f"{minutes}m", image=f"image-{number}")
        hours.cycle()
    places = None
    while hours.waited.keys() != hours.submitted.keys():
        found = hours.cycle()
        assert found.plan is not None
        ranking = found.plan.ranking
        waiting = [run.key for run in found.plan.queue]
        assert waiting == sorted(waiting, key=lambda key: int(key.removeprefix("team/s")))
        assert [ranking.place(key).position for key in waiting] == list(range(1, len(waiting) + 1))
        reservations = {each.key: each for each in found.plan.schedule.reservations}
        first = reservations.get(waiting[0])
        if places is not None and places[0] == waiting[0] and first is not None:
            assert first.starts_at <= places[1] + 1  # whoever has passed since has not delayed it
        places = (waiting[0], first.starts_at) if first is not None else None
        hours.passes(MINUTE)


def test_a_queue_is_looked_at_again_when_what_was_expected_to_end_has_not() -> None:
    """Or half a minute later: the order follows the time. Where nodes are kept for nobody, nothing is to be decided."""
    hours = Hours(2)
    hours.submit("s1", 1, 9 * HOUR, timeLimit="40s")
    assert hours.cycle().look_again_at is None
    hours.submit("large", 2, HOUR)
    assert hours.cycle().look_again_at == NOW + LONGEST_PAUSE
    hours.passes(LONGEST_PAUSE.total_seconds())
    assert hours.cycle().look_again_at == NOW + timedelta(seconds=40)
