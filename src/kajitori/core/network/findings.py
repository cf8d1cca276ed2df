"""What a registry says that may not be meant so, though it can be done."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from kajitori.core.network.limits import KUBERNETES_CUT_BITS, KUBERNETES_SERVICES6
from kajitori.core.network.registry import addresses_of, held, node_prefixes, node_ranges, overlap
from kajitori.core.network.registry_model import Cluster, Networks
from kajitori.core.network.wellknown import ULA, WELL_KNOWN
from kajitori.core.spec.status import Finding

_UNIQUE_LOCAL = ip_network("fd00::/8")

_SITE6 = 48
"""Length of what one site has of the unique local addresses (RFC 4193)."""

_ROOMY = 0.8
"""Of a range, in use: above it, growth needs another one soon."""

_SERVICE_BITS = 128 - KUBERNETES_SERVICES6.value
"""Of addresses in a range for Services, at most: a /12 of IPv4, a /108 of IPv6."""


def findings(networks: Networks) -> list[Finding]:
    """What may not be meant so, though it can be done."""
    return [
        *_well_known(networks),
        *_nearly_full(networks),
        *_beyond_kubernetes(networks),
        *_unreachable(networks),
    ]


def _well_known(networks: Networks) -> Iterator[Finding]:
    for each in held(networks):
        known = [known for known in WELL_KNOWN if not known.impossible and overlap(each.network, known.network)]
        for one in known:
            message = f"{each.network} ({each.owner}) overlaps {one.network}: {one.what}; see {one.source}"
            yield Finding("WellKnown", message, each.field)
        if not known and each.network.is_global:
            message = f"{each.network} ({each.owner}) is public: unless it is yours, its owners' hosts can't be reached"
            yield Finding("PublicAddresses", message, each.field)
        if each.network.version == 6 and each.network.prefixlen < _SITE6 and overlap(each.network, _UNIQUE_LOCAL):
            message = f"{each.network} ({each.owner}) takes unique local addresses of other sites: each has a /{_SITE6}"
            yield Finding("NotOneSite", f"{message} that it has drawn by chance ({ULA})", each.field)


def _nearly_full(networks: Networks) -> Iterator[Finding]:
    for index, cluster in enumerate(networks.clusters):
        for version, node_prefix in node_prefixes(cluster):
            pods = [each for each in cluster.pods if each.version == version]
            if cluster.size is None or not pods:
                continue
            if node_prefix is None:
                share = cluster.size.nodes * cluster.size.pods_per_node / addresses_of(pods)
            else:
                share = cluster.size.nodes / node_ranges(pods, node_prefix)
            if share > _ROOMY:
                used = f"{cluster.name} will use {share:.0%} of its IPv{version} addresses for Pods"
                yield Finding("NearlyFull", f"{used}: plan its next range now", f"clusters[{index}].pods")


def _beyond_kubernetes(networks: Networks) -> Iterator[Finding]:
    """What Kubernetes' own allocators and installers refuse; other ones may take it."""
    for index, cluster in enumerate(networks.clusters):
        field = f"clusters[{index}]"
        node_prefix = cluster.size.node_prefix6 if cluster.size is not None else None
        for position, pods in enumerate(cluster.pods):
            if node_prefix is None or pods.version == 4 or node_prefix - pods.prefixlen <= KUBERNETES_CUT_BITS:
                continue
            message = (
                f"Kubernetes cuts no /{node_prefix} for nodes from {pods}, which is more than {KUBERNETES_CUT_BITS}"
            )
            hint = f"bits shorter: a nodePrefix6 of {pods.prefixlen + KUBERNETES_CUT_BITS} would do"
            yield Finding("NodePrefixTooLong", f"{message} {hint}", f"{field}.pods[{position}]")
        for position, services in enumerate(cluster.services):
            largest = services.max_prefixlen - _SERVICE_BITS
            if services.prefixlen < largest:
                message = (
                    f"{services} (Services of {cluster.name}) is larger than a /{largest}: kubeadm takes none such"
                )
                yield Finding("ServicesTooLarge", message, f"{field}.services[{position}]")


def _unreachable(networks: Networks) -> Iterator[Finding]:
    if networks.hub is not None and not networks.researchers:
        yield Finding("NobodyComesIn", "no range of researchers is named: the hub lets nobody in", "researchers")
    for index, cluster in enumerate(networks.clusters):
        if cluster.services and not cluster.public_services:
            message = f"Services of {cluster.name} can't be reached from outside: it has no publicServices"
            yield Finding("ServicesInside", message, f"clusters[{index}].services")
        yield from _without_way(cluster, f"clusters[{index}]")
        for field in ("nodes", "pods"):
            if not getattr(cluster, field):
                message = f"{cluster.name} has no range of {field}: nobody can tell whose these addresses are"
                yield Finding("NothingSaid", message, f"clusters[{index}].{field}")


def _without_way(cluster: Cluster, field: str) -> Iterator[Finding]:
    """Where gateways are named, they are the only way: none for a family that they have no address of."""
    ways = {gateway.version for gateway in cluster.gateways}
    lacking = {each.version for each in (*cluster.nodes, *cluster.pods)} - ways if ways else set()
    for version in sorted(lacking):
        message = (
            f"{cluster.name} has IPv{version} ranges, but no gateway with an IPv{version} address: no route is made"
        )
        yield Finding("NoGateway", message, f"{field}.gateways")
