"""Whether a kind of network can carry a cluster: addresses, ranges, what stops it and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kajitori.core.network.encapsulation import Throughput, throughput
from kajitori.core.network.growth import NO_GROWTH, Growth
from kajitori.core.network.kinds import KINDS, Bound, Kind, usual_range
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
from kajitori.core.network.registry import smallest_prefix
from kajitori.errors import Fault, InvalidInput

MOST_NODES = 100_000
MOST_PODS_PER_NODE = 4_096
SIZES_TO_COMPARE = (250, 1_000, 2_500, 5_000, 7_500, 15_000, 30_000, 65_000, 100_000)

Verdict = Literal["yes", "on request", "no"]
IpFamily = Literal["ipv4", "ipv6", "dual"]
VERSIONS: Mapping[IpFamily, tuple[int, ...]] = {"ipv4": (4,), "ipv6": (6,), "dual": (4, 6)}

_BITS = {4: 32, 6: 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The cluster that is planned. `mtu` overrules the network's own; `node_prefix` is the length of each node's range
    where a kind leaves that open; `pod_prefix` is that of the range for Pods that is there already, both of IPv4; those
    with a 6 are of IPv6."""

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
        faults = [*_beyond("--nodes", self.nodes, 1, MOST_NODES)]
        faults += _beyond("--pods-per-node", self.pods_per_node, 1, MOST_PODS_PER_NODE)
        faults += _beyond("--years", self.years, 0, 50)
        faults += _beyond("--gbit", self.link_gbit, 0.001, 100_000)
        if self.mtu is not None:
            faults += _beyond("--mtu", self.mtu, 1280, 65_535)
        faults += self._prefixes(4, "", self.node_prefix, self.pod_prefix, 4, 30)
        faults += self._prefixes(6, "6", self.node_prefix6, self.pod_prefix6, 8, 126)
        if not faults:
            faults += self._as_kubernetes_cuts()
        if faults:
            raise InvalidInput(faults)

    @property
    def versions(self) -> tuple[int, ...]:
        """Of IP that its Pods have addresses of."""
        return VERSIONS[self.ip_family]

    def _prefixes(
        self, version: int, suffix: str, node: int | None, pod: int | None, least: int, most: int
    ) -> Iterator[Fault]:
        for option, length in (("--node-prefix", node), ("--pod-prefix", pod)):
            if length is not None and version not in self.versions:
                message = f"a length of IPv{version} ranges, but --ip-family is {self.ip_family}"
                hint = f"leave it out, or plan with --ip-family {'dual' if version == 6 else 'ipv4 or dual'}"
                hint += " or ipv6" if version == 6 else f"; {option}6 is that of IPv6 ranges"
                yield Fault(f"{option}{suffix}", message, str(length), hint, "OtherFamily")
        if pod is not None:
            yield from _beyond(f"--pod-prefix{suffix}", pod, least, most)
        if node is not None and not least <= node <= _BITS[version]:
            yield from _beyond(f"--node-prefix{suffix}", node, least, _BITS[version])
        elif node is not None and 2 ** (_BITS[version] - node) < self.pods_per_node:
            message = f"a /{node} is too small for {self.pods_per_node:,} Pods"
            hint = f"{smallest_prefix(self.pods_per_node, version)} at most"
            yield Fault(f"--node-prefix{suffix}", message, str(node), hint, "TooSmall")

    def _as_kubernetes_cuts(self) -> Iterator[Fault]:
        """Of an IPv6 range it cuts no ranges that are much longer: it does not start then."""
        node, bits = self.node_prefix6 or KUBERNETES_BLOCK6.value, KUBERNETES_CUT_BITS
        if self.pod_prefix6 is not None and node - self.pod_prefix6 > bits:
            message = f"Kubernetes cuts no /{node} from a /{self.pod_prefix6}: {bits} bits are the most"
            hint = f"--node-prefix6 {self.pod_prefix6 + bits} at most, or a --pod-prefix6 of {node - bits} at least"
            yield Fault("--pod-prefix6", message, str(self.pod_prefix6), hint, "TooLarge")


def _beyond(option: str, value: float, least: float, most: float) -> Iterator[Fault]:
    if not least <= value <= most:
        hint = f"between {least:,} and {most:,}"
        yield Fault(option, f"{value:,} can't be planned with", str(value), hint, "OutOfRange")


