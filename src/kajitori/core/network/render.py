"""What makes a hub or a NAT host of a machine, as a script for its shell: rules, routes, forwarding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kajitori.core.network.registry_model import Address, Cluster, Network, Networks
from kajitori.core.network.rules import HUB_TABLE, NAT_TABLE, digest, hub_rules, nat_rules
from kajitori.core.words.suggestions import did_you_mean
from kajitori.errors import Fault, InvalidInput

ROUTE_PROTOCOL = 201
"""Marks our routes in the kernel's table: those of a former registry are found and taken away, and no others."""


@dataclass(frozen=True, slots=True)
class Route:
    """To a range, through one next hop or spread over several; through none it leads nowhere."""

    to: Network
    via: tuple[Address, ...]

    def words(self) -> str:
        """As `ip route replace` takes it."""
        if not self.via:
            return f"blackhole {self.to}"
        if len(self.via) == 1:
            return f"{self.to} via {self.via[0]}"
        return " ".join((str(self.to), *(f"nexthop via {address}" for address in self.via)))


@dataclass(frozen=True, slots=True)
class Rendered:
    """All that a host needs."""

    title: str
    table: str
    rules: str
    """For `nft -f`."""
    routes: tuple[Route, ...]

    @property
    def digest(self) -> str:
        """By which the rules are recognized where they are in force."""
        return digest(self.rules)

    @property
    def refusing(self) -> frozenset[str]:
        """Names of the counters of what is dropped."""
        return frozenset(re.findall(r"counter name (\S+) drop$", self.rules, re.MULTILINE))

    @property
    def rules_by_chain(self) -> Counter[str]:
        """How many rules each chain has."""
        return Counter(re.findall(rf"^add rule inet {self.table} (\S+)", self.rules, re.MULTILINE))

    def script(self) -> str:
        """For `sh`, as root; the same however often it is run. Rules come first: nothing passes before they hold."""
        lines = [
            "#!/bin/sh",
            f"# {self.title}. Made by kaji network render; run as root, again after each change.",
            "set -eu",
        ]
        lines += ["nft -f - <<'RULES'", *self.rules.splitlines(), "RULES"]
        for version in (4, 6):
            lines += _routes(version, [route for route in self.routes if route.to.version == version])
        return "\n".join(lines) + "\n"


def _routes(version: int, routes: Sequence[Route]) -> Iterator[str]:
    """Makes these routes, and takes those away that we made once and that are not among them."""
    ip = f"ip -{version}"
    for route in routes:
        yield f"{ip} route replace {route.words()} proto {ROUTE_PROTOCOL}"
    wanted = " ".join(str(route.to) for route in routes)
    ranges = r"s/^blackhole //; s|^\([0-9a-f:./]*\) .*|\1|p"
    yield f"{ip} route show proto {ROUTE_PROTOCOL} | sed -n '{ranges}' | while read -r to; do"
    yield f'  case \' {wanted} \' in *" $to "* | *" $to/{32 if version == 4 else 128} "*) ;;'
    yield f'  *) {ip} route del "$to" proto {ROUTE_PROTOCOL} ;; esac'
    yield "done"
    if routes:
        yield f"sysctl -q -w {'net.ipv4.ip_forward=1' if version == 4 else 'net.ipv6.conf.all.forwarding=1'}"
    if any(len(route.via) > 1 for route in routes):  # by ports, too: else all from one address go one way
        yield f"sysctl -q -w net.ipv{version}.fib_multipath_hash_policy=1"


def render_hub(networks: Networks) -> Rendered:
    """Of the machine that researchers connect to."""
    if not networks.clusters:
        raise InvalidInput.one("clusters", "there are none to reach", hint="add one to the networks file")
    hosts = {host.name: host for host in networks.nat_hosts}
    routes: list[Route] = []
    for cluster in networks.clusters:
        routes += _via(cluster.gateways, (*cluster.nodes, *cluster.pods))
        host = hosts.get(cluster.nat_host or "")
        routes += _via(host.addresses if host is not None else (), cluster.public_services)
    return Rendered("The hub", HUB_TABLE, hub_rules(networks), tuple(routes))


def render_nat(networks: Networks, name: str | None) -> Rendered:
    """Of the NAT host of that name; where there is one only, it needs no name."""
    hosts = {host.name: host for host in networks.nat_hosts}
    if not hosts:
        hint = "name one under natHosts in the networks file"
        raise InvalidInput.one("natHosts", "there are none", hint=hint)
    if name is None and len(hosts) == 1:
        name = next(iter(hosts))
    if name is None or name not in hosts:
        known = ", ".join(hosts)
        message = f"there is no NAT host {name}" if name is not None else "which NAT host is not said"
        hint = (did_you_mean(name, hosts) if name is not None else "") or f"one of {known}"
        raise InvalidInput([Fault("--host", message, name or "", hint, "NoNatHost")])
    host = hosts[name]
    routes = [] if networks.hub is None else [*_via(networks.hub.addresses, networks.researchers)]
    for cluster in networks.clusters:
        if cluster.nat_host == name:
            routes += _inwards(cluster, host.addresses)
            # What is not translated must not be sent back to the hub, which would send it here again.
            routes += [Route(outside, ()) for outside in cluster.public_services]
    return Rendered(f"The NAT host {name}", NAT_TABLE, nat_rules(networks, name), tuple(routes))


def _inwards(cluster: Cluster, own: Sequence[Address]) -> Iterator[Route]:
    """From a NAT host into a cluster. One that is itself the gateway knows its ways."""
    if not set(cluster.gateways) & set(own):
        yield from _via(cluster.gateways, (*cluster.nodes, *cluster.pods))
        yield from _via(cluster.service_gateways or cluster.gateways, cluster.services)
    else:
        yield from _via(cluster.service_gateways, cluster.services)


def _via(hops: Iterable[Address], ranges: Iterable[Network]) -> Iterator[Route]:
    found = list(hops)
    for network in ranges:
        same = tuple(hop for hop in found if hop.version == network.version)
        if same:
            yield Route(network, same)
