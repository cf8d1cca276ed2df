"""Members that go with their node, or lose it to somebody else: the gang is elsewhere soon, as a whole."""

from __future__ import annotations

import contextlib
from typing import Any

import httpx2
import pytest
from tests.helpers.world import GPUS, SIM, World

from kajitori.api.app import create_app
from kajitori.api.context import ApiDependencies
from kajitori.api.serving.server import ApiServer
from kajitori.configuration.settings import LEASE_NAMESPACE
from kajitori.core.pods.tickets import Ticket, sign
from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.errors import AlreadyExists
from kajitori.kube.client import PatchKind
from kajitori.kube.objects import Pod
from kajitori.kube.platform.ticket_key import ensure_ticket_key
from kajitori.kube.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, RUNS, Resource

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
HELD = "example.com/held"


async def test_a_partitioned_member_comes_back_and_is_known_for_what_it_is(world: World) -> None:
    """Its node is silent, its Pod can't be deleted: the gang runs elsewhere. Whoever returns finds that it is over."""
    world.start_controller()
    await world.submit("bert", replicas=3, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    lost = world.nodes_of("bert")[1]
    await world.client.patch(PODS, "bert-1-1", {"metadata": {"finalizers": [HELD]}}, world.namespace)
    await world.silence(lost)
    await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert lost not in world.nodes_of("bert")

    old, new = world.pods("bert", 1)[0], world.pods("bert", 2)[1]
    assert (old.metadata.name, new.metadata.name) == ("bert-1-1", "bert-2-1")
    assert [await environment(world, pod) for pod in (old, new)] == ["1", "2"]
    assert await asks_for_hosts(world, old.owner_run_uid, 1) == (403, "AttemptOver")
    assert (await asks_for_hosts(world, old.owner_run_uid, 2))[1] != "AttemptOver"

    await world.revive(lost)
    await world.until(lambda: all(pod.is_finished for pod in world.pods("bert", 1)), "the old member has ended")
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.running, status.members.failed, status.interruptions, status.restarts) == (3, 0, 1, 0)
    await world.client.patch(PODS, "bert-1-1", {"metadata": {"finalizers": None}}, world.namespace)
    await world.until(lambda: not world.pods("bert", 1), "the old Pod is gone")
    assert world.status("bert").attempts == 2

    second = world.nodes_of("bert")[0]
    await world.silence(second)
    await world.client.delete(RUNS, "bert", world.namespace)
    await world.until(lambda: world.run("bert") is None, "the Run goes without waiting for a dead node")
    await world.revive(second)
    await world.until(lambda: not world.pods("bert"), "and so does its last Pod when the node is back")


async def environment(world: World, pod: Pod) -> str:
    """KAJI_ATTEMPT of a member."""
    found = await world.client.get(PODS, pod.metadata.name, world.namespace)
    values = {each["name"]: each.get("value") for each in found["spec"]["containers"][0]["env"]}
    return str(values["KAJI_ATTEMPT"])


