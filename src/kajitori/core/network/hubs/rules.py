"""nftables rules of the hub and NAT hosts: they let researchers reach clusters, and keep clusters apart.

All rules are in one table of our own, which is replaced in one transaction; counters keep their values. Packets are
judged when they arrive, before translation and whether or not there is a route, so every refused packet is counted:

1. A packet with a source address that cannot be genuine is dropped (`spoofed`).
2. From a cluster: packets to another cluster are dropped, answers included (`alpha-to-beta`); on the hub, packets to
   the same cluster as well (`alpha-to-alpha`). To researchers only answers pass, and what clustersMayCall allows
   (otherwise `alpha-to-researchers`). Packets to other destinations are not judged.
3. To a cluster: packets from researchers (`researchers-to-alpha`), from the hub and the NAT host that translates for it
   (`nat-to-alpha`) and answers pass; others are dropped (`strangers-to-alpha`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from ipaddress import collapse_addresses, ip_network

from kajitori.core.network.registry.model import Cluster, Network, Networks

HUB_TABLE = "kajitori_hub"
NAT_TABLE = "kajitori_nat"

SPOOFED = "spoofed"

MARK = "kajitori "
"""Start of the comment in the rule that identifies the installed rules; their digest follows."""

_FAMILIES = ((4, "ip", "ipv4_addr"), (6, "ip6", "ipv6_addr"))

Ranges = Callable[[Cluster], Sequence[Network]]


def between(source: str, target: str) -> str:
    """Return the name of the counter of packets from `source` to `target`."""
    return f"{source}-to-{target}"


def hub_rules(networks: Networks) -> str:
    """Return the input of `nft -f` on the hub."""
    rules = _Rules(HUB_TABLE)
    _add_cluster_rules(rules, networks, networks.clusters, lambda cluster: cluster.own_ranges, hub=True)
    return rules.text()


def nat_rules(networks: Networks, name: str) -> str:
    """Return the input of `nft -f` on the NAT host with this name.

    It separates the clusters that it translates for from all others, including their Services' own ranges. The
    Services of other clusters are not judged: several clusters may use the same addresses for them.
    """
    rules = _Rules(NAT_TABLE)
    host = next(host for host in networks.nat_hosts if host.name == name)
    translated = [cluster for cluster in networks.clusters if cluster.nat_host == name]
    rules.chain("translate", "type nat hook prerouting priority dstnat; policy accept;")
    rules.chain("hide", "type nat hook postrouting priority srcnat; policy accept;")

    def ranges(cluster: Cluster) -> Sequence[Network]:
        return (*cluster.own_ranges, *cluster.services) if cluster in translated else cluster.own_ranges

    _add_cluster_rules(rules, networks, translated, ranges, hub=False)
    for cluster in translated:
        counter = rules.counter(f"translated-{cluster.name}")
        for outside, inside in cluster.translations:
            _, word, _ = _family(outside)
            to = f"{word} daddr {outside} counter name {counter} dnat {word} prefix to {inside}"
            rules.add(
                "translate", f"{word} saddr @{_add_set(rules, 'researchers', networks.researchers, outside)} {to}"
            )
            address = next(address for address in host.addresses if address.version == outside.version)
            if not host.keep_source:
                rules.add("hide", f"ct original {word} daddr {outside} snat {word} to {address}")
    return rules.text()


def digest(rules: str) -> str:
    """Return a short text by which installed rules are recognized."""
    return sha256(re.sub(f'(?<="{MARK})[^"]*', _DIGEST, rules).encode()).hexdigest()[:12]


_DIGEST = "DIGEST"
"""Placeholder of the digest in the text that it is computed from."""


class _Rules:
    """A table of rules, written as commands that can be repeated."""

    def __init__(self, table: str) -> None:
        self._table = f"inet {table}"
        self._chains: dict[str, str] = {}
        self._counters: dict[str, None] = {}
        self._sets: dict[str, tuple[str, list[str]]] = {}
        self._rules: list[str] = []

    def chain(self, name: str, hook: str = "") -> str:
        self._chains.setdefault(name, f" {{ {hook} }}" if hook else "")
        return name

    def counter(self, name: str) -> str:
        self._counters.setdefault(name)
        return name

    def ranges(self, name: str, kind: str, ranges: Iterable[Network]) -> str:
        """Add a set of ranges. Adjacent ranges are joined: nft refuses them as an overlap."""
        self._sets[name] = kind, [str(network) for network in ranges]
        return name

    def add(self, chain: str, rule: str) -> None:
        self._rules.append(f"add rule {self._table} {chain} {rule}")

    def text(self) -> str:
        lines = [f"add table {self._table}"]
        lines += [f"add counter {self._table} {name}" for name in self._counters]
        for name, (kind, elements) in self._sets.items():
            lines.append(f"add set {self._table} {name} {{ type {kind}; flags interval; }}")
            lines.append(f"flush set {self._table} {name}")
            if elements:
                lines.append(f"add element {self._table} {name} {{ {', '.join(elements)} }}")
        lines += [f"add chain {self._table} {name}{hook}" for name, hook in self._chains.items()]
        lines += [f"flush table {self._table}", *self._rules]
        text = "\n".join(lines) + "\n"
        return text.replace(_DIGEST, digest(text))


def _family(network: Network) -> tuple[int, str, str]:
    return _FAMILIES[0] if network.version == 4 else _FAMILIES[1]


def _add_set(rules: _Rules, name: str, ranges: Sequence[Network], like: Network | int) -> str:
    """Return the name of the set of those ranges that are of one family, and create it on first use."""
    version = like if isinstance(like, int) else like.version
    kind = _FAMILIES[0][2] if version == 4 else _FAMILIES[1][2]
    return rules.ranges(f"{name}{version}", kind, _join_ranges(ranges, version))


def _join_ranges(ranges: Iterable[Network], version: int) -> list[Network]:
    same = [network for network in ranges if network.version == version]
    return list(collapse_addresses(same))  # type: ignore[type-var]


def _add_cluster_rules(
    rules: _Rules, networks: Networks, clusters: Sequence[Cluster], ranges: Ranges, *, hub: bool
) -> None:
    """Add the rules for packets from and to these clusters; `ranges` returns a cluster's ranges on this host.

    On a hub a cluster never talks to itself, because it has direct routes: such a packet has a forged source
    address.
    """
    rules.chain("guard", "type filter hook prerouting priority mangle; policy accept;")
    for version, word, _ in _FAMILIES:
        _drop_spoofed(rules, networks, version, word)
    for version, word, _ in _FAMILIES:
        sources = [(network, f"from-{cluster.name}") for cluster in networks.clusters for network in ranges(cluster)]
        _add_dispatch(rules, f"{word} saddr", sources, version)
    rules.add("guard", f'ct state established,related accept comment "{MARK}{_DIGEST}"')
    for version, word, _ in _FAMILIES:
        targets = [(network, f"to-{cluster.name}") for cluster in clusters for network in ranges(cluster)]
        _add_dispatch(rules, f"{word} daddr", targets, version)
    for cluster in networks.clusters:
        _add_rules_from(
            rules, networks, cluster, [other for other in networks.clusters if hub or other is not cluster], ranges
        )
    for cluster in clusters:
        _add_rules_to(rules, networks, cluster, hub=hub)


def _drop_spoofed(rules: _Rules, networks: Networks, version: int, word: str) -> None:
    """Drop packets that did not arrive by the route back to their source: another host sent them.

    The check covers researchers, and clusters with gateways, because their routes are made together with these rules.
    """
    known = [*networks.researchers]
    known += [
        network for cluster in networks.clusters if cluster.gateways for network in (*cluster.nodes, *cluster.pods)
    ]
    if _join_ranges(known, version):
        counter = rules.counter(SPOOFED)
        name = _add_set(rules, "known", known, version)
        rules.add("guard", f"{word} saddr @{name} fib saddr . iif oif 0 counter name {counter} drop")


def _add_dispatch(rules: _Rules, field: str, targets: Sequence[tuple[Network, str]], version: int) -> None:
    """Add a rule that selects a chain by the range of an address."""
    elements = [
        f"{network} : goto {rules.chain(chain)}"
        for chain in dict.fromkeys(chain for _, chain in targets)
        for network in _join_ranges((network for network, its_chain in targets if its_chain == chain), version)
    ]
    if elements:
        rules.add("guard", f"{field} vmap {{ {', '.join(elements)} }}")


def _add_rules_from(
    rules: _Rules, networks: Networks, cluster: Cluster, others: Sequence[Cluster], ranges: Ranges
) -> None:
    chain = rules.chain(f"from-{cluster.name}")
    for other in others:
        counter = between(cluster.name, other.name)
        _count_or_drop(rules, chain, "daddr", f"cluster-{other.name}", ranges(other), counter, "drop")
    rules.add(chain, "ct state established,related accept")
    may_call = networks.hub is not None and networks.hub.clusters_may_call
    counter, verdict = between(cluster.name, "researchers"), "accept" if may_call else "drop"
    _count_or_drop(rules, chain, "daddr", "researchers", networks.researchers, counter, verdict)


def _add_rules_to(rules: _Rules, networks: Networks, cluster: Cluster, *, hub: bool) -> None:
    chain = rules.chain(f"to-{cluster.name}")
    counter = between("researchers", cluster.name)
    _count_or_drop(rules, chain, "saddr", "researchers", networks.researchers, counter, "accept")
    if hub:
        friends = [(host.name, host.addresses) for host in networks.nat_hosts if host.name == cluster.nat_host]
    else:
        friends = [("hub", networks.hub.addresses)] if networks.hub is not None else []
    for name, addresses in friends:
        own = [ip_network(address) for address in addresses]
        _count_or_drop(rules, chain, "saddr", f"host-{name}", own, between(name, cluster.name), "accept")
    rules.add(chain, f"counter name {rules.counter(between('strangers', cluster.name))} drop")


def _count_or_drop(
    rules: _Rules, chain: str, field: str, name: str, ranges: Sequence[Network], counter: str, verdict: str
) -> None:
    for version, word, _ in _FAMILIES:
        if _join_ranges(ranges, version):
            own = _add_set(rules, name, ranges, version)
            rules.add(chain, f"{word} {field} @{own} counter name {rules.counter(counter)} {verdict}")
