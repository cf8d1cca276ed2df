"""Elastic gangs have as many members as there is room for, on the embedded and on a real server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.harness.cluster import SIM, Cluster
from tests.harness.platform.parts import GPUS

from kajitori.controllers.runs.statuses import write_status
from kajitori.core import gang
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.kube.resources import PODS, RESOURCE_QUOTAS

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}


async def test_it_starts_with_what_fits_and_shrinks_when_a_node_dies(cluster: Cluster) -> None:
    """Each member knows the number of members in its attempt. The lost member does not count as a restart, and the run
    does not wait for another node."""
    cluster.use_policy(elastic={"growAfter": "10m"})
    cluster.start_controller()
    await cluster.submit("rigid", replicas=3, resources=WHOLE)
    await cluster.reaches("rigid", Phase.RUNNING)
    await cluster.submit("bert", replicas=32, minReplicas=4, launcher="torchrun", resources=WHOLE)
    status = await cluster.reaches("bert", Phase.RUNNING)
    assert status.attempt is not None
    assert (status.members.total, status.members.running, status.attempt.world_size) == (5, 5, 5)
    assert await gang_variables(cluster, "bert-1-4") == {"KAJI_WORLD_SIZE": "5", "PET_NNODES": "5", "KAJI_RANK": "4"}
    lost = cluster.nodes_of("bert")[0]
    await cluster.silence(lost)
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.total, status.members.running, status.restarts) == (4, 4, 0)
    assert lost not in cluster.nodes_of("bert")
    assert await gang_variables(cluster, "bert-2-3") == {"KAJI_WORLD_SIZE": "4", "PET_NNODES": "4", "KAJI_RANK": "3"}


async def test_it_grows_onto_free_nodes_and_shrinks_for_a_higher_priority(cluster: Cluster) -> None:
    """The remaining members keep their nodes, and neither counts as a restart; growing does not even count as an
    interruption. Afterwards it runs on the nodes that the other run leaves free."""
    cluster.use_policy(elastic={"growAfter": "1s", "minimumRunTime": "0s"}, preemption={"minimumRunTime": "0s"})
    cluster.start_controller()
    await cluster.submit("rigid", replicas=3, resources=WHOLE)
    await cluster.reaches("rigid", Phase.RUNNING)
    await cluster.submit("bert", replicas=8, minReplicas=2, resources=WHOLE, priority="low")
    await cluster.reaches("bert", Phase.RUNNING)
    nodes = cluster.nodes_of("bert")
    assert len(nodes) == 5
    await cluster.succeed("rigid")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.running, status.restarts, status.interruptions, status.resize) == (8, 0, 0, None)
    assert cluster.nodes_of("bert")[:5] == nodes
    await cluster.submit("urgent", replicas=3, resources=WHOLE)
    await cluster.reaches("urgent", Phase.RUNNING)
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=3)
    assert (status.members.running, status.restarts, status.interruptions, status.preemption) == (5, 0, 1, None)


async def test_the_next_controller_finishes_a_planned_growth(
    cluster: Cluster,
) -> None:
    """The written plan is carried out. While old members end, no other run gets the gang's old or new nodes."""
    cluster.use_policy(elastic={"grow": False}, inject={"annotations": {f"{SIM}ignore-sigterm": "true"}})
    task = cluster.start_controller()
    await cluster.submit("rigid", replicas=2, resources=WHOLE)
    await cluster.reaches("rigid", Phase.RUNNING)
    await cluster.submit("bert", replicas=8, minReplicas=2, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    nodes, free = cluster.nodes_of("bert"), cluster.nodes_of("rigid")
    await cluster.succeed("rigid")
    await cluster.reaches("rigid", Phase.SUCCEEDED)
    await cluster.kill_controller(task)
    run = cluster.run("bert")
    assert run is not None and run.status is not None
    await write_status(cluster.client, run, gang.grow(run.status, [*nodes, free[0]], 2, datetime.now(UTC)))
    await cluster.submit("sneak", replicas=2, resources=WHOLE, priority="high")
    cluster.start_controller()
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.running, status.interruptions, status.resize) == (7, 0, None)
    assert cluster.nodes_of("bert") == [*nodes, free[0]]
    assert cluster.status("sneak").attempts == 0


@pytest.mark.conformance
async def test_it_stays_within_the_namespaces_quota(cluster: Cluster) -> None:
    """The quota limits it when it starts and when it grows."""
    cluster.use_policy(elastic={"growAfter": "0s", "minimumRunTime": "0s"})
    hard = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3"}}}
    await cluster.client.create(RESOURCE_QUOTAS, hard, cluster.namespace)
    quota = await cluster.client.get(RESOURCE_QUOTAS, "small", cluster.namespace)
    while not (quota.get("status") or {}).get("hard"):
        await asyncio.sleep(0.05)
        quota = await cluster.client.get(RESOURCE_QUOTAS, "small", cluster.namespace)
    cluster.start_controller()
    await cluster.submit("bert", replicas=8, minReplicas=2, resources=WHOLE)
    status = await cluster.reaches("bert", Phase.RUNNING)
    assert (status.members.running, status.attempts, status.failed_starts) == (3, 1, 0)
    await cluster.submit("other", replicas=1, resources=WHOLE)
    await cluster.until(lambda: cluster.status("other").reason is Reason.QUOTA, "the quota is full")
    assert (cluster.status("bert").attempts, cluster.status("bert").resize) == (1, None)
    await cluster.client.delete(RESOURCE_QUOTAS, "small", cluster.namespace)


async def gang_variables(cluster: Cluster, pod: str) -> dict[str, str]:
    """Return the variables about its gang that a member's program gets."""
    found = await cluster.client.get(PODS, pod, cluster.namespace)
    env = {variable["name"]: variable.get("value", "") for variable in found["spec"]["containers"][0]["env"]}
    return {name: env[name] for name in ("KAJI_WORLD_SIZE", "PET_NNODES", "KAJI_RANK")}
