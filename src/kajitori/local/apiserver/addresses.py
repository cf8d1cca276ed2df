"""Cluster addresses of Services."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable

from kajitori.core import texts
from kajitori.local.apiserver.causes import Cause, invalid
from kajitori.local.apiserver.kinds import Object

CLUSTER_RANGE = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_PORT_RANGE = "provided port is not in the valid range. The range of valid ports is 30000-32767"


def allocate(service: Object, others: Iterable[Object]) -> list[Cause]:
    """Give a Service its cluster address and node ports, in place; what is wrong with those it asks for.

    The addresses lead nowhere here, as no proxy runs on the nodes; they exist because clients expect them. Members of a
    run find each other by the addresses of their Pods.
    """
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return []
    taken_addresses: set[str] = set()
    taken_ports: set[int] = set()
    for other in others:
        part = other.get("spec") or {}
        taken_addresses.update(part.get("clusterIPs") or ())
        taken_ports.update(port["nodePort"] for port in part.get("ports") or () if port.get("nodePort"))
    causes = _allocate_address(spec, taken_addresses)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        causes += _allocate_ports(spec, taken_ports)
    # Without an address and without a selector, whoever writes the endpoints may use either family.
    free = spec.get("clusterIP") == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if free else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if free else "SingleStack")
    return causes


def _allocate_address(spec: dict[str, object], taken: set[str]) -> list[Cause]:
    asked = spec.get("clusterIP")
    if asked == "None":
        spec["clusterIPs"] = ["None"]
        return []
    if asked:
        spec["clusterIPs"] = [asked]
        try:
            inside = ipaddress.ip_address(str(asked)) in CLUSTER_RANGE
        except ValueError:
            return [invalid("spec.clusterIPs[0]", asked, texts.IP_TEXT)]
        said = f"failed to allocate IP {asked}: "
        if not inside:
            said += f"the provided IP ({asked}) is not in the valid range. The range of valid IPs is {CLUSTER_RANGE}"
            return [invalid("spec.clusterIPs", [asked], said)]
        if str(asked) in taken:
            return [invalid("spec.clusterIPs", [asked], f"{said}provided IP is already allocated")]
        return []
    # At random, as kube-apiserver does: an address that was just freed is not somebody else's at once.
    size = CLUSTER_RANGE.num_addresses
    start = random.randrange(256, size - 1)
    for step in range(size):
        address = str(CLUSTER_RANGE[1 + (start + step) % (size - 2)])
        if address not in taken:
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
            return []
    return [invalid("spec.clusterIPs", None, "failed to allocate a serviceIP: range is full")]


def _allocate_ports(spec: dict[str, object], taken: set[int]) -> list[Cause]:
    causes: list[Cause] = []
    ports = spec.get("ports")
    assert isinstance(ports, list)
    for index, port in enumerate(ports):
        asked = port.get("nodePort")
        field = f"spec.ports[{index}].nodePort"
        if asked:
            if asked not in NODE_PORTS:
                detail = _PORT_RANGE
                causes.append(invalid(field, asked, detail))
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
