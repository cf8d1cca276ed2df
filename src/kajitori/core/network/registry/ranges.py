"""Ranges of addresses: the ranges of a registry with their owners, and arithmetic with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kajitori.core.network.registry.model import Address, Cluster, Network, Networks

_KINDS = {"nodes": "nodes", "pods": "Pods", "services": "Services", "publicServices": "public Services"}
"""Names of the ranges of a cluster in messages, by field."""


@dataclass(frozen=True, slots=True)
class NamedRange:
    """A range with its owner in words and its `field` in the file."""

    field: str
    owner: str
    network: Network
    cluster: int | None = None
    kind: str = ""


def named_ranges(networks: Networks) -> list[NamedRange]:
    """Return every range of researchers and clusters, in the file's order."""
    found = [
        NamedRange(f"researchers[{index}]", "researchers", network, kind="researchers")
        for index, network in enumerate(networks.researchers)
    ]
    for index, cluster in enumerate(networks.clusters):
        for kind, position, network in cluster.ranges():
            field = f"clusters[{index}].{kind}[{position}]"
            found.append(NamedRange(field, f"{_KINDS[kind]} of {cluster.name}", network, index, kind))
    return found


def overlap(one: Network, other: Network) -> bool:
    """Return whether two ranges share an address; ranges of different IP versions never do."""
    return one.version == other.version and one.overlaps(other)


def inside(address: Address, network: Network) -> bool:
    """Return whether the address is in the range."""
    return address.version == network.version and address in network


def inside_any(address: Address, networks: Sequence[Network]) -> bool:
    """Return whether the address is in one of the ranges."""
    return any(inside(address, network) for network in networks)


def node_prefixes(cluster: Cluster) -> Iterator[tuple[int, int | None]]:
    """Yield (IP version, length of each node's range)."""
    size = cluster.size
    yield 4, size.node_prefix if size is not None else None
    yield 6, size.node_prefix6 if size is not None else None


def addresses_of(ranges: Sequence[Network]) -> int:
    """Return the number of addresses in ranges that do not overlap."""
    return sum(network.num_addresses for network in ranges)


def node_ranges(pods: Sequence[Network], node_prefix: int) -> int:
    """Return how many nodes can have a range of that length out of these."""
    return sum(2 ** (node_prefix - network.prefixlen) for network in pods if network.prefixlen <= node_prefix)


def smallest_prefix(addresses: int, version: int) -> int:
    """Return the length of the smallest range with this many addresses."""
    return (32 if version == 4 else 128) - max(0, addresses - 1).bit_length()
