"""The address plan of a cluster: for each kind of Pod network whether it can carry the cluster, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kajitori.core.network.limits import (
    IPV6_MTU,
    KUBERNETES_BLOCK6,
    KUBERNETES_CUT_BITS,
    KUBERNETES_DUAL,
    KUBERNETES_NODES,
    KUBERNETES_SERVICES6,
    PRIVATE_ADDRESSES,
    Figure,
)
from kajitori.core.network.planning.encapsulation import Throughput, throughput
from kajitori.core.network.planning.growth import NO_GROWTH, Growth
from kajitori.core.network.planning.kinds import KINDS, Bound, Kind, usual_range
from kajitori.core.network.registry.ranges import smallest_prefix
from kajitori.errors import Fault, InvalidInput

MAX_NODES = 100_000
MAX_PODS_PER_NODE = 4_096
SIZES_TO_COMPARE = (250, 1_000, 2_500, 5_000, 7_500, 15_000, 30_000, 65_000, 100_000)

Verdict = Literal["yes", "on request", "no"]
IpFamily = Literal["ipv4", "ipv6", "dual"]
VERSIONS: Mapping[IpFamily, tuple[int, ...]] = {"ipv4": (4,), "ipv6": (6,), "dual": (4, 6)}

_BITS = {4: 32, 6: 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The planned cluster.

    `mtu` replaces the network's own. `node_prefix` is the length of each node's range if the kind leaves it open,
    `pod_prefix` the length of the present range for Pods. These two are for IPv4; those ending in 6 are for IPv6.
    """

    nodes: int
    pods_per_node: int
    ip_family: IpFamily = "ipv4"
    growth: Growth = NO_GROWTH
    years: float = 3.0
    mtu: int | None = None
    node_prefix: int | None = None
    pod_prefix: int | None = None
    node_prefix6: int | None = None
    pod_prefix6: int | None = None
    link_gbit: float = 100.0

    def __post_init__(self) -> None:
        faults = [*_out_of_range("--nodes", self.nodes, 1, MAX_NODES)]
        faults += _out_of_range("--pods-per-node", self.pods_per_node, 1, MAX_PODS_PER_NODE)
        faults += _out_of_range("--years", self.years, 0, 50)
        faults += _out_of_range("--gbit", self.link_gbit, 0.001, 100_000)
        if self.mtu is not None:
            faults += _out_of_range("--mtu", self.mtu, 1280, 65_535)
        faults += self._faults_of_prefixes(4, "", self.node_prefix, self.pod_prefix, 4, 30)
        faults += self._faults_of_prefixes(6, "6", self.node_prefix6, self.pod_prefix6, 8, 126)
        if not faults:
            faults += self._check_node_ranges()
        if faults:
            raise InvalidInput(faults)

    @property
    def versions(self) -> tuple[int, ...]:
        """IP versions of its Pods' addresses."""
        return VERSIONS[self.ip_family]

    def _faults_of_prefixes(
        self, version: int, suffix: str, node: int | None, pod: int | None, least: int, most: int
    ) -> Iterator[Fault]:
        for option, length in (("--node-prefix", node), ("--pod-prefix", pod)):
            if length is not None and version not in self.versions:
                message = f"a length of IPv{version} ranges, but --ip-family is {self.ip_family}"
                hint = f"leave it out, or plan with --ip-family {'dual' if version == 6 else 'ipv4 or dual'}"
                hint += " or ipv6" if version == 6 else f"; {option}6 is that of IPv6 ranges"
                yield Fault(f"{option}{suffix}", message, str(length), hint, "OtherFamily")
        if pod is not None:
            yield from _out_of_range(f"--pod-prefix{suffix}", pod, least, most)
        if node is not None and not least <= node <= _BITS[version]:
            yield from _out_of_range(f"--node-prefix{suffix}", node, least, _BITS[version])
        elif node is not None and 2 ** (_BITS[version] - node) < self.pods_per_node:
            message = f"a /{node} is too small for {self.pods_per_node:,} Pods"
            hint = f"{smallest_prefix(self.pods_per_node, version)} at most"
            yield Fault(f"--node-prefix{suffix}", message, str(node), hint, "TooSmall")

    def _check_node_ranges(self) -> Iterator[Fault]:
        """Yield a fault if nodes' IPv6 ranges are too long: kube-controller-manager does not start then."""
        node, bits = self.node_prefix6 or KUBERNETES_BLOCK6.value, KUBERNETES_CUT_BITS
        if self.pod_prefix6 is not None and node - self.pod_prefix6 > bits:
            message = (
                f"Kubernetes assigns no /{node} from a /{self.pod_prefix6}: at most {bits} bits may be between them"
            )
            hint = f"--node-prefix6 {self.pod_prefix6 + bits} at most, or a --pod-prefix6 of {node - bits} at least"
            yield Fault("--pod-prefix6", message, str(self.pod_prefix6), hint, "TooLarge")


