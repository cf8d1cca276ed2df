"""Kinds of Pod networks: what a node takes of addresses, of what there is only so much, and what packets carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kajitori.core.network import limits
from kajitori.core.network.encapsulation import GENEVE, IPIP, VXLAN, WIREGUARD, Encapsulation
from kajitori.core.network.limits import Figure

PerNode = Callable[[int], int]
"""From Pods on a node to what the node takes."""

USUAL_NODE_PREFIX = 24
"""Of each node's range of Pod addresses, unless something else is said: kube-controller-manager's default."""


@dataclass(frozen=True, slots=True)
class Bound:
    """There is only so much of something. `raised` is what there may be on request."""

    figure: Figure
    per_node: PerNode
    raised: Figure | None = None


@dataclass(frozen=True, slots=True)
class Ipv6:
    """What a kind offers for IPv6. `alone` is what stops a cluster without IPv4, `both` what stops one with both
    families besides what stops IPv4; where that is a figure, it is not offered."""

    node_range: Figure
    """Length of the range that each node takes."""
    alone: tuple[Bound, ...] | Figure
    both: tuple[Bound, ...] | Figure
    shared: Figure | None = None
    """Length of the range that nodes' ranges are cut from, where the cloud has set it; more nodes take several."""
    by_kubernetes: bool = False
    """Whether Kubernetes cuts them, so that one may choose their length."""
    nodes_keep_ipv4: bool = False
    """Whether nodes have an IPv4 address each, though their Pods have none."""
    figures: tuple[Figure, ...] = ()
    """Further ones that its arithmetic is made of."""

    def bounds(self, alone: bool) -> tuple[Bound, ...] | Figure:
        """What stops it, alone or beside IPv4."""
        own = self.alone if alone else self.both
        if isinstance(own, Figure) or not self.by_kubernetes:
            return own
        return (*own, Bound(limits.KUBERNETES_RANGES6, _one))


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to give Pods addresses. `pods` are those that a node takes out of the IPv4 range for Pods; what stops it
    stands in `bounds` for IPv4, in `ipv6` for IPv6."""

    key: str
    family: str
    """native, routes or overlay."""
    title: str
    pods: PerNode
    mtu: Figure
    ipv6: Ipv6
    bounds: tuple[Bound, ...] = ()
    pods_per_node: Figure | None = None
    encapsulation: Encapsulation | None = None
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    """Further ones that its arithmetic is made of."""


def _one(pods: int) -> int:
    return 1


def _all(pods: int) -> int:
    return pods


def blocks(pods: int, block: int) -> int:
    """How many blocks of that many addresses hold so many Pods."""
    return -(-pods // block)


def node_range(addresses: int) -> int:
    """The smallest range that a node can have with so many addresses: a power of two."""
    bits = max(0, addresses - 1).bit_length()
    return 1 << bits


def usual_range(pods: int) -> int:
    """Kubernetes' usual range, or a larger one where Pods, bridge, network and broadcast address want it."""
    return max(1 << (32 - USUAL_NODE_PREFIX), node_range(pods + 3))


def _azure_blocks(pods: int) -> int:
    return blocks(pods + 1, limits.AZURE_BLOCK.value)  # one address of each node's blocks is kept


def _aws_prefixes(pods: int) -> int:
    return blocks(pods, limits.AWS_PREFIX.value) + limits.AWS_WARM_PREFIXES.value


def _alias_range(pods: int) -> int:
    return node_range(limits.GCP_SPARE.value * pods) if pods <= 110 else node_range(2 * pods - 1)


FAMILIES = {
    "native": "Pods have addresses of the network itself: whoever is routed there reaches them, at the host's MTU",
    "routes": "each node takes a route, and at the number of routes it stops, whatever addresses are left",
    "overlay": "from outside Pods have their node's address: nobody reaches them there, or can tell them apart",
}


def _cut_by_kubernetes(alone: tuple[Bound, ...] | Figure, both: tuple[Bound, ...] | Figure, *figures: Figure) -> Ipv6:
    return Ipv6(limits.KUBERNETES_BLOCK6, alone, both, by_kubernetes=True, figures=figures)


_OVERLAY_IPV6 = _cut_by_kubernetes((), ())


def _overlay(key: str, title: str, encapsulation: Encapsulation, *notes: str, ipv6: Ipv6 = _OVERLAY_IPV6) -> Kind:
    return Kind(
        f"overlay-{key}",
        "overlay",
        title,
        usual_range,
        limits.ETHERNET_MTU,
        ipv6,
        encapsulation=encapsulation,
        notes=notes,
    )


_AZURE_FLAT = Ipv6(limits.AZURE_SUBNET6, limits.AZURE_FLAT_IPV6, limits.AZURE_FLAT_IPV6)

_OWN_AZURE_CLUSTER = (
    f"AKS has {limits.AZURE_CLUSTER_NODES.value:,} nodes a cluster at most: more only where one runs Kubernetes oneself"
)

_GCP_BOUNDS = (
    Bound(limits.GCP_NODES_UNASKED, _one, limits.GCP_NODES),
    Bound(limits.GCP_PODS, _all),
)

_AWS_ROUTE_BOUNDS = (Bound(limits.AWS_ROUTES, _one, limits.AWS_ROUTES_RAISED),)
"""Counted for each family by itself."""

