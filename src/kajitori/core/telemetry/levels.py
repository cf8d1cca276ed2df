"""How long history keeps bands of runs and figures of nodes, and in which resolution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kajitori.core.telemetry.bands import Band, Bands, merged


@dataclass(frozen=True, slots=True)
class Level:
    """One resolution."""

    seconds: int
    """Length of an interval."""
    kept_seconds: int
    """Age at which intervals are merged into the next level's; at the last level, at which they are deleted."""


LEVELS = (Level(60, 6 * 3600), Level(600, 7 * 86400), Level(3600, 400 * 86400))
NODE_LEVELS = LEVELS[:2]
"""Figures of nodes are kept for a week: there are as many of an idle node as of a busy one."""

MAX_POINTS = 1440
"""Most points of one quantity in an answer."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Bands of one run and attempt in one interval."""

    run_uid: str
    attempt: int
    seconds: int
    start: int
    """Seconds since 1970, a multiple of `seconds`."""
    ranks: int
    """Number of ranks that reported."""
    bands: Bands


def coarser(intervals: Iterable[Interval], seconds: int) -> list[Interval]:
    """Return the intervals merged to a length, a multiple of theirs."""

    def key(each: Interval) -> tuple[str, int, int]:
        return each.run_uid, each.attempt, each.start - each.start % seconds

    found = []
    for (uid, attempt, start), parts in groupby(sorted(intervals, key=lambda each: (*key(each), each.start)), key=key):
        several = list(parts)
        bands: dict[str, Band] = merged([each.bands for each in several])
        found.append(Interval(uid, attempt, seconds, start, max(each.ranks for each in several), bands))
    return found


def shown(intervals: Sequence[Interval], points: int) -> list[Interval]:
    """Return at most `points` intervals of each attempt in the order of time, each as long as the longest of them or
    longer. A single point may become two, since intervals begin at multiples of their length."""
    if not intervals:
        return []
    first, last = min(each.start for each in intervals), max(each.start + each.seconds for each in intervals)
    seconds = shown_seconds(first, last, max(each.seconds for each in intervals), points)
    if all(each.seconds == seconds for each in intervals):
        return sorted(intervals, key=lambda each: (each.start, each.attempt))
    return sorted(coarser(intervals, seconds), key=lambda each: (each.start, each.attempt))


def shown_seconds(first: int, last: int, longest: int, points: int) -> int:
    """Return the length of intervals of which at most `points` cover the time from `first` to `last`: a multiple of
    `longest`, the longest interval that is known."""
    seconds = longest
    for lengths in (points, max(points - 1, 1)):  # one less if the first begins within an interval
        seconds = longest * max(1, -(-(last - first) // (longest * lengths)))
        if (last - 1) // seconds - first // seconds < points:
            break
    return seconds
