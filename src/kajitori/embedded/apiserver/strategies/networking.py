"""NetworkPolicy. Nothing here enforces one: that is a network plugin's."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, not_supported, required, shown
from kajitori.embedded.apiserver.kinds import Object, Strategy
from kajitori.embedded.apiserver.strategies.selectors import label_selector

_DIRECTIONS = (("ingress", "from"), ("egress", "to"))
_POLICY_TYPES = ("Ingress", "Egress")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

Spec = dict[str, Any]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NetworkPolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for _, rule, _ in _rules(spec):
            for port in rule.get("ports") or []:
                port.setdefault("protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = label_selector(spec["podSelector"], "spec.podSelector")
        for where, rule, peers in _rules(spec):
            for index, port in enumerate(rule.get("ports") or []):
                causes += _port(port, f"{where}.ports[{index}]")
            for index, peer in enumerate(rule.get(peers) or []):
                causes += _peer(peer, f"{where}.{peers}[{index}]")
        chosen = spec["policyTypes"]
        if len(chosen) > len(_POLICY_TYPES):
            return [*causes, invalid("spec.policyTypes", chosen, "may not specify more than two policyTypes")]
        return causes + [
            not_supported(f"spec.policyTypes[{index}]", one, _POLICY_TYPES)
            for index, one in enumerate(chosen)
            if one not in _POLICY_TYPES
        ]

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return [
            f"{where}: IPv6 CIDR value {shown(text)} should be in RFC 5952 canonical format ({shown(str(network))})"
            for where, text in _cidrs(new["spec"])
            if (network := _parsed(text)) is not None and network.version == 6 and str(network) != text
        ]


def _rules(spec: Spec) -> Iterator[tuple[str, Spec, str]]:
    """Every rule, where it stands, and what it calls those at the other end."""
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or []):
            yield f"spec.{direction}[{index}]", rule, peers


def _cidrs(spec: Spec) -> Iterator[tuple[str, str]]:
    for where, rule, peers in _rules(spec):
        for index, peer in enumerate(rule.get(peers) or []):
            block, field = peer.get("ipBlock") or {}, f"{where}.{peers}[{index}].ipBlock"
            if "cidr" in block:
                yield f"{field}.cidr", block["cidr"]
            yield from ((f"{field}.except[{place}]", one) for place, one in enumerate(block.get("except") or []))


def _port(port: Spec, where: str) -> list[Cause]:
    causes: list[Cause] = []
    if port["protocol"] not in _PROTOCOLS:
        causes.append(not_supported(f"{where}.protocol", port["protocol"], _PROTOCOLS))
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        causes += [invalid(f"{where}.port", first, fault) for fault in texts.port_number(first)]
        if last is not None and last < first:
            causes.append(invalid(f"{where}.endPort", first, "must be greater than or equal to `port`"))
        if last is not None:
            causes += [invalid(f"{where}.endPort", last, fault) for fault in texts.port_number(last)]
        return causes
    if last is not None:
        why = "specified" if first is None else "numeric"
        said = f"may not be specified when `port` is {'not ' if first is None else 'non-'}{why}"
        causes.append(invalid(f"{where}.endPort", last, said))
    if first is not None:
        causes += [invalid(f"{where}.port", first, fault) for fault in texts.port_name(first)]
    return causes


def _peer(peer: Spec, where: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("podSelector", "namespaceSelector"):
        if peer.get(name) is not None:
            causes += label_selector(peer[name], f"{where}.{name}")
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        causes.append(required(where, "must specify a peer"))
    elif "ipBlock" in given:
        causes += _block(peer["ipBlock"], f"{where}.ipBlock")
        if len(given) > 1:
            causes.append(forbidden(where, "may not specify both ipBlock and another peer"))
    return causes


def _block(block: Spec, where: str) -> list[Cause]:
    whole = block.get("cidr", "")
    if not whole:
        return [required(f"{where}.cidr")]
    causes = _cidr(whole, f"{where}.cidr")
    outer = _parsed(whole)
    if outer is None:
        return causes
    for index, text in enumerate(block.get("except") or []):
        field = f"{where}.except[{index}]"
        causes += _cidr(text, field)
        inner = _parsed(text)
        if inner is not None and (inner == outer or inner.version != outer.version or not inner.subnet_of(outer)):  # type: ignore[arg-type]
            causes.append(invalid(field, text, "must be a strict subset of `cidr`"))
    return causes


def _cidr(text: str, field: str) -> list[Cause]:
    network = _parsed(text)
    if network is None:
        return [invalid(field, text, _NO_CIDR)]
    try:
        address = ipaddress.ip_interface(text).ip
    except ValueError:
        return [invalid(field, text, "must not have leading 0s in IP or prefix length")]
    if text.rpartition("/")[2] != str(network.prefixlen):
        return [invalid(field, text, "must not have leading 0s in IP or prefix length")]
    causes: list[Cause] = []
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        causes.append(invalid(field, text, "must not have an IPv4-mapped IPv6 address"))
    if address != network.network_address:
        causes.append(invalid(field, text, "must not have bits set beyond the prefix length"))
    return causes


def _parsed(text: str) -> Network | None:
    """A range as Go's parsers of old read it: zeros in front are passed over."""
    address, slash, prefix = text.partition("/")
    if not slash or not prefix.isascii() or not prefix.isdigit():
        return None
    if ":" not in address:
        address = ".".join(part.lstrip("0") or part[:1] for part in address.split("."))
    try:
        return ipaddress.ip_network(f"{address}/{int(prefix)}", strict=False)
    except ValueError:
        return None
