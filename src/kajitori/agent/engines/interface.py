"""Counting at a Pod's own interface: netdev hooks at the node's end of its veth pair.

The cost depends neither on the number of Pods nor on their addresses, because a packet passes only the rules of its own
interface. Chains are bound to an interface's name, and newer kernels (6.16) bind them again to the next interface with
that name; so each chain first checks the interface's index, which is unique.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from kajitori.agent.engines import nft
from kajitori.agent.engines.nfnetlink import NETDEV
from kajitori.agent.engines.table_engine import TableEngine
from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import DIRECTIONS, Counter, CounterName, Direction, Kind, Pod

_ETHERNET_BYTES = 14
"""The link header, which is counted only for packets to the Pod."""


class _Interface(NamedTuple):
    """An interface of the node that leads to a Pod."""

    name: str
    ifindex: int
    """The kernel's number of the interface, which is not used again; 0 if the interface does not exist."""


InterfaceByPod = Mapping[str, _Interface]
"""By UID of the Pod."""


class InterfaceEngine(TableEngine[InterfaceByPod]):
    """One table of the family netdev, with two chains for each Pod."""

    name = "interface"

    def __init__(self) -> None:
        super().__init__(NETDEV, "kajitori_traffic", {})

    def takes(self, pod: Pod) -> bool:
        return bool(pod.interface)

    def read(self) -> dict[str, Counter]:
        return self._table.read(".in", _ETHERNET_BYTES)

    def _wanted_counters(self, pods: Mapping[str, Pod]) -> InterfaceByPod:
        found = {uid: self._find(uid, pod.interface) for uid, pod in pods.items()}
        # By index, because no two Pods share an interface.
        by_index = {interface.ifindex: (uid, interface) for uid, interface in found.items() if interface.ifindex}
        self.missing = len(pods) - len(by_index)
        return dict(by_index.values())

    def _find(self, uid: str, name: str) -> _Interface:
        """Return a Pod's interface. If it was renamed, it is found by its index, which it keeps."""
        index = _interface_index(name)
        if not index and (before := self._counted.get(uid)) is not None:
            with suppress(OSError):
                return _Interface(socket.if_indextoname(before.ifindex), before.ifindex)
        return _Interface(name, index)

    def _create(self, wanted: InterfaceByPod, classes: Classes) -> list[str]:
        script = nft.class_sets(self._table.where, classes, self._revision)
        for uid, interface in wanted.items():
            script += self._attach(uid, interface, classes)
        return script

    def _changes(self, wanted: InterfaceByPod, classes: Classes) -> list[str]:
        gone = [interface.ifindex for uid, interface in self._counted.items() if wanted.get(uid) != interface]
        # Kernels before 6.16 delete an interface's chains with it.
        existing = set(self._table.chains()) if gone else set()
        chains = [_chain_name(index, direction) for index in gone for direction in DIRECTIONS]
        script = [f"delete chain {self._table.where} {chain}" for chain in chains if chain in existing]
        for uid, interface in wanted.items():
            if self._counted.get(uid) != interface:
                script += self._attach(uid, interface, classes)
        return script

    def _is_damaged(self) -> bool:
        gone = {
            interface.ifindex
            for interface in self._counted.values()
            if _interface_index(interface.name) != interface.ifindex
        }
        return self._table.is_damaged(
            {_chain_name(i, direction) for i in gone for direction in DIRECTIONS}.__contains__
        )

    def _attach(self, uid: str, interface: _Interface, classes: Classes) -> list[str]:
        """Return statements that count a Pod. Counters that exist already keep their values."""
        where = self._table.where
        kinds = [Kind(name, direction) for name in classes.names for direction in DIRECTIONS]
        script = [f"add counter {where} {CounterName(uid, interface.ifindex, kind)}" for kind in kinds]
        for direction in DIRECTIONS:
            # Packets that enter the node at this interface leave the Pod.
            hook, way, field = ("ingress", "iif", "daddr") if direction == "out" else ("egress", "oif", "saddr")
            chain = f"{where} {_chain_name(interface.ifindex, direction)}"
            hooked = f'{{ type filter hook {hook} device "{interface.name}" priority -500; }}'
            script += [f"add chain {chain} {hooked}", f"add rule {chain} {way} != {interface.ifindex} return"]
            for name, _, match in nft.matches(classes, field, self._revision):
                counter = CounterName(uid, interface.ifindex, Kind(name, direction))
                script.append(f"add rule {chain} {match} counter name {counter} return")
        return script


def _chain_name(index: int, direction: Direction) -> str:
    return f"{direction}.{index}"


def _interface_index(name: str) -> int:
    """Return the index of the interface with this name; 0 if there is none."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
