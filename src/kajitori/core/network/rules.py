"""nftables rules of a hub and of NAT hosts: who reaches which cluster, and that clusters do not reach each other.

All of it stands in one table of our own, which is filled anew in one transaction; counters go on. Packets are judged as
they come in, before any translation and whether or not there is a route for them, so that nothing is refused uncounted:

1. What claims to come from where it cannot come from is dropped (`spoofed`).
2. From a cluster: to another cluster never, not even as an answer (`alpha-to-beta`); on the hub not to itself, either
   (`alpha-to-alpha`). To researchers: answers, and what clustersMayCall allows (else `alpha-to-researchers`). Anywhere
   else is none of our business.
3. To a cluster: from researchers (counted as `researchers-to-alpha`), from the hub and the NAT host that translates for
   it (`nat-to-alpha`), answers; else dropped (`strangers-to-alpha`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from ipaddress import collapse_addresses, ip_network

from kajitori.core.network.registry_model import Cluster, Network, Networks

HUB_TABLE = "kajitori_hub"
NAT_TABLE = "kajitori_nat"

SPOOFED = "spoofed"

MARK = "kajitori "
"""Begins the comment of a rule of ours that tells which rules are in force: their digest follows."""

_FAMILIES = ((4, "ip", "ipv4_addr"), (6, "ip6", "ipv6_addr"))

Ranges = Callable[[Cluster], Sequence[Network]]


def between(source: str, target: str) -> str:
    """Name of the counter of what goes from the one to the other."""
    return f"{source}-to-{target}"


def hub_rules(networks: Networks) -> str:
    """What `nft -f` takes on the hub."""
    rules = _Rules(HUB_TABLE)
    _guard(rules, networks, networks.clusters, lambda cluster: cluster.own_ranges, hub=True)
    return rules.text()


def nat_rules(networks: Networks, name: str) -> str:
    """What `nft -f` takes on the NAT host of that name.

    Clusters that it translates for are kept from all others, from their Services as they use them, too. Services of the
    other clusters are not: several clusters may use the same addresses for theirs.
    """
    rules = _Rules(NAT_TABLE)
    host = next(each for each in networks.nat_hosts if each.name == name)
    mine = [cluster for cluster in networks.clusters if cluster.nat_host == name]
    rules.chain("translate", "type nat hook prerouting priority dstnat; policy accept;")
    rules.chain("hide", "type nat hook postrouting priority srcnat; policy accept;")

    def ranges(cluster: Cluster) -> Sequence[Network]:
        return (*cluster.own_ranges, *cluster.services) if cluster in mine else cluster.own_ranges

    _guard(rules, networks, mine, ranges, hub=False)
    for cluster in mine:
        counter = rules.counter(f"translated-{cluster.name}")
        for outside, inside in cluster.translations:
            _, word, _ = _family(outside)
            to = f"{word} daddr {outside} counter name {counter} dnat {word} prefix to {inside}"
            rules.add("translate", f"{word} saddr @{_set(rules, 'researchers', networks.researchers, outside)} {to}")
            address = next(each for each in host.addresses if each.version == outside.version)
            if not host.keep_source:
                rules.add("hide", f"ct original {word} daddr {outside} snat {word} to {address}")
    return rules.text()


def digest(rules: str) -> str:
    """Short text by which rules are recognized where they are in force."""
    return sha256(re.sub(f'(?<="{MARK})[^"]*', _DIGEST, rules).encode()).hexdigest()[:12]


_DIGEST = "DIGEST"
"""Stands for the digest in the text that it is made of."""


class _Rules:
    """A table, as commands that leave it the same however often they are given."""

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
        """A set of ranges. Adjacent ones are joined: nft refuses what it takes for an overlap."""
        self._sets[name] = kind, [str(each) for each in ranges]
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


def _set(rules: _Rules, name: str, ranges: Sequence[Network], like: Network | int) -> str:
    """The set of those ranges that are of one family; made when it is first asked for."""
    version = like if isinstance(like, int) else like.version
    kind = _FAMILIES[0][2] if version == 4 else _FAMILIES[1][2]
    return rules.ranges(f"{name}{version}", kind, _joined(ranges, version))


def _joined(ranges: Iterable[Network], version: int) -> list[Network]:
    same = [each for each in ranges if each.version == version]
    return list(collapse_addresses(same))  # type: ignore[type-var]


def _guard(rules: _Rules, networks: Networks, clusters: Sequence[Cluster], ranges: Ranges, *, hub: bool) -> None:
    """Judges what comes from or goes to these clusters; `ranges` are those that mean a cluster here. On a hub a cluster
    has no business with itself: it has ways of its own, so that it is somebody else with a borrowed address."""
    rules.chain("guard", "type filter hook prerouting priority mangle; policy accept;")
    for version, word, _ in _FAMILIES:
        _spoofing(rules, networks, version, word)
    for version, word, _ in _FAMILIES:
        sources = [(each, f"from-{cluster.name}") for cluster in networks.clusters for each in ranges(cluster)]
        _dispatch(rules, f"{word} saddr", sources, version)
    rules.add("guard", f'ct state established,related accept comment "{MARK}{_DIGEST}"')
    for version, word, _ in _FAMILIES:
        targets = [(each, f"to-{cluster.name}") for cluster in clusters for each in ranges(cluster)]
        _dispatch(rules, f"{word} daddr", targets, version)
    for cluster in networks.clusters:
        _from(rules, networks, cluster, [each for each in networks.clusters if hub or each is not cluster], ranges)
    for cluster in clusters:
        _to(rules, networks, cluster, hub=hub)


def _spoofing(rules: _Rules, networks: Networks, version: int, word: str) -> None:
    """Where the way back to a source is not the one that the packet came by, somebody else sent it. Known are the ways
    to clusters with gateways, since their routes are made together with these rules, and to researchers."""
    known = [*networks.researchers]
    known += [each for cluster in networks.clusters if cluster.gateways for each in (*cluster.nodes, *cluster.pods)]
    if _joined(known, version):
        counter = rules.counter(SPOOFED)
        name = _set(rules, "known", known, version)
        rules.add("guard", f"{word} saddr @{name} fib saddr . iif oif 0 counter name {counter} drop")


def _dispatch(rules: _Rules, field: str, targets: Sequence[tuple[Network, str]], version: int) -> None:
    """To a chain by the range that an address lies in."""
    elements = [
        f"{network} : goto {rules.chain(chain)}"
        for chain in dict.fromkeys(chain for _, chain in targets)
        for network in _joined((each for each, its in targets if its == chain), version)
    ]
    if elements:
        rules.add("guard", f"{field} vmap {{ {', '.join(elements)} }}")


def _from(rules: _Rules, networks: Networks, cluster: Cluster, others: Sequence[Cluster], ranges: Ranges) -> None:
    chain = rules.chain(f"from-{cluster.name}")
    for other in others:
        counter = between(cluster.name, other.name)
        _count_or_drop(rules, chain, "daddr", f"cluster-{other.name}", ranges(other), counter, "drop")
    rules.add(chain, "ct state established,related accept")
    may_call = networks.hub is not None and networks.hub.clusters_may_call
    counter, verdict = between(cluster.name, "researchers"), "accept" if may_call else "drop"
    _count_or_drop(rules, chain, "daddr", "researchers", networks.researchers, counter, verdict)


def _to(rules: _Rules, networks: Networks, cluster: Cluster, *, hub: bool) -> None:
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
        if _joined(ranges, version):
            own = _set(rules, name, ranges, version)
            rules.add(chain, f"{word} {field} @{own} counter name {rules.counter(counter)} {verdict}")
