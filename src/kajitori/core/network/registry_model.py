"""The address registry, as types: which addresses every cluster has, and how they are reached.

Every field's text here is its documentation: the reference is made from it.
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
        raise FieldError(f"{value!r:.80} is not a range of addresses", "write it in quotes, such as 10.1.0.0/16")
    try:
        exact = ip_network(value)
    except ValueError:
        try:
            loose = ip_network(value, strict=False)
        except ValueError:
            hint = "write ADDRESS/LENGTH, such as 10.1.0.0/16 or fd00:1::/64"
            raise FieldError(f"{value!r:.80} is not a range of addresses", hint) from None
        raise FieldError(f"{value} is not the beginning of its range", f"write {loose}", "HostBitsSet") from None
    if "/" not in value:
        raise FieldError(f"{value!r:.80} has no prefix length", f"write {exact} if that one address is meant")
    return exact


def _address(value: Any) -> Address:
    if isinstance(value, IPv4Address | IPv6Address):
        return value
    try:
        if not isinstance(value, str):
            raise ValueError
        return ip_address(value)
    except ValueError:
        raise FieldError(f"{value!r:.80} is not an address", "such as 10.1.0.4 or fd00:1::4") from None


Cidr = Annotated[Network, BeforeValidator(_cidr), PlainSerializer(str), WithJsonSchema({"type": "string"})]
"""A range, written `10.1.0.0/16` or `fd00:1::/64`."""

IpAddress = Annotated[Address, BeforeValidator(_address), PlainSerializer(str), WithJsonSchema({"type": "string"})]

_MOST = 64
"""Ranges or addresses in one list."""


class Hub(Document):
    """Where researchers connect: it routes from them to every cluster, and keeps clusters from each other."""

    addresses: list[IpAddress] = Field(default_factory=list, max_length=_MOST)
    """Its own, as the clusters see it."""
    clusters_may_call: bool = False
    """Whether what runs in a cluster may open connections to researchers; if not, it only answers them."""


class NatHost(Document):
    """Makes the Service ranges of clusters reachable from outside, one address for one address."""

    name: DnsLabel
    """What clusters name it by."""
    addresses: list[IpAddress] = Field(default_factory=list, max_length=_MOST)
    """Its own, at most one of each family: the hub's next hop to it, and what clusters see as the caller unless
    keepSource says otherwise."""
    keep_source: bool = False
    """Whether clusters see the researcher's own address. Their answers have to come back through this host then, so it
    must be on the clusters' way to researchers."""


class Size(Document):
    """How large a cluster is to become: its ranges are checked against it."""

    nodes: int = Field(ge=1, le=1_000_000)
    """The most nodes that it will have."""
    pods_per_node: int = Field(default=110, ge=1, le=65_536)
    """The most Pods on one of them."""
    node_prefix: int | None = Field(default=None, ge=1, le=128)
    """Length of the IPv4 range that each node gets for its Pods (24 is Kubernetes' default); left out: Pods get single
    addresses, and nodes have no ranges."""
    node_prefix6: int | None = Field(default=None, ge=1, le=128, alias="nodePrefix6")
    """The same for IPv6 (64 is Kubernetes' default)."""


class Cluster(Document):
    """One cluster: a spoke."""

    name: DnsLabel
    """How everybody calls it."""
    nodes: list[Cidr] = Field(default_factory=list, max_length=_MOST)
    """Ranges of nodes."""
    pods: list[Cidr] = Field(default_factory=list, max_length=_MOST)
    """Ranges of Pods."""
    services: list[Cidr] = Field(default_factory=list, max_length=_MOST)
    """Ranges of Services, as the cluster itself uses them."""
    public_services: list[Cidr] = Field(default_factory=list, max_length=_MOST)
    """The ranges that stand for them outside of the cluster, in the same order and of the same lengths."""
    nat_host: DnsLabel | None = None
    """The NAT host that translates from the one to the other."""
    gateways: list[IpAddress] = Field(default_factory=list, max_length=_MOST)
    """The next hop from hub and NAT host to its nodes and Pods, at most one of each family. Left out: the network
    around them routes these ranges by itself."""
    service_gateways: list[IpAddress] = Field(default_factory=list, max_length=_MOST)
    """Nodes that the NAT host sends traffic for Services to, spread over them; left out: gateways."""
    size: Size | None = None
    """Left out, it is not checked whether the ranges are large enough."""
    probes: list[str] = Field(default_factory=list, max_length=64)
    """Addresses with a port (`10.1.0.4:22`, `[fd00:1::4]:22`) that answer TCP in this cluster, for `kaji network
    check`; those of Services as the cluster itself uses them. Besides them the API server's own Service is tried, the
    first address of services at port 443."""

    def ranges(self) -> Iterator[tuple[str, int, Network]]:
        """(field, position in it, range) of all that it has."""
        for field in ("nodes", "pods", "services", "publicServices"):
            values: list[Network] = getattr(self, "public_services" if field == "publicServices" else field)
            for position, network in enumerate(values):
                yield field, position, network

    @property
    def own_ranges(self) -> tuple[Network, ...]:
        """Those that mean this cluster and nothing else, seen from the hub."""
        return (*self.nodes, *self.pods, *self.public_services)

    @property
    def translations(self) -> tuple[tuple[Network, Network], ...]:
        """(outside, inside) for each range of Services that is reached from outside."""
        return tuple(zip(self.public_services, self.services, strict=False))


class Networks(Document):
    """One file for all clusters: who has which addresses, from where they are reached, and through what."""

    researchers: list[Cidr] = Field(default_factory=list, max_length=_MOST)
    """Where people come from: only they reach clusters through the hub."""
    hub: Hub | None = None
    nat_hosts: list[NatHost] = Field(default_factory=list, max_length=200)
    """Hosts that translate Service ranges."""
    clusters: list[Cluster] = Field(default_factory=list, max_length=200)
    """All clusters, the spokes."""
