"""Heartbeats of simulated nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from kajitori.configuration.options.own_cluster import UpOptions
from kajitori.embedded.objects import Node
from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.entrypoints.sim import grace_seconds, heartbeat_seconds, pools_of
from kajitori.kube.client import KubeClient


class AnsweringServer:
    """Accepts every request."""

    async def create(self, _resource: object, body: dict[str, Any], *_: Any) -> dict[str, Any]:
        return body

    async def patch(self, _resource: object, name: str, *_: Any, **__: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "uid": f"uid-{name}"}}


def node(name: str, *, silent: bool) -> Node:
    annotations = {"sim.kajitori.dev/silent": "true"} if silent else {}
    ready = [{"type": "Ready", "status": "True"}]
    document = {"metadata": {"name": name, "annotations": annotations}, "status": {"conditions": ready}}
    return msgspec.convert(document, Node)


async def test_the_latest_heartbeat_says_how_late_they_are() -> None:
    """That of a node that is to be silent does not count."""
    now, key = 0.0, ("", "sim-2")
    client = cast(KubeClient, AnsweringServer())
    sim = SimulatedNodes(client, SimSettings(count=2, digits=1, heartbeat_seconds=10), monotonic=lambda: now)
    assert sim.late_seconds == 0
    starting = asyncio.create_task(sim._start())
    await sim._registered.wait()
    now = 9
    assert sim.late_seconds == 0
    now = 40
    assert sim.late_seconds == 30
    await sim._renew("sim-1")
    assert sim.late_seconds == 30
    sim._see_node(key, None, node("sim-2", silent=True))
    assert sim.late_seconds == 0
    sim._see_node(key, None, node("sim-2", silent=False))
    assert sim.late_seconds == 0
    now = 51
    assert sim.late_seconds == 1
    starting.cancel()


@pytest.mark.parametrize(("nodes", "interval", "grace"), [(0, 10, 40), (2500, 10, 40), (7500, 30, 120)])
def test_thousands_of_nodes_beside_everything_else_report_less_often(
    nodes: int, interval: float, grace: float, tmp_path: Path
) -> None:
    """They count as silent accordingly later."""
    assert heartbeat_seconds(nodes) == interval
    assert grace_seconds(interval) == grace
    for pool in pools_of(UpOptions(data=tmp_path, nodes=nodes, gpu_type=("h100", "a100"))):
        assert (pool.heartbeat_seconds, pool.lease_seconds) == (interval, grace)
