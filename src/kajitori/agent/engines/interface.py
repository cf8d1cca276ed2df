"""Counting at the Pod's own interface: netdev hooks at the end of its veth pair that is on the node.

Neither the number of Pods nor their addresses matter: a packet passes the rules of its own interface alone. An
interface's chains are bound to its name, and newer kernels (6.16) bind them again to whatever bears that name next; so
each begins with a look at the interface's index, which is not used again.
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
"""A packet on its way to the Pod has the header of the wire already where it is counted; one that comes has it not."""


class _Place(NamedTuple):
    interface: str
    number: int
    """Its index."""


Places = Mapping[str, _Place]
"""By UID of the Pod."""


class InterfaceEngine(TableEngine[Places]):
    """One table of the family netdev; two chains for each Pod."""

    name = "interface"

    def __init__(self) -> None:
        super().__init__(NETDEV, "kajitori_traffic", {})

    def takes(self, pod: Pod) -> bool:
        return bool(pod.interface)

    def read(self) -> dict[str, Counter]:
        return self._table.read(".in", _ETHERNET_BYTES)

    def _wanted(self, pods: Mapping[str, Pod]) -> Places:
        # By number, as no two Pods have one interface.
        found = {
            place.number: (uid, place) for uid, pod in pods.items() if (place := self._place(uid, pod.interface)).number
        }
        self.missing = len(pods) - len(found)
        return dict(found.values())

    def _place(self, uid: str, interface: str) -> _Place:
        """Where a Pod's interface is; without a number where there is none. One that was renamed keeps its number."""
        number = _index(interface)
        if not number and (before := self._counted.get(uid)) is not None:
            with suppress(OSError):
                return _Place(socket.if_indextoname(before.number), before.number)
        return _Place(interface, number)

    def _afresh(self, wanted: Places, classes: Classes) -> list[str]:
        script = nft.class_sets(self._table.where, classes, self._making)
        for uid, place in wanted.items():
            script += self._attach(uid, place, classes)
        return script

    def _difference(self, wanted: Places, classes: Classes) -> list[str]:
        gone = [place.number for uid, place in self._counted.items() if wanted.get(uid) != place]
        # Kernels before 6.16 take an interface's chains away with it.
        there = set(self._table.chains()) if gone else set()
        chains = [_chain(index, direction) for index in gone for direction in DIRECTIONS]
        script = [f"delete chain {self._table.where} {chain}" for chain in chains if chain in there]
        for uid, place in wanted.items():
            if self._counted.get(uid) != place:
                script += self._attach(uid, place, classes)
        return script

    def _is_damaged(self) -> bool:
        gone = {place.number for place in self._counted.values() if _index(place.interface) != place.number}
        return self._table.is_damaged({_chain(index, each) for index in gone for each in DIRECTIONS}.__contains__)

    def _attach(self, uid: str, place: _Place, classes: Classes) -> list[str]:
        """Statements that count for a Pod. Its counters may be there already: then they go on."""
        where = self._table.where
        kinds = [Kind(name, direction) for name in classes.names for direction in DIRECTIONS]
        script = [f"add counter {where} {CounterName(uid, place.number, kind)}" for kind in kinds]
        for direction in DIRECTIONS:
            # What comes into the node at this interface went out of the Pod.
            hook, way, field = ("ingress", "iif", "daddr") if direction == "out" else ("egress", "oif", "saddr")
            chain = f"{where} {_chain(place.number, direction)}"
            hooked = f'{{ type filter hook {hook} device "{place.interface}" priority -500; }}'
            script += [f"add chain {chain} {hooked}", f"add rule {chain} {way} != {place.number} return"]
            for name, _, match in nft.matches(classes, field, self._making):
                counter = CounterName(uid, place.number, Kind(name, direction))
                script.append(f"add rule {chain} {match} counter name {counter} return")
        return script


def _chain(index: int, direction: Direction) -> str:
    return f"{direction}.{index}"


def _index(interface: str) -> int:
    """The interface's index; 0 where there is none of that name."""
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        return 0
