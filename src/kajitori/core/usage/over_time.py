"""Usage by day or by hour: the names of these, and the share that each has of a span."""

from __future__ import annotations

from collections.abc import Iterator

from kajitori.core.formats.times import format_time, time_at
from kajitori.core.usage.daily import DAY, shares
from kajitori.core.usage.sums import HOUR, By

SECONDS = {By.DAY: DAY, By.HOUR: HOUR}
"""Length of one day and of one hour."""


def name_of(by: By, number: int) -> str:
    """Return the name of a day or an hour, by its number counted from 1970: `2026-11-21` or `2026-11-21T10:00:00Z`."""
    text = format_time(time_at(number * SECONDS[by]))
    return text[: len("2026-11-21")] if by is By.DAY else text


def names_of(by: By, since: int, until: int) -> list[str]:
    """Return the names of all days or hours that a span (seconds since 1970) touches, in their order."""
    return [name_of(by, number) for number, _ in shares(since, until, SECONDS[by])]


def named_shares(by: By, since: int, until: int) -> Iterator[tuple[str, int]]:
    """Yield the name of each day or hour that a span (seconds since 1970) touches, and how many of its seconds are in
    it."""
    for number, seconds in shares(since, until, SECONDS[by]):
        yield name_of(by, number), seconds
