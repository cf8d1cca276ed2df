"""Kinds of Pod networks: the addresses that a node takes, the quotas that limit growth, and the packets' MTU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kajitori.core.network import limits
from kajitori.core.network.limits import Figure
from kajitori.core.network.planning.encapsulation import GENEVE, IPIP, VXLAN, WIREGUARD, Encapsulation

PerNode = Callable[[int], int]
"""Function from the number of Pods on a node to the amount that the node takes."""

USUAL_NODE_PREFIX = 24
"""Default length of each node's range of Pod addresses, as in kube-controller-manager."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A quota that limits the number of nodes. `raised` is the quota that is granted on request."""

    figure: Figure
    per_node: PerNode
    raised: Figure | None = None


@dataclass(frozen=True, slots=True)
class Ipv6:
    """A kind's support for IPv6.

    `alone` has the quotas of a cluster without IPv4, `both` those of a cluster with both families in addition to
    the quotas of IPv4. If one is a Figure instead, that mode is not offered, as the figure's source says.
    """

    node_range: Figure
    """Prefix length of each node's range."""
    alone: tuple[Bound, ...] | Figure
    both: tuple[Bound, ...] | Figure
    shared: Figure | None = None
    """Prefix length of the range that nodes' ranges are taken from, if the cloud fixes it; more nodes need several."""
    by_kubernetes: bool = False
    """Whether Kubernetes assigns the nodes' ranges, so that their length can be chosen."""
    nodes_keep_ipv4: bool = False
    """Whether each node has an IPv4 address though its Pods have none."""
    figures: tuple[Figure, ...] = ()
    """Further figures that the calculation uses."""

    def bounds(self, alone: bool) -> tuple[Bound, ...] | Figure:
        """Return the quotas without IPv4 (`alone`) or beside it."""
        own = self.alone if alone else self.both
        if isinstance(own, Figure) or not self.by_kubernetes:
            return own
        return (*own, Bound(limits.KUBERNETES_RANGES6, _one_address))


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to give Pods addresses.

    `pods` is the number of addresses that a node takes from the IPv4 range for Pods. The quotas are in `bounds` for
    IPv4 and in `ipv6` for IPv6.
    """

    key: str
    family: str
    """One of FAMILIES: native, routes or overlay."""
    title: str
    pods: PerNode
    mtu: Figure
    ipv6: Ipv6
    bounds: tuple[Bound, ...] = ()
    pods_per_node: Figure | None = None
    encapsulation: Encapsulation | None = None
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    """Further figures that the calculation uses."""


def _one_address(pods: int) -> int:
    return 1


def _address_per_pod(pods: int) -> int:
    return pods


def blocks(pods: int, block: int) -> int:
    """Return the number of blocks of `block` addresses that hold this many Pods."""
    return -(-pods // block)


def node_range(addresses: int) -> int:
    """Return the size of the smallest range with this many addresses: a power of two."""
    bits = max(0, addresses - 1).bit_length()
    return 1 << bits


def usual_range(pods: int) -> int:
    """Return the size of Kubernetes' default range, or a larger one if Pods, bridge, network and broadcast need it."""
    return max(1 << (32 - USUAL_NODE_PREFIX), node_range(pods + 3))


def _azure_blocks(pods: int) -> int:
    return blocks(pods + 1, limits.AZURE_BLOCK.value)  # one address of each node's blocks is reserved


def _aws_prefixes(pods: int) -> int:
    return blocks(pods, limits.AWS_PREFIX.value) + limits.AWS_WARM_PREFIXES.value


def _alias_range(pods: int) -> int:
    return node_range(limits.GCP_SPARE.value * pods) if pods <= 110 else node_range(2 * pods - 1)


FAMILIES = {
    "native": "Pods have addresses of the network itself: any host with a route reaches them, at the host's MTU",
    "routes": "each node takes a route; the number of routes is the limit, however many addresses are left",
    "overlay": "outside the cluster Pods have their node's address: they can neither be reached nor told apart",
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
    f"AKS allows at most {limits.AZURE_CLUSTER_NODES.value:,} nodes per cluster; more need a Kubernetes of your own"
)

_GCP_BOUNDS = (
    Bound(limits.GCP_NODES_UNASKED, _one_address, limits.GCP_NODES),
    Bound(limits.GCP_PODS, _address_per_pod),
)

_AWS_ROUTE_BOUNDS = (Bound(limits.AWS_ROUTES, _one_address, limits.AWS_ROUTES_RAISED),)
"""The quota counts each IP version separately."""

KINDS: tuple[Kind, ...] = (
    Kind(
        "azure-native",
        "native",
        "Azure CNI, an address for each Pod",
        _address_per_pod,
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
        _address_per_pod,
        limits.AWS_MTU,
        Ipv6(limits.AWS_PREFIX6, limits.AWS_IPV6_SINGLY, limits.AWS_DUAL),
        (Bound(limits.AWS_USAGE, lambda pods: 1 + pods, limits.AWS_USAGE_RAISED),),
        notes=("the number of Pods per node depends on its type; each further interface counts as one more",),
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
        (Bound(limits.AZURE_ROUTES, _one_address),),
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
        (Bound(limits.GCP_ROUTES, _one_address),),
    ),
    Kind(
        "azure-overlay",
        "overlay",
        "Azure CNI Overlay, not encapsulated",
        lambda pods: 2 ** (32 - limits.AZURE_OVERLAY_BLOCK.value),
        limits.AZURE_MTU,
        Ipv6(limits.AZURE_OVERLAY_BLOCK6, limits.AZURE_IPV6_ALONE, (), limits.AZURE_OVERLAY_RANGE6),
        (Bound(limits.AZURE_OVERLAY_NODES, _one_address),),
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
