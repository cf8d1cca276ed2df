"""Types of the address registry: which addresses every cluster has, and how they are reached.

The text of every field here is its documentation, from which the reference is generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel
from kajitori.errors import FieldError

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


def _cidr(value: Any) -> Network:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str):
        raise FieldError(f"{value!r:.80} is not a range of addresses", "write it in quotes, for example 10.1.0.0/16")
    try:
        exact = ip_network(value)
    except ValueError:
        try:
            loose = ip_network(value, strict=False)
        except ValueError:
            hint = "write ADDRESS/LENGTH, for example 10.1.0.0/16 or fd00:1::/64"
            raise FieldError(f"{value!r:.80} is not a range of addresses", hint) from None
        raise FieldError(f"{value} has address bits beyond its prefix", f"write {loose}", "HostBitsSet") from None
    if "/" not in value:
        raise FieldError(f"{value!r:.80} has no prefix length", f"write {exact} for this single address")
    return exact


def _address(value: Any) -> Address:
    if isinstance(value, IPv4Address | IPv6Address):
        return value
    try:
        if not isinstance(value, str):
            raise ValueError
        return ip_address(value)
    except ValueError:
        raise FieldError(f"{value!r:.80} is not an address", "for example 10.1.0.4 or fd00:1::4") from None


def read_endpoint(text: str) -> tuple[Address, int]:
    """Return address and port of `10.1.0.4:22` or `[fd00:1::4]:22`. Raises ValueError with the reason."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r:.80} has no port")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        raise ValueError(f"{text!r:.80} has no address") from None
    if bracketed != (address.version == 6):
        raise ValueError(f"{text!r:.80} is not an address with a port")
    return address, int(port)


Cidr = Annotated[Network, BeforeValidator(_cidr), PlainSerializer(str), WithJsonSchema({"type": "string"})]
"""A range of addresses, written `10.1.0.0/16` or `fd00:1::/64`."""

IpAddress = Annotated[Address, BeforeValidator(_address), PlainSerializer(str), WithJsonSchema({"type": "string"})]

_MAX_ITEMS = 64
"""Most ranges or addresses in one list."""


class Hub(Document):
    """The host that researchers connect to: it routes from them to every cluster, and separates clusters."""

    addresses: list[IpAddress] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Its own addresses, as the clusters see it."""
    clusters_may_call: bool = False
    """Whether programs in a cluster may open connections to researchers; if not, they only answer."""


class NatHost(Document):
    """A host that makes clusters' Service ranges reachable from outside, one address for one address."""

    name: DnsLabel
    """Name by which clusters refer to it."""
    addresses: list[IpAddress] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Its own addresses, at most one of each family: the hub's next hop to it, and the caller that clusters see
    unless keepSource is set."""
    keep_source: bool = False
    """Whether clusters see the researcher's own address. Their answers must then return through this host, so it
    must be on the clusters' route to researchers."""


class Size(Document):
    """Planned size of a cluster, against which its ranges are checked."""

    nodes: int = Field(ge=1, le=1_000_000)
    """Most nodes that it will have."""
    pods_per_node: int = Field(default=110, ge=1, le=65_536)
    """Most Pods on one node."""
    node_prefix: int | None = Field(default=None, ge=1, le=128)
    """Length of the IPv4 range that each node gets for its Pods (Kubernetes' default is 24). If left out, Pods get
    single addresses and nodes have no ranges."""
    node_prefix6: int | None = Field(default=None, ge=1, le=128, alias="nodePrefix6")
    """The same for IPv6 (Kubernetes' default is 64)."""


class Cluster(Document):
    """One cluster: a spoke."""

    name: DnsLabel
    """Name of the cluster."""
    nodes: list[Cidr] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Ranges of nodes."""
    pods: list[Cidr] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Ranges of Pods."""
    services: list[Cidr] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Ranges of Services, as used inside the cluster."""
    public_services: list[Cidr] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Ranges that stand for the Services outside the cluster, in the same order and of the same lengths."""
    nat_host: DnsLabel | None = None
    """NAT host that translates between publicServices and services."""
    gateways: list[IpAddress] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Next hop from hub and NAT host to its nodes and Pods, at most one of each family. If left out, the
    surrounding network routes these ranges."""
    service_gateways: list[IpAddress] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Nodes to which the NAT host distributes traffic for Services; gateways if left out."""
    size: Size | None = None
    """If left out, the size of the ranges is not checked."""
    probes: list[str] = Field(default_factory=list, max_length=64)
    """Addresses with a port (`10.1.0.4:22`, `[fd00:1::4]:22`) that answer TCP in this cluster, for `kaji network
    check`; Services with their addresses inside the cluster. The API server's own Service is always tried as well:
    the first address of services at port 443."""

    def ranges(self) -> Iterator[tuple[str, int, Network]]:
        """Yield (field, position in it, range) of all its ranges."""
        for field in ("nodes", "pods", "services", "publicServices"):
            values: list[Network] = getattr(self, "public_services" if field == "publicServices" else field)
            for position, network in enumerate(values):
                yield field, position, network

    @property
    def own_ranges(self) -> tuple[Network, ...]:
        """Ranges that belong to this cluster alone, as seen from the hub."""
        return (*self.nodes, *self.pods, *self.public_services)

    @property
    def translations(self) -> tuple[tuple[Network, Network], ...]:
        """Pairs (outside, inside) of Service ranges that are reachable from outside."""
        return tuple(zip(self.public_services, self.services, strict=False))


class Networks(Document):
    """One file for all clusters: their addresses, and from where and how these are reached."""

    researchers: list[Cidr] = Field(default_factory=list, max_length=_MAX_ITEMS)
    """Ranges of users' machines: only these reach clusters through the hub."""
    hub: Hub | None = None
    nat_hosts: list[NatHost] = Field(default_factory=list, max_length=200)
    """Hosts that translate Service ranges."""
    clusters: list[Cluster] = Field(default_factory=list, max_length=200)
    """All clusters, the spokes."""
