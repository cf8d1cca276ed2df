"""Addresses for Pods on the nodes that are there: which nodes run out of them, and which before they are full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from kajitori.core.network.plan import VERSIONS, IpFamily

KEPT_ADDRESSES = {4: 3, 6: 2}
"""By family: of a node's range no Pod has the first (network), the second (the bridge) and, of IPv4, the last
(broadcast), as CNI's host-local plugin hands them out."""

BEYOND_COUNTING = 2**32
"""More addresses are told as that many: no node uses them up, and 2^64 is no number to every reader of JSON."""

NEARLY = 0.9
"""Of a node's addresses, in use: above it, it is about to run out."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node: its own ranges for Pods (none where addresses are given one by one), the Pods that its kubelet takes, and
    those that are there with an address of their own."""

    name: str
    pod_cidrs: tuple[str, ...]
    most_pods: int
    pods: int

    @property
    def rooms(self) -> dict[int, int]:
        """By family: addresses for Pods, of the families that it has a range of."""
        found: dict[int, int] = {}
        for cidr in self.pod_cidrs:
            network = ip_network(cidr, strict=False)
            room = max(0, network.num_addresses - KEPT_ADDRESSES[network.version])
            found[network.version] = min(BEYOND_COUNTING, found.get(network.version, 0) + room)
        return found

    @property
    def addresses(self) -> int | None:
        """For Pods, in the family that has fewer of them; None where the node has no range of its own."""
        return min(self.rooms.values(), default=None)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node that runs out of addresses: `now` or nearly so, or before it has as many Pods as it may."""

    node: NodeUse
    now: bool
    why: str


def shortages(nodes: Iterable[NodeUse]) -> list[Shortage]:
    """Those that run out now first."""
    found = []
    for node in nodes:
        room = node.addresses
        if room is None:
            continue
        where = ", ".join(node.pod_cidrs)
        if node.pods >= NEARLY * room:
            found.append(Shortage(node, True, f"{node.pods} of {room} addresses for Pods are in use ({where})"))
        elif room < node.most_pods:
            why = f"its kubelet takes {node.most_pods} Pods, but {where} has {room} addresses for them"
            found.append(Shortage(node, False, why))
    return sorted(found, key=lambda shortage: not shortage.now)


def usual_family(nodes: Iterable[NodeUse]) -> IpFamily:
    """Families that most nodes with ranges have; IPv4 where none has any."""
    counts = Counter(frozenset(node.rooms) for node in nodes if node.rooms)
    most = counts.most_common(1)[0][0] if counts else frozenset({4})
    return next(family for family, versions in VERSIONS.items() if most == frozenset(versions))


def usual_pods_per_node(nodes: Sequence[NodeUse]) -> int:
    """What most nodes take; the larger number where two are as frequent. 0 without nodes."""
    counts = Counter(node.most_pods for node in nodes)
    return max(counts, key=lambda pods: (counts[pods], pods), default=0)