KINDS: tuple[Kind, ...] = (
    Kind(
        "azure-native",
        "native",
        "Azure CNI, an address for each Pod",
        _all,
        limits.AZURE_MTU,
        _AZURE_FLAT,
        (Bound(limits.AZURE_ADDRESSES, lambda pods: 1 + pods),),
        limits.AZURE_PER_MACHINE,
        notes=(_OWN_AZURE_CLUSTER,),
        figures=(limits.AZURE_MTU_MOST, limits.AZURE_CLUSTER_NODES),
    ),
    Kind(
        "azure-blocks",
        "native",
        "Azure CNI, blocks of 16 for each node",
        lambda pods: _azure_blocks(pods) * limits.AZURE_BLOCK.value,
        limits.AZURE_MTU,
        _AZURE_FLAT,
        (
            Bound(limits.AZURE_ADDRESSES, lambda pods: 1 + _azure_blocks(pods)),
            Bound(limits.AZURE_BLOCK_SUBNET, lambda pods: _azure_blocks(pods) * limits.AZURE_BLOCK.value),
        ),
        limits.AZURE_PER_MACHINE,
        notes=(_OWN_AZURE_CLUSTER,),
        figures=(limits.AZURE_BLOCK, limits.AZURE_MTU_MOST, limits.AZURE_CLUSTER_NODES),
    ),
    Kind(
        "aws-eni",
        "native",
        "AWS VPC CNI, an address for each Pod",
        _all,
        limits.AWS_MTU,
        Ipv6(limits.AWS_PREFIX6, limits.AWS_IPV6_SINGLY, limits.AWS_DUAL),
        (Bound(limits.AWS_USAGE, lambda pods: 1 + pods, limits.AWS_USAGE_RAISED),),
        notes=("how many Pods a node holds depends on its type; each further interface counts as one more",),
    ),
    Kind(
        "aws-prefix",
        "native",
        "AWS VPC CNI, prefix delegation",
        lambda pods: _aws_prefixes(pods) * limits.AWS_PREFIX.value,
        limits.AWS_MTU,
        Ipv6(
            limits.AWS_PREFIX6,
            (Bound(limits.AWS_USAGE, lambda pods: limits.AWS_UNITS6.value, limits.AWS_USAGE_RAISED),),
            limits.AWS_DUAL,
            limits.AWS_SUBNET6,
            nodes_keep_ipv4=True,
            figures=(limits.AWS_UNITS6,),
        ),
        (Bound(limits.AWS_USAGE, lambda pods: 1 + _aws_prefixes(pods), limits.AWS_USAGE_RAISED),),
        figures=(limits.AWS_PREFIX, limits.AWS_WARM_PREFIXES),
    ),
    Kind(
        "gcp-alias",
        "native",
        "GKE, VPC-native (alias IP)",
        _alias_range,
        limits.GCP_MTU,
        Ipv6(limits.GCP_NODE6, _GCP_BOUNDS, (), limits.GCP_SUBNET6),
        _GCP_BOUNDS,
        limits.GCP_PODS_PER_NODE,
        notes=(f"above {limits.GCP_NODES_UNASKED.value:,} nodes GKE has no cluster autoscaler",),
        figures=(limits.GCP_SPARE, limits.GCP_MTU_MOST),
    ),
    Kind(
        "azure-routes",
        "routes",
        "Azure, a route for each node",
        usual_range,
        limits.AZURE_MTU,
        _cut_by_kubernetes(
            limits.AZURE_IPV6_ALONE,
            (Bound(limits.AZURE_ROUTES, lambda pods: limits.AZURE_ROUTES_DUAL.value),),
            limits.AZURE_ROUTES_DUAL,
        ),
        (Bound(limits.AZURE_ROUTES, _one),),
        limits.AZURE_KUBENET_PODS,
    ),
    Kind(
        "aws-routes",
        "routes",
        "AWS, a route for each node",
        usual_range,
        limits.AWS_MTU,
        _cut_by_kubernetes(_AWS_ROUTE_BOUNDS, ()),
        _AWS_ROUTE_BOUNDS,
    ),
    Kind(
        "gcp-routes",
        "routes",
        "Google, a route for each node",
        usual_range,
        limits.GCP_MTU,
        _cut_by_kubernetes(limits.GCP_ROUTES_IPV6, limits.GCP_ROUTES_IPV6),
        (Bound(limits.GCP_ROUTES, _one),),
    ),
    Kind(
        "azure-overlay",
        "overlay",
        "Azure CNI Overlay, not encapsulated",
        lambda pods: 2 ** (32 - limits.AZURE_OVERLAY_BLOCK.value),
        limits.AZURE_MTU,
        Ipv6(limits.AZURE_OVERLAY_BLOCK6, limits.AZURE_IPV6_ALONE, (), limits.AZURE_OVERLAY_RANGE6),
        (Bound(limits.AZURE_OVERLAY_NODES, _one),),
        limits.AZURE_OVERLAY_PODS,
        figures=(limits.AZURE_OVERLAY_BLOCK,),
    ),
    _overlay("vxlan", "overlay with VXLAN (flannel, Cilium, Calico)", VXLAN),
    _overlay("geneve", "overlay with Geneve (OVN, Antrea, Cilium)", GENEVE, "each option of Geneve takes 4 bytes more"),
    _overlay(
        "ipip",
        "overlay with IP-in-IP (Calico)",
        IPIP,
        ipv6=_cut_by_kubernetes(limits.CALICO_IPIP_IPV6, limits.CALICO_IPIP_IPV6),
    ),
    _overlay(
        "wireguard", "overlay with WireGuard (Cilium, Calico)", WIREGUARD, "encrypted: processors, too, set a limit"
    ),
)
