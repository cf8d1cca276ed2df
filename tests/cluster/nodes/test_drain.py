"""A node is drained: gangs leave it as a whole, and do not return while it is drained."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.harness.cluster import Cluster
from tests.harness.platform.parts import GPUS
from tests.harness.waiting import until

from kajitori.api.rendering.runs import nodes_of
from kajitori.cluster.run_object import RUNS
from kajitori.core.formats.node_lists import expand
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.errors import NotFound
from kajitori.kube.errors import TooManyRequestsError
from kajitori.kube.resources import BUDGETS, NODES, PODS

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}


async def drain(cluster: Cluster, node: str, who: str | None = "ada") -> None:
    """Write to the Node what `POST /v1/nodes/{name}/drain` writes; with `who` None, what `uncordon` writes."""
    patch: dict[str, Any] = {"metadata": {"annotations": {names.ANNOTATION_DRAIN: who}}}
    await cluster.client.patch(NODES, node, patch | {"spec": {"unschedulable": bool(who)}})


@pytest.mark.conformance
async def test_a_gang_leaves_a_drained_node_as_a_whole(cluster: Cluster) -> None:
    """The move does not count as a restart. Members on other nodes restart in place, together with the member that
    moves."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    before = cluster.nodes_of("bert")
    try:
        await drain(cluster, before[1])
        status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
        after = cluster.nodes_of("bert")
        assert before[1] not in after
        assert (after[0], after[2]) == (before[0], before[2])
        assert (status.restarts, status.interruptions) == (0, 1)
        await cluster.until(lambda: not cluster.pods("bert", 1), "attempt 1 is gone")
    finally:
        await drain(cluster, before[1], None)


async def test_only_the_service_member_on_a_drained_node_moves(cluster: Cluster) -> None:
    cluster.start_controller()
    await cluster.submit("web", type="service", replicas=2, resources=WHOLE)
    await cluster.reaches("web", Phase.RUNNING)
    first, second = cluster.pods("web")
    try:
        await drain(cluster, second.spec.node_name)
        await cluster.until(
            lambda: (
                len(pods := cluster.pods("web")) == 2 and second.spec.node_name not in {p.spec.node_name for p in pods}
            ),
            "a successor elsewhere",
        )
        await cluster.until(lambda: all(pod.status.phase == "Running" for pod in cluster.pods("web")), "it runs")
        assert first.metadata.uid in {pod.metadata.uid for pod in cluster.pods("web")}
        run = cluster.run("web")
        assert run is not None
        nodes = [pod.spec.node_name for pod in cluster.pods("web")]
        assert expand(nodes_of(cluster.mirror, run)) == nodes, "both, though the attempt made the second anew"
    finally:
        await drain(cluster, second.spec.node_name, None)


async def budget(cluster: Cluster, name: str, *, other_than: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a run's budget once Kubernetes has counted how many may be evicted (and, with `other_than`, once its spec
    differs from that)."""

    async def counted() -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            found: dict[str, Any] = await cluster.client.get(BUDGETS, name, cluster.namespace)
            seen = (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
            if seen and found["spec"] != other_than:
                return found
        return None

    document: dict[str, Any] | None
    document = await until(counted, lambda: f"the budget {name}; {cluster.describe()}", every=0.1)
    assert document is not None
    return document


async def evict(cluster: Cluster, pod: str) -> None:
    """Evict a Pod, as a descheduler does, or an autoscaler that removes nodes."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    await cluster.client.request("POST", f"{PODS.path(cluster.namespace, pod)}/eviction", body=eviction)


async def evict_when_permitted(cluster: Cluster, pod: str) -> None:
    """Evict a Pod, and try again while it is refused: Kubernetes may not yet have counted all Pods that are ready."""

    async def evicted() -> bool:
        with contextlib.suppress(TooManyRequestsError):
            await evict(cluster, pod)
            return True
        return False

    await until(evicted, lambda: f"{pod} may be evicted; {cluster.describe()}", every=0.1)


