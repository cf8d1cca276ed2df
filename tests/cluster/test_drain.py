"""A node is emptied: gangs leave as a whole, and nothing of them comes back while it is drained."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

import pytest
from tests.helpers.platform import kubectl_binary
from tests.helpers.stage import Completed, completed
from tests.helpers.world import GPUS, World

from kajitori.api.runs.views import nodes_of
from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.core.words.node_lists import expand
from kajitori.errors import NotFound
from kajitori.kube.errors import TooManyRequestsError
from kajitori.kube.resources import BUDGETS, NODES, PODS, RUNS

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
        run = world.run("web")
        assert run is not None
        nodes = [pod.spec.node_name for pod in world.pods("web")]
        assert expand(nodes_of(world.mirror, run)) == nodes, "both, though the attempt made the second anew"
    finally:
        await drain(world, second.spec.node_name, None)


async def kubectl(world: World, *arguments: str) -> Completed:
    """kubectl as admin."""
    environment = {**os.environ, "HOME": str(world.folder)}
    return await completed(kubectl_binary(), f"--kubeconfig={world.kubeconfig}", *arguments, env=environment)


async def budget(world: World, name: str, *, other_than: dict[str, Any] | None = None) -> dict[str, Any]:
    """A run's budget, once Kubernetes has worked out who may be evicted (and its spec is another than this)."""
    for _ in range(100):
        with contextlib.suppress(NotFound):
            found = await world.client.get(BUDGETS, name, world.namespace)
            seen = (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
            if seen and found["spec"] != other_than:
                return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"no budget {name}; {world.describe()}")


async def evict(world: World, pod: str) -> None:
    """What an autoscaler does that packs nodes tighter, or a descheduler."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    await world.client.request("POST", f"{PODS.path(world.namespace, pod)}/eviction", body=eviction)


async def test_nobody_evicts_a_gang_by_half_and_yet_kubectl_drains_its_node(world: World) -> None:
    """An eviction is refused until the node is cordoned; then the gang leaves as a whole, at no cost to it."""
    world.start_controller()
    await world.submit("bert", replicas=3, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    before, (first, second, third) = world.nodes_of("bert"), world.pods("bert")
    written = await budget(world, "bert")
    for pod in (first, second, third):
        with pytest.raises(TooManyRequestsError):
            await evict(world, pod.metadata.name)
    try:
        drained = await kubectl(world, "drain", before[1], "--timeout=30s")
        assert drained.code == 0, drained
        assert not [pod for pod in world.pods("bert") if pod.spec.node_name == before[1]]
        status = await world.reaches("bert", Phase.RUNNING, attempt=2)
        assert before[1] not in world.nodes_of("bert")
        assert (status.restarts, status.interruptions) == (0, 1)
        after = await budget(world, "bert")
        await world.until(lambda: not world.pods("bert", 1), "attempt 1 is gone")
    finally:
        await kubectl(world, "uncordon", before[1])
    assert after["metadata"]["uid"] == written["metadata"]["uid"]
    assert after["spec"] == written["spec"], "all are protected again"
    await world.succeed("bert")
    await world.reaches("bert", Phase.SUCCEEDED)
    await world.until(lambda: world.status("bert").finished_at, "its end")
    await has_no_budget(world, "bert")


async def test_a_cordoned_node_moves_nobody_and_unprotects_only_who_is_there(world: World) -> None:
    """Whoever cordons a node lets what runs there finish."""
    world.start_controller()
    await world.submit("bert", replicas=2, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    first, second = world.pods("bert")
    written = await budget(world, "bert")
    try:
        await world.client.patch(NODES, first.spec.node_name, {"spec": {"unschedulable": True}})
        now = await budget(world, "bert", other_than=written["spec"])
        assert now["status"]["expectedPods"] == 1, "one of two is protected"
        with pytest.raises(TooManyRequestsError):
            await evict(world, second.metadata.name)
        assert world.status("bert").phase is Phase.RUNNING
        await evict(world, first.metadata.name)
        await world.reaches("bert", Phase.RUNNING, attempt=2)
    finally:
        await world.client.patch(NODES, first.spec.node_name, {"spec": {"unschedulable": None}})
    await world.client.delete(RUNS, "bert", world.namespace)
    await world.until(lambda: world.run("bert") is None, "bert is gone")
    await has_no_budget(world, "bert")


async def test_a_services_members_are_evicted_one_after_the_other(world: World) -> None:
    """As of any service: the next when a successor of the first runs."""
    world.start_controller()
    await world.submit("web", type="service", replicas=2, resources=WHOLE)
    await world.reaches("web", Phase.RUNNING)
    first, second = world.pods("web")
    await budget(world, "web")
    await evict(world, first.metadata.name)
    with pytest.raises(TooManyRequestsError):
        await evict(world, second.metadata.name)
    await world.until(lambda: [pod.status.phase for pod in world.pods("web")] == ["Running"] * 2, "two run again")
    assert second.metadata.uid in {pod.metadata.uid for pod in world.pods("web")}


async def test_policy_may_leave_runs_without_budgets(world: World) -> None:
    world.use_policy(disruptionBudgets=False)
    world.start_controller()
    await world.submit("bert", replicas=2, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    assert not (await world.client.list(BUDGETS, world.namespace)).items
    await evict(world, "bert-1-0")
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions) == (0, 1)


async def has_no_budget(world: World, name: str) -> None:
    """Its budget is gone, or goes within a moment."""
    for _ in range(100):
        try:
            await world.client.get(BUDGETS, name, world.namespace)
        except NotFound:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the budget of {name} stays; {world.describe()}")
