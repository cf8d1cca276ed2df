"""Shared by all benchmarks: print figures beside limits, and compute the exit code."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

CONSOLE = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Limit:
    """One promise, and the measured value. Exactly one of `least` and `most` is given, in the unit of `value`."""

    what: str
    value: float
    least: float | None = None
    most: float | None = None
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the promise was kept."""
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def bound(self) -> str:
        """The promise as text."""
        return f"at least {self.least:g}{self.unit}" if self.least is not None else f"at most {self.most:g}{self.unit}"


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a title; all columns but the first are figures."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    CONSOLE.print(table)


def print_limits(limits: Sequence[Limit]) -> int:
    """Print each limit beside the measured value. Return the exit code: 0 if all limits were kept, else 1."""
    rows = [
        (limit.what, f"{limit.value:.3g}{limit.unit}", limit.bound, "met" if limit.met else "NOT MET")
        for limit in limits
    ]
    print_table("limits", ("what", "measured", "promised", ""), rows)
    return 0 if all(limit.met for limit in limits) else 1


def median_and_range(values: Sequence[float], digits: int = 2) -> str:
    """`2.41 (2.30–2.97)`."""
    middle = statistics.median(values)
    return f"{middle:.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"
