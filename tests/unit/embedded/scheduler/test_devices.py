"""The devices that the embedded scheduler gives to claims and to Pods with extended resources."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.helpers.gpus import nvidia_slices as nvidia

from kajitori.embedded.objects import Pod, WrittenClaim
from kajitori.embedded.scheduler.devices import DeviceState, Needs, claim_of_extended
from kajitori.kube.device_objects import PublishedClass, ResourceSlice


def state(*slices: Any, claims: Any = ()) -> DeviceState:
    published = [msgspec.convert(found, ResourceSlice) for found in slices]
    classes = [msgspec.convert(found, PublishedClass) for found in nvidia.driver_classes()]
    written = [msgspec.convert(found, WrittenClaim) for found in claims]
    return DeviceState(
        {("", found.metadata.name): found for found in published},
        {("", found.metadata.name): found for found in classes},
        {("a", found.metadata.name): found for found in written},
    )


def claim(name: str, count: int, selector: str = "", *devices: str) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": "gpu.nvidia.com", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    results = [{"driver": nvidia.DRIVER, "pool": "n1", "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    return {"metadata": {"name": name, "namespace": "a"}, "spec": spec, "status": status}


def pod(claim: str = "", gpus: int = 0) -> Pod:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": resources}]}
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return msgspec.convert({"metadata": {"name": "p", "namespace": "a", "uid": "p"}, "spec": spec}, Pod)


def given(devices: DeviceState, needs: Needs, node: str = "n1") -> list[str]:
    found = devices.allocate(needs, node)
    return [device.name for chosen in (found or {}).values() for device in chosen]


def test_a_claim_gets_free_devices_that_its_selector_matches() -> None:
    product = f'device.attributes["{nvidia.DRIVER}"].productName'
    there = nvidia.slices("n1", [nvidia.gpu(0), nvidia.gpu(1), nvidia.gpu(2, "NVIDIA L4")])
    devices = state(*there, claims=[claim("c", 1, f'{product} == "{nvidia.H100}"'), claim("other", 1, "", "gpu-0")])
    needs = devices.needs_of(pod("c"), {})
    assert devices.nodes_for(needs) == ["n1"]
    assert given(devices, needs) == ["gpu-1"]
    devices.assumed["q"] = {(nvidia.DRIVER, "n1", "gpu-1"): 1}
    assert devices.nodes_for(needs) == []


def test_a_pod_with_an_extended_resource_gets_a_claim_of_its_own() -> None:
    """Unless a node that it may use has the resource of a device plugin."""
    devices = state(*nvidia.slices("n1", [nvidia.gpu(0), nvidia.gpu(1)]))
    needs = devices.needs_of(pod(gpus=2), {})
    assert given(devices, needs) == ["gpu-0", "gpu-1"]
    requests = claim_of_extended(pod(gpus=2), needs.extended)["spec"]["devices"]["requests"]
    assert [request["exactly"]["count"] for request in requests] == [2]
    assert devices.needs_of(pod(gpus=2), {"nvidia.com/gpu": True}) == Needs()


def test_two_shares_of_one_gpu_go_to_two_pods_only() -> None:
    there = nvidia.slices("n1", [nvidia.shared(nvidia.gpu(0), 4)])
    devices = state(*there, claims=[claim("one", 1), claim("two", 2)])
    assert given(devices, devices.needs_of(pod("one"), {})) == ["gpu-0"]
    assert devices.allocate(devices.needs_of(pod("two"), {}), "n1") is None


def test_an_allocated_claim_keeps_its_node() -> None:
    there = [*nvidia.slices("n1", [nvidia.gpu(0)]), *nvidia.slices("n2", [nvidia.gpu(0)])]
    devices = state(*there, claims=[claim("c", 1, "", "gpu-0")])
    assert devices.nodes_for(devices.needs_of(pod("c"), {})) == ["n1"]
    assert devices.needs_of(pod("missing"), {}).waits_for == 'resourceclaim "missing" not found'
