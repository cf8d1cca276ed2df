"""Members lose their node, or other Pods take it from them: the whole gang soon runs elsewhere."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.harness.cluster import SIM, Cluster
from tests.harness.platform.parts import GPUS
from tests.harness.web_api import web_api

from kajitori.cluster.objects import Pod
from kajitori.cluster.platform.ticket_key import ensure_ticket_key
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.core.naming import names
from kajitori.core.pods.tickets import Ticket, sign
from kajitori.core.spec.reasons import Phase
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import NODES, PODS, PRIORITY_CLASSES, Resource

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
HELD = "example.com/held"


@pytest.mark.conformance
async def test_a_member_that_returns_from_a_lost_node_is_ended(cluster: Cluster) -> None:
    """The member's node was silent and its Pod could not be deleted, so the gang runs elsewhere. The old member learns
    that its attempt is over."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    lost = cluster.nodes_of("bert")[1]
    await cluster.client.patch(PODS, "bert-1-1", {"metadata": {"finalizers": [HELD]}}, cluster.namespace)
    await cluster.silence(lost)
    await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert lost not in cluster.nodes_of("bert")

    old, new = cluster.pods("bert", 1)[0], cluster.pods("bert", 2)[1]
    assert (old.metadata.name, new.metadata.name) == ("bert-1-1", "bert-2-1")
    assert [await environment(cluster, pod) for pod in (old, new)] == ["1", "2"]
    assert await answer_about_hosts(cluster, old.owner_run_uid, 1) == (403, "AttemptOver")
    assert (await answer_about_hosts(cluster, old.owner_run_uid, 2))[1] != "AttemptOver"

    await cluster.revive(lost)
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("bert", 1)), "the old member has ended")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.members.running, status.members.failed, status.interruptions, status.restarts) == (3, 0, 1, 0)
    await cluster.client.patch(PODS, "bert-1-1", {"metadata": {"finalizers": None}}, cluster.namespace)
    await cluster.until(lambda: not cluster.pods("bert", 1), "the old Pod is gone")
    assert cluster.status("bert").attempts == 2

    second = cluster.nodes_of("bert")[0]
    await cluster.silence(second)
    await cluster.client.delete(RUNS, "bert", cluster.namespace)
    await cluster.until(lambda: cluster.run("bert") is None, "the Run goes without waiting for a dead node")
    await cluster.revive(second)
    await cluster.until(lambda: not cluster.pods("bert"), "and so does its last Pod when the node is back")


async def environment(cluster: Cluster, pod: Pod) -> str:
    """Return KAJI_ATTEMPT of a member."""
    found = await cluster.client.get(PODS, pod.metadata.name, cluster.namespace)
    values = {variable["name"]: variable.get("value") for variable in found["spec"]["containers"][0]["env"]}
    return str(values["KAJI_ATTEMPT"])


