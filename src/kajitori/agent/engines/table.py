"""A table of nf_tables that only we use: its objects, its counters, and whether another program changed it."""

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
    """A table with named counters, which remain when its rules are replaced."""

    def __init__(self, family: int, name: str) -> None:
        self._kernel = NfTables()
        self._family = family
        self._name = name
        self._boot = _BOOT.read_text().strip()
        self._generation = 0
        self._rules: frozenset[tuple[str, int]] = frozenset()
        self.where = f"{_FAMILIES.get(family, 'inet')} {name}"
        """Family and name, as in statements."""

    def chains(self) -> list[str]:
        """Return the names of its chains."""
        return self._kernel.chains(self._family, self._name)

    def sets(self) -> list[str]:
        """Return the names of its sets and maps."""
        return self._kernel.sets(self._family, self._name)

    def without_rules(self, kept: Collection[str] = ()) -> list[str]:
        """Return statements that leave the table without rules, whatever it had; `kept` chains stay, but empty.

        A chain that is deleted and created again is hooked in twice for a moment. A packet that meets the first chain
        before that moment and the second after it would be counted twice, or not at all.
        """
        script = [f"add table {self.where}", f"flush table {self.where}"]
        return script + [f"delete chain {self.where} {name}" for name in self.chains() if name not in kept]

    def without(self, sets: Collection[str]) -> list[str]:
        """Return statements that delete sets and maps that no rule uses."""
        kinds = ((name, "map" if name.startswith(MAP_PREFIX) else "set") for name in sets)
        return [f"delete {kind} {self.where} {name}" for name, kind in kinds]

    def change(self, script: list[str]) -> None:
        """Make changes, and take the resulting rules as the expected ones. Raises Unavailable."""
        if script:
            nft.change("\n".join(script) + "\n")
            self._remember()

    def is_damaged(self, may_lack: Callable[[str], bool] = lambda _: False) -> bool:
        """Return whether another program changed our rules.

        `may_lack` tells which chains the kernel itself may have deleted, so that their absence is no damage.
        """
        generation = self._kernel.generation()
        if generation == self._generation:
            return False
        rules = self._kernel.rules(self._family, self._name)
        if {rule for rule in self._rules if not may_lack(rule[0])} <= rules <= self._rules:
            self._generation = generation
            return False
        return True

    def read(self, wire: str = "", wire_bytes: int = 0) -> dict[str, Counter]:
        """Return its counters by name. Counters ending in `wire` include `wire_bytes` of link header per packet."""
        table = self._kernel.table(self._family, self._name)
        origin = f"{self._boot}.{table}."
        collects = gc.isenabled()
        gc.disable()  # scanning tens of thousands of objects that stay would take most of the time
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
        """Delete the counters with these names from the table, as far as they exist."""
        if names:
            existing = {name for name, *_ in self._kernel.counters(self._family, self._name)} & set(names)
            self.change([f"delete counter {self.where} {name}" for name in existing])

    def stop(self) -> bool:
        """Delete everything but the counters; return whether there was a table."""
        exists = self._kernel.table(self._family, self._name) is not None
        if exists:
            self.change([*self.without_rules(), *self.without(self.sets())])
        return exists

    def uninstall(self) -> bool:
        """Delete the table; return whether there was one."""
        exists = self._kernel.table(self._family, self._name) is not None
        if exists:
            nft.change(f"delete table {self.where}\n")
        self._rules = frozenset()
        return exists

    def _remember(self) -> None:
        while True:
            generation = self._kernel.generation()
            self._rules = self._kernel.rules(self._family, self._name)
            if generation == self._kernel.generation():
                self._generation = generation
                return
