"""Allocates devices to ResourceClaims, and to Pods that ask for them by an extended resource, as kube-scheduler does.

Supported are requests for an exact number of devices of one class, with selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kajitori.core.gpus.devices import (
    Device,
    DeviceClass,
    DeviceId,
    NodeDevices,
    allocatable,
    counters_left,
    in_order,
    selects,
)
from kajitori.embedded.objects import Pod, WrittenClaim
from kajitori.embedded.scheduler.fit import requests
from kajitori.kube.device_objects import PublishedClass, ResourceSlice
from kajitori.kube.devices import default_shares, device_class, devices_of, node_devices, taken_by

CANNOT = "cannot allocate all claims"
"""kube-scheduler's message about a node without enough free devices."""
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Need:
    """A request for devices of one class."""

    name: str
    device_class: str
    count: int
    selectors: tuple[str, ...] = ()
    container: str = ""
    resource: str = ""
    """For an extended resource: the container and the resource that it asks for."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The requests of a Pod to the drivers of devices."""

    waits_for: str = ""
    """The reason for which the Pod cannot be placed yet; empty if it can."""
    is_early: bool = False
    """Whether claims are still to be created for it. That takes a moment, so it is not worth a message."""
    claims: tuple[tuple[Key, tuple[Need, ...]], ...] = ()
    """Claims without devices, each with its requests."""
    allocated: tuple[Key, ...] = ()
    """Claims that have their devices."""
    extended: tuple[Need, ...] = ()

    @property
    def all(self) -> Iterator[Need]:
        for _, needs in self.claims:
            yield from needs
        yield from self.extended

    @property
    def resources(self) -> frozenset[str]:
        """The extended resources that devices stand for."""
        return frozenset(need.resource for need in self.extended)


NOTHING = Needs()


@dataclass(slots=True)
class DeviceState:
    """All devices of the cluster, and which of them are allocated."""

    slices: Mapping[Key, ResourceSlice]
    classes: Mapping[Key, PublishedClass]
    claims: Mapping[Key, WrittenClaim]
    assumed: dict[str, dict[DeviceId, int]] = field(default_factory=dict)
    """Devices that were given to a Pod, by its UID, until the claims show them."""

    def needs_of(self, pod: Pod, nodes_with: Mapping[str, bool]) -> Needs:
        """Return the requests of a Pod. `nodes_with` says whether any node that it may use has an extended resource of
        a device plugin; the Pod then gets that resource."""
        waiting, allocated = [], []
        statuses = {entry["name"]: entry.get("resourceClaimName") for entry in pod.status.resource_claim_statuses or ()}
        for entry in pod.spec.resource_claims or ():
            name = entry.get("resourceClaimName") or statuses.get(entry["name"])
            if not name:
                return Needs(is_early=True)
            key = pod.metadata.namespace, name
            claim = self.claims.get(key)
            if claim is None:
                return Needs(f'resourceclaim "{name}" not found')
            if claim.status.allocation is not None:
                allocated.append(key)
            else:
                waiting.append((key, tuple(_needs_of_claim(claim))))
        given = (pod.status.extended_resource_claim_status or {}).get("resourceClaimName", "")
        if (pod.metadata.namespace, given) in self.claims:  # from an earlier try, in which binding failed
            allocated.append((pod.metadata.namespace, given))
        extended = () if given else tuple(self._extended_needs(pod, nodes_with))
        if not waiting and not allocated and not extended:
            return NOTHING
        return Needs(claims=tuple(waiting), allocated=tuple(allocated), extended=extended)

    def nodes_for(self, needs: Needs) -> list[str]:
        """Return the nodes with enough free devices."""
        nodes = {found.spec.node_name for found in self.slices.values()} - {""}
        for key in needs.allocated:
            held = {device[:2] for device in self._devices_of(key)}
            on = {s.spec.node_name for s in self.slices.values() if (s.spec.driver, s.spec.pool.name) in held}
            nodes &= on
        return sorted(node for node in nodes if self.allocate(needs, node) is not None)

    def allocate(self, needs: Needs, node: str) -> dict[str, list[Device]] | None:
        """Return free devices of the node for every request, by the request's name; None if there are not enough."""
        devices = self.of_node(node)
        taken = self._taken_devices(node)
        found: dict[str, list[Device]] = {}
        known = {one.metadata.name: device_class(one) for one in self.classes.values()}
        for need in needs.all:
            wanted = known.get(need.device_class)
            if wanted is None:
                return None
            chosen = _choose(need, wanted, devices, taken)
            if chosen is None:
                return None
            found[need.name] = chosen
            for device in chosen:
                taken[device.id] = taken.get(device.id, 0) + 1
        return found

    def of_node(self, node: str) -> NodeDevices:
        """Return the devices of a node."""
        return node_devices([found for found in self.slices.values() if found.spec.node_name == node], ())

    def _taken_devices(self, node: str) -> dict[DeviceId, int]:
        taken: dict[DeviceId, int] = {}
        defaults = default_shares(found for found in self.slices.values() if found.spec.node_name == node)
        shown = [taken_by(claim, defaults) for claim in self.claims.values()]
        for counts in (*shown, *self.assumed.values()):
            for device, count in counts.items():
                taken[device] = taken.get(device, 0) + count
        return taken

    def _devices_of(self, key: Key) -> list[DeviceId]:
        return devices_of(self.claims[key])

    def _extended_needs(self, pod: Pod, nodes_with: Mapping[str, bool]) -> Iterator[Need]:
        by_resource = {
            one.spec.extended_resource_name: one.metadata.name
            for one in sorted(self.classes.values(), key=lambda one: one.metadata.name, reverse=True)
            if one.spec.extended_resource_name
        }
        for number, container in enumerate(pod.spec.containers):
            asked = (container.resources.limits if container.resources else None) or {}
            for index, (resource, amount) in enumerate(sorted(asked.items())):
                if resource in by_resource and not nodes_with.get(resource, False) and str(amount) != "0":
                    name = f"container-{number}-request-{index}"
                    yield Need(name, by_resource[resource], int(amount), (), container.name, resource)


