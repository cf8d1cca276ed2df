"""How often stragglers are found, and how often a healthy gang is accused, on made-up days of telemetry.

    python -m bench.telemetry.stragglers           10 days of each gang
    python -m bench.telemetry.stragglers --days 2

Each series has fixed seeds: the share of a processor that each rank used in each minute. The gangs of the first table
have no straggler. In the second table one rank becomes slower after an hour, so that its peers wait for it. The verdict
is that of `kaji why` and of the controller (`core.telemetry.stragglers`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.stragglers import Peers, Spot

Values = NDArray[np.float64]
"""Minutes × ranks."""

DAY = 1440
ONSET = 60
"""Minute at which a rank becomes slow."""
PER_NODE = 8
SIZES = (8, 64, 512)


def even(random: np.random.Generator, minutes: int, ranks: int) -> Values:
    """Return ranks with the same work, and normal noise."""
    noise: Values = 0.03 * random.standard_normal((minutes, ranks))
    return 0.8 * (1 + noise)


def heavy_tails(random: np.random.Generator, minutes: int, ranks: int) -> Values:
    """Return noise with rare large deviations (Student's t with three degrees of freedom)."""
    return np.clip(0.8 * (1 + 0.05 * random.standard_t(3, (minutes, ranks))), 0.0, 8.0)


def drifting(random: np.random.Generator, minutes: int, ranks: int) -> Values:
    """Return noise that lasts: each minute is like the one before (AR(1), 0.95), with 5 % standard deviation."""
    noise = 0.05 * np.sqrt(1 - 0.95**2) * random.standard_normal((minutes, ranks))
    noise[0] = 0.05 * random.standard_normal(ranks)
    for minute in range(1, minutes):
        noise[minute] += 0.95 * noise[minute - 1]
    values: Values = 0.8 * (1 + noise)
    return values


def uneven(random: np.random.Generator, minutes: int, ranks: int) -> Values:
    """Return ranks with lasting differences of their work, by 4 % standard deviation."""
    return even(random, minutes, ranks) * (1 + 0.04 * random.standard_normal(ranks))


def stages(random: np.random.Generator, minutes: int, ranks: int) -> Values:
    """Return a pipeline: the last quarter of its ranks has 60 % more work."""
    values = even(random, minutes, ranks) * 0.6
    values[:, -ranks // 4 :] *= 1.6
    return values


def alone(random: np.random.Generator, minutes: int, ranks: int) -> Values:
    """Return ranks that wait, for half an hour of two hours, while rank 0 evaluates."""
    values = even(random, minutes, ranks)
    for start in range(60, minutes, 120):
        values[start : start + 30, 1:] = 0.01 * (1 + 0.1 * random.random((len(values[start : start + 30]), ranks - 1)))
    return values


def episodes(random: np.random.Generator, minutes: int, ranks: int) -> Values:
    """Return ranks with short episodes: in every 30 minutes another rank is slow for 2 to 8 minutes."""
    values = even(random, minutes, ranks)
    for start in range(10, minutes - 10, 30):
        slow(values[start : start + int(random.integers(2, 9))], int(random.integers(ranks)), 1.5)
    return values


HEALTHY: dict[str, Callable[[np.random.Generator, int, int], Values]] = {
    "even": even,
    "heavy tails": heavy_tails,
    "drifting": drifting,
    "uneven by 4 %": uneven,
    "stages of a pipeline": stages,
    "rank 0 alone evaluates": alone,
    "short episodes": episodes,
}


def slow(values: Values, rank: int, factor: float) -> None:
    """Make one rank slower by a factor: it works as before per second, and its peers wait for it."""
    others = np.arange(values.shape[1]) != rank
    values[:, others] /= factor


def intervals(values: Values) -> Iterator[Interval]:
    """Yield the bands of each minute."""
    p10, median, p90 = np.percentile(values, [10, 50, 90], axis=1)
    low, high = values.argmin(axis=1), values.argmax(axis=1)
    for minute, row in enumerate(values):
        least, most = int(low[minute]), int(high[minute])
        figures = float(row[least]), float(p10[minute]), float(median[minute]), float(p90[minute]), float(row[most])
        band = Band(values.shape[1], *figures, Place(least), Place(most))
        yield Interval("u", 1, 60, 60 * minute, values.shape[1], {"cpu.used": band})


@dataclass(frozen=True, slots=True)
class Course:
    """The findings in one series."""

    accused: int
    """Findings that began: another place is another finding."""
    minutes: int
    """Minutes with a finding."""
    found_after: int | None
    """Minutes from ONSET until the slow rank was found; None if it was not."""


def follow(values: Values, slow_rank: int | None = None) -> Course:
    """Follow a series minute by minute, as the watcher does."""
    peers = Peers({rank: f"n{rank // PER_NODE}" for rank in range(values.shape[1])})
    accused, with_finding, found_after = 0, 0, None
    last: Spot | None = None
    for minute, each in enumerate(intervals(values)):
        peers.take(each)
        found = peers.judge(each.start + 60.0)
        spot = found.spot if found is not None else None
        accused += spot is not None and spot != last
        with_finding += spot is not None
        if spot is not None and spot.rank == slow_rank and found_after is None:
            found_after = minute + 1 - ONSET
        last = spot
    return Course(accused, with_finding, found_after)


def healthy(name: str, ranks: int, days: int) -> list[Course]:
    """Follow days of a healthy gang, each with a seed of its own."""
    return [follow(HEALTHY[name](np.random.default_rng([seed, ranks]), DAY, ranks)) for seed in range(days)]


def slowed(name: str, ranks: int, factor: float, series: int) -> list[Course]:
    """Follow three hours of a gang. One of its ranks becomes slow after an hour."""
    found = []
    for seed in range(series):
        random = np.random.default_rng([seed, ranks, round(100 * factor)])
        rank = int(random.integers(ranks))
        values = HEALTHY[name](random, 180, ranks)
        slow(values[ONSET:], rank, factor)
        found.append(follow(values, rank))
    return found


def main() -> int:
    """Print both tables."""
    parser = option_parser(__doc__)
    parser.add_argument("--days", type=int, default=10)
    days = parser.parse_args().days
    rows, accused_days, all_days = [], 0, 0
    for name in HEALTHY:
        of_size = [healthy(name, ranks, days) for ranks in SIZES]
        accused_days += sum(course.accused > 0 for courses in of_size for course in courses)
        all_days += days * len(SIZES)
        rows.append([name, *(f"{sum(course.accused for course in courses)}" for courses in of_size)])
    print_table(f"findings in {days} days of a healthy gang", ["gang", *(f"{ranks} ranks" for ranks in SIZES)], rows)
    rows, clearly, by_two = [], [], []
    for name in ("even", "heavy tails", "drifting", "uneven by 4 %"):
        for factor in (1.15, 1.25, 1.4, 2.0):
            row = [name, f"{factor:g}"]
            for ranks in SIZES:
                courses = slowed(name, ranks, factor, 2 * days)
                after = [course.found_after for course in courses if course.found_after is not None]
                share = 100 * len(after) / len(courses)
                row.append(f"{share:.0f} %, {statistics.median(after):.0f} min" if after else "0 %")
                if factor == 2.0:
                    by_two.append(share)
                elif factor == 1.4 and name in ("even", "drifting"):
                    clearly.append(share)
            rows.append(row)
    title = "one rank is slower by a factor: share of series in which it was found, and the median time until then"
    print_table(title, ["gang", "factor", *(f"{ranks} ranks" for ranks in SIZES)], rows)
    return print_limits(
        [
            Limit("healthy days with a finding", 100 * accused_days / all_days, most=1.0, unit=" %"),
            Limit("found if slower by 1.4, even or drifting gang", min(clearly), least=95.0, unit=" %"),
            Limit("found if slower by 2, any gang", min(by_two), least=95.0, unit=" %"),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