async def answer_about_hosts(cluster: Cluster, run_uid: str, attempt: int) -> tuple[int, str]:
    """Return the status and the code that a member of that attempt gets when it asks for the gang's hosts."""
    ticket = Ticket(cluster.namespace, "bert", run_uid, attempt, 3, "")
    token = sign(ticket, await ensure_ticket_key(cluster.client, LEASE_NAMESPACE))
    async with web_api(cluster) as web:
        answer = await web.http.get("/v1/members/hosts", headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.json().get("code", "")


@pytest.mark.conformance
async def test_a_pod_that_preempts_a_member_moves_the_whole_gang(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """kube-scheduler preempts one member and waits for a second Pod to end: no member may take the freed GPUs
    meanwhile. The embedded binder does not preempt, so the test does it there."""
    real = request.node.callspec.params["cluster"] == "real"
    cluster.start_controller()
    half = {"cpu": 4, "memory": "8Gi", "gpu": GPUS // 2, "gpuType": "h100"}
    await cluster.submit("bert", replicas=3, resources=half, restarts=0)
    await cluster.reaches("bert", Phase.RUNNING)
    wanted = cluster.nodes_of("bert")[2]
    assert cluster.nodes_of("bert").count(wanted) == 1
    alive: set[int] = set()

    def note(resource: Resource, namespace: str, name: str) -> None:
        running = {pod.metadata.labels[names.LABEL_ATTEMPT] for pod in cluster.pods("bert") if not pod.is_finished}
        alive.add(len(running))

    cluster.mirror.on_change(note)
    async with priority(cluster):
        await foreign(cluster, "slow", wanted, GPUS // 2, grace=3)
        await foreign(cluster, "urgent", wanted, GPUS, priority=cluster.namespace)
        if not real:
            await preempt(cluster, "urgent", wanted)
        status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
        assert wanted not in cluster.nodes_of("bert")
        assert (status.restarts, status.interruptions, status.failed_starts) == (0, 1, 0)
        await cluster.until(
            lambda: (pod := cluster.mirror.pods.get((cluster.namespace, "urgent"))) and pod.status.phase == "Running",
            "the urgent Pod runs",
        )
        assert alive <= {0, 1} and not cluster.pods("bert", 1)


@contextlib.asynccontextmanager
async def priority(cluster: Cluster) -> Any:
    """A PriorityClass above ours, with the name of the namespace."""
    await cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": cluster.namespace}, "value": 1000})
    try:
        yield
    finally:
        await cluster.client.delete(PRIORITY_CLASSES, cluster.namespace)


async def foreign(cluster: Cluster, name: str, node: str, gpus: int, *, grace: int = 0, priority: str = "") -> None:
    """Create a Pod that needs GPUs of exactly this node and takes `grace` seconds to end."""
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
    await cluster.client.create(PODS, {"metadata": metadata, "spec": spec}, cluster.namespace)
    if not priority:
        await cluster.until(
            lambda: (pod := cluster.mirror.pods.get((cluster.namespace, name))) and pod.status.phase == "Running",
            f"{name} runs",
        )


async def preempt(cluster: Cluster, name: str, node: str) -> None:
    """Do what kube-scheduler does for a Pod that fits nowhere else."""
    nominated = {"status": {"nominatedNodeName": node}}
    await cluster.client.patch(PODS, name, nominated, cluster.namespace, subresource="status")
    said = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}
    for victim in cluster.mirror.pods_on_node(node):
        victim_name = victim.metadata.name
        patch = {"status": {"conditions": [said]}}
        await cluster.client.patch(
            PODS, victim_name, patch, cluster.namespace, kind=PatchKind.STRATEGIC, subresource="status"
        )
        await cluster.client.delete(PODS, victim_name, cluster.namespace)


async def test_a_run_waits_in_a_cluster_without_nodes(cluster: Cluster) -> None:
    """The cluster has no nodes, then one that has not reported its resources, then more and more. The run is not
    refused, because a refusal would be final."""
    cluster.start_controller()
    for node in list(cluster.mirror.nodes):
        await cluster.client.delete(NODES, node)
    await cluster.until(lambda: not cluster.mirror.nodes, "no node is left")
    await cluster.submit("bert", replicas=2, resources=WHOLE)
    await cluster.submit("whole", resources={"gpuType": "h100", "wholeNode": True})
    waiting = "no node for such a member yet"
    await cluster.until(lambda: all(waiting in cluster.status(name).message for name in ("bert", "whole")), "they wait")
    await cluster.client.create(NODES, {"metadata": {"name": "new"}})
    await cluster.until(lambda: "new" in cluster.mirror.nodes, "a node joins")
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    await cluster.client.patch(NODES, "new", {"status": status}, subresource="status")
    await cluster.until(lambda: "cpu" in cluster.mirror.nodes["new"].status.allocatable, "a small one")
    await cluster.submit("large", resources={"cpu": 32})
    await cluster.reaches("large", Phase.FAILED)  # refused, because the nodes of the cluster are known by now
    assert {cluster.status(name).phase for name in ("bert", "whole")} == {Phase.QUEUED}
    async with cluster.nodes("late-", 3):
        await cluster.reaches("bert", Phase.RUNNING)
        await cluster.reaches("whole", Phase.RUNNING)
        limits = cluster.pods("whole")[0].spec.containers[0].resources.limits
        assert str(limits["nvidia.com/gpu"]) == str(GPUS), "what a whole node has is known now"
        for name in ("bert", "whole"):
            await cluster.succeed(name)
            await cluster.reaches(name, Phase.SUCCEEDED)
