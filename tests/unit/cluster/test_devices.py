"""Devices that are in use, as claims and Pods show it."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.helpers.gpus import nvidia_slices as nvidia

from kajitori.cluster.devices import Devices
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.mirror.pod_index import PodIndex
from kajitori.cluster.nodes.node_facts import node_facts
from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.placement.snapshot import GPU
from kajitori.core.policy.file import default_policy, parse_policy
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.device_objects import DeviceClaim, PublishedClass, ResourceSlice
from kajitori.kube.resources import DEVICE_CLAIMS, DEVICE_CLASSES, PODS, RESOURCE_SLICES, Resource
from kajitori.kube.watch import Added

NODE = {
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"}, "conditions": []},
}


class Scene:
    """A mirror that a test fills as a watch does, and the view of it."""

    def __init__(self) -> None:
        self.mirror = Mirror(KubeClient(KubeConfig(server="http://unused")))
        self.mirror.nodes["n1"] = msgspec.convert(NODE, Node)
        self.view = ClusterView(self.mirror, PolicyFile(None))
        for written in nvidia.driver_classes():
            found = msgspec.convert(written, PublishedClass)
            self.mirror.device_classes[found.metadata.name] = found
            self.tell(DEVICE_CLASSES, "", found.metadata.name)

    def tell(self, resource: Resource, namespace: str, name: str) -> None:
        self.mirror._notify(resource, namespace, name)

    def publish(self, *devices: Any, counters: Any = ()) -> None:
        for written in nvidia.slices("n1", devices, counters):
            found = msgspec.convert(written, ResourceSlice)
            self.mirror.slices[found.metadata.name] = found
            self.tell(RESOURCE_SLICES, "", found.metadata.name)

    def claim(self, name: str, *devices: str, pod: str = "", **more: Any) -> None:
        results = [{"driver": nvidia.DRIVER, "pool": "n1", "device": device, **more} for device in devices]
        status = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}] if pod else [],
        }
        written = {"metadata": {"name": name, "namespace": "a"}, "status": status}
        self.mirror.device_claims["a", name] = msgspec.convert(written, DeviceClaim)
        self.tell(DEVICE_CLAIMS, "a", name)

    def release(self, name: str) -> None:
        del self.mirror.device_claims["a", name]
        self.tell(DEVICE_CLAIMS, "a", name)

    def pod(self, name: str, gpus: int) -> Pod:
        limits = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
        container = {"name": "main", "resources": {"requests": limits, "limits": limits}}
        meta = {"name": name, "namespace": "a", "uid": name}
        found = msgspec.convert({"metadata": meta, "spec": {"nodeName": "n1", "containers": [container]}}, Pod)
        self.mirror.pods["a", name] = found
        index: PodIndex = self.mirror._pods
        index.note_pod(Added(found))
        self.tell(PODS, "a", name)
        return found

    @property
    def gpus(self) -> tuple[int, int]:
        """Used and all whole GPUs."""
        table, used = self.view.table(), self.view.occupancy.used()
        return int(used.used[0, GPU]), int(table.total[0, GPU])


def test_slices_give_a_node_its_gpus_and_take_them_away() -> None:
    """A driver that is gone leaves no GPUs; the newest generation of a pool counts."""
    scene = Scene()
    assert scene.gpus == (0, 0)
    scene.publish(*(nvidia.gpu(index) for index in range(8)))
    assert scene.gpus == (0, 8)
    assert scene.view.table().nodes[0].gpu_type == "h100"
    scene.mirror.slices.clear()
    scene.tell(RESOURCE_SLICES, "", "n1-gpu.nvidia.com-0")
    assert scene.gpus == (0, 0)


def test_devices_of_any_claim_are_in_use_until_it_releases_them() -> None:
    scene = Scene()
    scene.claim("early", "gpu-0")
    scene.publish(*(nvidia.gpu(index) for index in range(8)))
    assert scene.gpus == (1, 8)
    scene.claim("foreign", "gpu-1", "gpu-2", pod="p")
    assert scene.gpus == (3, 8)
    scene.claim("observer", "gpu-3", adminAccess=True)
    assert scene.gpus == (3, 8)
    scene.release("foreign")
    scene.release("early")
    assert scene.gpus == (0, 8)


def test_a_pool_that_moves_to_another_node_takes_its_claims_along() -> None:
    """Drivers may name pools as they like; a claim that is released then is counted nowhere."""
    scene = Scene()
    scene.publish(*(nvidia.gpu(index) for index in range(8)))
    scene.claim("c", "gpu-1", pod="p")
    published = scene.mirror.slices["n1-gpu.nvidia.com-0"]
    moved = msgspec.structs.replace(published, spec=msgspec.structs.replace(published.spec, node_name="n2"))
    scene.mirror.slices["n1-gpu.nvidia.com-0"] = moved
    scene.tell(RESOURCE_SLICES, "", "n1-gpu.nvidia.com-0")
    scene.release("c")
    assert scene.view.devices.used("n1") == {}
    assert scene.view.devices.used("n2") == {"h100": 0}


def test_a_pod_counts_once_before_and_after_its_claim_is_seen() -> None:
    """Pods and claims are watched apart, so either may be seen first."""
    scene = Scene()
    scene.publish(*(nvidia.gpu(index) for index in range(8)))
    pod = scene.pod("p", 2)
    assert scene.gpus == (2, 8)
    assert scene.view.occupancy.gpus_of(pod) == {"h100": 2}
    scene.claim("made-by-the-scheduler", "gpu-4", "gpu-5", pod="p")
    assert scene.gpus == (2, 8)
    assert scene.view.occupancy.gpus_of(pod) == {"h100": 2}
    assert [use.gpus for use in scene.view.uses("n1")] == [2]


def test_slices_of_a_gpu_in_use_are_counted_by_type() -> None:
    scene = Scene()
    devices, counters = nvidia.partitionable(0)
    scene.publish(*devices, counters=[counters])
    scene.claim("two", "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1", pod="p")
    table, used = scene.view.table(), scene.view.occupancy.used()
    columns = [table.gpu_column(word) for word in ("h100", "h100-mig-1g.10gb", "h100-mig-3g.40gb")]
    assert used.used[0, columns].tolist() == [1, 2, 1]
    assert table.total[0, columns].tolist() == [1, 7, 2]


def test_gpus_that_a_node_offers_both_ways_count_once() -> None:
    """kube-scheduler takes those of the device plugin."""
    scene = Scene()
    scene.publish(*(nvidia.gpu(index) for index in range(8)))
    amounts = NODE["status"]["allocatable"] | {"nvidia.com/gpu": "8"}  # type: ignore[index]
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    written = {"metadata": {"name": "n1", "labels": labels}, "status": {"allocatable": amounts}}
    facts = node_facts(msgspec.convert(written, Node), default_policy(), scene.view.devices.offers("n1"))
    assert (facts.gpus, facts.gpu_type, facts.gpu_offers, facts.is_by_devices) == (8, "h100", (), False)


def test_claims_count_once_the_policy_names_their_driver() -> None:
    """The claims may be older than the change of the policy. A driver that the policy names no more has no GPUs."""
    policy = parse_policy("gpu: {drivers: [gpu.amd.com]}")
    scene = Scene()
    devices = Devices(scene.mirror, lambda: policy)
    scene.publish(*(nvidia.gpu(index) for index in range(8)))
    scene.claim("c", "gpu-1", pod="p")
    assert devices.used("n1") == {}
    policy = default_policy()
    devices.read_all_again()
    assert devices.used("n1") == {"h100": 1}
    policy = parse_policy("gpu: {drivers: [gpu.amd.com]}")
    devices.read_all_again()
    assert devices.used("n1") == {}
