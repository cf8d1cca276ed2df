"""Who may reach a run and where it may go: what is asked for and what policy says of it, and the spec of the
NetworkPolicy that comes of both."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kajitori.core.policy.model import Policy
from kajitori.core.policy.traffic import TrafficPolicy
from kajitori.core.spec.network_access import EVERYWHERE, NAMESPACE, NetworkAccess, is_within, place_fault
from kajitori.core.traffic.address_classes import Network, collapsed, is_inside
from kajitori.errors import Fault

Manifest = dict[str, Any]

_NODE_LOCAL_DNS = "169.254.20.10/32"
"""Where NodeLocal DNSCache listens on every node."""
_DNS_PORTS = tuple({"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP"))
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_PARTS_OF_SERVICE = 3
"""NAME.NAMESPACE.svc, with or without the cluster's domain behind it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is allowed; None is everybody, and everywhere."""

    sources: tuple[str, ...] | None = None
    targets: tuple[str, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Nobody is kept out, and nothing in."""
        return self.sources is None and self.targets is None

    def __str__(self) -> str:
        parts = (
            ("reached from", self.sources, "reached by no others"),
            ("goes to", self.targets, "goes to no others"),
        )
        return ", ".join(
            f"{what} {' and '.join(places)} only" if places else none
            for what, places, none in parts
            if places is not None
        )


def reach_of(asked: NetworkAccess | None, policy: Policy) -> Reach:
    """What a run may that asks for this: what it leaves out policy's default says, or else its ceiling."""
    return _chosen(policy, asked or NetworkAccess(), policy.defaults.network, policy.ceilings.run.network)


def _chosen(policy: Policy, *uses: NetworkAccess) -> Reach:
    """What the first of them says that says anything."""
    always = policy.network.always
    sources = next((each.sources for each in uses if each.sources is not None), None)
    targets = next((each.targets for each in uses if each.targets is not None), None)
    return Reach(_restriction(sources, always.sources), _restriction(targets, always.targets))


def _restriction(places: Sequence[str] | None, always: Sequence[str] | None) -> tuple[str, ...] | None:
    if places is None or EVERYWHERE in places or EVERYWHERE in (always or ()):
        return None
    return tuple(dict.fromkeys(places))


def reach_faults(
    asked: NetworkAccess | None, policy: Policy, *, host_network: bool, first_step: bool
) -> Iterator[Fault]:
    """Everything that is against what a run asks for. first_step: its members begin by asking `start.server`."""
    asked, most = asked or NetworkAccess(), policy.ceilings.run.network
    yield from _faults_of(asked.sources, most.sources, policy, "spec.network.from", "be reached from")
    yield from _faults_of(asked.targets, most.targets, policy, "spec.network.to", "go to")
    if host_network and not _chosen(policy, asked, most).is_open:
        message = "members on the network of their node cannot be kept from anything there"
        yield Fault("spec.hostNetwork", message, "true", "leave hostNetwork out", "HostNetwork")
    if not policy.network.enforced and (asked.sources == [] or asked.targets == []):
        message = "nothing on this cluster keeps members apart: they could reach everything, and everybody them"
        hint = "leave --network none out, or run it on a cluster whose network plugin enforces NetworkPolicies"
        yield Fault("spec.network", message, "none", hint, "NotEnforced")
    targets = reach_of(asked, policy).targets
    if first_step and targets is not None and not policy.network.always.targets and not _server_is_known(policy):
        message = f"members begin by asking {policy.start.server}, whose addresses policy does not know"
        hint = "ask the operators of the cluster (network.always.to), or leave it open (all)"
        yield Fault("spec.network.to", message, ", ".join(targets), hint, "ServerOutOfReach")


def _faults_of(
    places: Sequence[str] | None, limit: Sequence[str] | None, policy: Policy, where: str, what: str
) -> Iterator[Fault]:
    for index, place in enumerate(places or ()):
        field = f"{where}[{index}]"
        message, hint = place_fault(place, policy.traffic.address_classes)
        if message:
            yield Fault(field, message, place, hint, "UnknownPlace")
        elif place == EVERYWHERE and len(places or ()) > 1:
            yield Fault(field, "beside all nothing else has a meaning", place, "leave all out, or the others")
        elif limit is not None and not is_within(place, limit, policy.traffic.address_classes, policy.class_of_pods):
            allowed = ", ".join(limit) or "nothing but the run itself"
            yield Fault(field, f"runs may not {what} {place}", place, f"allowed: {allowed}", "AboveCeiling")


def network_rules(reach: Reach, policy: Policy, *, first_step: bool) -> Manifest | None:
    """`policyTypes`, `ingress` and `egress` of the run's NetworkPolicy, but for the rules by which its own members
    reach each other; None where nothing is restricted."""
    if reach.is_open:
        return None
    always, rules = policy.network.always, dict[str, Any](policyTypes=[])
    if reach.sources is not None:
        rules["policyTypes"].append("Ingress")
        rules["ingress"] = _rules((*reach.sources, *(always.sources or ())), "from", policy)
    if reach.targets is not None:
        rules["policyTypes"].append("Egress")
        rules["egress"] = [*_rules((*reach.targets, *(always.targets or ())), "to", policy), *_resolvers(policy)]
        if first_step:
            rules["egress"] += _server(policy)
    return rules


def _rules(places: Sequence[str], peers: str, policy: Policy) -> list[Manifest]:
    """Rules of a NetworkPolicy that let these places through, and nothing else.

    No range overlaps another of its rule, and one with exceptions has a rule for itself: network plugins keep all
    ranges of a rule in one set. In kube-router's ipsets the exceptions of one range hold for all others, and its
    nftables sets refuse ranges that lie in each other.
    """
    pods: list[Manifest] = []
    if NAMESPACE in places:
        pods.append({"podSelector": {}})
    if policy.class_of_pods in places:
        pods.append({"namespaceSelector": {}})
    whole = [ipaddress.ip_network(place) for place in places if "/" in place]
    rules = [{peers: pods}] if pods else []
    for network, holes in _blocks(places, policy.traffic):
        if holes:
            rules.append({peers: [{"ipBlock": {"cidr": str(network), "except": [*map(str, holes)]}}]})
        else:
            whole.append(network)
    blocks = [{"ipBlock": {"cidr": str(each)}} for each in collapsed(whole)]
    return [*rules, {peers: blocks}] if blocks else rules


def _blocks(places: Sequence[str], traffic: TrafficPolicy) -> Iterator[tuple[Network, tuple[Network, ...]]]:
    """The addresses of classes as their ranges are written, each but for those inside it that are of classes which are
    not among the places."""
    written = [*traffic.classes.items(), (traffic.others, ("0.0.0.0/0", "::/0"))]
    ranges = [(ipaddress.ip_network(each), name) for name, networks in written for each in networks]
    for network, name in ranges:
        if name not in places:
            continue
        of_others = [each for each, other in ranges if other not in places and is_inside(each, network)]
        holes = collapsed(of_others)
        if network not in holes:
            yield network, holes


def _resolvers(policy: Policy) -> list[Manifest]:
    """Where names are resolved. Resolvers listen on ports of their own behind their Service, so none is named."""
    dns = policy.network.dns
    pods = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: dns.namespace}},
        "podSelector": {"matchLabels": dict(dns.labels)},
    }
    node_local = {"to": [{"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], "ports": [dict(each) for each in _DNS_PORTS]}
    return [{"to": [pods]}, node_local]


def _server(policy: Policy) -> list[Manifest]:
    """Where members ask in their first step: an address, or the Pods of its namespace where it is a Service."""
    url = urlsplit(policy.start.server or "")
    host, namespace = url.hostname or "", _namespace_of_service(url.hostname or "")
    if namespace:
        return [{"to": [{"namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: namespace}}}]}]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return []
    port = url.port or (443 if url.scheme == "https" else 80)
    block = {"cidr": f"{address}/{address.max_prefixlen}"}
    return [{"to": [{"ipBlock": block}], "ports": [{"port": port, "protocol": "TCP"}]}]


def _server_is_known(policy: Policy) -> bool:
    return urlsplit(policy.start.server or "").hostname == "localhost" or bool(_server(policy))


def _namespace_of_service(host: str) -> str:
    parts = host.split(".")
    return parts[1] if len(parts) >= _PARTS_OF_SERVICE and parts[2] == "svc" else ""
