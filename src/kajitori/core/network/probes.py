"""What `kaji network check` tries from where it runs, and what has to come of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from kajitori.core.network.registry_model import Address, Cluster, NatHost, Network, Networks
from kajitori.core.words.suggestions import did_you_mean
from kajitori.errors import InvalidInput

API_PORT = 443
"""Of the API server's own Service, which has the first address of the first range of Services in every cluster."""

Kind = Literal["researchers", "hub", "nat", "cluster", "elsewhere"]
Outcome = Literal["answered", "refused", "silent", "unreachable"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one is, as the registry sees it."""

    kind: Kind
    name: str = ""
    """Of the NAT host or the cluster."""

    def __str__(self) -> str:
        words = {"researchers": "among the researchers", "hub": "the hub", "elsewhere": "nowhere that it knows"}
        return words.get(self.kind) or f"{'the NAT host' if self.kind == 'nat' else 'in cluster'} {self.name}"


@dataclass(frozen=True, slots=True)
class Probe:
    """One try to connect: whether it may get through, and why."""

    cluster: str
    what: str
    address: Address
    port: int
    passes: bool

    @property
    def endpoint(self) -> str:
        """As it is written in the file."""
        return f"[{self.address}]:{self.port}" if self.address.version == 6 else f"{self.address}:{self.port}"

    def is_right(self, outcome: Outcome) -> bool:
        """Whether that is what has to come of it. Who refuses a connection was reached."""
        return (outcome in ("answered", "refused")) == self.passes


def read_endpoint(text: str) -> tuple[Address, int]:
    """Address and port of `10.1.0.4:22` or `[fd00:1::4]:22`. Raises ValueError with the reason."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r:.80} names no port")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        raise ValueError(f"{text!r:.80} names no address") from None
    if bracketed != (address.version == 6):
        raise ValueError(f"{text!r:.80} is not written as an address with a port")
    return address, int(port)


def place_named(networks: Networks, name: str) -> Place:
    """The place that somebody names: researchers, hub, or a NAT host or cluster. Raises InvalidInput."""
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
    """Where somebody with these addresses is. Hosts come first: a NAT host may have an address of its cluster, too."""
    addresses = set(own)
    if networks.hub is not None and addresses & set(networks.hub.addresses):
        return Place("hub")
    for host in networks.nat_hosts:
        if addresses & set(host.addresses):
            return Place("nat", host.name)
    for cluster in networks.clusters:
        if any(_lies_in(address, (*cluster.nodes, *cluster.pods)) for address in addresses):
            return Place("cluster", cluster.name)
    if any(_lies_in(address, networks.researchers) for address in addresses):
        return Place("researchers")
    return Place("elsewhere")


def landmarks(networks: Networks) -> Iterator[Address]:
    """An address in each range of every cluster: the ways there tell by which addresses of one's own one is known."""
    for cluster in networks.clusters:
        for _, _, network in cluster.ranges():
            yield network.network_address + min(1, network.num_addresses - 1)


def probes(networks: Networks, place: Place) -> list[Probe]:
    """Everything to be tried from there, cluster by cluster."""
    hosts = {host.name: host for host in networks.nat_hosts}
    return [
        probe
        for cluster in networks.clusters
        for address, port in _endpoints(cluster)
        for probe in _tries(cluster, address, port, place, hosts.get(cluster.nat_host or ""))
    ]


def _endpoints(cluster: Cluster) -> Iterator[tuple[Address, int]]:
    yield from dict.fromkeys(
        (
            *(read_endpoint(text) for text in cluster.probes),
            *((network.network_address + 1, API_PORT) for network in cluster.services[:1]),
        )
    )


def _tries(cluster: Cluster, address: Address, port: int, place: Place, host: NatHost | None) -> Iterator[Probe]:
    """One, or none where the address means nothing there: Services have their own addresses inside of their cluster and
    at its NAT host, and others, for researchers only, outside."""
    at_home = place.kind == "cluster" and place.name == cluster.name
    if not _lies_in(address, cluster.services):
        what = "node" if _lies_in(address, cluster.nodes) else "Pod"
        inward = place.kind == "hub" or (place.kind == "nat" and host is not None and place.name == host.name)
        if place.kind != "nat" or inward:
            yield Probe(cluster.name, what, address, port, at_home or inward or place.kind == "researchers")
        return
    if at_home or (place.kind == "nat" and host is not None and place.name == host.name):
        yield Probe(cluster.name, "Service", address, port, True)
    elif place.kind in ("researchers", "cluster", "elsewhere"):
        outside = public_address(cluster, address)
        if outside is not None:
            yield Probe(cluster.name, f"Service {address}", outside, port, place.kind == "researchers")


def public_address(cluster: Cluster, address: Address) -> Address | None:
    """What stands for a Service's address outside; None where nothing does."""
    for outside, inside in cluster.translations:
        if _lies_in(address, (inside,)):
            return outside.network_address + (int(address) - int(inside.network_address))
    return None


def _lies_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
