"""The registry file: parsing it, and every fault that makes it invalid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_network
from itertools import combinations, islice
from typing import Any

from kajitori.core.documents.files import parse_document
from kajitori.core.network.registry.model import Address, Cluster, NatHost, Network, Networks, read_endpoint
from kajitori.core.network.registry.ranges import (
    NamedRange,
    addresses_of,
    inside,
    inside_any,
    named_ranges,
    node_prefixes,
    node_ranges,
    overlap,
    smallest_prefix,
)
from kajitori.core.network.registry.wellknown import WELL_KNOWN
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault

_TO = "-to-"
_RESERVED_NAMES = ("researchers", "strangers", "hub", "elsewhere")

_MAX_FAULTS = 200


def parse_networks(text_or_document: str | bytes | Mapping[str, Any]) -> Networks:
    """Return the registry in a YAML text or a document; an empty one has no clusters.

    Raises InvalidInput with all faults at once: faults of single fields or, if there are none, conflicts between
    ranges.
    """
    return parse_document(
        Networks, text_or_document, "networks", "researchers, hub, natHosts and clusters", check=_faults
    )


def _faults(networks: Networks, unread: Collection[str]) -> Iterable[Fault]:
    """Return the first _MAX_FAULTS faults: a file with overlaps everywhere has one per pair of ranges. If a part of the
    file could not be read, conflicts with it are not known."""
    return islice(_all_faults(networks), _MAX_FAULTS) if not unread else ()


def _all_faults(networks: Networks) -> Iterator[Fault]:
    yield from _name_faults(networks)
    yield from _overlap_faults(networks)
    yield from _impossible_ranges(networks)
    yield from _host_faults(networks)
    for index, cluster in enumerate(networks.clusters):
        field = f"clusters[{index}]"
        yield from _translation_faults(networks, cluster, field)
        yield from _gateway_faults(networks, cluster, field)
        yield from _size_faults(cluster, field)
        yield from _probe_faults(cluster, field)


def _name_faults(networks: Networks) -> Iterator[Fault]:
    clusters, hosts = ([item.name for item in named] for named in (networks.clusters, networks.nat_hosts))
    for field, names in (("clusters", clusters), ("natHosts", hosts)):
        for index, name in enumerate(names):
            if name in _RESERVED_NAMES or _TO in f"-{name}-":
                message = f"{name} would make the names of counters ambiguous, for example a{_TO}b"
                hint = f"choose a name without the word {_TO.strip('-')}; not {', '.join(_RESERVED_NAMES)}"
                yield Fault(f"{field}[{index}].name", message, name, hint, "NameTaken")
            first = names.index(name)
            if first < index:
                message = f"{name} is also the name of {field}[{first}]"
                yield Fault(f"{field}[{index}].name", message, name, "give each a different name", "NameTaken")
    for index, name in enumerate(hosts):
        if name in clusters:
            message = f"{name} is also the name of a cluster"
            yield Fault(f"natHosts[{index}].name", message, name, "give each a different name", "NameTaken")


def _overlap_faults(networks: Networks) -> Iterator[Fault]:
    """Yield overlapping ranges. Sorted by first address, a range can only overlap those that still span it."""
    for version in (4, 6):
        everything = (*named_ranges(networks), *_hosts_as_ranges(networks))
        ranges = sorted(
            (item for item in everything if item.network.version == version),
            key=lambda item: (int(item.network.network_address), item.network.prefixlen),
        )
        spanning: list[NamedRange] = []
        for item in ranges:
            spanning = [other for other in spanning if overlap(other.network, item.network)]
            for other in spanning:
                if not _may_share(networks, other, item):
                    yield _overlap_fault(other, item)
            spanning.append(item)


def _hosts_as_ranges(networks: Networks) -> Iterator[NamedRange]:
    for field, owner, addresses in _host_addresses(networks):
        for index, address in enumerate(addresses):
            yield NamedRange(f"{field}.addresses[{index}]", owner, ip_network(address), kind="host")


def _may_share(networks: Networks, one: NamedRange, other: NamedRange) -> bool:
    """Return whether these two may overlap.

    Hosts may be among nodes or researchers. Services of different clusters may have the same addresses if each cluster
    has its own NAT host, which gives them different addresses outside.
    """
    kinds = {one.kind, other.kind}
    if "host" in kinds:
        return kinds in ({"host", "nodes"}, {"host", "researchers"})
    if one.kind != "services" or other.kind != "services" or one.cluster is None or other.cluster is None:
        return False
    first, second = networks.clusters[one.cluster], networks.clusters[other.cluster]
    return first is not second and first.nat_host != second.nat_host and None not in (first.nat_host, second.nat_host)


def _overlap_fault(first: NamedRange, second: NamedRange) -> Fault:
    one, other = sorted((first, second), key=lambda item: item.field)
    what = "is the same as" if one.network == other.network else "overlaps"
    message = f"{other.network} ({other.owner}) {what} {one.network} ({one.owner}, {one.field})"
    hint = "give each range to one purpose of one cluster"
    if one.kind == other.kind == "services":
        hint += "; Services of two clusters may share theirs if each has its own publicServices and natHost"
    return Fault(other.field, message, str(other.network), hint, "Overlap")


def _impossible_ranges(networks: Networks) -> Iterator[Fault]:
    for item in named_ranges(networks):
        for known in WELL_KNOWN:
            if known.impossible and overlap(item.network, known.network):
                message = f"{item.network} ({item.owner}) overlaps {known.network}: {known.what}"
                hint = "use private addresses: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fd00::/8"
                yield Fault(item.field, message, str(item.network), hint, "WellKnown")


def _host_faults(networks: Networks) -> Iterator[Fault]:
    """Yield hub and NAT hosts with more than one address of a family."""
    for field, _, addresses in _host_addresses(networks):
        yield from _more_than_one_per_family(addresses, f"{field}.addresses")


def _host_addresses(networks: Networks) -> Iterator[tuple[str, str, list[Address]]]:
    """Yield (field, host in words, addresses)."""
    if networks.hub is not None:
        yield "hub", "the hub", networks.hub.addresses
    for index, host in enumerate(networks.nat_hosts):
        yield f"natHosts[{index}]", f"the NAT host {host.name}", host.addresses


def _more_than_one_per_family(addresses: list[Address], field: str) -> Iterator[Fault]:
    for one, other in combinations(addresses, 2):
        if one.version == other.version:
            message = f"{one} and {other} are both IPv{one.version}"
            yield Fault(field, message, str(other), "give at most one of each family", "TwoOfAFamily")


def _translation_faults(networks: Networks, cluster: Cluster, field: str) -> Iterator[Fault]:
    hosts = {host.name: host for host in networks.nat_hosts}
    if not cluster.public_services:
        if cluster.nat_host is not None:
            hint = "add publicServices, or leave natHost out"
            yield Fault(f"{field}.natHost", "there is nothing to translate", cluster.nat_host, hint, "NothingToDo")
        return
    if cluster.nat_host is None:
        hint = "name one of natHosts" if hosts else "add a host under natHosts, and name it here"
        yield Fault(f"{field}.natHost", "publicServices need a host that translates", "", hint, "NoNatHost")
    elif cluster.nat_host not in hosts:
        hint = did_you_mean(cluster.nat_host, hosts) or "natHosts lists them"
        yield Fault(f"{field}.natHost", f"there is no NAT host {cluster.nat_host}", cluster.nat_host, hint, "NoNatHost")
    else:
        yield from _family_faults(cluster, hosts[cluster.nat_host], field)
    if len(cluster.public_services) != len(cluster.services):
        message = f"{_count(cluster.public_services)} for {_count(cluster.services)} of services"
        hint = "one for each, in the same order"
        yield Fault(f"{field}.publicServices", message, "", hint, "PrefixMismatch")
    for index, (outside, within) in enumerate(cluster.translations):
        if outside.version != within.version:
            message = f"{outside} is IPv{outside.version}, but stands for {within}"
        elif outside.prefixlen != within.prefixlen:
            message = f"{outside} has length {outside.prefixlen}, but stands for {within} of length {within.prefixlen}"
        else:
            continue
        hint = f"each address stands for one address: use an IPv{within.version} range of length {within.prefixlen}"
        yield Fault(f"{field}.publicServices[{index}]", message, str(outside), hint, "PrefixMismatch")


def _family_faults(cluster: Cluster, host: NatHost, field: str) -> Iterator[Fault]:
    available = {address.version for address in host.addresses}
    for version in sorted({outside.version for outside, _ in cluster.translations} - available):
        message = f"the NAT host {host.name} has no IPv{version} address"
        yield Fault(f"{field}.natHost", message, host.name, f"add one to natHosts: {host.name}", "NoAddress")


def _count(ranges: list[Network]) -> str:
    return "1 range" if len(ranges) == 1 else f"{len(ranges)} ranges"


def _gateway_faults(networks: Networks, cluster: Cluster, field: str) -> Iterator[Fault]:
    yield from _more_than_one_per_family(cluster.gateways, f"{field}.gateways")
    behind = (*cluster.pods, *cluster.services, *cluster.public_services)
    others = [(network, c.name) for c in networks.clusters if c is not cluster for network in c.own_ranges]
    hub = networks.hub.addresses if networks.hub is not None else []
    for name, addresses in (("gateways", cluster.gateways), ("serviceGateways", cluster.service_gateways)):
        for index, address in enumerate(addresses):
            where = f"{field}.{name}[{index}]"
            for network in behind:
                if inside(address, network):
                    message = f"{address} is in {network}, which is reached through it"
                    yield Fault(where, message, str(address), "name a host's own address", "Overlap")
            for network, other in others:
                if inside(address, network):
                    message = f"{address} is in {network} of {other}: traffic for {cluster.name} would go there"
                    yield Fault(where, message, str(address), "name a host that is in no other cluster", "Overlap")
            if address in hub:
                message = f"{address} is the hub, which cannot be its own next hop to {cluster.name}"
                hint = "give the next hop behind the hub, or leave it out if the hub's network has a route"
                yield Fault(where, message, str(address), hint, "Overlap")


def _size_faults(cluster: Cluster, field: str) -> Iterator[Fault]:
    size = cluster.size
    if size is None:
        return
    for version, node_prefix in node_prefixes(cluster):
        nodes = [network for network in cluster.nodes if network.version == version]
        pods = [network for network in cluster.pods if network.version == version]
        room = addresses_of(nodes)
        if nodes and room < size.nodes:
            message = f"{room:,} addresses for {size.nodes:,} nodes"
            hint = f"add a range, or use one of length {smallest_prefix(size.nodes, version)}"
            yield Fault(f"{field}.nodes", message, str(nodes[0]), hint, "TooSmall")
        if not pods:
            continue
        if node_prefix is None:
            needed, room = size.nodes * size.pods_per_node, addresses_of(pods)
            if room < needed:
                message = f"{room:,} addresses for {size.nodes:,} nodes of {size.pods_per_node:,} Pods: {needed:,}"
                hint = f"add a range, or use one of length {smallest_prefix(needed, version)}"
                yield Fault(f"{field}.pods", message, str(pods[0]), hint, "TooSmall")
            continue
        bits = pods[0].max_prefixlen
        name = f"{field}.size.nodePrefix{'' if version == 4 else '6'}"
        if node_prefix > bits:
            usual = f"{24 if version == 4 else 64} is the default"
            yield Fault(name, f"{node_prefix} is above {bits}", str(node_prefix), usual, "OutOfRange")
            continue
        if 2 ** (bits - node_prefix) < size.pods_per_node:
            message = f"/{node_prefix} has {2 ** (bits - node_prefix):,} addresses for {size.pods_per_node:,} Pods"
            hint = f"use {smallest_prefix(size.pods_per_node, version)} at most"
            yield Fault(name, message, str(node_prefix), hint, "TooSmall")
        ranges = node_ranges(pods, node_prefix)
        if ranges < size.nodes:
            message = f"{ranges:,} ranges of length {node_prefix} for {size.nodes:,} nodes"
            length = node_prefix - (size.nodes - 1).bit_length()
            hint = f"add a range, or use one of length {length}" if length > 0 else "give each node a smaller range"
            yield Fault(f"{field}.pods", message, str(pods[0]), hint, "TooSmall")


def _probe_faults(cluster: Cluster, field: str) -> Iterator[Fault]:
    for index, text in enumerate(cluster.probes):
        try:
            address, _ = read_endpoint(text)
        except ValueError as error:
            yield Fault(f"{field}.probes[{index}]", str(error), text, "write 10.1.0.4:22 or [fd00:1::4]:22")
            continue
        if not inside_any(address, (*cluster.nodes, *cluster.pods, *cluster.services)):
            message = f"{address} is in no range of {cluster.name}"
            yield Fault(f"{field}.probes[{index}]", message, text, "name an address of this cluster", "NotHere")