async def asks_for_hosts(world: World, run_uid: str, attempt: int) -> tuple[int, str]:
    """Status and code of what a member of that attempt is told when it asks where the others are."""
    with contextlib.suppress(AlreadyExists):
        await world.client.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
    ticket = Ticket(world.namespace, "bert", run_uid, attempt, 3, "")
    token = sign(ticket, await ensure_ticket_key(world.client, LEASE_NAMESPACE))
    app = create_app(ApiDependencies(client=world.client, mirror=world.mirror, policy=world.policy))
    async with ApiServer(app) as server, httpx2.AsyncClient(base_url=server.url) as http:
        answer = await http.get("/v1/members/hosts", headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.json().get("code", "")


async def test_a_preempting_pod_moves_the_whole_gang(world: World, request: pytest.FixtureRequest) -> None:
    """kube-scheduler preempts one member, and waits for another victim: nobody is sent back into that gap.

    The embedded binder preempts nobody: there the test does what kube-scheduler does.
    """
    real = request.node.callspec.params["world"] == "real"
    world.start_controller()
    half = {"cpu": 4, "memory": "8Gi", "gpu": GPUS // 2, "gpuType": "h100"}
    await world.submit("bert", replicas=3, resources=half, restarts=0)
    await world.reaches("bert", Phase.RUNNING)
    wanted = world.nodes_of("bert")[2]
    assert world.nodes_of("bert").count(wanted) == 1
    alive: set[int] = set()

    def note(resource: Resource, namespace: str, name: str) -> None:
        running = {pod.metadata.labels[names.LABEL_ATTEMPT] for pod in world.pods("bert") if not pod.is_finished}
        alive.add(len(running))

    world.mirror.on_change(note)
    async with priority(world):
        await foreign(world, "slow", wanted, GPUS // 2, grace=3)
        await foreign(world, "urgent", wanted, GPUS, priority=world.namespace)
        if not real:
            await preempt(world, "urgent", wanted)
        status = await world.reaches("bert", Phase.RUNNING, attempt=2)
        assert wanted not in world.nodes_of("bert")
        assert (status.restarts, status.interruptions, status.failed_starts) == (0, 1, 0)
        await world.until(
            lambda: (pod := world.mirror.pods.get((world.namespace, "urgent"))) and pod.status.phase == "Running",
            "the urgent Pod runs",
        )
        assert alive <= {0, 1} and not world.pods("bert", 1)


@contextlib.asynccontextmanager
async def priority(world: World) -> Any:
    """A PriorityClass above ours, named as the namespace."""
    await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": world.namespace}, "value": 1000})
    try:
        yield
    finally:
        await world.client.delete(PRIORITY_CLASSES, world.namespace)


async def foreign(world: World, name: str, node: str, gpus: int, *, grace: int = 0, priority: str = "") -> None:
    """A Pod of somebody else that wants GPUs of just this node, and takes its time to end."""
    amounts = {"cpu": "1", "memory": "1Gi", names.GPU_RESOURCE: str(gpus)}
    spec: dict[str, Any] = {
        "containers": [{"name": "x", "image": "x", "resources": {"limits": amounts}}],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": grace,
    }
    if priority:
        spec["priorityClassName"] = priority
    annotations = {f"{SIM}ignore-sigterm": "true"} if grace else {}
    metadata = {"name": name, "annotations": annotations}
    await world.client.create(PODS, {"metadata": metadata, "spec": spec}, world.namespace)
    if not priority:
        await world.until(
            lambda: (pod := world.mirror.pods.get((world.namespace, name))) and pod.status.phase == "Running",
            f"{name} runs",
        )


async def preempt(world: World, name: str, node: str) -> None:
    """What kube-scheduler does for a Pod that has no other place."""
    nominated = {"status": {"nominatedNodeName": node}}
    await world.client.patch(PODS, name, nominated, world.namespace, subresource="status")
    said = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}
    for victim in world.mirror.pods_on_node(node):
        victim_name = victim.metadata.name
        patch = {"status": {"conditions": [said]}}
        await world.client.patch(
            PODS, victim_name, patch, world.namespace, kind=PatchKind.STRATEGIC, subresource="status"
        )
        await world.client.delete(PODS, victim_name, world.namespace)


async def test_a_run_waits_in_a_cluster_without_nodes(world: World) -> None:
    """No node, then one that has not said yet what it has, then nodes one by one: refusing it would be for good."""
    world.start_controller()
    for node in list(world.mirror.nodes):
        await world.client.delete(NODES, node)
    await world.until(lambda: not world.mirror.nodes, "no node is left")
    await world.submit("bert", replicas=2, resources=WHOLE)
    await world.submit("whole", resources={"gpuType": "h100", "wholeNode": True})
    waiting = "no node for such a member yet"
    await world.until(lambda: all(waiting in world.status(name).message for name in ("bert", "whole")), "they wait")
    await world.client.create(NODES, {"metadata": {"name": "new"}})
    await world.until(lambda: "new" in world.mirror.nodes, "a node joins")
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    await world.client.patch(NODES, "new", {"status": status}, subresource="status")
    await world.until(lambda: "cpu" in world.mirror.nodes["new"].status.allocatable, "a small one")
    await world.submit("large", resources={"cpu": 32})
    await world.reaches("large", Phase.FAILED)  # a cluster whose nodes are known refuses it
    assert {world.status(name).phase for name in ("bert", "whole")} == {Phase.QUEUED}
    async with world.nodes("late-", 3):
        await world.reaches("bert", Phase.RUNNING)
        await world.reaches("whole", Phase.RUNNING)
        limits = world.pods("whole")[0].spec.containers[0].resources.limits
        assert str(limits["nvidia.com/gpu"]) == str(GPUS), "what a whole node has is known now"
        for name in ("bert", "whole"):
            await world.succeed(name)
            await world.reaches(name, Phase.SUCCEEDED)
