"""The GPU types that a node's devices are, how many there are, and how a Pod asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.helpers.gpus import nvidia_slices as nvidia

from kajitori.core.gpus.devices import Device, DeviceClass, NodeDevices, allocatable, counters_left, selects
from kajitori.core.gpus.offers import GpuOffer, gpus_of_node, plugin_offers
from kajitori.core.policy.runs.members import Gpu
from kajitori.kube.device_objects import DeviceTaintRule, ResourceSlice
from kajitori.kube.devices import node_devices

GPU = "nvidia.com/gpu"
POLICY = Gpu()


def devices_of(devices: Sequence[Any], counters: Sequence[Any] = (), rules: Sequence[Any] = ()) -> NodeDevices:
    slices = msgspec.convert(nvidia.slices("n1", devices, counters), list[ResourceSlice])
    return node_devices(slices, msgspec.convert(list(rules), list[DeviceTaintRule]))


def classes_of(*written: Any) -> list[DeviceClass]:
    return [
        DeviceClass(
            found["metadata"]["name"],
            tuple(selector["cel"]["expression"] for selector in found["spec"]["selectors"]),
            found["spec"].get("extendedResourceName", ""),
        )
        for found in written
    ]


CLASSES = classes_of(*nvidia.driver_classes())


def offers(
    devices: Sequence[Any], counters: Sequence[Any] = (), classes: Sequence[DeviceClass] = CLASSES
) -> dict[str, GpuOffer]:
    found = gpus_of_node(devices_of(devices, counters), classes, POLICY, GPU)
    return {offer.type: offer for offer in found.offers}


def test_whole_gpus_are_asked_for_by_the_extended_resource() -> None:
    """The claim is the second way."""
    found = offers([nvidia.gpu(index) for index in range(8)])
    assert list(found) == ["h100"]
    assert (found["h100"].count, found["h100"].ways) == (8, ("", "claim:gpu.nvidia.com"))


def test_without_an_extended_resource_there_is_only_the_claim() -> None:
    found = offers([nvidia.gpu(0)], classes=classes_of(*nvidia.driver_classes(extended=False)))
    assert found["h100"].ways == ("claim:gpu.nvidia.com",)
    assert found["h100"].selector == (
        f'device.attributes["{nvidia.DRIVER}"].type == "gpu" && '
        f'device.attributes["{nvidia.DRIVER}"].productName == "{nvidia.H100}"'
    )


def test_mig_slices_are_types_beside_the_whole_gpus() -> None:
    devices = [nvidia.gpu(0), *(nvidia.mig(1, start) for start in range(7)), nvidia.mig(2, 0, "3g.40gb", 4)]
    found = offers(devices, classes=[*CLASSES, *classes_of(nvidia.mig_class("1g.10gb"))])
    assert {word: (offer.count, offer.is_whole) for word, offer in found.items()} == {
        "h100": (1, True),
        "h100-mig-1g.10gb": (7, False),
        "h100-mig-3g.40gb": (1, False),
    }
    assert found["h100-mig-1g.10gb"].ways == (
        "nvidia.com/mig-1g.10gb",
        "claim:mig-1g-10gb",
        "claim:mig.nvidia.com",
    )
    assert found["h100-mig-3g.40gb"].ways == ("claim:mig.nvidia.com",)


def test_a_selector_matches_the_devices_of_its_type_only() -> None:
    devices = [nvidia.gpu(0), nvidia.mig(1, 0), nvidia.mig(1, 4, "3g.40gb", 4), nvidia.shared(nvidia.gpu(2), 4)]
    node = devices_of(devices)
    found = gpus_of_node(node, CLASSES, POLICY, GPU)
    for offer in found.offers:
        matching = tuple(device for device in node.devices if selects(offer.selector, device))
        assert matching == found.by_type[offer.type]


def test_partitions_on_demand_exclude_their_whole_gpu() -> None:
    """The whole GPU and its partitions take the same counters."""
    devices, counters = nvidia.partitionable(0)
    node = devices_of([*devices, nvidia.gpu(1)], [counters])
    found = gpus_of_node(node, CLASSES, POLICY, GPU)
    assert {offer.type: offer.count for offer in found.offers} == {
        "h100": 2,
        "h100-mig-1g.10gb": 7,
        "h100-mig-3g.40gb": 2,
    }
    slice_in_use = {(nvidia.DRIVER, "n1", "gpu-0-mig-1g10gb-19-0"): 1}
    assert found.used(slice_in_use) == {"h100": 1, "h100-mig-1g.10gb": 1, "h100-mig-3g.40gb": 1}
    whole_in_use = {(nvidia.DRIVER, "n1", "gpu-0"): 1}
    assert found.used(whole_in_use) == {"h100": 1, "h100-mig-1g.10gb": 7, "h100-mig-3g.40gb": 2}


def test_shares_of_a_gpu_are_counted_one_by_one() -> None:
    """The extended resource is no way to get them while the node has whole GPUs as well."""
    found = gpus_of_node(devices_of([nvidia.shared(nvidia.gpu(0), 4), nvidia.gpu(1)]), CLASSES, POLICY, GPU)
    shares = next(offer for offer in found.offers if offer.type == "h100-shared")
    assert (shares.count, shares.is_whole, shares.ways) == (4, False, ("claim:gpu.nvidia.com",))
    assert shares.most == 1
    assert found.used({(nvidia.DRIVER, "n1", "gpu-0"): 3}) == {"h100": 0, "h100-shared": 3}


def test_shares_of_one_partition_take_its_counters_once() -> None:
    """While one share is in use, the others are free, and the rest of the hardware is not."""
    counter = (nvidia.DRIVER, "n1", "set", "slices")
    part, other = (
        Device(nvidia.DRIVER, "n1", name, {}, {}, is_shared=shares > 1, shares=shares, counters=((counter, 10),))
        for name, shares in (("part", 4), ("other", 1))
    )
    node, taken = NodeDevices((part, other), {counter: 10}), {part.id: 1}
    assert allocatable(node.devices, counters_left(node, taken), taken) == [part.id] * 3
    assert allocatable(node.devices, counters_left(node, {}), {}) == [part.id] * 4


def test_of_two_products_only_the_more_numerous_one_is_offered() -> None:
    found = offers([nvidia.gpu(0, "NVIDIA L4"), nvidia.gpu(1), nvidia.gpu(2)])
    assert {word: offer.count for word, offer in found.items()} == {"h100": 2}


@pytest.mark.parametrize(
    "rule",
    [
        {"deviceSelector": {"driver": nvidia.DRIVER, "pool": "n1", "device": "gpu-1"}},
        {"deviceSelector": {"device": "gpu-1"}},
    ],
)
def test_a_tainted_device_does_not_count(rule: dict[str, Any]) -> None:
    taint = {"key": "broken", "effect": "NoSchedule"}
    node = devices_of(
        [nvidia.gpu(0), nvidia.gpu(1)], rules=[{"metadata": {"name": "r"}, "spec": rule | {"taint": taint}}]
    )
    assert [offer.count for offer in gpus_of_node(node, CLASSES, POLICY, GPU).offers] == [1]
    tainted = nvidia.gpu(1) | {"taints": [taint | {"value": "xid"}]}
    assert offers([nvidia.gpu(0), tainted])["h100"].count == 1
    assert offers([nvidia.gpu(0), nvidia.gpu(1) | {"taints": [taint | {"effect": "None"}]}])["h100"].count == 2


def test_an_incomplete_pool_counts_nothing() -> None:
    """Its driver is about to publish the other slices; old generations are about to be removed."""
    devices, counters = nvidia.partitionable(0)
    slices = msgspec.convert(nvidia.slices("n1", devices, [counters]), list[ResourceSlice])
    assert not node_devices(slices[:1], ()).devices
    assert node_devices(slices, ()).devices


AMD: dict[str, Any] = {
    "pciAddr": {"string": "0000:19:00.0"},
    "cardIndex": {"int": 1},
    "renderIndex": {"int": 128},
    "deviceID": {"string": "10247426863461478912"},
    "family": {"string": "AI"},
    "productName": {"string": "AMD_Instinct_MI300X_OAM"},
    "driverVersion": {"version": "6.12.12"},
    "driverSrcVersion": {"string": "1A2B3C4D5E6F"},
    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:15"},
}
"""As ROCm/k8s-gpu-dra-driver 2622427 publishes them (cmd/gpu-kubeletplugin/deviceinfo.go)."""
INTEL: dict[str, Any] = {
    "model": {"string": "Max 1100"},
    "family": {"string": "Data Center Max"},
    "driver": {"string": "i915"},
    "sriov": {"bool": True},
    "pciId": {"string": "0x0bda"},
    "pciAddress": {"string": "0000:03:00.0"},
    "health": {"string": "Healthy"},
    "pciRoot": {"string": "00"},
    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
}
"""As intel/intel-resource-drivers-for-kubernetes 1da939f publishes them (cmd/kubelet-gpu-plugin/node_state.go)."""


@pytest.mark.parametrize(
    ("driver", "attributes", "word", "is_whole"),
    [
        ("gpu.amd.com", {"type": "amdgpu", "partitionProfile": "spx_nps1"}, "instinct-mi300x-oam", True),
        (
            "gpu.amd.com",
            {"type": "amdgpu-partition", "partitionProfile": "cpx_nps4"},
            "instinct-mi300x-oam-cpx-nps4",
            False,
        ),
        ("gpu.intel.com", {"type": "gpu"}, "max-1100", True),
        ("gpu.intel.com", {"type": "vf"}, "max-1100-vf", False),
    ],
)
def test_types_of_other_drivers_come_from_their_attributes(
    driver: str, attributes: dict[str, str], word: str, is_whole: bool
) -> None:
    """The class is that of the driver's Helm chart. A claim of such a type selects the device by its attributes."""
    published = AMD if driver == "gpu.amd.com" else INTEL
    own = {name: {"string": value} for name, value in attributes.items()}
    device = {"name": "gpu-1-128", "attributes": published | own}
    spec = {"driver": driver, "nodeName": "n1", "pool": {"name": "n1", "resourceSliceCount": 1}, "devices": [device]}
    node = node_devices([msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)], ())
    known = [DeviceClass(driver, (f"device.driver == '{driver}'",))]
    (offer,) = gpus_of_node(node, known, POLICY, GPU).offers
    assert (offer.type, offer.is_whole, offer.ways) == (word, is_whole, (f"claim:{driver}",))
    assert selects(offer.selector, node.devices[0])


def test_a_selector_that_cannot_be_evaluated_matches_nothing() -> None:
    device = devices_of([nvidia.gpu(0)]).devices[0]
    assert not selects("device.attributes['gpu.nvidia.com'].noSuch == 'x'", device)
    assert not selects("this is no CEL", device)
    assert selects("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) > 0", device)


def test_a_device_plugin_offers_slices_and_shares_too() -> None:
    amounts = {GPU: 4, "nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 0}
    assert [(offer.type, offer.count, offer.ways) for offer in plugin_offers("h100", amounts, GPU)] == [
        ("h100", 4, ("",)),
        ("h100-mig-1g.10gb", 7, ("nvidia.com/mig-1g.10gb",)),
    ]
    assert plugin_offers("h100", {GPU: 8}, GPU) == ()
