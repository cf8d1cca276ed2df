"""What engines have in common that keep one table of nf_tables: when it is made anew, and what is left of it."""

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
    """W: what is to be counted, in the words that an engine has for it."""

    def __init__(self, family: int, table: str, nothing: W) -> None:
        self._table = Table(family, table)
        self._nothing = nothing
        self._counted = nothing
        self._classes: Classes | None = None
        self._making = 0
        """What the names of all sets and maps end in that belong to the rules that are in force."""
        self.missing = 0

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        wanted = self._wanted(pods)
        damaged = self._classes is not None and self._is_damaged()
        before, self._classes = self._classes, None  # where this fails, all is made anew the next time
        if damaged or classes != before or not self._has_room_for(wanted):
            self._make(wanted, classes)
        else:
            self._table.change(self._difference(wanted, classes))
        self._counted, self._classes = wanted, classes
        return damaged

    def _make(self, wanted: W, classes: Classes) -> None:
        """Everything but the counters anew, at once: no packet passes uncounted, and none counts twice.

        What the former rules looked up stays until they are gone: a packet that is still among them would not find it.
        """
        former = self._table.sets()
        self._making = 1 + max((int(end) for name in former if (end := name.rpartition(".")[2]).isdecimal()), default=0)
        afresh = self._afresh(wanted, classes)
        start = f"add chain {self._table.where} "
        kept = {line.removeprefix(start).split()[0] for line in afresh if line.startswith(start)}
        try:
            self._table.change([*self._table.unruled(kept), *afresh])
        except Unavailable:  # chains of these names that are hooked in elsewhere, by somebody else or an older agent
            self._table.change([*self._table.unruled(), *afresh])
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
    def _wanted(self, pods: Mapping[str, Pod]) -> W:
        """What is to be counted for these Pods."""

    @abstractmethod
    def _afresh(self, wanted: W, classes: Classes) -> list[str]:
        """Statements that make all of it in a table without rules, with sets and maps of names of their own."""

    @abstractmethod
    def _difference(self, wanted: W, classes: Classes) -> list[str]:
        """Statements that lead from what is counted to what is wanted, by the same classes."""

    def _is_damaged(self) -> bool:
        """Whether somebody else changed our rules."""
        return self._table.is_damaged()

    def _has_room_for(self, wanted: W) -> bool:
        """Whether what is wanted fits into the table as it is."""
        return True
