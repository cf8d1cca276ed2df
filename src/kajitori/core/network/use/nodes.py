"""Pod addresses on the present nodes: which nodes run out of them, and which will before they are full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from kajitori.core.network.planning.plan import VERSIONS, IpFamily

KEPT_ADDRESSES = {4: 3, 6: 2}
"""Addresses of a node's range that no Pod gets, by IP version: the first (network), the second (bridge) and, for IPv4,
the last (broadcast), as CNI's host-local plugin assigns them."""

BEYOND_COUNTING = 2**32
"""Largest number of addresses that is reported: no node uses more, and not every JSON reader can represent 2^64."""

NEARLY_FULL = 0.9
"""Share of a node's addresses in use above which it is about to run out."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node: its own ranges for Pods, the most Pods that its kubelet admits, and its present Pods with an address.

    `pod_cidrs` is empty if Pods get single addresses.
    """

    name: str
    pod_cidrs: tuple[str, ...]
    max_pods: int
    pods: int

    @property
    def rooms(self) -> dict[int, int]:
        """Number of addresses for Pods by IP version, for the versions that the node has a range of."""
        found: dict[int, int] = {}
        for cidr in self.pod_cidrs:
            network = ip_network(cidr, strict=False)
            room = max(0, network.num_addresses - KEPT_ADDRESSES[network.version])
            found[network.version] = min(BEYOND_COUNTING, found.get(network.version, 0) + room)
        return found

    @property
    def addresses(self) -> int | None:
        """Number of addresses for Pods, in the IP version with fewer; None if the node has no range."""
        return min(self.rooms.values(), default=None)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node that runs out of addresses: now or nearly (`now`), or before it has its maximum number of Pods."""

    node: NodeUse
    now: bool
    why: str


def shortages(nodes: Iterable[NodeUse]) -> list[Shortage]:
    """Return the nodes that run out of addresses, those that run out now first."""
    found = []
    for node in nodes:
        room = node.addresses
        if room is None:
            continue
        where = ", ".join(node.pod_cidrs)
        if node.pods >= NEARLY_FULL * room:
            found.append(Shortage(node, now=True, why=f"{node.pods} of {room} addresses for Pods are in use ({where})"))
        elif room < node.max_pods:
            why = f"its kubelet admits {node.max_pods} Pods, but {where} has {room} addresses for them"
            found.append(Shortage(node, now=False, why=why))
    return sorted(found, key=lambda shortage: not shortage.now)


def usual_family(nodes: Iterable[NodeUse]) -> IpFamily:
    """Return the IP versions of most nodes with ranges; IPv4 if no node has any."""
    counts = Counter(frozenset(node.rooms) for node in nodes if node.rooms)
    most = counts.most_common(1)[0][0] if counts else frozenset({4})
    return next(family for family, versions in VERSIONS.items() if most == frozenset(versions))


def usual_pods_per_node(nodes: Sequence[NodeUse]) -> int:
    """Return the most frequent maximum of Pods per node, the larger one of two equally frequent; 0 without nodes."""
    counts = Counter(node.max_pods for node in nodes)
    return max(counts, key=lambda pods: (counts[pods], pods), default=0)
