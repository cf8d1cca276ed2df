"""How a cluster grows, and when it is as large as something allows."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kajitori.errors import InvalidInput

_YEARS = {"year": 1.0, "quarter": 1 / 4, "month": 1 / 12, "week": 7 / 365.25}
_GROWTH = re.compile(r"(?:(\d+(?:\.\d+)?)x|(\d+(?:\.\d+)?)%|\+(\d+))/(year|quarter|month|week)", re.ASCII)
_MOST_YEARS = 100.0


@dataclass(frozen=True, slots=True)
class Growth:
    """Nodes over time: by a factor or by a number each year."""

    factor: float = 1.0
    nodes: float = 0.0

    def after(self, now: int, years: float) -> int:
        """How many there are then, if there are `now`."""
        grown: float = now * self.factor**years + self.nodes * years
        return math.ceil(grown - 1e-9)

    def years_until(self, now: int, most: int) -> float | None:
        """When there will be more than `most`; 0 if there are, None if not within a hundred years."""
        if now > most:
            return 0.0
        years = math.inf
        if self.factor > 1:
            years = math.log(most / now) / math.log(self.factor)
        elif self.nodes > 0:
            years = (most - now) / self.nodes
        return years if years <= _MOST_YEARS else None


NO_GROWTH = Growth()


def parse_growth(text: str) -> Growth:
    """`2x/year`, `30%/year`, `+500/month`. Raises InvalidInput."""
    match = _GROWTH.fullmatch(text.strip())
    if match is None:
        hint = "such as 2x/year, 30%/year or +500/month"
        raise InvalidInput.one("--growth", f"{text!r:.80} is no growth", value=text, hint=hint)
    times, percent, number, unit = match.groups()
    if number is not None:
        return Growth(nodes=int(number) / _YEARS[unit])
    each = float(times) if times is not None else 1 + float(percent) / 100
    if not 1 <= each <= 1000:
        hint = "a factor between 1 and 1000; 1x/year is none at all"
        raise InvalidInput.one("--growth", f"{text!r:.80} cannot be planned with", value=text, hint=hint)
    return Growth(factor=each ** (1 / _YEARS[unit]))
