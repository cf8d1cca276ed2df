"""Counting at the Pod's own interface: netdev hooks at the end of its veth pair that is on the node.

Neither the number of Pods nor their addresses matter: a packet passes the rules of its own interface alone. An
interface's chains are bound to its name, and newer kernels (6.16) bind them again to whatever bears that name next; so
each begins with a look at the interface's index, which is not used again.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from pathlib import Path

from kajitori.agent import nft
from kajitori.agent.nfnetlink import NETDEV, NfTables
from kajitori.core.address_classes import Classes
from kajitori.core.traffic import DIRECTIONS, Count, Counter, CounterName, Direction, Kind, Pod

TABLE = "kajitori_traffic"
_WHERE = f"netdev {TABLE}"
_ETHERNET_BYTES = 14
"""A packet on its way to the Pod has the header of the wire already where it is counted; one that comes has it not."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class InterfaceEngine:
    """One table of the family netdev; two chains for each Pod."""

    name = "interface"

    def __init__(self) -> None:
        nft.require_nft()
        self._kernel = NfTables()
        self._boot = _BOOT.read_text().strip()
        self._counted: dict[str, tuple[str, int]] = {}
        """By UID of the Pod: its interface, and the index that that has."""
        self._classes: Classes | None = None
        self._generation = 0
        self._rules: frozenset[tuple[str, int]] = frozenset()

    def takes(self, pod: Pod) -> bool:
        return bool(pod.interface)

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        wanted = {uid: (pod.interface, index) for uid, pod in pods.items() if (index := _index(pod.interface))}
        first = self._classes is None
        damaged = not first and self._is_damaged()
        if first or damaged or classes != self._classes:
            script = self._afresh(wanted, classes)
        else:
            script = self._difference(wanted, classes)
        if script:
            nft.change("\n".join(script) + "\n")
            self._remember()
        self._counted, self._classes = wanted, classes
        return damaged

    def read(self) -> dict[str, Counter]:
        found = self._kernel.counters(NETDEV, TABLE)
        table = self._kernel.table(NETDEV, TABLE)
        counters = {}
        for name, counter in found.items():
            header = _ETHERNET_BYTES * counter.packets if name.endswith(".in") else 0
            value = Count(counter.bytes - header, counter.packets)
            counters[name] = Counter(f"{self._boot}.{table}.{counter.handle}", value)
        return counters

    def forget(self, names: Collection[str]) -> None:
        held = self._kernel.counters(NETDEV, TABLE).keys() & set(names)
        nft.change("".join(f"delete counter {_WHERE} {name}\n" for name in held))
        if held:
            self._remember()

    def uninstall(self) -> None:
        if self._kernel.table(NETDEV, TABLE) is not None:
            nft.change(f"delete table {_WHERE}\n")
        self._counted, self._classes = {}, None

    def _afresh(self, wanted: Mapping[str, tuple[str, int]], classes: Classes) -> list[str]:
        """Everything but the counters is made again, at once: no packet passes uncounted, and none counts twice."""
        script = [f"add table {_WHERE}", f"flush table {_WHERE}"]
        script += [f"delete chain {_WHERE} {name}" for name in self._kernel.chains(NETDEV, TABLE)]
        script += [f"delete set {_WHERE} {name}" for name in self._kernel.sets(NETDEV, TABLE)]
        script += nft.class_sets(_WHERE, classes)
        for uid, (interface, index) in wanted.items():
            script += _attach(uid, interface, index, classes)
        return script

    def _difference(self, wanted: Mapping[str, tuple[str, int]], classes: Classes) -> list[str]:
        gone = [index for uid, (_, index) in self._counted.items() if wanted.get(uid) != self._counted[uid]]
        new = [(uid, *where) for uid, where in wanted.items() if self._counted.get(uid) != where]
        # Kernels before 6.16 take an interface's chains away with it.
        there = set(self._kernel.chains(NETDEV, TABLE)) if gone else set()
        chains = [_chain(index, direction) for index in gone for direction in DIRECTIONS]
        script = [f"delete chain {_WHERE} {chain}" for chain in chains if chain in there]
        for uid, interface, index in new:
            script += _attach(uid, interface, index, classes)
        return script

    def _remember(self) -> None:
        """What the rules look like now that they are as they should be."""
        while True:
            generation = self._kernel.generation()
            self._rules = self._kernel.rules(NETDEV, TABLE)
            if generation == self._kernel.generation():
                self._generation = generation
                return

    def _is_damaged(self) -> bool:
        """Whether somebody else changed our rules. What goes with an interface is no damage."""
        generation = self._kernel.generation()
        if generation == self._generation:
            return False
        here = {index for name, index in self._counted.values() if _index(name) == index}
        kept = {_chain(index, direction) for index in here for direction in DIRECTIONS}
        rules = self._kernel.rules(NETDEV, TABLE)
        if {rule for rule in self._rules if rule[0] in kept} <= rules <= self._rules:
            self._generation = generation
            return False
        return True


def _attach(uid: str, interface: str, index: int, classes: Classes) -> list[str]:
    """Statements that count for a Pod. Its counters may be there already: then they go on."""
    script = [
        f"add counter {_WHERE} {CounterName(uid, index, Kind(name, direction))}"
        for name in classes.names
        for direction in DIRECTIONS
    ]
    for direction in DIRECTIONS:
        # What comes into the node at this interface went out of the Pod.
        hook, way, field = ("ingress", "iif", "daddr") if direction == "out" else ("egress", "oif", "saddr")
        chain = f"{_WHERE} {_chain(index, direction)}"
        script.append(f'add chain {chain} {{ type filter hook {hook} device "{interface}" priority -500; }}')
        script.append(f"add rule {chain} {way} != {index} return")
        for name, match in nft.matches(classes, field):
            counter = CounterName(uid, index, Kind(name, direction))
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