@dataclass(frozen=True, slots=True)
class Stop:
    """What ends growth: at `nodes` nothing more goes, because of `figure`; `raised` is the same after a request. Where
    the figure is 0 it is not offered at all."""

    nodes: int
    figure: Figure
    raised_nodes: int | None = None
    raised: Figure | None = None

    @property
    def most(self) -> int:
        """Nodes, when everything that may be asked for was granted."""
        return self.raised_nodes if self.raised_nodes is not None else self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """What a cluster takes of one family. Prefixes are lengths; those for `later` hold until the horizon, as far as the
    kind carries at all."""

    version: int
    node_addresses: int
    per_node: int
    """Addresses that a node takes out of the range for Pods."""
    node_range: int | None
    """Length of the range that each node takes; None: they are given one by one or in blocks."""
    node_prefix: int
    pod_prefix: int
    node_prefix_later: int
    pod_prefix_later: int
    prefix_nodes: int | None
    """Nodes that the range for Pods that is there holds."""
    prefix_years_left: float | None

    @property
    def pod_addresses(self) -> int:
        """Of all nodes."""
        return self.node_addresses * self.per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a kind of network makes of a cluster."""

    kind: Kind
    verdict: Verdict
    ranges: tuple[Ranges, ...]
    """One for each family that Pods have."""
    ipv4_only_for_nodes: int
    """IPv4 addresses that nodes keep though Pods have none."""
    nodes_later: int
    stops: tuple[Stop, ...]
    """Nearest first."""
    years_left: float | None
    """Until the nearest of them; None: not in sight."""
    throughput: Throughput
    pod_gbit: float
    """Of a TCP program in each Pod, when all Pods of a node share its link."""

    @property
    def most_nodes(self) -> int:
        """Nodes that it can carry, everything granted."""
        return min(stop.most for stop in self.stops)

    @property
    def lacks(self) -> Figure | None:
        """What it does not offer of what is asked for."""
        return next((stop.figure for stop in self.stops if stop.figure.value == 0), None)


def plan_all(wanted: Wanted) -> list[Plan]:
    """Every kind, in the order in which they are listed."""
    return [plan(kind, wanted) for kind in KINDS]


def plan(kind: Kind, wanted: Wanted) -> Plan:
    """What `kind` makes of it."""
    nodes = wanted.nodes
    later = max(nodes, wanted.growth.after(nodes, wanted.years))
    ranges = tuple((_ranges4 if version == 4 else _ranges6)(kind, wanted, later) for version in wanted.versions)
    outer = max(wanted.versions)  # each family may have a tunnel of its own: the larger headers count
    link = throughput(wanted.mtu if wanted.mtu is not None else kind.mtu.value, kind.encapsulation, outer)
    stops = tuple(sorted(_stops(kind, wanted, ranges, link), key=lambda stop: (stop.most, stop.nodes)))
    most, unasked = min(stop.most for stop in stops), min(stop.nodes for stop in stops)
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


def _ranges4(kind: Kind, wanted: Wanted, later: int) -> Ranges:
    nodes, per_node = wanted.nodes, kind.pods(wanted.pods_per_node)
    if wanted.node_prefix is not None and kind.pods is usual_range:
        per_node = 2 ** (32 - wanted.node_prefix)
    held = 2 ** (32 - wanted.pod_prefix) // per_node if wanted.pod_prefix is not None else None
    return Ranges(
        version=4,
        node_addresses=nodes,
        per_node=per_node,
        node_range=None,
        node_prefix=_prefix(nodes),
        pod_prefix=_prefix(nodes * per_node),
        node_prefix_later=_prefix(later),
        pod_prefix_later=_prefix(later * per_node),
        prefix_nodes=held,
        prefix_years_left=wanted.growth.years_until(nodes, held) if held is not None else None,
    )


def _ranges6(kind: Kind, wanted: Wanted, later: int) -> Ranges:
    """Nodes always have a /64, the length of a subnet everywhere; Pods a range of the same length for each node."""
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


def _prefix(addresses: int) -> int:
    """Of a range with that many addresses and those that no host can have: first, last, and what clouds keep."""
    return smallest_prefix(addresses + 5, 4)


def _stops(kind: Kind, wanted: Wanted, ranges: Sequence[Ranges], link: Throughput) -> Iterator[Stop]:
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
        most_raised = _most(bound, raised, pods) if raised is not None else None
        yield Stop(_most(bound, bound.figure, pods), bound.figure, most_raised, raised)


def _most(bound: Bound, figure: Figure, pods: int) -> int:
    return figure.value // bound.per_node(pods)


def notes(wanted: Wanted) -> list[str]:
    """What holds for all kinds, of this cluster."""
    found = []
    if wanted.nodes > KUBERNETES_NODES.value:
        found.append(
            f"{wanted.nodes:,} nodes are more than the {KUBERNETES_NODES.value:,} that Kubernetes is tested with "
            f"({KUBERNETES_NODES.source}): its control plane needs care of its own"
        )
    if wanted.ip_family == "dual":
        found.append(
            "with both families every Pod has an IPv4 address, too: no kind carries more nodes than with IPv4 alone "
            f"({KUBERNETES_DUAL.source}); only IPv6 alone is a way out of its limits"
        )
    if wanted.ip_family == "ipv6":
        found.append(
            "Pods without IPv4 reach hosts that have nothing else (many registries and mirrors) by translation only: "
            "NAT64 with DNS64 (https://www.rfc-editor.org/rfc/rfc6146, https://www.rfc-editor.org/rfc/rfc6147)"
        )
    if 6 in wanted.versions:
        largest = KUBERNETES_SERVICES6
        found.append(f"the IPv6 range for Services can't be larger than a /{largest.value} ({largest.source})")
    return found
