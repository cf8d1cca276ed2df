"""The GPU types of a node, the number of GPUs of each, and the ways in which a Pod can ask for them.

Whole GPUs of a node are one type. MIG slices, other partitions and shared GPUs are types of their own, and only runs
that name the type get them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kajitori.core.gpus.devices import (
    Device,
    DeviceClass,
    DeviceId,
    NodeDevices,
    allocatable,
    counters_left,
    in_order,
)

PLUGIN = ""
"""The way of a Pod that asks for the policy's resource (`nvidia.com/gpu`) in its container."""
BY_CLAIM = "claim:"
"""Begins the way of a Pod with a ResourceClaim; the name of the DeviceClass follows. Any other way is the name of an
extended resource."""

_WHOLE = ("", "gpu", "amdgpu")
"""Values of the attribute `type` of whole GPUs."""
_PRODUCT = ("productName", "model", "family")
_PROFILE = ("profile", "partitionProfile")


class NamesTypes(Protocol):
    """The policy about GPUs, as far as types go."""

    def name_of(self, product: str) -> str:
        """Return the type of a product as users write it."""
        ...


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """The GPUs of one type that a node has."""

    type: str
    count: int
    is_whole: bool = True
    ways: tuple[str, ...] = (PLUGIN,)
    """The ways in which Pods can ask for them, and get no others."""
    selector: str = ""
    """CEL expression that holds for these devices and for no others of the node; empty for a device plugin's."""
    most_per_pod: int = 0
    """Maximum number for one Pod; 0: all of them. A Pod gets each shared GPU once."""

    @property
    def most(self) -> int:
        """The largest number that one Pod can have."""
        return self.most_per_pod or self.count


class GpuWay(NamedTuple):
    """How a Pod asks for its GPUs."""

    way: str = PLUGIN
    """An extended resource, or BY_CLAIM with a DeviceClass."""
    selectors: tuple[str, ...] = ()
    """For a claim: expressions of which each device has to meet one."""

    @property
    def device_class(self) -> str:
        """The DeviceClass of the claim; empty without a claim."""
        return self.way.removeprefix(BY_CLAIM) if self.way.startswith(BY_CLAIM) else ""

    def resource(self, default: str) -> str:
        """Return the extended resource; `default` is the policy's. Empty for a claim."""
        return "" if self.device_class else self.way or default


class GpuKind(NamedTuple):
    """The type of a device."""

    type: str
    is_whole: bool
    selector: str


def kind_of(device: Device, names: NamesTypes) -> GpuKind:
    """Return the GPU type of a device as users write it: `h100`, `h100-mig-1g.10gb`, `l4-shared`."""
    product = _first_attribute(device, _PRODUCT)
    base = names.name_of(product[1].replace(" ", "-")) if product else device.driver.split(".")[-2:][0]
    written = str(device.attribute("type") or "")
    profile = _first_attribute(device, _PROFILE)
    word = base
    if written not in _WHOLE:
        prefix = "mig-" if written == "mig" else ""
        word += f"-{prefix}{(profile[1] if profile else written).lower().replace('_', '-')}"
    if device.is_shared:
        word += "-shared"
    used = [("type", written)] if written else []
    used += [entry for entry in (product, profile if written not in _WHOLE else None) if entry is not None]
    parts = [f'device.attributes["{device.driver}"].{name} == "{_escape(value)}"' for name, value in used]
    return GpuKind(word, written in _WHOLE and not device.is_shared, " && ".join(parts))