@pytest.mark.conformance
async def test_a_gang_is_evicted_only_as_a_whole_and_after_cordoning(cluster: Cluster) -> None:
    """An eviction is refused until the node is cordoned; then the gang leaves as a whole, and no restart is counted."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    before, (first, second, third) = cluster.nodes_of("bert"), cluster.pods("bert")
    written = await budget(cluster, "bert")
    for pod in (first, second, third):
        with pytest.raises(TooManyRequestsError):
            await evict(cluster, pod.metadata.name)
    try:
        drained = await cluster.kubectl("drain", before[1], "--delete-emptydir-data", "--timeout=30s")
        assert drained.returncode == 0, drained
        assert not [pod for pod in cluster.pods("bert") if pod.spec.node_name == before[1]]
        status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
        assert before[1] not in cluster.nodes_of("bert")
        assert (status.restarts, status.interruptions) == (0, 1)
        after = await budget(cluster, "bert")
        await cluster.until(lambda: not cluster.pods("bert", 1), "attempt 1 is gone")
    finally:
        await cluster.kubectl("uncordon", before[1])
    assert after["metadata"]["uid"] == written["metadata"]["uid"]
    assert after["spec"] == written["spec"], "all are protected again"
    await cluster.succeed("bert")
    await cluster.reaches("bert", Phase.SUCCEEDED)
    await cluster.until(lambda: cluster.status("bert").finished_at, "its end")
    await has_no_budget(cluster, "bert")


async def test_cordoning_moves_no_member_and_unprotects_only_its_own(cluster: Cluster) -> None:
    """Members on a cordoned node may finish there."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    first, second = cluster.pods("bert")
    written = await budget(cluster, "bert")
    try:
        await cluster.client.patch(NODES, first.spec.node_name, {"spec": {"unschedulable": True}})
        now = await budget(cluster, "bert", other_than=written["spec"])
        assert now["status"]["expectedPods"] == 1, "one of two is protected"
        with pytest.raises(TooManyRequestsError):
            await evict(cluster, second.metadata.name)
        assert cluster.status("bert").phase is Phase.RUNNING
        await evict_when_permitted(cluster, first.metadata.name)
        await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    finally:
        await cluster.client.patch(NODES, first.spec.node_name, {"spec": {"unschedulable": None}})
    await cluster.client.delete(RUNS, "bert", cluster.namespace)
    await cluster.until(lambda: cluster.run("bert") is None, "bert is gone")
    await has_no_budget(cluster, "bert")


async def test_members_of_a_service_are_evicted_one_by_one(cluster: Cluster) -> None:
    """The next member may be evicted when a replacement of the first one is running."""
    cluster.start_controller()
    await cluster.submit("web", type="service", replicas=2, resources=WHOLE)
    await cluster.reaches("web", Phase.RUNNING)
    first, second = cluster.pods("web")
    await evict_when_permitted(cluster, first.metadata.name)
    with pytest.raises(TooManyRequestsError):
        await evict(cluster, second.metadata.name)
    await cluster.until(lambda: [pod.status.phase for pod in cluster.pods("web")] == ["Running"] * 2, "two run again")
    assert second.metadata.uid in {pod.metadata.uid for pod in cluster.pods("web")}


async def test_policy_may_leave_runs_without_budgets(cluster: Cluster) -> None:
    cluster.use_policy(disruptionBudgets=False)
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    assert not (await cluster.client.list(BUDGETS, cluster.namespace)).items
    await evict(cluster, "bert-1-0")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions) == (0, 1)


async def has_no_budget(cluster: Cluster, name: str) -> None:
    """Wait until a run's budget is gone."""

    async def gone() -> bool:
        try:
            await cluster.client.get(BUDGETS, name, cluster.namespace)
        except NotFound:
            return True
        return False

    await until(gone, lambda: f"the budget of {name} is gone; {cluster.describe()}")
