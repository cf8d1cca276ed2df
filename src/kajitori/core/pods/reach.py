"""Network access of a run's Pods: what the run asks for, what the policy allows, and the resulting NetworkPolicy."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kajitori.core.policy.model import Policy
from kajitori.core.policy.network.traffic import TrafficPolicy
from kajitori.core.spec.network_access import EVERYWHERE, NAMESPACE, NetworkAccess, is_within, place_fault
from kajitori.core.traffic.address_classes import Network, collapsed, is_inside
from kajitori.errors import Fault

Manifest = dict[str, Any]

_NODE_LOCAL_DNS = "169.254.20.10/32"
"""Address of NodeLocal DNSCache on every node."""
_DNS_PORTS = tuple({"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP"))
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_PARTS_OF_SERVICE = 3
"""Parts of NAME.NAMESPACE.svc, which the cluster's domain may follow."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Allowed sources and targets of connections; None for no restriction."""

    sources: tuple[str, ...] | None = None
    targets: tuple[str, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Whether neither direction is restricted."""
        return self.sources is None and self.targets is None

    @property
    def is_closed(self) -> bool:
        """Whether no connection is allowed in either direction."""
        return self.sources == () and self.targets == ()

    def __str__(self) -> str:
        parts = (
            ("accepts connections only from", self.sources, "accepts no connections"),
            ("connects only to", self.targets, "connects to no other addresses"),
        )
        return ", ".join(
            f"{what} {' and '.join(places)}" if places else none for what, places, none in parts if places is not None
        )


def reach_of(asked: NetworkAccess | None, policy: Policy, *, internal: bool = False) -> Reach:
    """Return the network access of a run. A direction that the run leaves out gets the policy's default, or else its
    ceiling. internal: whether the run is in networks, all of them internal; such a direction is limited to Pods of the
    run's namespace."""
    asked, of_policy = asked or NetworkAccess(), (policy.defaults.network, policy.ceilings.run.network)
    return _first_that_sets(policy, asked, *((_within_namespace(policy, *of_policy),) if internal else of_policy))


def _within_namespace(policy: Policy, *accesses: NetworkAccess) -> NetworkAccess:
    """Return the part of these accesses that concerns Pods of the run's namespace."""

    def limited(places: list[str] | None) -> list[str]:
        classes, pods = policy.traffic.address_classes, policy.class_of_pods
        return [NAMESPACE] if places is None or is_within(NAMESPACE, places, classes, pods) else []

    sources, targets = _first_given(*accesses)
    return NetworkAccess.model_construct(sources=limited(sources), targets=limited(targets))


def _first_given(*accesses: NetworkAccess) -> tuple[list[str] | None, list[str] | None]:
    """Return, for each direction, what the first of these that sets it says."""
    sources = next((access.sources for access in accesses if access.sources is not None), None)
    targets = next((access.targets for access in accesses if access.targets is not None), None)
    return sources, targets


def _first_that_sets(policy: Policy, *accesses: NetworkAccess) -> Reach:
    always, (sources, targets) = policy.network.always, _first_given(*accesses)
    return Reach(_restriction(sources, always.sources), _restriction(targets, always.targets))


def _restriction(places: Sequence[str] | None, always: Sequence[str] | None) -> tuple[str, ...] | None:
    if places is None or EVERYWHERE in places or EVERYWHERE in (always or ()):
        return None
    return tuple(dict.fromkeys(places))


def is_isolated(reach: Reach, policy: Policy, *, alone: bool) -> bool:
    """Whether members of a run without any network access are isolated. `alone`: whether none has to reach another."""
    return reach.is_closed and (policy.network.enforced or (policy.network.isolates_alone and alone))


def reach_faults(
    asked: NetworkAccess | None,
    policy: Policy,
    *,
    host_network: bool,
    first_step: bool,
    alone: bool,
    internal: bool = False,
) -> Iterator[Fault]:
    """Yield every reason to refuse the network access of a run. first_step: whether its members first call
    `start.server`. alone: whether none of them has to reach another. internal: as for `reach_of`."""
    asked, most = asked or NetworkAccess(), policy.ceilings.run.network
    yield from _faults_of(asked.sources, most.sources, policy, "spec.network.from", "accept connections from")
    yield from _faults_of(asked.targets, most.targets, policy, "spec.network.to", "connect to")
    if host_network and not _first_that_sets(policy, asked, most).is_open:
        message = "the network access of members that use the network of their node cannot be restricted"
        yield Fault("spec.hostNetwork", message, "true", "leave hostNetwork out", "HostNetwork")
    is_closed = asked.sources == [] or asked.targets == []
    if is_closed and not (policy.network.enforced or is_isolated(reach_of(asked, policy), policy, alone=alone)):
        message = "this cluster cannot isolate members: it has no network plugin that enforces NetworkPolicies"
        hint = "leave --network none out, or use a cluster whose network plugin enforces NetworkPolicies"
        if policy.network.isolates_alone:
            hint = "ask for one member and --network none, which the nodes isolate by themselves, or leave it out"
        yield Fault("spec.network", message, "none", hint, "NotEnforced")
    targets = reach_of(asked, policy, internal=internal).targets
    if first_step and targets is not None and not policy.network.always.targets and not _server_is_known(policy):
        message = f"members first call {policy.start.server}, whose addresses the policy does not list"
        hint = f"{policy.ask} (network.always.to has to list them); or allow all targets (all)"
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
            message = "all already includes the other places"
            yield Fault(field, message, place, "leave out all, or the other places")
        elif limit is not None and not is_within(place, limit, policy.traffic.address_classes, policy.class_of_pods):
            allowed = ", ".join(limit) or "nothing but the run's own members"
            message = f"the policy does not allow runs to {what} {place}"
            yield Fault(field, message, place, f"allowed: {allowed}", "AboveCeiling")


def network_rules(reach: Reach, policy: Policy, *, first_step: bool) -> Manifest | None:
    """Return `policyTypes`, `ingress` and `egress` of the run's NetworkPolicy, without the rules that let its members
    reach each other; None if nothing is restricted."""
    if reach.is_open:
        return None
    always, rules = policy.network.always, dict[str, Any](policyTypes=[])
    if reach.sources is not None:
        rules["policyTypes"].append("Ingress")
        rules["ingress"] = _rules((*reach.sources, *(always.sources or ())), "from", policy)
    if reach.targets is not None:
        rules["policyTypes"].append("Egress")
        rules["egress"] = [*_rules((*reach.targets, *(always.targets or ())), "to", policy), *_rules_for_dns(policy)]
        if first_step:
            rules["egress"] += _rules_for_server(policy)
    return rules


def _rules(places: Sequence[str], peers: str, policy: Policy) -> list[Manifest]:
    """Return rules of a NetworkPolicy that allow these places and nothing else.

    The ranges of a rule do not overlap, and a range with exceptions has its own rule, because network plugins keep all
    ranges of a rule in one set. In kube-router's ipsets, the exceptions of one range apply to all others, and its
    nftables sets refuse overlapping ranges.
    """
    pods: list[Manifest] = []
    if NAMESPACE in places:
        pods.append({"podSelector": {}})
    if policy.class_of_pods in places:
        pods.append({"namespaceSelector": {}})
    whole = [ipaddress.ip_network(place) for place in places if "/" in place]
    rules = [{peers: pods}] if pods else []
    for network, holes in _ranges_with_exceptions(places, policy.traffic):
        if holes:
            rules.append({peers: [{"ipBlock": {"cidr": str(network), "except": [*map(str, holes)]}}]})
        else:
            whole.append(network)
    blocks = [{"ipBlock": {"cidr": str(network)}} for network in collapsed(whole)]
    return [*rules, {peers: blocks}] if blocks else rules


def _ranges_with_exceptions(
    places: Sequence[str], traffic: TrafficPolicy
) -> Iterator[tuple[Network, tuple[Network, ...]]]:
    """Yield the ranges of those classes that are among the places. Each comes with its exceptions: the ranges inside it
    that belong to classes which are not among the places."""
    written = [*traffic.classes.items(), (traffic.others, ("0.0.0.0/0", "::/0"))]
    ranges = [(ipaddress.ip_network(network), name) for name, networks in written for network in networks]
    for network, name in ranges:
        if name not in places:
            continue
        of_others = [range_ for range_, other in ranges if other not in places and is_inside(range_, network)]
        holes = collapsed(of_others)
        if network not in holes:
            yield network, holes


def _rules_for_dns(policy: Policy) -> list[Manifest]:
    """Return rules that allow DNS. The resolvers' Pods may listen on other ports than their Service, so the rule for
    them names no port."""
    dns = policy.network.dns
    pods = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: dns.namespace}},
        "podSelector": {"matchLabels": dict(dns.labels)},
    }
    node_local = {"to": [{"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], "ports": [dict(port) for port in _DNS_PORTS]}
    return [{"to": [pods]}, node_local]


def _rules_for_server(policy: Policy) -> list[Manifest]:
    """Return rules that allow the server of the first step: its address, or, if it is a Service, the Pods of its
    namespace."""
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
    return urlsplit(policy.start.server or "").hostname == "localhost" or bool(_rules_for_server(policy))


def _namespace_of_service(host: str) -> str:
    parts = host.split(".")
    return parts[1] if len(parts) >= _PARTS_OF_SERVICE and parts[2] == "svc" else ""
