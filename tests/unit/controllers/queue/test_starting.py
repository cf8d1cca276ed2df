"""The size with which an attempt begins, within the quotas."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago

from kajitori.cluster.platform.ticket_key import SigningKey
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import life_of
from kajitori.controllers.queue.growing import Growth
from kajitori.controllers.queue.provisioning import Provisioning
from kajitori.controllers.queue.queue import Admitted, QueueEntry
from kajitori.controllers.queue.starting import Starter
from kajitori.controllers.runs.networks import NetworkKeeper
from kajitori.controllers.runs.statuses import Statuses
from kajitori.core.formats.node_lists import compress
from kajitori.core.placement.planner import Placement
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Resize
from kajitori.kube.client import KubeClient

ELASTIC: dict[str, Any] = {"replicas": 8, "minReplicas": 2, "resources": {"cpu": 1, "memory": "1Gi", "gpu": 8}}


class Quotas:
    """A fake client of a namespace with a quota that has room for `room` Pods."""

    def __init__(self, room: int) -> None:
        self.items = [
            {"metadata": {"name": "small"}, "status": {"hard": {"pods": "9"}, "used": {"pods": str(9 - room)}}}
        ]

    async def list(self, resource: object, namespace: str) -> Quotas:
        return self


class RecordedStatuses:
    """Stands for `Statuses`, and keeps the last written status."""

    def __init__(self) -> None:
        self.last = RunStatus()

    async def write(self, run: RunObject, status: RunStatus, version: str = "", **more: object) -> str:
        self.last = status
        return "7"


class Scene(QueueScene):
    """Eight nodes, and a namespace with a quota that has room for `room` Pods."""

    def __init__(self, room: int) -> None:
        super().__init__(8)
        self.written = RecordedStatuses()
        client, statuses = cast(KubeClient, Quotas(room)), cast(Statuses, self.written)
        provisioning = Provisioning(client, self.cluster, lambda key: None)
        networks = NetworkKeeper(client, lambda key: None)
        key = SigningKey(client, "kajitori", self.mirror.use_signing_key)
        self.starter = Starter(client, self.mirror, self.cluster, statuses, provisioning, networks, key, lambda: NOW)


KEPT = {
    "fits": (5, 0, 5, 5),
    "is cut to what the quota has room for": (5, 0, 3, 3),
    "exceeds the quota even at its smallest": (5, 0, 1, 5),
    "was checked against the quota when its nodes were chosen": (5, 5, 1, 5),
    "has more nodes than were checked before": (8, 5, 6, 6),
    "has more, and its ending members still count": (8, 5, 1, 5),
}


@pytest.mark.parametrize("case", KEPT)
async def test_an_elastic_gang_begins_within_its_quota(case: str) -> None:
    """Kept nodes were checked against the quota when they were chosen; further nodes were not."""
    nodes, kept, room, begins = KEPT[case]
    scene = Scene(room)
    pending = scene.waits("bert", nodes, **ELASTIC)
    spec, decision = scene.cluster.decide(pending.run)
    status = pending.run.status
    assert status is not None
    names = tuple(f"n{number}" for number in range(nodes))
    if kept:
        status = msgspec.structs.replace(status, resize=Resize(nodes=compress(names[:kept]), fewest=2))
    admitted = Admitted(life_of(pending.run, spec, decision, status), spec, decision)
    waiting = QueueEntry(pending.run, pending.request, admitted=admitted, status=status, version="1")
    placed, _ = await scene.starter.place(waiting, Placement("team/bert", tuple(range(nodes)), names), set())
    assert placed.attempt is not None
    assert (placed.attempt.nodes, placed.attempt.world_size) == (compress(names[:begins]), begins)


@pytest.mark.parametrize(("room", "grows_to"), [(9, "n[0-4]"), (2, "n[0-3]"), (0, "")])
async def test_an_elastic_gang_grows_within_its_quota(room: int, grows_to: str) -> None:
    """It does not grow if the quota has no room at all."""
    scene = Scene(room)
    run = scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    nodes = tuple(f"n{number}" for number in range(5))
    pending = scene.waits("other", 1)
    grows = Growth(("team", "bert"), run, 2, nodes, nodes[2:], pending.request.member)
    assert await scene.starter.grow(grows) is bool(grows_to)
    resize = scene.written.last.resize
    assert (resize.nodes if resize is not None else "") == grows_to
