"""A table of nf_tables that is ours alone: what it holds, whether somebody else was at it, its counters."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from pathlib import Path

from kajitori.agent.engines import nft
from kajitori.agent.engines.nfnetlink import NETDEV, NfTables
from kajitori.core.traffic.totals import Count, Counter

_FAMILIES = {NETDEV: "netdev"}
_BOOT = Path("/proc/sys/kernel/random/boot_id")
MAP_PREFIX = "map."


class Table:
    """A table with named counters, which outlive its rules."""

    def __init__(self, family: int, name: str) -> None:
        self._kernel = NfTables()
        self._family = family
        self._name = name
        self._boot = _BOOT.read_text().strip()
        self._generation = 0
        self._rules: frozenset[tuple[str, int]] = frozenset()
        self.where = f"{_FAMILIES.get(family, 'inet')} {name}"
        """As statements name it."""

    def chains(self) -> list[str]:
        """The names of its chains."""
        return self._kernel.chains(self._family, self._name)

    def sets(self) -> list[str]:
        """The names of its sets and maps."""
        return self._kernel.sets(self._family, self._name)

    def unruled(self, kept: Collection[str] = ()) -> list[str]:
        """Statements that leave the table without rules, whatever was in it, with chains to be filled anew.

        A chain that is taken away and made again is hooked in twice for a moment, and a packet that meets the one
        before and the other after that moment counts twice, or not at all.
        """
        script = [f"add table {self.where}", f"flush table {self.where}"]
        return script + [f"delete chain {self.where} {name}" for name in self.chains() if name not in kept]

    def without(self, sets: Collection[str]) -> list[str]:
        """Statements that take away sets and maps that no rule uses."""
        kinds = ((name, "map" if name.startswith(MAP_PREFIX) else "set") for name in sets)
        return [f"delete {kind} {self.where} {name}" for name, kind in kinds]

    def change(self, script: list[str]) -> None:
        """Makes changes, and takes the table as it is then for what it should be. Raises Unavailable."""
        if script:
            nft.change("\n".join(script) + "\n")
            self._remember()

    def is_damaged(self, may_lack: Callable[[str], bool] = lambda _: False) -> bool:
        """Whether somebody else changed our rules. `may_lack`: chains that the kernel itself may have taken away."""
        generation = self._kernel.generation()
        if generation == self._generation:
            return False
        rules = self._kernel.rules(self._family, self._name)
        if {rule for rule in self._rules if not may_lack(rule[0])} <= rules <= self._rules:
            self._generation = generation
            return False
        return True

    def read(self, wire: str = "", wire_bytes: int = 0) -> dict[str, Counter]:
        """Its counters by name. Those whose names end in `wire` count so many bytes a packet that are not IP's."""
        table = self._kernel.table(self._family, self._name)
        origin = f"{self._boot}.{table}."
        collects = gc.isenabled()
        gc.disable()  # tens of thousands of objects that stay: looking through them again and again takes the most time
        try:
            counters = {}
            for name, handle, size, packets in self._kernel.counters(self._family, self._name):
                if wire and name.endswith(wire):
                    size -= wire_bytes * packets
                counters[name] = Counter(origin + str(handle), Count(size, packets))
            return counters
        finally:
            if collects:
                gc.enable()

    def forget(self, names: Collection[str]) -> None:
        """Deletes those of these counters that are in it."""
        if names:
            held = {name for name, *_ in self._kernel.counters(self._family, self._name)} & set(names)
            self.change([f"delete counter {self.where} {name}" for name in held])

    def stop(self) -> bool:
        """Leaves nothing but counters in the table; whether there was one."""
        there = self._kernel.table(self._family, self._name) is not None
        if there:
            self.change([*self.unruled(), *self.without(self.sets())])
        return there

    def uninstall(self) -> bool:
        """Deletes the table; whether there was one."""
        there = self._kernel.table(self._family, self._name) is not None
        if there:
            nft.change(f"delete table {self.where}\n")
        self._rules = frozenset()
        return there

    def _remember(self) -> None:
        while True:
            generation = self._kernel.generation()
            self._rules = self._kernel.rules(self._family, self._name)
            if generation == self._kernel.generation():
                self._generation = generation
                return
