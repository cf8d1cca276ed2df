"""Counting by address: maps from Pods' addresses to counters, at a cost independent of the number of Pods.

It also counts the node itself, and tells apart Pods on the node's own network by the control groups of their sockets,
if the kernel can. It serves Pods without an interface of their own on the node (ipvlan, macvlan) and kernels without
hooks at interfaces. It sees packets that the node forwards; packets from one Pod to another on the same bridge only if
`net.bridge.bridge-nf-call-iptables` is on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kajitori.agent.engines import cgroups, nft
from kajitori.agent.engines.cgroups import Group
from kajitori.agent.engines.nfnetlink import INET
from kajitori.agent.engines.table import MAP_PREFIX
from kajitori.agent.engines.table_engine import TableEngine
from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import DIRECTIONS, HOST, CounterName, Direction, Kind, Pod

_FIELDS = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}
_OWN: dict[Direction, str] = {"out": "saddr", "in": "daddr"}
"""The packet's field with the Pod's own address."""
_OTHER: dict[Direction, str] = {"out": "daddr", "in": "saddr"}
"""The packet's field with the address that decides the traffic's class."""
_HOOKS: dict[str, tuple[Direction, ...]] = {"forward": ("out", "in"), "input": ("out",), "output": ("in",)}
"""Directions of Pods' packets at each hook: input has those that Pods send to the node."""
_HOST_HOOKS: dict[str, tuple[str, Direction]] = {"input": ('iif != "lo"', "in"), "output": ('oif != "lo"', "out")}
"""Match and direction of the packets of the node's own programs at each hook."""
_MIN_ROOM = 256
"""Smallest capacity of a map, in addresses."""


class _Wanted(NamedTuple):
    addresses: Mapping[str, str]
    """UID of the Pod by address."""
    groups: Mapping[Group, str]
    """UID of the Pod by control group."""

    @property
    def levels(self) -> set[int]:
        """Depths of these groups."""
        return {group.level for group in self.groups}


