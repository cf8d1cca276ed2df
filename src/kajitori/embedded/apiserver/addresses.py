"""Cluster addresses of Services."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable

from kajitori.embedded.apiserver.causes import Cause, invalid
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.networking import cluster_address_faults

CLUSTER_RANGE = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)


def allocate(service: Object, others: Iterable[Object], before: Object | None = None) -> list[Cause]:
    """Give a Service its cluster address and node ports, in place, and return the faults of those that it asks for.
    `before` is the spec that it replaces.

    No proxy runs on the nodes, so nothing answers at these addresses. They exist because clients expect them. Members
    of a run use the addresses of their Pods.
    """
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return []
    causes = _choose_families(spec, before or {})
    if causes:
        return causes
    taken_addresses: set[str] = set()
    taken_ports: set[int] = set()
    for other in others:
        part = other.get("spec") or {}
        taken_addresses.update(part.get("clusterIPs") or ())
        taken_ports.update(port["nodePort"] for port in part.get("ports") or () if port.get("nodePort"))
    if before is None or before.get("type") == "ExternalName":
        causes = _allocate_address(spec, taken_addresses)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        causes += _allocate_ports(spec, taken_ports)
    return causes


def _choose_families(spec: Object, before: Object) -> list[Cause]:
    """Set the policy and the families of addresses, and return the faults of those that the Service asks for."""
    # A headless Service without a selector may use either family: its endpoints are written by hand.
    free = spec.get("clusterIP") == "None" and not spec.get("selector")
    policy = before.get("ipFamilyPolicy") or ("RequireDualStack" if free else "SingleStack")
    policy = spec.setdefault("ipFamilyPolicy", policy)
    if causes := cluster_address_faults(spec):
        return causes
    families = spec.setdefault("ipFamilies", ["IPv4"])
    if free:
        if policy != "SingleStack" and len(families) == 1:
            spec["ipFamilies"] = ["IPv4", "IPv6"] if families == ["IPv4"] else ["IPv6", "IPv4"]
        return []
    if policy == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        causes.append(invalid("spec.ipFamilyPolicy", policy, detail))
    for index, family in enumerate(families):
        if family != "IPv4":
            causes.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    return causes


def _allocate_address(spec: Object, taken: set[str]) -> list[Cause]:
    asked = spec.get("clusterIP")
    if asked == "None":
        return []
    if asked:
        if ipaddress.ip_address(str(asked)) not in CLUSTER_RANGE:
            return [invalid("spec.clusterIPs", [asked], f"must be in the range {CLUSTER_RANGE}")]
        return [invalid("spec.clusterIPs", [asked], "is already allocated")] if str(asked) in taken else []
    # Choose at random, as kube-apiserver does, so that an address that was just freed is not reused at once.
    size = CLUSTER_RANGE.num_addresses
    start = random.randrange(256, size - 1)
    for step in range(size):
        address = str(CLUSTER_RANGE[1 + (start + step) % (size - 2)])
        if address in taken:
            continue
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
        return []
    return [invalid("spec.clusterIPs", None, "failed to allocate a serviceIP: range is full")]


def _allocate_ports(spec: Object, taken: set[int]) -> list[Cause]:
    causes: list[Cause] = []
    for index, port in enumerate(spec.get("ports") or []):
        asked = port.get("nodePort")
        field = f"spec.ports[{index}].nodePort"
        if asked:
            if asked not in NODE_PORTS:
                causes.append(invalid(field, asked, "must be from 30000 to 32767"))
            elif asked in taken:
                causes.append(invalid(field, asked, "provided port is already allocated"))
            taken.add(asked)
            continue
        free = next((one for one in NODE_PORTS if one not in taken), None)
        if free is None:
            causes.append(invalid(field, None, "failed to allocate a nodePort: range is full"))
            continue
        port["nodePort"] = free
        taken.add(free)
    return causes
