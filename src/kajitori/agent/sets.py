"""Counting by address: maps from the addresses of Pods to counters, however many Pods there are; and the node itself.

For Pods without an interface of their own on the node (ipvlan, macvlan) and for kernels without hooks there. Packets
pass here where the node forwards them: what a bridge passes from one of its Pods to another is seen only where
`net.bridge.bridge-nf-call-iptables` is on.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping

from kajitori.agent import nft
from kajitori.agent.nfnetlink import INET
from kajitori.agent.table import MAP_PREFIX, Table
from kajitori.core.address_classes import Classes
from kajitori.core.traffic import DIRECTIONS, HOST, Counter, CounterName, Direction, Kind, Pod

_FIELDS = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}
_PATHS = (
    ("forward", "", ("pods_out", "pods_in")),
    ("input", 'iif "lo" return', ("pods_out", "host_in")),
    ("output", 'oif "lo" return', ("pods_in", "host_out")),
)
"""Hook, what is left out there, and the chains that its packets pass."""


class SetsEngine:
    """One table of the family inet."""

    name = "sets"

    def __init__(self) -> None:
        self._table = Table(INET, "kajitori_addresses")
        self._counted: dict[str, str] = {}
        """UID of the Pod by address."""
        self._classes: Classes | None = None

    def takes(self, pod: Pod) -> bool:
        return bool(pod.addresses)

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        wanted = {address: uid for uid, pod in pods.items() for address in pod.addresses}
        damaged = self._classes is not None and self._table.is_damaged()
        if damaged or classes != self._classes:
            script = [*self._table.emptied(), *self._afresh(classes), *self._add(wanted, classes)]
        else:
            # An address that is another Pod's now changes hands at once.
            new = {address: uid for address, uid in wanted.items() if self._counted.get(address) != uid}
            gone = [address for address, uid in self._counted.items() if wanted.get(address) != uid]
            script = [*self._remove(gone, classes), *self._add(new, classes)]
        self._classes = None  # where this fails, all is made anew the next time
        self._table.change(script)
        self._counted, self._classes = wanted, classes
        return damaged

    def read(self) -> dict[str, Counter]:
        return self._table.read()

    def forget(self, names: Collection[str]) -> None:
        self._table.forget(names)

    def stop(self) -> bool:
        self._counted, self._classes = {}, None
        return self._table.stop()

    def uninstall(self) -> bool:
        self._counted, self._classes = {}, None
        return self._table.uninstall()

    def _afresh(self, classes: Classes) -> list[str]:
        """Statements that make everything but what belongs to single Pods."""
        where = self._table.where
        script = nft.class_sets(where, classes)
        for name in classes.names:
            for direction in DIRECTIONS:
                script.append(f"add counter {where} {CounterName(HOST, 0, Kind(name, direction))}")
                for version, (_, kind) in _FIELDS.items():
                    script.append(f"add map {where} {_map(name, direction, version)} {{ type {kind} : counter; }}")
        for direction in DIRECTIONS:
            own, other = ("saddr", "daddr") if direction == "out" else ("daddr", "saddr")
            pods, host = f"{where} pods_{direction}", f"{where} host_{direction}"
            script += [f"add chain {pods}", f"add chain {host}"]
            for name, version, match in nft.matches(classes, other):
                for each in (version,) if version else _FIELDS:
                    counter = f"counter name {_FIELDS[each][0]} {own} map @{_map(name, direction, each)}"
                    script.append(f"add rule {pods} {match if version else ''} {counter} return")
                counter = f"counter name {CounterName(HOST, 0, Kind(name, direction))}"
                script.append(f"add rule {host} {match} {counter} return")
        for hook, left_out, chains in _PATHS:
            chain = f"{where} {hook}"
            script.append(f"add chain {chain} {{ type filter hook {hook} priority mangle; }}")
            script += [f"add rule {chain} {left_out}"] if left_out else []
            script += [f"add rule {chain} jump {each}" for each in chains]
        return script

    def _add(self, wanted: Mapping[str, str], classes: Classes) -> list[str]:
        script = []
        for name, direction in _kinds(classes):
            elements: dict[int, list[str]] = {}
            for address, uid in wanted.items():
                counter = CounterName(uid, 0, Kind(name, direction))
                script.append(f"add counter {self._table.where} {counter}")
                elements.setdefault(_version(address), []).append(f'{address} : "{counter}"')
            script += self._elements("add", name, direction, elements)
        return script

    def _remove(self, addresses: Collection[str], classes: Classes) -> list[str]:
        script = []
        for name, direction in _kinds(classes):
            elements: dict[int, list[str]] = {}
            for address in addresses:
                elements.setdefault(_version(address), []).append(address)
            script += self._elements("delete", name, direction, elements)
        return script

    def _elements(self, verb: str, name: str, direction: Direction, elements: Mapping[int, list[str]]) -> list[str]:
        return [
            f"{verb} element {self._table.where} {_map(name, direction, version)} {{ {', '.join(each)} }}"
            for version, each in elements.items()
        ]


def _kinds(classes: Classes) -> list[tuple[str, Direction]]:
    return [(name, direction) for name in classes.names for direction in DIRECTIONS]


def _map(name: str, direction: Direction, version: int) -> str:
    return f"{MAP_PREFIX}{name}.{direction}.{version}"


def _version(address: str) -> int:
    return ipaddress.ip_address(address).version