class SetsEngine(TableEngine[_Wanted]):
    """One table of the family inet."""

    name = "sets"

    def __init__(self) -> None:
        super().__init__(INET, "kajitori_addresses", _Wanted({}, {}))
        self._room = 0
        """Capacity of each map in addresses; the kernel looks up faster if it knows the size in advance."""

    def takes(self, pod: Pod) -> bool:
        return bool(pod.addresses) or (bool(pod.cgroups) and cgroups.are_supported())

    def _wanted_counters(self, pods: Mapping[str, Pod]) -> _Wanted:
        addresses = {address: uid for uid, pod in pods.items() for address in pod.addresses}
        groups = {
            group: uid
            for uid, pod in pods.items()
            for path in pod.cgroups
            if (group := cgroups.find_group(path)) is not None
        }
        return _Wanted(addresses, groups)

    def _has_room_for(self, wanted: _Wanted) -> bool:
        # A deleted control group has no name any more by which it could be removed from a map.
        goes_on = self._counted.groups.items() <= wanted.groups.items() and wanted.levels == self._counted.levels
        return goes_on and len(wanted.addresses) <= self._room

    def _create(self, wanted: _Wanted, classes: Classes) -> list[str]:
        self._room = max(_MIN_ROOM, 2 * len(wanted.addresses))
        script = [*self._rule_statements(classes, wanted.levels), *self._add(wanted.addresses, classes)]
        return script + self._add_groups(wanted.groups, classes)

    def _changes(self, wanted: _Wanted, classes: Classes) -> list[str]:
        before, after = self._counted.addresses, wanted.addresses
        # An address that now belongs to another Pod changes owner in the same transaction.
        new = {address: uid for address, uid in after.items() if before.get(address) != uid}
        gone = [address for address, uid in before.items() if after.get(address) != uid]
        groups = {group: uid for group, uid in wanted.groups.items() if group not in self._counted.groups}
        return [*self._remove(gone, classes), *self._add(new, classes), *self._add_groups(groups, classes)]

    def _rule_statements(self, classes: Classes, levels: Collection[int]) -> list[str]:
        """Return statements that create everything except the elements of single Pods."""
        return [
            *nft.class_sets(self._table.where, classes, self._revision),
            *self._address_rules(classes),
            *self._host_rules(classes),
            *(line for level in levels for line in self._group_rules(classes, level)),
            *self._hook_rules(levels),
        ]

    def _address_rules(self, classes: Classes) -> list[str]:
        """Return the maps from Pods' addresses to counters, and the chains that look addresses up in them."""
        where = self._table.where
        script = []
        for name, direction in _classes_with_directions(classes):
            for version, (_, kind) in _FIELDS.items():
                holds = f"{{ type {kind} : counter; size {self._room}; }}"
                script.append(f"add map {where} {self._counter_map(name, direction, version)} {holds}")
        for version, (protocol, kind) in _FIELDS.items():
            script.append(f"add set {where} {self._address_set(version)} {{ type {kind}; size {self._room}; }}")
            for direction in DIRECTIONS:
                chain = f"{where} {_pod_chain(direction, version)}"
                script.append(f"add chain {chain}")
                for name, of, match in nft.matches(classes, _OTHER[direction], self._revision):
                    counter = (
                        f"counter name {protocol} {_OWN[direction]} map @{self._counter_map(name, direction, version)}"
                    )
                    if of == version:
                        script.append(f"add rule {chain} {match} {counter} return")
        return script

    def _host_rules(self, classes: Classes) -> list[str]:
        """Return the counters and chains for the node's own programs."""
        where = self._table.where
        script = [
            f"add counter {where} {CounterName(HOST, 0, Kind(*kind))}" for kind in _classes_with_directions(classes)
        ]
        for direction in DIRECTIONS:
            chain = f"{where} host_{direction}"
            script.append(f"add chain {chain}")
            for name, _, match in nft.matches(classes, _OTHER[direction], self._revision):
                host = CounterName(HOST, 0, Kind(name, direction))
                script.append(f"add rule {chain} {match} counter name {host} return")
        return script

    def _group_rules(self, classes: Classes, level: int) -> list[str]:
        """Return the maps and chains for Pods on the node's own network with control groups at this depth."""
        where = self._table.where
        script = [f"add set {where} {self._group_set(level)} {{ type cgroupsv2; }}"]
        for direction in DIRECTIONS:
            chain = f"{where} {_group_chain(direction, level)}"
            script.append(f"add chain {chain}")
            maps = [self._group_map(name, direction, level) for name in classes.names]
            script += [f"add map {where} {group_map} {{ type cgroupsv2 : counter; }}" for group_map in maps]
            for name, _, match in nft.matches(classes, _OTHER[direction], self._revision):
                counter = f"counter name socket cgroupv2 level {level} map @{self._group_map(name, direction, level)}"
                script.append(f"add rule {chain} {match} {counter} return")
        return script

    def _hook_rules(self, levels: Collection[int]) -> list[str]:
        """Return the chains at the kernel's hooks, which send each packet to the chain that counts it."""
        where = self._table.where
        script = []
        for hook, directions in _HOOKS.items():
            chain = f"{where} {hook}"
            script.append(f"add chain {chain} {{ type filter hook {hook} priority mangle; }}")
            for direction in directions:
                for version, (protocol, _) in _FIELDS.items():
                    is_ours = f"{protocol} {_OWN[direction]} @{self._address_set(version)}"
                    script.append(f"add rule {chain} {is_ours} jump {_pod_chain(direction, version)}")
            if hook in _HOST_HOOKS:
                match, direction = _HOST_HOOKS[hook]
                for level in levels:  # goto: a Pod's packet must not be counted for the node as well
                    is_pod = f"socket cgroupv2 level {level} @{self._group_set(level)}"
                    script.append(f"add rule {chain} {match} {is_pod} goto {_group_chain(direction, level)}")
                script.append(f"add rule {chain} {match} jump host_{direction}")
        return script

    def _add(self, wanted: Mapping[str, str], classes: Classes) -> list[str]:
        script = [
            f"add element {self._table.where} {self._address_set(version)} {{ {', '.join(addresses)} }}"
            for version, addresses in _by_version(wanted)
        ]
        for name, direction in _classes_with_directions(classes):
            counters = {address: CounterName(uid, 0, Kind(name, direction)) for address, uid in wanted.items()}
            script += [f"add counter {self._table.where} {counter}" for counter in counters.values()]
            for version, addresses in _by_version(wanted):
                elements = ", ".join(f'{address} : "{counters[address]}"' for address in addresses)
                script.append(
                    f"add element {self._table.where} {self._counter_map(name, direction, version)} {{ {elements} }}"
                )
        return script

    def _add_groups(self, groups: Mapping[Group, str], classes: Classes) -> list[str]:
        where = self._table.where
        script = []
        for group, uid in groups.items():
            script.append(f'add element {where} {self._group_set(group.level)} {{ "{group.name}" }}')
            for name, direction in _classes_with_directions(classes):
                counter = CounterName(uid, 0, Kind(name, direction))
                script.append(f"add counter {where} {counter}")
                group_map = self._group_map(name, direction, group.level)
                script.append(f'add element {where} {group_map} {{ "{group.name}" : "{counter}" }}')
        return script

    def _remove(self, gone: Collection[str], classes: Classes) -> list[str]:
        script = []
        for version, addresses in _by_version(gone):
            maps = [
                self._counter_map(name, direction, version) for name, direction in _classes_with_directions(classes)
            ]
            elements = ", ".join(addresses)
            script += [
                f"delete element {self._table.where} {name} {{ {elements} }}"
                for name in (self._address_set(version), *maps)
            ]
        return script

    def _address_set(self, version: int) -> str:
        """Return the name of the set of all Pods' addresses: one lookup decides that a packet is not a Pod's."""
        return f"own.{version}.{self._revision}"

    def _counter_map(self, name: str, direction: Direction, version: int) -> str:
        return f"{MAP_PREFIX}{name}.{direction}.{version}.{self._revision}"

    def _group_set(self, level: int) -> str:
        """Return the name of the set of groups at this depth, of Pods on the node's own network."""
        return f"groups.{level}.{self._revision}"

    def _group_map(self, name: str, direction: Direction, level: int) -> str:
        return f"{MAP_PREFIX}group.{name}.{direction}.{level}.{self._revision}"


def _classes_with_directions(classes: Classes) -> list[tuple[str, Direction]]:
    return [(name, direction) for name in classes.names for direction in DIRECTIONS]


def _group_chain(direction: Direction, level: int) -> str:
    return f"groups_{direction}.{level}"


def _pod_chain(direction: Direction, version: int) -> str:
    return f"pods_{direction}.{version}"


def _by_version(addresses: Collection[str]) -> list[tuple[int, list[str]]]:
    """Return addresses by IP version, for the versions that have any."""
    found = {version: [a for a in addresses if (":" in a) == (version == 6)] for version in _FIELDS}
    return [(version, found_addresses) for version, found_addresses in found.items() if found_addresses]