def _out_of_range(option: str, value: float, least: float, most: float) -> Iterator[Fault]:
    if not least <= value <= most:
        hint = f"between {least:,} and {most:,}"
        yield Fault(option, f"{value:,} is out of range", str(value), hint, "OutOfRange")


@dataclass(frozen=True, slots=True)
class Stop:
    """A limit to growth: `figure` allows at most `nodes` nodes, and `raised` allows `raised_nodes` on request.

    A figure of 0 means that the network does not offer what is asked for.
    """

    nodes: int
    figure: Figure
    raised_nodes: int | None = None
    raised: Figure | None = None

    @property
    def max_nodes(self) -> int:
        """Most nodes, if every request for a higher quota is granted."""
        return self.raised_nodes if self.raised_nodes is not None else self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Addresses and ranges of one IP version that a cluster needs.

    Prefixes are lengths; those for `later` hold until the end of the planning period, if the kind can grow that
    far.
    """

    version: int
    node_addresses: int
    per_node: int
    """Addresses that a node takes from the range for Pods."""
    node_range: int | None
    """Prefix length of each node's range; None if nodes get single addresses or blocks."""
    node_prefix: int
    pod_prefix: int
    node_prefix_later: int
    pod_prefix_later: int
    prefix_nodes: int | None
    """Nodes that fit into the present range for Pods."""
    prefix_years_left: float | None

    @property
    def pod_addresses(self) -> int:
        """Addresses for Pods on all nodes."""
        return self.node_addresses * self.per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result for one kind of network."""

    kind: Kind
    verdict: Verdict
    ranges: tuple[Ranges, ...]
    """One item for each IP version of the Pods."""
    ipv4_only_for_nodes: int
    """IPv4 addresses of nodes that have Pods without IPv4."""
    nodes_later: int
    stops: tuple[Stop, ...]
    """The lowest limit first."""
    years_left: float | None
    """Years until the lowest limit is reached; None if it is not in sight."""
    throughput: Throughput
    pod_gbit: float
    """Throughput of a TCP program in each Pod, if all Pods of a node share its link."""

    @property
    def most_nodes(self) -> int:
        """Most nodes that it can carry, if every request is granted."""
        return min(stop.max_nodes for stop in self.stops)

    @property
    def lacks(self) -> Figure | None:
        """The missing feature, if the network does not offer what is asked for; else None."""
        return next((stop.figure for stop in self.stops if stop.figure.value == 0), None)


def plan_all(wanted: PlanRequest) -> list[Plan]:
    """Return the plans for all kinds, in the order of KINDS."""
    return [plan(kind, wanted) for kind in KINDS]


def plan(kind: Kind, wanted: PlanRequest) -> Plan:
    """Return the plan of a cluster with this kind of network."""
    nodes = wanted.nodes
    later = max(nodes, wanted.growth.after(nodes, wanted.years))
    ranges = tuple((_ipv4_ranges if version == 4 else _ipv6_ranges)(kind, wanted, later) for version in wanted.versions)
    outer = max(wanted.versions)  # each IP version may have its own tunnel: the larger headers count
    link = throughput(wanted.mtu if wanted.mtu is not None else kind.mtu.value, kind.encapsulation, outer)
    stops = tuple(sorted(_growth_limits(kind, wanted, ranges, link), key=lambda stop: (stop.max_nodes, stop.nodes)))
    most, unasked = min(stop.max_nodes for stop in stops), min(stop.nodes for stop in stops)
    verdict: Verdict = "no" if nodes > most else "on request" if nodes > unasked else "yes"
    return Plan(
        kind=kind,
        verdict=verdict,
        ranges=ranges,
        ipv4_only_for_nodes=nodes if wanted.ip_family == "ipv6" and kind.ipv6.nodes_keep_ipv4 else 0,
        nodes_later=later,
        stops=stops,
        years_left=wanted.growth.years_until(nodes, most),
        throughput=link,
        pod_gbit=wanted.link_gbit * link.goodput / wanted.pods_per_node,
    )


def _ipv4_ranges(kind: Kind, wanted: PlanRequest, later: int) -> Ranges:
    nodes, per_node = wanted.nodes, kind.pods(wanted.pods_per_node)
    if wanted.node_prefix is not None and kind.pods is usual_range:
        per_node = 2 ** (32 - wanted.node_prefix)
    held = 2 ** (32 - wanted.pod_prefix) // per_node if wanted.pod_prefix is not None else None
    return Ranges(
        version=4,
        node_addresses=nodes,
        per_node=per_node,
        node_range=None,
        node_prefix=_prefix_length_for(nodes),
        pod_prefix=_prefix_length_for(nodes * per_node),
        node_prefix_later=_prefix_length_for(later),
        pod_prefix_later=_prefix_length_for(later * per_node),
        prefix_nodes=held,
        prefix_years_left=wanted.growth.years_until(nodes, held) if held is not None else None,
    )


def _ipv6_ranges(kind: Kind, wanted: PlanRequest, later: int) -> Ranges:
    """Return the IPv6 ranges. Nodes have a /64, the length of every subnet; each node has one range for its Pods."""
    own, shared = kind.ipv6.node_range.value, kind.ipv6.shared
    if wanted.node_prefix6 is not None and kind.ipv6.by_kubernetes:
        own = wanted.node_prefix6

    def pods(nodes: int) -> int:
        length = own - (nodes - 1).bit_length()
        return min(length, shared.value) if shared is not None else length

    held = (1 << own) >> wanted.pod_prefix6 if wanted.pod_prefix6 is not None else None
    return Ranges(
        version=6,
        node_addresses=wanted.nodes,
        per_node=2 ** (128 - own),
        node_range=own,
        node_prefix=64,
        pod_prefix=pods(wanted.nodes),
        node_prefix_later=64,
        pod_prefix_later=pods(later),
        prefix_nodes=held,
        prefix_years_left=wanted.growth.years_until(wanted.nodes, held) if held is not None else None,
    )


def _prefix_length_for(addresses: int) -> int:
    """Return the length of the smallest range with these addresses.

    It includes five that no host can have: the first, the last, and three that clouds reserve.
    """
    return smallest_prefix(addresses + 5, 4)


def _growth_limits(kind: Kind, wanted: PlanRequest, ranges: Sequence[Ranges], link: Throughput) -> Iterator[Stop]:
    pods, bounds = wanted.pods_per_node, [*kind.bounds] if 4 in wanted.versions else []
    if kind.pods_per_node is not None and pods > kind.pods_per_node.value:
        yield Stop(0, kind.pods_per_node)
    if 4 in wanted.versions:
        yield Stop(PRIVATE_ADDRESSES.value // (1 + ranges[0].per_node), PRIVATE_ADDRESSES)
    if 6 in wanted.versions:
        own = kind.ipv6.bounds(alone=wanted.ip_family == "ipv6")
        if isinstance(own, Figure):
            yield Stop(0, own)
        else:
            bounds += own
        if link.pod_mtu < IPV6_MTU.value:
            yield Stop(0, IPV6_MTU)
    for bound in bounds:
        raised = bound.raised
        raised_nodes = _nodes_within(bound, raised, pods) if raised is not None else None
        yield Stop(_nodes_within(bound, bound.figure, pods), bound.figure, raised_nodes, raised)


def _nodes_within(bound: Bound, figure: Figure, pods: int) -> int:
    return figure.value // bound.per_node(pods)


def notes(wanted: PlanRequest) -> list[str]:
    """Return remarks on this cluster that hold for every kind."""
    found = []
    if wanted.nodes > KUBERNETES_NODES.value:
        found.append(
            f"{wanted.nodes:,} nodes are more than the {KUBERNETES_NODES.value:,} that Kubernetes is tested with "
            f"({KUBERNETES_NODES.source}): its control plane needs special attention"
        )
    if wanted.ip_family == "dual":
        found.append(
            "with both families every Pod also has an IPv4 address: no kind carries more nodes than with IPv4 alone "
            f"({KUBERNETES_DUAL.source}); only IPv6 alone avoids these limits"
        )
    if wanted.ip_family == "ipv6":
        found.append(
            "Pods without IPv4 reach IPv4-only hosts (many registries and mirrors) only by translation: "
            "NAT64 with DNS64 (https://www.rfc-editor.org/rfc/rfc6146, https://www.rfc-editor.org/rfc/rfc6147)"
        )
    if 6 in wanted.versions:
        largest = KUBERNETES_SERVICES6
        found.append(f"the IPv6 range for Services can't be larger than a /{largest.value} ({largest.source})")
    return found