def asked_resources(pod: Pod) -> set[str]:
    """Return the extended resources that a Pod asks for."""
    return {resource for resource in requests(pod.spec) if "/" in resource}


def allocation(found: Mapping[str, Sequence[Device]], needs: Iterable[Need], node: str) -> dict[str, Any]:
    """Return the `allocation` of a claim's status with the devices for these requests."""
    results = [
        {"request": need.name, "driver": device.driver, "pool": device.pool, "device": device.name}
        for need in needs
        for device in found[need.name]
    ]
    field_of_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field_of_node]}]},
    }


def claim_of_extended(pod: Pod, needs: Sequence[Need]) -> dict[str, Any]:
    """Return the ResourceClaim of a Pod that asks for devices by extended resources."""
    namespace, name = pod.key
    exactly = (
        {"deviceClassName": need.device_class, "allocationMode": "ExactCount", "count": need.count} for need in needs
    )
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{name}-extended-resources-",
            "namespace": namespace,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid, "controller": True}
            ],
        },
        "spec": {
            "devices": {
                "requests": [{"name": need.name, "exactly": one} for need, one in zip(needs, exactly, strict=True)]
            }
        },
    }


def _choose(need: Need, wanted: DeviceClass, node: NodeDevices, taken: Mapping[DeviceId, int]) -> list[Device] | None:
    """Return different devices for one request; None if there are not enough."""
    matching = [
        device
        for device in in_order(node.devices)
        if wanted.contains(device) and all(selects(selector, device) for selector in need.selectors)
    ]
    free = list(dict.fromkeys(allocatable(matching, counters_left(node, taken), taken)))
    if len(free) < need.count:
        return None
    by_id = {device.id: device for device in matching}
    return [by_id[device] for device in free[: need.count]]


def _needs_of_claim(claim: WrittenClaim) -> Iterator[Need]:
    for request in (claim.spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly") or {}
        selectors = tuple(one["cel"]["expression"] for one in exactly.get("selectors") or ())
        yield Need(request["name"], exactly.get("deviceClassName", ""), int(exactly.get("count") or 1), selectors)
