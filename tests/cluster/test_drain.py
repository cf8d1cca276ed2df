"""A node is emptied: gangs leave as a whole, and nothing of them comes back while it is drained."""

from __future__ import annotations

from typing import Any

from tests.helpers.world import GPUS, World

from kajitori.core import names
from kajitori.core.reasons import Phase
from kajitori.kube.resources import NODES

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}


async def drain(world: World, node: str, who: str | None = "ada") -> None:
    """What `POST /v1/nodes/{name}/drain` writes, and with nobody what `uncordon` does."""
    patch: dict[str, Any] = {"metadata": {"annotations": {names.ANNOTATION_DRAIN: who}}}
    await world.client.patch(NODES, node, patch | {"spec": {"unschedulable": bool(who)}})


async def test_a_gang_leaves_as_a_whole(world: World) -> None:
    """It costs no restart, and those who stay on their nodes are restarted with the one who moves."""
    world.start_controller()
    await world.submit("bert", replicas=3, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    before = world.nodes_of("bert")
    try:
        await drain(world, before[1])
        status = await world.reaches("bert", Phase.RUNNING, attempt=2)
        after = world.nodes_of("bert")
        assert before[1] not in after
        assert (after[0], after[2]) == (before[0], before[2])
        assert (status.restarts, status.interruptions) == (0, 1)
        await world.until(lambda: not world.pods("bert", 1), "attempt 1 is gone")
    finally:
        await drain(world, before[1], None)


async def test_a_services_member_leaves_alone(world: World) -> None:
    world.start_controller()
    await world.submit("web", type="service", replicas=2, resources=WHOLE)
    await world.reaches("web", Phase.RUNNING)
    first, second = world.pods("web")
    try:
        await drain(world, second.spec.node_name)
        await world.until(
            lambda: (
                len(pods := world.pods("web")) == 2 and second.spec.node_name not in {p.spec.node_name for p in pods}
            ),
            "a successor elsewhere",
        )
        await world.until(lambda: all(pod.status.phase == "Running" for pod in world.pods("web")), "it runs")
        assert first.metadata.uid in {pod.metadata.uid for pod in world.pods("web")}
    finally:
        await drain(world, second.spec.node_name, None)
