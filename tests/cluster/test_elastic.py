"""Elastic gangs: as many members as there is room for, the same on the embedded server and on a real one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from tests.helpers.world import GPUS, SIM, World

from kajitori.controllers.runs.statuses import write_status
from kajitori.core import gang
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.kube.resources import PODS, RESOURCE_QUOTAS

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}


async def test_it_starts_with_what_fits_and_goes_on_smaller_when_a_node_dies(world: World) -> None:
    """Each member knows how many there are in its attempt. The loss costs no restart, and nobody waits for a node."""
    world.use_policy(elastic={"growAfter": "10m"})
    world.start_controller()
    await world.submit("rigid", replicas=3, resources=WHOLE)
    await world.reaches("rigid", Phase.RUNNING)
    await world.submit("bert", replicas=32, minReplicas=4, launcher="torchrun", resources=WHOLE)
    status = await world.reaches("bert", Phase.RUNNING)
    assert status.attempt is not None
    assert (status.members.total, status.members.running, status.attempt.world_size) == (5, 5, 5)
    assert await told(world, "bert-1-4") == {"KAJI_WORLD_SIZE": "5", "PET_NNODES": "5", "KAJI_RANK": "4"}
    lost = world.nodes_of("bert")[0]
    await world.silence(lost)
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.total, status.members.running, status.restarts) == (4, 4, 0)
    assert lost not in world.nodes_of("bert")
    assert await told(world, "bert-2-3") == {"KAJI_WORLD_SIZE": "4", "PET_NNODES": "4", "KAJI_RANK": "3"}


async def test_it_grows_into_free_nodes_and_shrinks_for_who_comes_before_it(world: World) -> None:
    """Its members stay where they are, and neither costs a restart of the program; to grow is not even an interruption.
    It goes on with what the other one leaves it."""
    world.use_policy(elastic={"growAfter": "1s", "minimumRunTime": "0s"}, preemption={"minimumRunTime": "0s"})
    world.start_controller()
    await world.submit("rigid", replicas=3, resources=WHOLE)
    await world.reaches("rigid", Phase.RUNNING)
    await world.submit("bert", replicas=8, minReplicas=2, resources=WHOLE, priority="low")
    await world.reaches("bert", Phase.RUNNING)
    nodes = world.nodes_of("bert")
    assert len(nodes) == 5
    await world.succeed("rigid")
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.running, status.restarts, status.interruptions, status.resize) == (8, 0, 0, None)
    assert world.nodes_of("bert")[:5] == nodes
    await world.submit("urgent", replicas=3, resources=WHOLE)
    await world.reaches("urgent", Phase.RUNNING)
    status = await world.reaches("bert", Phase.RUNNING, attempt=3)
    assert (status.members.running, status.restarts, status.interruptions, status.preemption) == (5, 0, 1, None)


async def test_a_controller_that_is_killed_is_followed_by_one_that_lets_it_grow_onto_its_nodes(world: World) -> None:
    """What is written counts: while its members take their grace nobody else gets its nodes, old or new."""
    world.use_policy(elastic={"grow": False}, inject={"annotations": {f"{SIM}ignore-sigterm": "true"}})
    task = world.start_controller()
    await world.submit("rigid", replicas=2, resources=WHOLE)
    await world.reaches("rigid", Phase.RUNNING)
    await world.submit("bert", replicas=8, minReplicas=2, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    nodes, free = world.nodes_of("bert"), world.nodes_of("rigid")
    await world.succeed("rigid")
    await world.reaches("rigid", Phase.SUCCEEDED)
    await world.kill_controller(task)
    run = world.run("bert")
    assert run is not None and run.status is not None
    await write_status(world.client, run, gang.grow(run.status, [*nodes, free[0]], 2, datetime.now(UTC)))
    await world.submit("sneak", replicas=2, resources=WHOLE, priority="high")
    world.start_controller()
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.running, status.interruptions, status.resize) == (7, 0, None)
    assert world.nodes_of("bert") == [*nodes, free[0]]
    assert world.status("sneak").attempts == 0


async def test_it_takes_no_more_than_the_namespaces_quota_has_room_for(world: World) -> None:
    """Neither to start with nor to grow."""
    world.use_policy(elastic={"growAfter": "0s", "minimumRunTime": "0s"})
    hard = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3"}}}
    await world.client.create(RESOURCE_QUOTAS, hard, world.namespace)
    quota = await world.client.get(RESOURCE_QUOTAS, "small", world.namespace)
    while not (quota.get("status") or {}).get("hard"):
        await asyncio.sleep(0.05)
        quota = await world.client.get(RESOURCE_QUOTAS, "small", world.namespace)
    world.start_controller()
    await world.submit("bert", replicas=8, minReplicas=2, resources=WHOLE)
    status = await world.reaches("bert", Phase.RUNNING)
    assert (status.members.running, status.attempts, status.failed_starts) == (3, 1, 0)
    await world.submit("other", replicas=1, resources=WHOLE)
    await world.until(lambda: world.status("other").reason is Reason.QUOTA, "the quota is full")
    assert (world.status("bert").attempts, world.status("bert").resize) == (1, None)
    await world.client.delete(RESOURCE_QUOTAS, "small", world.namespace)


async def told(world: World, pod: str) -> dict[str, str]:
    """What a member's program finds about its gang."""
    found = await world.client.get(PODS, pod, world.namespace)
    env = {each["name"]: each.get("value", "") for each in found["spec"]["containers"][0]["env"]}
    return {name: env[name] for name in ("KAJI_WORLD_SIZE", "PET_NNODES", "KAJI_RANK")}
