"""The queue on a cluster: which runs may pass a reservation, and what is learned from earlier runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.harness.cluster import NODES_COUNT, Cluster

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.kube.client import KubeClient, Object
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import Resource

WHOLE: dict[str, Any] = {"resources": {"cpu": 1, "memory": "1Gi", "gpu": 8}}


async def test_a_short_run_passes_a_reservation_and_a_long_one_does_not(cluster: Cluster) -> None:
    """This holds until similar runs have turned out to be short."""
    cluster.start_controller()
    # 1. Three quarters of the nodes are busy for an hour; a gang that needs all nodes waits.
    await cluster.submit("now", replicas=NODES_COUNT - 2, timeLimit="1h", **WHOLE)
    await cluster.reaches("now", Phase.RUNNING)
    await cluster.submit("large", replicas=NODES_COUNT, timeLimit="1h", **WHOLE)
    await cluster.until(lambda: cluster.status("large").reason is Reason.WAITING_FOR_GPU, "large waits")
    # 2. There is room for a long run, but it would delay the gang; a short one starts before both.
    await cluster.submit("long", timeLimit="8h", command=["python", "learn.py", "--seed", "1"], **WHOLE)
    await cluster.until(lambda: cluster.status("long").reason is Reason.WAITING_ITS_TURN, "long waits its turn")
    assert f"it would delay {cluster.namespace}/large" in cluster.status("long").message
    await cluster.submit("short", timeLimit="10m", **WHOLE)
    await cluster.reaches("short", Phase.RUNNING)
    assert cluster.status("long").attempts == 0
    # 3. A run of the same kind with its own time limit ends at once: now the duration of such runs is known.
    await cluster.submit("first", timeLimit="5m", command=["python", "learn.py", "--seed", "2"], **WHOLE)
    await cluster.reaches("first", Phase.RUNNING)
    await cluster.succeed("first")
    done = await cluster.reaches("first", Phase.SUCCEEDED)
    assert done.ran is not None and done.ran.seconds < 600
    await cluster.reaches("long", Phase.RUNNING)
    assert cluster.status("large").attempts == 0


class ConflictsOnFirstStatus(KubeClient):
    """Another client changes one Run just before its first write of that Run's status, which meets a conflict."""

    def __init__(self, config: KubeConfig, refuses: str) -> None:
        super().__init__(config)
        self.refuses = refuses

    async def replace(
        self, resource: Resource, body: Mapping[str, Any], *, subresource: str = "", metadata_only: bool = False
    ) -> Object:
        meta = body["metadata"]
        if subresource == "status" and meta["name"] == self.refuses:
            self.refuses = ""
            await self.patch(resource, meta["name"], {"metadata": {"annotations": {"a": "b"}}}, meta["namespace"])
        return await super().replace(resource, body, subresource=subresource, metadata_only=metadata_only)


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_a_new_leader_starts_no_run_before_it_knows_all_waiting_ones(cluster: Cluster) -> None:
    """This holds even if its first write of a run's status meets a conflict: the run behind it does not start first."""
    task = cluster.start_controller()
    await cluster.submit("now", replicas=NODES_COUNT, **WHOLE)
    await cluster.reaches("now", Phase.RUNNING)
    for name, priority in (("first", "high"), ("second", "low")):
        await cluster.submit(name, replicas=NODES_COUNT, priority=priority, **WHOLE)
        await cluster.until(lambda name=name: cluster.status(name).message, "it waits")  # type: ignore[misc]
    await cluster.kill_controller(task)
    await cluster.succeed("now")
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("now")), "its nodes are free")
    cluster.use_policy(defaults={"restarts": 5})  # a change that the controller writes about every run
    async with ConflictsOnFirstStatus(cluster.server.controller_config, "first") as client:
        task = cluster.start_controller(client=client)
        await cluster.reaches("first", Phase.RUNNING)
        assert cluster.status("second").attempts == 0
        await cluster.kill_controller(task)
