"""One of many members cannot start: the run frees all nodes at the start deadline, and starts again later."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.harness.cluster import NODES_COUNT, SIM, Cluster
from tests.harness.platform.parts import GPUS
from tests.helpers.meddling_client import MeddlingClient

from kajitori.core.formats.times import format_time
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.kube.resources import CLAIMS, EVENTS, PERSISTENT_VOLUMES, PODS

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
START = {"pause": "1s", "longestPause": "2s", "deadline": "2s", "restartGrace": "1s"}


async def test_an_image_that_one_member_cannot_pull_frees_all_nodes(cluster: Cluster) -> None:
    """A waiting run gets the nodes. The pauses become longer, and in the end the run starts without a counted
    restart."""
    cluster.use_policy(start=START | {"deadline": "5s"})  # long enough for the other members, also on a slow machine
    messages: dict[int, str] = {}

    async def break_image(pod: dict[str, Any]) -> None:
        run, attempt, rank = names.read_pod_name(pod["metadata"]["name"]) or ("", 0, 0)
        if (run, rank) == ("big", 3) and attempt < 3:
            pod["metadata"].setdefault("annotations", {})[f"{SIM}image-pull"] = "fail"

    def note(*_: object) -> None:
        status = cluster.status("big")
        if status.failed_starts:
            messages.setdefault(status.failed_starts, status.message)

    cluster.mirror.on_change(note)
    async with MeddlingClient(cluster.server.controller_config, break_image) as client:
        controller = cluster.start_controller(client=client)
        await cluster.submit("big", replicas=NODES_COUNT, resources=WHOLE, restarts=0)
        await cluster.until(lambda: cluster.pods("big"), "its members")
        await cluster.submit("next", replicas=NODES_COUNT, resources=WHOLE)
        status = await cluster.until(lambda: (s := cluster.status("big")).failed_starts and s, "a failed start")
        assert status and (status.phase, status.reason) == (Phase.QUEUED, Reason.IMAGE_PULL)
        assert "member 3: simulated: the image can't be pulled" in status.message
        await cluster.reaches("next", Phase.RUNNING)
        assert not cluster.pods("big")
        await cluster.succeed("next")
        status = await cluster.reaches("big", Phase.RUNNING)
        assert (status.restarts, status.failed_starts) == (0, 0) and status.interruptions == status.attempts - 1 >= 2
        await cluster.stop_controller(controller)
    assert messages[1].endswith("; tried again in 1 s") and messages[2].endswith("2 starts failed, tried again in 2 s")


@pytest.mark.conformance
@pytest.mark.parametrize("bind", ["scheduler", "direct"])
async def test_a_foreign_pod_takes_a_planned_node_first(cluster: Cluster, bind: str) -> None:
    """The scheduler (or with direct binding the kubelet) refuses the member, and the gang starts elsewhere."""
    cluster.use_policy(start=START, binding={"bind": bind})
    taken: list[str] = []

    async def take_node(pod: dict[str, Any]) -> None:
        if taken or not pod["metadata"]["name"].endswith("-1"):
            return
        taken.append(cluster.nodes_of("bert")[1])
        amounts = {"cpu": "1", "memory": "1Gi", names.GPU_RESOURCE: str(GPUS)}
        container = {"name": "x", "image": "x", "resources": {"limits": amounts}}
        spec = {"nodeName": taken[0], "containers": [container]}
        await cluster.client.create(PODS, {"metadata": {"name": "quicker"}, "spec": spec}, cluster.namespace)

    async with MeddlingClient(cluster.server.controller_config, take_node) as client:
        controller = cluster.start_controller(client=client)
        await cluster.submit("bert", replicas=3, resources=WHOLE, restarts=0)
        status = await cluster.until(lambda: (s := cluster.status("bert")).failed_starts and s, "a failed start")
        assert status and status.reason is (Reason.UNSCHEDULED if bind == "scheduler" else Reason.KUBELET_REFUSED)
        assert "nvidia.com/gpu" in status.message
        status = await cluster.reaches("bert", Phase.RUNNING)
        assert status.restarts == 0 and status.interruptions == status.attempts - 1 >= 1
        assert taken and taken[0] not in cluster.nodes_of("bert")
        assert not cluster.pods("bert", 1)
        await cluster.stop_controller(controller)


@pytest.mark.conformance
async def test_a_volume_in_another_zone_moves_the_gang_there(cluster: Cluster) -> None:
    """The scheduler says why it refuses the member, and unsuitable nodes are avoided in the end."""
    cluster.use_policy(start=START | {"longestPause": "1s"}, volumes={"data": {"claim": "data"}})
    there = sorted(cluster.mirror.nodes)[2:]
    await bound_claim(cluster, there)
    cluster.start_controller()
    mount = [{"name": "data", "path": "/data"}]
    await cluster.submit("bert", replicas=2, resources=WHOLE, restarts=0, volumes=mount)
    status = await cluster.until(lambda: (s := cluster.status("bert")).failed_starts and s, "a failed start")
    assert status and status.reason is Reason.UNSCHEDULED and "PersistentVolume's node affinity" in status.message
    assert not set(cluster.nodes_of("bert")) & set(there)
    status = await cluster.reaches("bert", Phase.RUNNING)
    assert set(cluster.nodes_of("bert")) <= set(there)
    assert status.restarts == 0
    await cluster.client.delete(PERSISTENT_VOLUMES, cluster.namespace)


async def bound_claim(cluster: Cluster, nodes: list[str]) -> None:
    """Create a claim `data` that is bound to a volume on these nodes only, both as a volume controller would leave
    them."""
    size = {"storage": "1Gi"}
    affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    common: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    completed = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    claim = await cluster.client.create(
        CLAIMS,
        {
            "metadata": {"name": "data", "annotations": completed},
            "spec": {**common, "resources": {"requests": size}, "volumeName": cluster.namespace},
        },
        cluster.namespace,
    )
    reference = {"name": "data", "namespace": cluster.namespace, "uid": claim["metadata"]["uid"]}
    volume = {
        "metadata": {"name": cluster.namespace},
        "spec": {
            **common,
            "capacity": size,
            "hostPath": {"path": "/data"},
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
        },
    }
    await cluster.client.create(PERSISTENT_VOLUMES, volume)
    bound = {"status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": size}}
    await cluster.client.patch(CLAIMS, "data", bound, cluster.namespace, subresource="status")


@pytest.mark.conformance
async def test_a_missing_storage_class_is_named_and_no_node_is_avoided(cluster: Cluster) -> None:
    """The first start creates a Pod, which gets no node. Before further starts the controller reads the claim's events,
    and creates no Pod."""
    cluster.use_policy(
        volumes={"data": {"claim": "data"}}, start={"pause": "1s", "longestPause": "1s", "deadline": "3s"}
    )
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "nosuch",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = await cluster.client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, cluster.namespace)
    said = 'storageclass.storage.k8s.io "nosuch" not found'
    event = {
        "metadata": {"name": "data.1"},
        "involvedObject": {
            "kind": "PersistentVolumeClaim",
            "namespace": cluster.namespace,
            "name": "data",
            "uid": claim["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "ProvisioningFailed",
        "message": said,
        "lastTimestamp": format_time(datetime.now(UTC)),
    }
    await cluster.client.create(
        EVENTS, event, cluster.namespace
    )  # as the volume controller of a real cluster, which does not run here
    cluster.start_controller()
    await cluster.submit("bert", volumes=[{"name": "data", "path": "/data"}])
    told = f"PersistentVolumeClaim data: {said}"
    await cluster.until(lambda: told in cluster.status("bert").message, "the class is named")
    await cluster.until(
        lambda: cluster.status("bert").failed_starts and not cluster.pods("bert"), "the start has failed"
    )
    before = cluster.status("bert").failed_starts

    def tried_again() -> bool:
        assert not cluster.pods("bert"), "nothing is held meanwhile"
        return cluster.status("bert").failed_starts >= before + 2

    await cluster.until(tried_again, "two more starts")
    status = cluster.status("bert")
    assert (status.phase, status.reason, status.avoid_nodes) == (Phase.QUEUED, Reason.STORAGE, {})
    assert told in status.message
