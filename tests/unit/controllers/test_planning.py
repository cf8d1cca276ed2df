"""When the queue is looked at, and how many start at a time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from tests.helpers.queue_scene import NOW, QueueScene, ago

from kajitori.controllers.planning import Planning
from kajitori.controllers.provisioning import Provisioning
from kajitori.controllers.queue import Admitted, Waiting
from kajitori.controllers.starting import Starter
from kajitori.controllers.statuses import Statuses
from kajitori.controllers.workqueue import WorkQueue
from kajitori.core import gang
from kajitori.core.planner import Placement
from kajitori.core.status import RunStatus
from kajitori.kube.client import KubeClient
from kajitori.kube.cluster import life_of


class Slow:
    """Stands for what begins attempts: each of them takes until it is told to go on."""

    at_a_time = 2

    def __init__(self) -> None:
        self.begun: dict[str, asyncio.Event] = {}

    def ports_in_use(self) -> set[int]:
        return set()

    async def place(self, waiting: Waiting, placement: Placement, taken: set[int]) -> tuple[RunStatus, str]:
        go_on = self.begun[waiting.key[1]] = asyncio.Event()
        await go_on.wait()
        return waiting.status, "2"

    async def create(self, *what: Any) -> None:
        """All is there already."""


async def test_so_many_attempts_begin_at_a_time_and_the_next_when_one_of_them_has_begun() -> None:
    scene, slow = QueueScene(8), Slow()
    work = WorkQueue(lambda: NOW)
    statuses = cast(Statuses, SimpleNamespace(written_at=lambda key: None))
    provisioning = Provisioning(cast(KubeClient, None), scene.cluster, lambda key: None)
    planning = Planning(scene.mirror, scene.cluster, work, statuses, cast(Starter, slow), provisioning, lambda: NOW)
    for number in range(4):
        waits = scene.waits(f"run-{number}", 1, since=ago(minutes=10 - number))
        spec, decision = scene.cluster.decide(waits.run)
        status = waits.run.standing
        life = life_of(waits.run, spec, decision, status)
        admitted = Admitted(life, spec, decision, scene.cluster.policy_version)
        needs = gang.NeedsNodes((0,), {}, frozenset())
        planning.add(("team", f"run-{number}"), waits.run, admitted, status, needs, "1")
    planning.plan()
    await asyncio.sleep(0)
    assert list(slow.begun) == ["run-0", "run-1"]
    assert planning.rest_seconds() is None  # nothing has changed: none of them has begun
    slow.begun["run-0"].set()
    await _until(lambda: planning.rest_seconds() is not None)
    await _until(lambda: (planning.rest_seconds() or 0) <= 0)
    planning.plan()
    await asyncio.sleep(0)
    assert list(slow.begun) == ["run-0", "run-1", "run-2"]
    await work.close()


async def _until(holds: Any) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 — what it waits for is the time of the event loop
            await asyncio.sleep(0.001)
