"""The common part of engines that have one table of nf_tables: it decides when the table's rules are replaced, and
which counters remain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

from kajitori.agent.engines.table import Table
from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import Counter, Pod
from kajitori.errors import Unavailable

W = TypeVar("W")


class TableEngine(ABC, Generic[W]):
    """An engine with one table; `W` is its description of what to count."""

    def __init__(self, family: int, table: str, nothing: W) -> None:
        self._table = Table(family, table)
        self._nothing = nothing
        self._counted = nothing
        self._classes: Classes | None = None
        self._revision = 0
        """Suffix of the names of all sets and maps that the rules in force use."""
        self.missing = 0

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        wanted = self._wanted_counters(pods)
        damaged = self._classes is not None and self._is_damaged()
        before, self._classes = self._classes, None  # after a failure, everything is created again the next time
        if damaged or classes != before or not self._has_room_for(wanted):
            self._replace_rules(wanted, classes)
        else:
            self._table.change(self._changes(wanted, classes))
        self._counted, self._classes = wanted, classes
        return damaged

    def _replace_rules(self, wanted: W, classes: Classes) -> None:
        """Replace everything but the counters at once, so that every packet is counted exactly once.

        Sets of the former rules are deleted after these rules: packets that are still in them need the sets.
        """
        former = self._table.sets()
        suffixes = (int(end) for name in former if (end := name.rpartition(".")[2]).isdecimal())
        self._revision = 1 + max(suffixes, default=0)
        created = self._create(wanted, classes)
        start = f"add chain {self._table.where} "
        kept = {line.removeprefix(start).split()[0] for line in created if line.startswith(start)}
        try:
            self._table.change([*self._table.without_rules(kept), *created])
        except Unavailable:  # another program or an older agent hooked chains of these names in elsewhere
            self._table.change([*self._table.without_rules(), *created])
        self._table.change(self._table.without(former))

    def read(self) -> dict[str, Counter]:
        return self._table.read()

    def forget(self, names: Collection[str]) -> None:
        self._table.forget(names)

    def stop(self) -> bool:
        self._counted, self._classes = self._nothing, None
        return self._table.stop()

    def uninstall(self) -> bool:
        self._counted, self._classes = self._nothing, None
        return self._table.uninstall()

    @abstractmethod
    def _wanted_counters(self, pods: Mapping[str, Pod]) -> W:
        """Return the description of what to count for these Pods."""

    @abstractmethod
    def _create(self, wanted: W, classes: Classes) -> list[str]:
        """Return statements that create everything in a table without rules, with new names for sets and maps."""

    @abstractmethod
    def _changes(self, wanted: W, classes: Classes) -> list[str]:
        """Return statements that change what is counted into what is wanted, with the same classes."""

    def _is_damaged(self) -> bool:
        """Return whether another program changed our rules."""
        return self._table.is_damaged()

    def _has_room_for(self, wanted: W) -> bool:
        """Return whether what is wanted fits into the table as it is."""
        return True
