"""Warnings about a registry that is valid but may not mean what its author intended."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from kajitori.core.network.limits import KUBERNETES_CUT_BITS, KUBERNETES_SERVICES6
from kajitori.core.network.registry.model import Cluster, Networks
from kajitori.core.network.registry.ranges import addresses_of, named_ranges, node_prefixes, node_ranges, overlap
from kajitori.core.network.registry.wellknown import ULA, WELL_KNOWN
from kajitori.core.spec.status import Finding

_UNIQUE_LOCAL = ip_network("fd00::/8")

_SITE6 = 48
"""Prefix length of one site's unique local addresses (RFC 4193)."""

_NEARLY_FULL = 0.8
"""Share of a range in use above which growth soon needs another range."""

_SERVICE_BITS = 128 - KUBERNETES_SERVICES6.value
"""Most address bits of a range for Services: a /12 of IPv4, a /108 of IPv6."""


def findings(networks: Networks) -> list[Finding]:
    """Return all warnings about a valid registry."""
    return [
        *_well_known(networks),
        *_nearly_full(networks),
        *_beyond_kubernetes(networks),
        *_reachability_findings(networks),
    ]


def _well_known(networks: Networks) -> Iterator[Finding]:
    for used in named_ranges(networks):
        known = [known for known in WELL_KNOWN if not known.impossible and overlap(used.network, known.network)]
        for one in known:
            message = f"{used.network} ({used.owner}) overlaps {one.network}: {one.what}; see {one.source}"
            yield Finding("WellKnown", message, used.field)
        if not known and used.network.is_global:
            message = f"{used.network} ({used.owner}) is public: unless it is yours, its owners' hosts can't be reached"
            yield Finding("PublicAddresses", message, used.field)
        if used.network.version == 6 and used.network.prefixlen < _SITE6 and overlap(used.network, _UNIQUE_LOCAL):
            message = (
                f"{used.network} ({used.owner}) contains unique local addresses of other sites: each has a /{_SITE6}"
            )
            yield Finding("NotOneSite", f"{message} with a random prefix ({ULA})", used.field)


def _nearly_full(networks: Networks) -> Iterator[Finding]:
    for index, cluster in enumerate(networks.clusters):
        for version, node_prefix in node_prefixes(cluster):
            pods = [network for network in cluster.pods if network.version == version]
            if cluster.size is None or not pods:
                continue
            if node_prefix is None:
                share = cluster.size.nodes * cluster.size.pods_per_node / addresses_of(pods)
            else:
                share = cluster.size.nodes / node_ranges(pods, node_prefix)
            if share > _NEARLY_FULL:
                used = f"{cluster.name} will use {share:.0%} of its IPv{version} addresses for Pods"
                yield Finding("NearlyFull", f"{used}: plan its next range now", f"clusters[{index}].pods")


def _beyond_kubernetes(networks: Networks) -> Iterator[Finding]:
    """Yield warnings about ranges that Kubernetes' own allocators and installers refuse; others may accept them."""
    for index, cluster in enumerate(networks.clusters):
        field = f"clusters[{index}]"
        node_prefix = cluster.size.node_prefix6 if cluster.size is not None else None
        for position, pods in enumerate(cluster.pods):
            if node_prefix is None or pods.version == 4 or node_prefix - pods.prefixlen <= KUBERNETES_CUT_BITS:
                continue
            message = f"Kubernetes gives nodes no /{node_prefix} out of {pods}: it is more than {KUBERNETES_CUT_BITS}"
            hint = f"bits longer; a nodePrefix6 of {pods.prefixlen + KUBERNETES_CUT_BITS} would do"
            yield Finding("NodePrefixTooLong", f"{message} {hint}", f"{field}.pods[{position}]")
        for position, services in enumerate(cluster.services):
            largest = services.max_prefixlen - _SERVICE_BITS
            if services.prefixlen < largest:
                message = f"{services} (Services of {cluster.name}) is larger than a /{largest}, which kubeadm refuses"
                yield Finding("ServicesTooLarge", message, f"{field}.services[{position}]")


def _reachability_findings(networks: Networks) -> Iterator[Finding]:
    if networks.hub is not None and not networks.researchers:
        yield Finding("NobodyComesIn", "no range of researchers is named: the hub admits no connection", "researchers")
    for index, cluster in enumerate(networks.clusters):
        if cluster.services and not cluster.public_services:
            message = f"Services of {cluster.name} can't be reached from outside: it has no publicServices"
            yield Finding("ServicesInside", message, f"clusters[{index}].services")
        yield from _without_gateway(cluster, f"clusters[{index}]")
        for field in ("nodes", "pods"):
            if not getattr(cluster, field):
                message = f"{cluster.name} has no range of {field}: these addresses cannot be attributed to a cluster"
                yield Finding("NothingSaid", message, f"clusters[{index}].{field}")


def _without_gateway(cluster: Cluster, field: str) -> Iterator[Finding]:
    """Yield the IP versions without a gateway, if the cluster has gateways: they are the only way to it."""
    with_gateway = {gateway.version for gateway in cluster.gateways}
    in_use = {network.version for network in (*cluster.nodes, *cluster.pods)}
    lacking = in_use - with_gateway if with_gateway else set()
    for version in sorted(lacking):
        message = (
            f"{cluster.name} has IPv{version} ranges, but no gateway with an IPv{version} address: no route is made"
        )
        yield Finding("NoGateway", message, f"{field}.gateways")
