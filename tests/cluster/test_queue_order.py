"""The queue on a cluster: which runs may pass a reservation, and what earlier runs teach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.harness.cluster import NODES_COUNT, Cluster

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.errors import Conflict
from kajitori.kube.client import KubeClient, Object
from kajitori.kube.config import KubeConfig
from kajitori.kube.resources import Resource

WHOLE: dict[str, Any] = {"resources": {"cpu": 1, "memory": "1Gi", "gpu": 8}}


async def test_a_short_run_passes_the_one_that_nodes_are_kept_for_and_a_long_one_does_not(cluster: Cluster) -> None:
    """Until runs like the long one have turned out to be short."""
    cluster.start_controller()
    # 1. Three quarters of the nodes are taken for an hour; a gang of all nodes waits for them.
    await cluster.submit("now", replicas=NODES_COUNT - 2, timeLimit="1h", **WHOLE)
    await cluster.reaches("now", Phase.RUNNING)
    await cluster.submit("large", replicas=NODES_COUNT, timeLimit="1h", **WHOLE)
    await cluster.until(lambda: cluster.status("large").reason is Reason.WAITING_FOR_GPU, "large waits")
    # 2. A long run finds room, but would delay it; a short one passes both.
    await cluster.submit("long", timeLimit="8h", command=["python", "learn.py", "--seed", "1"], **WHOLE)
    await cluster.until(lambda: cluster.status("long").reason is Reason.WAITING_ITS_TURN, "long waits its turn")
    assert f"it would delay {cluster.namespace}/large" in cluster.status("long").message
    await cluster.submit("short", timeLimit="10m", **WHOLE)
    await cluster.reaches("short", Phase.RUNNING)
    assert cluster.status("long").attempts == 0
    # 3. One of its kind, with a limit of its own, ends in no time: it is known now how long these take.
    await cluster.submit("first", timeLimit="5m", command=["python", "learn.py", "--seed", "2"], **WHOLE)
    await cluster.reaches("first", Phase.RUNNING)
    await cluster.succeed("first")
    done = await cluster.reaches("first", Phase.SUCCEEDED)
    assert done.ran is not None and done.ran.seconds < 600
    await cluster.reaches("long", Phase.RUNNING)
    assert cluster.status("large").attempts == 0


class Refusing(KubeClient):
    """Everything passes but the first write of one Run's status: somebody else was quicker."""

    def __init__(self, config: KubeConfig, refuses: str) -> None:
        super().__init__(config)
        self.refuses = refuses

    async def replace(
        self, resource: Resource, body: Mapping[str, Any], *, subresource: str = "", metadata_only: bool = False
    ) -> Object:
        if subresource == "status" and body["metadata"]["name"] == self.refuses:
            self.refuses = ""
            raise Conflict("it was written meanwhile")
        return await super().replace(resource, body, subresource=subresource, metadata_only=metadata_only)


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_who_leads_anew_starts_nobody_before_he_knows_of_all_who_wait(cluster: Cluster) -> None:
    """Also where the first thing that he writes of one of them is refused: the next in the order is not the first."""
    task = cluster.start_controller()
    await cluster.submit("now", replicas=NODES_COUNT, **WHOLE)
    await cluster.reaches("now", Phase.RUNNING)
    for name, priority in (("first", "high"), ("second", "low")):
        await cluster.submit(name, replicas=NODES_COUNT, priority=priority, **WHOLE)
        await cluster.until(lambda name=name: cluster.status(name).message, "it waits")  # type: ignore[misc]
    await cluster.kill_controller(task)
    await cluster.succeed("now")
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("now")), "its nodes are free")
    cluster.use_policy(defaults={"restarts": 5})  # which is told of everybody
    async with Refusing(cluster.server.controller_config, "first") as client:
        task = cluster.start_controller(client=client)
        await cluster.reaches("first", Phase.RUNNING)
        assert cluster.status("second").attempts == 0
        await cluster.kill_controller(task)
