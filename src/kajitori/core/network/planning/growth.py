"""Growth of a cluster, and when it reaches a limit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kajitori.errors import InvalidInput

_YEARS = {"year": 1.0, "quarter": 1 / 4, "month": 1 / 12, "week": 7 / 365.25}
_GROWTH = re.compile(r"(?:(\d+(?:\.\d+)?)x|(\d+(?:\.\d+)?)%|\+(\d+))/(year|quarter|month|week)", re.ASCII)
_MAX_YEARS = 100.0


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of the number of nodes, by a factor or by a number per year."""

    factor: float = 1.0
    nodes: float = 0.0

    def after(self, now: int, years: float) -> int:
        """Return the number of nodes after `years`, starting from `now` nodes."""
        grown: float = now * self.factor**years + self.nodes * years
        return math.ceil(grown - 1e-9)

    def years_until(self, now: int, limit: int) -> float | None:
        """Return the years until there are more than `limit` nodes: 0 if there are now, None if not in 100 years."""
        if now > limit:
            return 0.0
        years = math.inf
        if self.factor > 1:
            years = math.log(limit / now) / math.log(self.factor)
        elif self.nodes > 0:
            years = (limit - now) / self.nodes
        return years if years <= _MAX_YEARS else None


NO_GROWTH = Growth()


def parse_growth(text: str) -> Growth:
    """Return the growth in a text such as `2x/year`, `30%/year` or `+500/month`. Raises InvalidInput."""
    match = _GROWTH.fullmatch(text.strip())
    if match is None:
        hint = "for example 2x/year, 30%/year or +500/month"
        raise InvalidInput.one("--growth", f"{text!r:.80} is not a growth rate", value=text, hint=hint)
    times, percent, number, unit = match.groups()
    if number is not None:
        return Growth(nodes=int(number) / _YEARS[unit])
    factor = float(times) if times is not None else 1 + float(percent) / 100
    if not 1 <= factor <= 1000:
        hint = "use a factor between 1 and 1000; 1x/year means no growth"
        raise InvalidInput.one("--growth", f"{text!r:.80} is out of range", value=text, hint=hint)
    return Growth(factor=factor ** (1 / _YEARS[unit]))
