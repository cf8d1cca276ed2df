"""The last hour of one member in full resolution, in memory of a fixed size.

Arrays of the standard library, not NumPy: an agent only appends and averages four rows, and the import of NumPy alone
would take a third of its memory.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence

from kajitori.core.telemetry.quantities import KEPT_SAMPLES, Kind, Quantity

UNKNOWN = math.nan
"""Value of a quantity that could not be read."""


class Ring:
    """Rows of 32-bit numbers with their times, the oldest replaced by the newest."""

    def __init__(self, width: int, rows: int = KEPT_SAMPLES) -> None:
        self.width = width
        self._rows = rows
        self._times = array("d", bytes(8 * rows))
        self._values = array("f", bytes(4 * rows * width))
        self._count = 0
        """Rows ever added."""

    def __len__(self) -> int:
        return min(self._count, self._rows)

    def add(self, at: float, values: Sequence[float]) -> None:
        """Add a row. Times must not decrease."""
        place = self._count % self._rows
        self._times[place] = at
        self._values[place * self.width : (place + 1) * self.width] = array("f", values)
        self._count += 1

    def since(self, at: float) -> tuple[array[float], array[float]]:
        """Return times later than `at` and their rows, one after the other, oldest first."""
        times, values = array("d"), array("f")
        for number in range(self._count - len(self), self._count):
            place = number % self._rows
            if self._times[place] > at:
                times.append(self._times[place])
                values.extend(self._values[place * self.width : (place + 1) * self.width])
        return times, values

    def between(self, after: float, until: float) -> list[Sequence[float]]:
        """Return the rows with `after` < time <= `until`, oldest first. Looks at the newest rows first."""
        found: list[Sequence[float]] = []
        for number in range(self._count - 1, self._count - len(self) - 1, -1):
            place = number % self._rows
            if self._times[place] <= after:
                break
            if self._times[place] <= until:
                found.append(self._values[place * self.width : (place + 1) * self.width])
        found.reverse()
        return found


def summary(quantities: Sequence[Quantity], rows: Sequence[Sequence[float]]) -> array[float]:
    """Return one value for each quantity, made from the rows of a minute as its kind says; UNKNOWN without values."""
    made = array("f")
    for place, quantity in enumerate(quantities):
        known = [row[place] for row in rows if row[place] == row[place]]  # not NaN
        made.append(_combine(quantity.kind, known) if known else UNKNOWN)
    return made


def _combine(kind: Kind, known: Sequence[float]) -> float:
    if kind is Kind.PEAK:
        return max(known)
    if kind is Kind.LAST:
        return known[-1]
    if kind is Kind.EVENTS:
        return math.fsum(known)
    return math.fsum(known) / len(known)


class Readings:
    """Turns readings into samples: totals become increases since the reading before."""

    def __init__(self, quantities: Sequence[Quantity]) -> None:
        self._quantities = quantities
        self._before: dict[str, float] = {}
        self._at = math.nan

    def sample(self, at: float, reading: Mapping[str, float]) -> list[float]:
        """Return the values of all quantities in order; UNKNOWN for those without a reading.

        A total is UNKNOWN at its first reading and after it was reset, since its increase is not known.
        """
        values = self.peek(at, reading)
        self._before = dict(reading)
        self._at = at
        return values

    def peek(self, at: float, reading: Mapping[str, float]) -> list[float]:
        """Return the same values as `sample`, without storing the reading."""
        seconds = at - self._at
        values = []
        for quantity in self._quantities:
            value = reading.get(quantity.name, UNKNOWN)
            if quantity.kind in (Kind.COUNTER, Kind.EVENTS):
                increase = value - self._before.get(quantity.name, UNKNOWN)
                if not (increase >= 0 and seconds > 0):
                    increase = UNKNOWN
                value = increase / seconds if quantity.kind is Kind.COUNTER else increase
            values.append(value)
        return values
