"""ResourceSlices and DeviceClasses in the form that NVIDIA's driver for dynamic resource allocation publishes them.

Names of attributes, capacities and counters are those of dra-driver-nvidia-gpu, folder `cmd/gpu-kubelet-plugin`:
`deviceinfo.go`, `partitions.go`, `consumable_shares.go`. The DeviceClasses are those of its Helm chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DRIVER = "gpu.nvidia.com"
API_VERSION = "resource.k8s.io/v1"
H100 = "NVIDIA H100 80GB HBM3"
_MEMORY = {H100: "81559Mi", "NVIDIA L4": "23034Mi", "NVIDIA A100-SXM4-40GB": "40960Mi"}
_ARCHITECTURE = {H100: ("Hopper", "9.0.0"), "NVIDIA L4": ("Ada Lovelace", "8.9.0")}

Object = dict[str, Any]


def device_class(name: str, expression: str, *, resource: str = "") -> Object:
    """Return a DeviceClass with one selector; `resource` is its extended resource."""
    spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"apiVersion": API_VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _of_type(kind: str) -> str:
    return f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"


def driver_classes(*, extended: bool = True) -> list[Object]:
    """Return the DeviceClasses for whole GPUs and MIG slices that the driver's Helm chart creates."""
    return [
        device_class("gpu.nvidia.com", _of_type("gpu"), resource="nvidia.com/gpu" if extended else ""),
        device_class("mig.nvidia.com", _of_type("mig")),
    ]


def mig_class(profile: str) -> Object:
    """Return a DeviceClass for one MIG profile with an extended resource, as in the driver's examples."""
    expression = f"{_of_type('mig')} && device.attributes['{DRIVER}'].profile == '{profile}'"
    return device_class(f"mig-{profile.replace('.', '-')}", expression, resource=f"nvidia.com/mig-{profile}")


def gpu(index: int, product: str = H100) -> Object:
    """Return a whole GPU."""
    architecture, capability = _ARCHITECTURE.get(product, ("Ampere", "8.0.0"))
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-00000000-0000-0000-0000-{index:012d}"},
            "productName": {"string": product},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": architecture},
            "cudaComputeCapability": {"version": capability},
            "driverVersion": {"version": "580.65.6"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{index:02x}:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index:02x}"},
        },
        "capacity": {"memory": {"value": _MEMORY[product]}},
    }


def mig(parent: int, start: int, profile: str = "1g.10gb", size: int = 1, product: str = H100) -> Object:
    """Return a MIG slice of GPU `parent` that begins at memory slice `start` and has `size` of them."""
    cores, memory = int(profile[0]), int(profile.partition(".")[2].removesuffix("gb"))
    capacity = {"multiprocessors": 16 * cores, "copyEngines": cores, "decoders": cores, "encoders": 0}
    capacity |= {"jpegEngines": cores, "ofaEngines": 0}
    capacity |= {f"memorySlice{index}": 1 for index in range(start, start + size)}
    return {
        "name": f"gpu-{parent}-mig-{profile.replace('.', '')}-19-{start}",
        "attributes": {
            "type": {"string": "mig"},
            "parentUUID": {"string": f"GPU-00000000-0000-0000-0000-{parent:012d}"},
            "profile": {"string": profile},
            "productName": {"string": product},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "580.65.6"},
        },
        "capacity": {"memory": {"value": f"{memory * 972}Mi"}}
        | {name: {"value": str(amount)} for name, amount in capacity.items()},
    }


def shared(device: Object, shares: int) -> Object:
    """Return a GPU that up to `shares` claims may have at the same time (`--consumable-shares`)."""
    memory = device["capacity"]["memory"]["value"]
    free = {"default": "0", "validRange": {"min": "0", "max": memory, "step": "1Mi"}}
    one = {"default": "1", "validRange": {"min": "1", "max": str(shares), "step": "1"}}
    capacity = {
        "memory": {"value": memory, "requestPolicy": free},
        "shares": {"value": str(shares), "requestPolicy": one},
    }
    return {**device, "allowMultipleAllocations": True, "capacity": capacity}


def partitionable(index: int) -> tuple[list[Object], Object]:
    """Return a GPU that is partitioned on demand, and its counters: as a whole, as 7 slices 1g.10gb or as 2 slices
    3g.40gb."""
    counters = f"gpu-{index}-counter-set"
    whole = {"multiprocessors": 132, **{f"memory-slice-{number}": 1 for number in range(8)}}
    parts = [("1g.10gb", start, 1) for start in range(7)] + [("3g.40gb", start, 4) for start in (0, 4)]
    devices = [gpu(index) | {"consumesCounters": [_uses(counters, whole)]}]
    for profile, start, size in parts:
        used = {"multiprocessors": 16 * int(profile[0])}
        used |= {f"memory-slice-{number}": 1 for number in range(start, start + size)}
        devices.append(mig(index, start, profile, size) | {"consumesCounters": [_uses(counters, used)]})
    values = {name: {"value": str(amount)} for name, amount in whole.items()}
    return devices, {"name": counters, "counters": values}


def _uses(counters: str, amounts: dict[str, int]) -> Object:
    values = {name: {"value": str(amount)} for name, amount in amounts.items()}
    return {"counterSet": counters, "counters": values}


def slices(node: str, devices: Sequence[Object], counters: Sequence[Object] = ()) -> list[Object]:
    """Return the ResourceSlices of a node: one with the devices, and one with the shared counters if there are any."""
    parts: list[Object] = [{"devices": list(devices)}]
    if counters:
        parts.append({"sharedCounters": list(counters)})
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-gpu.nvidia.com-{number}"},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **part},
        }
        for number, part in enumerate(parts)
    ]
