"""Pools of addresses of this cluster, and how many of each are in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Literal

from kajitori.core.network.registry.model import Address, Networks
from kajitori.core.network.registry.ranges import inside
from kajitori.core.network.use.nodes import BEYOND_COUNTING, NodeUse

PoolKind = Literal["nodes", "pods", "own ranges"]
PoolUnit = Literal["addresses", "node ranges"]


@dataclass(frozen=True, slots=True)
class AddressPool:
    """A range of the registry, or the ranges of all nodes together."""

    kind: PoolKind
    """`nodes` and `pods`: a range of the registry for them. `own ranges`: the nodes' ranges for their Pods."""
    cidr: str
    """Empty for `own ranges`."""
    cluster: str
    """Name of the cluster in the registry."""
    used: int
    capacity: int
    unit: PoolUnit = "addresses"

    @property
    def name(self) -> str:
        """Name in history."""
        return f"{self.kind} {self.cidr}".strip()


def pools_of(
    networks: Networks, nodes: Sequence[NodeUse], node_addresses: Iterable[str], pod_addresses: Iterable[str]
) -> list[AddressPool]:
    """Return the pools of which this cluster uses anything, without ranges that are too large to run out.

    A range for Pods is divided among nodes, or gives single addresses if no node has a range in it. `pod_addresses` are
    those of Pods with an address of their own.
    """
    of_nodes, of_pods = _parse_addresses(node_addresses), _parse_addresses(pod_addresses)
    blocks = [ip_network(cidr, strict=False) for node in nodes for cidr in node.pod_cidrs]
    found = []
    for cluster in networks.clusters:
        for cidr in cluster.nodes:
            used = sum(inside(address, cidr) for address in of_nodes)
            found.append(AddressPool("nodes", str(cidr), cluster.name, used, cidr.num_addresses))
        for cidr in cluster.pods:
            prefixes = [block.prefixlen for block in blocks if inside(block.network_address, cidr)]
            if prefixes:
                capacity = 2 ** max(0, min(prefixes) - cidr.prefixlen)
                found.append(AddressPool("pods", str(cidr), cluster.name, len(prefixes), capacity, "node ranges"))
            else:
                used = sum(inside(address, cidr) for address in of_pods)
                found.append(AddressPool("pods", str(cidr), cluster.name, used, cidr.num_addresses))
    ranged = [(node.pods, room) for node in nodes if (room := node.addresses) is not None]
    if ranged:
        used, capacity = sum(pods for pods, _ in ranged), sum(room for _, room in ranged)
        found.append(AddressPool("own ranges", "", "", used, capacity))
    return [pool for pool in found if pool.used and pool.capacity < BEYOND_COUNTING]


def _parse_addresses(texts: Iterable[str]) -> list[Address]:
    found = []
    for text in texts:
        try:
            found.append(ip_address(text))
        except ValueError:
            continue  # an address that a driver reports in another form
    return found