def _first_attribute(device: Device, names: Sequence[str]) -> tuple[str, str] | None:
    found = ((name, device.attribute(name)) for name in names)
    return next(((name, str(value)) for name, value in found if value), None)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of a node that are devices of dynamic resource allocation, by type."""

    devices: NodeDevices
    by_type: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    offers: tuple[GpuOffer, ...] = ()

    def used(self, taken: Mapping[DeviceId, int]) -> dict[str, int]:
        """Return how many GPUs of each type are in use, or excluded by devices in use. `taken` has the number of
        shares in use of each allocated device."""
        left = counters_left(self.devices, taken)
        return {
            offer.type: offer.count - len(allocatable(self.by_type[offer.type], left, taken)) for offer in self.offers
        }

    def type_of(self, device: DeviceId) -> str:
        """Return the type of a device; empty if it is no GPU of this node."""
        return next((word for word, found in self.by_type.items() if any(d.id == device for d in found)), "")


def counts_of(node: NodeDevices, names: NamesTypes) -> dict[str, int]:
    """Return how many GPUs of each type a node has, whether or not a DeviceClass contains them."""
    left = counters_left(node, ())
    return {kind.type: len(allocatable(devices, left, {})) for kind, devices in _kinds_of(node, names)}


def _kinds_of(node: NodeDevices, names: NamesTypes) -> list[tuple[GpuKind, list[Device]]]:
    """Return the GPU types of a node with their devices. Devices with the same attributes are looked at once."""
    known: dict[tuple[int, bool], GpuKind] = {}
    found: dict[str, tuple[GpuKind, list[Device]]] = {}
    for device in in_order(node.devices):
        key = id(device.attributes), device.is_shared
        if key not in known:
            known[key] = kind_of(device, names)
        kind = known[key]
        found.setdefault(kind.type, (kind, []))[1].append(device)
    return list(found.values())


def gpus_of_node(node: NodeDevices, classes: Iterable[DeviceClass], names: NamesTypes, resource: str) -> NodeGpus:
    """Return the GPUs of a node, given its devices that are GPUs. `resource` is the policy's GPU resource.

    A type that no DeviceClass contains is left out, since no Pod can ask for it.
    """
    kinds = _kinds_of(node, names)
    by_type = {kind.type: devices for kind, devices in kinds}
    held = {known: [device for device in node.devices if known.contains(device)] for known in classes}
    offers = []
    left = counters_left(node, ())
    for kind, devices in kinds:
        count = len(allocatable(devices, left, {}))
        ways = tuple(_sure_ways(devices, held, resource))
        if ways:
            most = len(devices) if devices[0].is_shared else 0
            offers.append(GpuOffer(kind.type, count, kind.is_whole, ways, _selector_of_type(kind, devices, node), most))
    whole = sorted((offer for offer in offers if offer.is_whole), key=lambda offer: (-offer.count, offer.type))
    parts = sorted((offer for offer in offers if not offer.is_whole), key=lambda offer: offer.type)
    found = (*whole[:1], *parts)  # all whole GPUs of a node are one type: the one that it has most of
    return NodeGpus(node, {offer.type: tuple(by_type[offer.type]) for offer in found}, found)


def _sure_ways(devices: Sequence[Device], held: Mapping[DeviceClass, Sequence[Device]], resource: str) -> Iterable[str]:
    """Yield the ways in which a Pod gets devices of this type for sure, the simplest first."""
    wanted = {device.id for device in devices}
    fitting = [(known, contained) for known, contained in held.items() if wanted <= {device.id for device in contained}]
    fitting.sort(key=lambda entry: (entry[0].name != devices[0].driver, entry[0].name))
    for known, contained in fitting:
        if known.extended_resource and {device.id for device in contained} == wanted:
            yield PLUGIN if known.extended_resource == resource else known.extended_resource
    for known, _ in fitting:
        yield BY_CLAIM + known.name


def _selector_of_type(kind: GpuKind, devices: Sequence[Device], node: NodeDevices) -> str:
    """Return the expression for a type. It speaks of sharing only if the node has shared devices: API servers without
    that feature do not know the field."""
    if not any(device.is_shared for device in node.devices):
        return kind.selector
    shared = "device.allowMultipleAllocations" if devices[0].is_shared else "!device.allowMultipleAllocations"
    return f"{kind.selector} && {shared}" if kind.selector else shared


def plugin_offers(gpu_type: str, amounts: Mapping[str, int], resource: str) -> tuple[GpuOffer, ...]:
    """Return what a node with NVIDIA's device plugin offers besides whole GPUs, together with them; empty if it offers
    whole GPUs only. MIG slices have resources such as nvidia.com/mig-1g.10gb, shared GPUs nvidia.com/gpu.shared."""
    domain = resource.partition("/")[0]
    parts = []
    for name, count in sorted(amounts.items()):
        if count and name.startswith(f"{domain}/mig-"):
            parts.append(GpuOffer(f"{gpu_type}-{name.partition('/')[2]}", count, is_whole=False, ways=(name,)))
        elif count and name == f"{resource}.shared":
            parts.append(GpuOffer(f"{gpu_type}-shared", count, is_whole=False, ways=(name,)))
    if not parts:
        return ()
    whole = amounts.get(resource, 0)
    return (*((GpuOffer(gpu_type, whole),) if whole else ()), *parts)


def claim_spec(device_class: str, count: int, selectors: Sequence[str]) -> dict[str, object]:
    """Return the spec of a ResourceClaim for this number of devices, each of which one of the selectors matches."""
    request: dict[str, object] = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    wanted = [selector for selector in selectors if selector]
    if wanted:
        text = wanted[0] if len(wanted) == 1 else " || ".join(f"({selector})" for selector in wanted)
        request["selectors"] = [{"cel": {"expression": text}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}
