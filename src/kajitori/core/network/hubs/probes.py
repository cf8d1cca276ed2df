"""The connections that `kaji network check` tries, and their expected outcomes; both depend on the place where it
runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from kajitori.core.network.registry.model import Address, Cluster, NatHost, Networks, read_endpoint
from kajitori.core.network.registry.ranges import inside_any
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import InvalidInput

API_PORT = 443
"""Port of the API server's own Service, which has the first address of the first range of Services."""

Kind = Literal["researchers", "hub", "nat", "cluster", "elsewhere"]
Outcome = Literal["answered", "refused", "silent", "unreachable"]


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the network, as the registry describes it."""

    kind: Kind
    name: str = ""
    """Name of the NAT host or the cluster."""

    def __str__(self) -> str:
        names = {"researchers": "among the researchers", "hub": "the hub", "elsewhere": "outside all its ranges"}
        return names.get(self.kind) or f"{'the NAT host' if self.kind == 'nat' else 'in cluster'} {self.name}"


@dataclass(frozen=True, slots=True)
class Probe:
    """One connection to try, and whether it should succeed."""

    cluster: str
    what: str
    address: Address
    port: int
    passes: bool

    @property
    def endpoint(self) -> str:
        """Address and port, as in the networks file."""
        return f"[{self.address}]:{self.port}" if self.address.version == 6 else f"{self.address}:{self.port}"

    def is_right(self, outcome: Outcome) -> bool:
        """Return whether the outcome is as expected. A refused connection has reached its target."""
        return (outcome in ("answered", "refused")) == self.passes


def place_named(networks: Networks, name: str) -> Place:
    """Return the place with this name: researchers, hub, elsewhere, a NAT host or a cluster. Raises InvalidInput."""
    if name in ("researchers", "hub", "elsewhere"):
        return Place(name)  # type: ignore[arg-type]
    if name in (host.name for host in networks.nat_hosts):
        return Place("nat", name)
    clusters = [cluster.name for cluster in networks.clusters]
    if name in clusters:
        return Place("cluster", name)
    known = ["researchers", "hub", "elsewhere", *(host.name for host in networks.nat_hosts), *clusters]
    hint = did_you_mean(name, known) or f"one of {', '.join(known[:10])}"
    raise InvalidInput.one("--from", f"there is no {name!r:.80}", value=name, hint=hint)


def place_of(networks: Networks, own: Iterable[Address]) -> Place:
    """Return the place of a host with these addresses.

    Hosts come first, because a NAT host may have a cluster's address, too.
    """
    addresses = set(own)
    if networks.hub is not None and addresses & set(networks.hub.addresses):
        return Place("hub")
    for host in networks.nat_hosts:
        if addresses & set(host.addresses):
            return Place("nat", host.name)
    for cluster in networks.clusters:
        if any(inside_any(address, (*cluster.nodes, *cluster.pods)) for address in addresses):
            return Place("cluster", cluster.name)
    if any(inside_any(address, networks.researchers) for address in addresses):
        return Place("researchers")
    return Place("elsewhere")


def landmarks(networks: Networks) -> Iterator[Address]:
    """Yield one address in each range of every cluster; the routes to them show the host's own addresses."""
    for cluster in networks.clusters:
        for _, _, network in cluster.ranges():
            yield network.network_address + min(1, network.num_addresses - 1)


def probes(networks: Networks, place: Place) -> list[Probe]:
    """Return all probes from this place, by cluster."""
    hosts = {host.name: host for host in networks.nat_hosts}
    return [
        probe
        for cluster in networks.clusters
        for address, port in _api_endpoints(cluster)
        for probe in _probes_of(cluster, address, port, place, hosts.get(cluster.nat_host or ""))
    ]


def _api_endpoints(cluster: Cluster) -> Iterator[tuple[Address, int]]:
    yield from dict.fromkeys(
        (
            *(read_endpoint(text) for text in cluster.probes),
            *((network.network_address + 1, API_PORT) for network in cluster.services[:1]),
        )
    )


def _probes_of(cluster: Cluster, address: Address, port: int, place: Place, host: NatHost | None) -> Iterator[Probe]:
    """Yield one probe, or none if the address means nothing at this place.

    A Service has its own address inside its cluster and at the NAT host; outside, researchers use another one.
    """
    at_home = place.kind == "cluster" and place.name == cluster.name
    if not inside_any(address, cluster.services):
        what = "node" if inside_any(address, cluster.nodes) else "Pod"
        inward = place.kind == "hub" or (place.kind == "nat" and host is not None and place.name == host.name)
        if place.kind != "nat" or inward:
            passes = at_home or inward or place.kind == "researchers"
            yield Probe(cluster.name, what, address, port, passes=passes)
        return
    if at_home or (place.kind == "nat" and host is not None and place.name == host.name):
        yield Probe(cluster.name, "Service", address, port, passes=True)
    elif place.kind in ("researchers", "cluster", "elsewhere"):
        outside = public_address(cluster, address)
        if outside is not None:
            yield Probe(cluster.name, f"Service {address}", outside, port, passes=place.kind == "researchers")


def public_address(cluster: Cluster, address: Address) -> Address | None:
    """Return the address of a Service outside its cluster; None if it has none."""
    for outside, inside in cluster.translations:
        if inside_any(address, (inside,)):
            return outside.network_address + (int(address) - int(inside.network_address))
    return None
