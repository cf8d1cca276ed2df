"""Whether a kind of network can carry a cluster: addresses, ranges, what stops it and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kajitori.core.network.encapsulation import Throughput, throughput
from kajitori.core.network.growth import NO_GROWTH, Growth
from kajitori.core.network.kinds import KINDS, Bound, Kind, usual_range
from kajitori.core.network.limits import KUBERNETES_NODES, PRIVATE_ADDRESSES, Figure
from kajitori.core.network.registry import smallest_prefix
from kajitori.errors import Fault, InvalidInput

MOST_NODES = 100_000
MOST_PODS_PER_NODE = 4_096
SIZES_TO_COMPARE = (250, 1_000, 2_500, 5_000, 7_500, 15_000, 30_000, 65_000, 100_000)

Verdict = Literal["yes", "on request", "no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The cluster that is planned. `mtu` overrules the network's own; `node_prefix` is the length of each node's range
    where a kind leaves that open; `pod_prefix` is that of the range for Pods that is there already."""

    nodes: int
    pods_per_node: int
    growth: Growth = NO_GROWTH
    years: float = 3.0
    mtu: int | None = None
    node_prefix: int | None = None
    pod_prefix: int | None = None
    link_gbit: float = 100.0

    def __post_init__(self) -> None:
        faults = [*_beyond("--nodes", self.nodes, 1, MOST_NODES)]
        faults += _beyond("--pods-per-node", self.pods_per_node, 1, MOST_PODS_PER_NODE)
        faults += _beyond("--years", self.years, 0, 50)
        faults += _beyond("--gbit", self.link_gbit, 0.001, 100_000)
        if self.mtu is not None:
            faults += _beyond("--mtu", self.mtu, 1280, 65_535)
        if self.pod_prefix is not None:
            faults += _beyond("--pod-prefix", self.pod_prefix, 4, 30)
        if self.node_prefix is not None and 2 ** (32 - self.node_prefix) < self.pods_per_node:
            message = f"a /{self.node_prefix} is too small for {self.pods_per_node:,} Pods"
            hint = f"{smallest_prefix(self.pods_per_node, 4)} at most"
            faults.append(Fault("--node-prefix", message, str(self.node_prefix), hint, "TooSmall"))
        if faults:
            raise InvalidInput(faults)


def _beyond(option: str, value: float, least: float, most: float) -> Iterator[Fault]:
    if not least <= value <= most:
        hint = f"between {least:,} and {most:,}"
        yield Fault(option, f"{value:,} can't be planned with", str(value), hint, "OutOfRange")


@dataclass(frozen=True, slots=True)
class Stop:
    """What ends growth: at `nodes` nothing more goes, because of `figure`; `raised` is the same after a request."""

    nodes: int
    figure: Figure
    raised_nodes: int | None = None
    raised: Figure | None = None

    @property
    def most(self) -> int:
        """Nodes, when everything that may be asked for was granted."""
        return self.raised_nodes if self.raised_nodes is not None else self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a kind of network makes of a cluster. Prefixes are lengths of IPv4 ranges; those for `later` hold until the
    horizon, as far as the kind carries at all."""

    kind: Kind
    verdict: Verdict
    node_addresses: int
    pod_addresses: int
    per_node: int
    """Addresses that a node takes out of the range for Pods."""
    node_prefix: int
    pod_prefix: int
    nodes_later: int
    node_prefix_later: int
    pod_prefix_later: int
    stops: tuple[Stop, ...]
    """Nearest first."""
    years_left: float | None
    """Until the nearest of them; None: not in sight."""
    prefix_nodes: int | None
    """Nodes that the range for Pods that is there holds."""
    prefix_years_left: float | None
    throughput: Throughput
    pod_gbit: float
    """Of a TCP program in each Pod, when all Pods of a node share its link."""

    @property
    def most_nodes(self) -> int:
        """Nodes that it can carry, everything granted."""
        return min(stop.most for stop in self.stops)


def plan_all(wanted: Wanted) -> list[Plan]:
    """Every kind, in the order in which they are listed."""
    return [plan(kind, wanted) for kind in KINDS]


def plan(kind: Kind, wanted: Wanted) -> Plan:
    """What `kind` makes of it."""
    pods, nodes = wanted.pods_per_node, wanted.nodes
    later = max(nodes, wanted.growth.after(nodes, wanted.years))
    per_node = kind.pods(pods)
    if wanted.node_prefix is not None and kind.pods is usual_range:
        per_node = 2 ** (32 - wanted.node_prefix)
    stops = tuple(sorted(_stops(kind, pods, per_node), key=lambda stop: (stop.most, stop.nodes)))
    most, unasked = min(stop.most for stop in stops), min(stop.nodes for stop in stops)
    verdict: Verdict = "no" if nodes > most else "on request" if nodes > unasked else "yes"
    link = throughput(wanted.mtu if wanted.mtu is not None else kind.mtu.value, kind.encapsulation)
    prefix_nodes = 2 ** (32 - wanted.pod_prefix) // per_node if wanted.pod_prefix is not None else None
    return Plan(
        kind=kind,
        verdict=verdict,
        node_addresses=nodes,
        pod_addresses=nodes * per_node,
        per_node=per_node,
        node_prefix=_prefix(nodes),
        pod_prefix=_prefix(nodes * per_node),
        nodes_later=later,
        node_prefix_later=_prefix(later),
        pod_prefix_later=_prefix(later * per_node),
        stops=stops,
        years_left=wanted.growth.years_until(nodes, most),
        prefix_nodes=prefix_nodes,
        prefix_years_left=wanted.growth.years_until(nodes, prefix_nodes) if prefix_nodes is not None else None,
        throughput=link,
        pod_gbit=wanted.link_gbit * link.goodput / pods,
    )


def _prefix(addresses: int) -> int:
    """Of a range with that many addresses and those that no host can have: first, last, and what clouds keep."""
    return smallest_prefix(addresses + 5, 4)


def _stops(kind: Kind, pods: int, per_node: int) -> Iterator[Stop]:
    yield Stop(PRIVATE_ADDRESSES.value // (1 + per_node), PRIVATE_ADDRESSES)
    if kind.pods_per_node is not None and pods > kind.pods_per_node.value:
        yield Stop(0, kind.pods_per_node)
    for bound in kind.bounds:
        raised = bound.raised
        most_raised = _most(bound, raised, pods) if raised is not None else None
        yield Stop(_most(bound, bound.figure, pods), bound.figure, most_raised, raised)


def _most(bound: Bound, figure: Figure, pods: int) -> int:
    return figure.value // bound.per_node(pods)


def notes(plans: list[Plan]) -> list[str]:
    """What holds for all kinds, of this cluster."""
    found = []
    nodes = plans[0].node_addresses
    if nodes > KUBERNETES_NODES.value:
        found.append(
            f"{nodes:,} nodes are more than the {KUBERNETES_NODES.value:,} that Kubernetes is tested with "
            f"({KUBERNETES_NODES.source}): its control plane needs care of its own"
        )
    return found
