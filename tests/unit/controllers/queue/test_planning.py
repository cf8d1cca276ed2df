"""When cycles run, and how many attempts start at a time."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import life_of
from kajitori.controllers.queue.planning import (
    FULL_REST,
    FULL_REST_WHEN_BUSY,
    MESSAGES_AT_ONCE,
    MESSAGES_WHEN_BUSY,
    PARTIAL_REST,
    PARTIAL_REST_WHEN_BUSY,
    Planning,
)
from kajitori.controllers.queue.provisioning import Provisioning
from kajitori.controllers.queue.queue import DOUBT_PATIENCE, LONGEST_PAUSE, Admitted, Cycle, QueueEntry
from kajitori.controllers.queue.starting import Starter
from kajitori.controllers.queue.trigger import CycleTrigger
from kajitori.controllers.runs.statuses import Statuses
from kajitori.controllers.workqueue import WorkQueue
from kajitori.core import gang
from kajitori.core.placement.planner import Placement
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.errors import Unavailable
from kajitori.kube.client import KubeClient
from kajitori.monitoring.controller import STEPS, ControllerMetrics


class PausedStarter:
    """Stands for the starter: each attempt starts once the test sets its event."""

    def __init__(self, at_a_time: int) -> None:
        self.at_a_time = at_a_time
        self.begun: dict[str, asyncio.Event] = {}
        self.failures = 0
        """Number of starts that fail before they are stored."""

    def ports_in_use(self) -> set[int]:
        return set()

    async def place(self, waiting: QueueEntry, placement: Placement, taken: set[int]) -> tuple[RunStatus, str]:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the API server answers 500")
        go_on = self.begun[waiting.key[1]] = asyncio.Event()
        await go_on.wait()
        return waiting.status, "2"

    async def create(self, *what: Any) -> None:
        """Creates nothing: the test needs no Pods."""


class Scene(QueueScene):
    """Waiting runs of one member, and a number of start slots."""

    def __init__(self, nodes: int, slots: int) -> None:
        super().__init__(nodes)
        self.paused_starter = PausedStarter(slots)
        self.trigger = CycleTrigger()
        self.work = WorkQueue(lambda: NOW)
        self.statuses = SimpleNamespace(written_at=lambda key: None, are_held_up=False, write=self.tell)
        self.told: list[str] = []
        provisioning = Provisioning(cast(KubeClient, None), self.cluster, lambda key: None)
        starter = cast(Starter, self.paused_starter)
        self.now = NOW
        self.metrics = ControllerMetrics.unread()
        clock = lambda: self.now  # noqa: E731
        statuses = cast(Statuses, self.statuses)
        self.planning = Planning(
            self.mirror, self.cluster, self.work, self.trigger, statuses, starter, provisioning, clock, self.metrics
        )

    async def tell(self, run: RunObject, *what: Any, **more: Any) -> str:
        """Stands for the write of a status."""
        self.told.append(run.metadata.name)
        return "2"

    def wait(self, name: str, since: str, **asked: Any) -> None:
        """Submit a run that needs a node."""
        self.show(name, RunStatus(phase=Phase.QUEUED, queued_at=since, members=MemberCounts(total=1)), **asked)
        self.reconcile(name)

    def reconcile(self, name: str) -> None:
        """Add the run to the queue as its reconciliation does."""
        waits = self.mirror.runs["team", name]
        spec, decision = self.cluster.decide(waits)
        life = life_of(waits, spec, decision, waits.current_status)
        admitted = Admitted(life, spec, decision, self.cluster.policy_version)
        needs = gang.NeedsNodes((0,), {}, frozenset())
        self.planning.add(("team", name), waits, admitted, waits.current_status, needs, waits.metadata.resource_version)

    async def plan(self) -> list[str]:
        """Run the next cycle when it is due; return the names of all runs that were started so far."""
        await _until(lambda: (self.planning.rest_seconds() or 0) <= 0)
        self.planning.plan()
        await asyncio.sleep(0)
        return list(self.paused_starter.begun)


async def test_attempts_begin_within_the_start_slots() -> None:
    scene = Scene(8, slots=2)
    for number in range(4):
        scene.wait(f"run-{number}", ago(minutes=10 - number))
    assert await scene.plan() == ["run-0", "run-1"]
    assert scene.planning.rest_seconds() is None  # nothing has changed: both are still starting
    scene.paused_starter.begun["run-0"].set()
    await _until(lambda: scene.planning.rest_seconds() is not None)
    assert await scene.plan() == ["run-0", "run-1", "run-2"]
    await scene.work.close()


async def test_a_run_whose_start_was_not_stored_is_planned_again_by_itself() -> None:
    """Nothing else changes in the cluster, so only the end of the doubt can cause another cycle."""
    scene = Scene(1, slots=1)
    scene.paused_starter.failures = 1
    scene.wait("run", ago(minutes=1))
    assert await scene.plan() == []
    await _until(lambda: not scene.work.busy)
    scene.reconcile("run")

    def is_settled() -> bool:
        scene.planning.plan()
        return (scene.planning.rest_seconds() or math.inf) > 1

    await _until(is_settled)
    scene.reconcile("run")
    assert not scene.paused_starter.begun
    assert scene.planning.rest_seconds() == pytest.approx(DOUBT_PATIENCE.total_seconds())
    scene.now += DOUBT_PATIENCE
    assert await scene.plan() == ["run"]
    await scene.work.close()


async def test_a_run_of_higher_priority_starts_though_all_slots_are_taken() -> None:
    """Otherwise its nodes would be idle until a run of lower priority has started."""
    scene = Scene(8, slots=1)
    scene.wait("low", ago(minutes=2))
    assert await scene.plan() == ["low"]
    scene.wait("next", ago(minutes=1))
    scene.wait("urgent", ago(minutes=1), priority="high")
    assert await scene.plan() == ["low", "urgent"]
    await scene.work.close()


async def test_after_many_starts_the_next_runs_are_chosen_together() -> None:
    """They are not chosen one by one, even if something else changes meanwhile."""
    scene = Scene(12, slots=8)
    for number in range(12):
        scene.wait(f"run-{number:02}", ago(minutes=20 - number))
    eight = [f"run-{number:02}" for number in range(8)]
    assert await scene.plan() == eight
    scene.paused_starter.begun["run-00"].set()
    await _until(lambda: ("team", "run-00") not in scene.work.busy)
    assert scene.planning.rest_seconds() is None
    scene.trigger.note_change()
    assert await scene.plan() == eight
    scene.paused_starter.begun["run-01"].set()
    await _until(lambda: ("team", "run-01") not in scene.work.busy)
    assert await scene.plan() == [*eight, "run-08", "run-09"]
    await scene.work.close()


@pytest.mark.parametrize(("are_held_up", "told"), [(False, MESSAGES_AT_ONCE), (True, MESSAGES_WHEN_BUSY)])
async def test_messages_of_waiting_runs_are_written_a_few_at_a_time(are_held_up: bool, told: int) -> None:
    """Fewer still while writes wait for the API server, so that starts and ends come before messages."""
    scene = Scene(1, slots=8)
    scene.runs("runs", "n0", since=ago(minutes=5))
    scene.statuses.are_held_up = are_held_up
    for number in range(MESSAGES_AT_ONCE + 1):
        scene.wait(f"run-{number:02}", ago(minutes=50 - number), resources={"gpu": 8})
    assert await scene.plan() == []
    await _until(lambda: not scene.work.busy)
    assert len(scene.told) == told
    await scene.work.close()


async def test_nothing_starts_before_all_existing_runs_are_reconciled() -> None:
    """Each may hold nodes, or come first in the queue. A run that needs no nodes counts as reconciled, too."""
    scene = Scene(1, slots=8)
    scene.planning.takeover.begin([("team", "first"), ("team", "over")])
    scene.wait("first", ago(minutes=1))
    scene.planning.plan()
    assert (scene.planning.rest_seconds() or 0) > 0 and not scene.work.busy
    scene.planning.leave(("team", "over"))
    assert await scene.plan() == ["first"]
    await scene.work.close()


@pytest.mark.parametrize(
    ("are_held_up", "full_rest", "partial_rest"),
    [(False, FULL_REST, PARTIAL_REST), (True, FULL_REST_WHEN_BUSY, PARTIAL_REST_WHEN_BUSY)],
)
async def test_partial_cycles_run_in_the_pause_and_a_full_one_follows(
    are_held_up: bool, full_rest: int, partial_rest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both pauses are a multiple of the cycle's own time, a larger one while writes wait for the API server."""
    scene, clock, ran = Scene(0, slots=1), [100.0], list[str]()
    scene.statuses.are_held_up = are_held_up
    scene.wait("run", ago(minutes=1))

    def cycle(kind: str, seconds: float) -> Cycle:
        ran.append(kind)
        clock[0] += seconds
        return Cycle()

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock[0])
    monkeypatch.setattr(scene.planning._queue, "plan", lambda *what: cycle("full", 2.0))
    monkeypatch.setattr(scene.planning._queue, "plan_partially", lambda *what: cycle("partial", 1.0))
    scene.planning.plan()
    assert ran == ["full"] and scene.planning.rest_seconds() is None
    scene.trigger.note_change()
    scene.planning.plan()
    assert ran == ["full", "partial"] and scene.planning.rest_seconds() == full_rest * 2.0 - 1.0
    scene.trigger.note_change()
    assert scene.planning.rest_seconds() == partial_rest * 1.0
    scene.planning.plan()
    assert ran == ["full", "partial"]
    clock[0] += full_rest * 2.0 - 1.0
    scene.planning.plan()
    assert ran == ["full", "partial", "full"] and scene.planning.rest_seconds() is None


