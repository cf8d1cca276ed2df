"""The date at which a pool of addresses runs out, from the history of its use.

The trend is the Theil-Sen estimator: the median of the slopes between all pairs of days (H. Theil, 1950; P. K. Sen,
"Estimates of the regression coefficient based on Kendall's tau", Journal of the American Statistical Association 63,
1968, pp. 1379-1389). Days of unusual use, up to 29 % of all, do not change it much. Its confidence interval follows
from the variance of Kendall's tau (Sen, section 3, with ties after R. O. Gilbert, "Statistical Methods for
Environmental Pollution Monitoring", 1987, chapter 16). If it contains zero, no growth differs from chance.

The date is where the trend's line meets the capacity: one day of unusual use does not move it. The line of each slope
of the interval passes through the medians of the days and of their use, as the trend's own line does. After growth has
become faster, these lines lie below the use of the last week; then they begin at the median of that week.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import median
from typing import NamedTuple

MIN_DAYS = 14
"""Fewest days with a sample, and shortest span of days, from which a trend is taken."""
TREND_DAYS = 90
"""Number of latest days that the trend is taken from: growth before that says little about growth now."""
LEVEL_DAYS = 7
"""The forecast begins at the median of this many of the latest samples if that is above the trend."""
MAX_DAYS = 3_650
"""Longest time that is forecast."""
_NORMAL_QUANTILE = 1.959964
"""Quantile of the standard normal distribution for a two-sided interval of 95 %."""


class DayUse(NamedTuple):
    """The most addresses in use on one day."""

    day: int
    """Days since 1970-01-01."""
    used: int


class ExhaustionState(StrEnum):
    """The trend of a pool's used addresses."""

    FULL = "full"
    """No address is left."""
    RUNS_OUT = "runs out"
    """It runs out within ten years if it grows as it did."""
    FAR = "far"
    """It grows, but does not run out within ten years."""
    NOT_GROWING = "not growing"
    """There is no growth that differs from chance."""
    TOO_LITTLE_HISTORY = "too little history"


@dataclass(frozen=True, slots=True)
class Exhaustion:
    """When a pool runs out. Days are counted since 1970-01-01 and may have fractions."""

    state: ExhaustionState
    days_known: int
    """Number of days with a sample that the answer rests on."""
    per_day: float = 0.0
    """Addresses by which the use grows per day; 0 without a trend."""
    day: float | None = None
    """When it runs out; only for `runs out`."""
    earliest: float | None = None
    """Earliest day with 95 % confidence in the trend."""
    latest: float | None = None
    """Latest day with that confidence; None if it is more than ten years ahead."""


class Trend(NamedTuple):
    """A slope per day, and its interval of 95 % confidence."""

    slope: float
    low: float
    high: float


def exhaustion(samples: Sequence[DayUse], capacity: int, today: int) -> Exhaustion:
    """Return when a pool of `capacity` addresses runs out. `samples` has at most one sample per day, in any order."""
    recent = sorted(sample for sample in samples if today - TREND_DAYS < sample.day <= today)
    known = len(recent)
    if recent and recent[-1].used >= capacity:
        return Exhaustion(ExhaustionState.FULL, known)
    if known < MIN_DAYS or recent[-1].day - recent[0].day + 1 < MIN_DAYS:
        return Exhaustion(ExhaustionState.TOO_LITTLE_HISTORY, known)
    trend = theil_sen(recent)
    if trend.low <= 0:
        return Exhaustion(ExhaustionState.NOT_GROWING, known)
    middle_day, middle_use = median(day for day, _ in recent), median(used for _, used in recent)
    latest_use = median(used for _, used in recent[-LEVEL_DAYS:])

    def day_at(slope: float) -> float | None:
        level = max(middle_use + slope * (today - middle_day), latest_use)
        days_left = max(0.0, capacity - level) / slope
        return today + days_left if days_left <= MAX_DAYS else None

    day = day_at(trend.slope)
    state = ExhaustionState.FAR if day is None else ExhaustionState.RUNS_OUT
    return Exhaustion(state, known, trend.slope, day, day_at(trend.high), day_at(trend.low))


def theil_sen(samples: Sequence[DayUse]) -> Trend:
    """Return the median slope between pairs of samples, which are at least two on different days."""
    slopes = sorted((after.used - before.used) / (after.day - before.day) for before, after in combinations(samples, 2))
    count, pairs = len(samples), len(slopes)
    ties = Counter(sample.used for sample in samples).values()
    variance = (count * (count - 1) * (2 * count + 5) - sum(n * (n - 1) * (2 * n + 5) for n in ties)) / 18
    reach = _NORMAL_QUANTILE * math.sqrt(max(0.0, variance))
    low = slopes[max(0, round((pairs - reach) / 2) - 1)]
    high = slopes[min(pairs - 1, round((pairs + reach) / 2))]
    return Trend(median(slopes), low, high)