async def test_an_unchanged_queue_is_planned_again_after_its_pause_or_never() -> None:
    """A due time causes one cycle, not one after the other, and none if no run waits any more."""
    scene = Scene(1, slots=8)
    scene.runs("runs", "n0", since=ago(minutes=5), timeLimit="1h")
    scene.wait("waits", ago(minutes=1), resources={"gpu": 8})
    scene.planning.plan()
    assert scene.planning.rest_seconds() == pytest.approx(LONGEST_PAUSE.total_seconds())
    scene.now += LONGEST_PAUSE
    assert (scene.planning.rest_seconds() or 0) > 0  # a full cycle has just ended
    assert await scene.plan() == []
    assert scene.planning.rest_seconds() == pytest.approx(LONGEST_PAUSE.total_seconds())
    scene.now += LONGEST_PAUSE
    scene.planning.leave(("team", "waits"))
    assert scene.planning.rest_seconds() is None
    await scene.work.close()


async def _until(holds: Any) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 — what it waits for is the time of the event loop
            await asyncio.sleep(0.001)


async def test_steps_of_a_cycle_and_waits_of_runs_are_measured() -> None:
    """Each step counts once per cycle; the queue wait is measured when a run gets nodes."""
    scene = Scene(1, slots=1)
    scene.wait("run-0", ago(minutes=10))
    scene.wait("run-1", ago(minutes=5))
    assert await scene.plan() == ["run-0"]
    scene.paused_starter.begun["run-0"].set()
    await _until(lambda: not scene.work.busy)
    figures = {
        (sample.name, *sample.labels.values()): sample.value
        for family in scene.metrics.registry.collect()
        for sample in family.samples
    }
    for step in set(STEPS) - {"partial", "reconcile"}:
        assert figures["kajitori_controller_step_seconds_count", step] == 1, step
    assert figures["kajitori_controller_attempts_total",] == 1
    assert figures["kajitori_controller_queue_wait_seconds_sum",] == 600
    assert figures["kajitori_controller_waiting_runs",] == 1
