"""Sums of usage by day or by hour: whole days come from daily sums, the rest from segments that this module divides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from kajitori.core.usage.daily import DAY, Level
from kajitori.core.usage.over_time import SECONDS, name_of, named_shares
from kajitori.core.usage.sums import By, Prices, UsageSum, add_whole
from kajitori.history.database import Database, Reader, Row
from kajitori.history.usage import AMOUNTS, SUMMED_COLUMNS, Query, UsageFilter, add_expired, amounts, level_of

Used = tuple[str, str, int, int, int, int]
"""Key, GPU type, GPU-seconds, milli-core-seconds, byte-seconds and member-seconds."""


async def sum_over_time(database: Database, by: By, wanted: UsageFilter, prices: Prices) -> dict[str, UsageSum]:
    """Return the usage of each day or hour in which there was any, by its name (`core.usage.over_time`).

    The first and the last day count only with their part of the time. Time that a status had no room to describe
    counts at its end. If the sums are by hour, all runs for which history keeps only daily sums share one key.
    """
    if wanted.namespaces is not None and not wanted.namespaces:
        return {}
    async with database.snapshot() as reader:
        used = await (_by_day if by is By.DAY else _by_hour)(reader, wanted)
        sums = add_whole(used.amounts(), prices)
        return sums if by is By.DAY else await add_expired(reader, wanted, prices, sums)


class _Collected:
    """Amounts by key and GPU type. They are priced once all are known, so that the order does not change the cost."""

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, str], list[int]] = {}

    def add(self, parts: Iterable[Used]) -> None:
        for key, gpu_type, *more in parts:
            known = self._amounts.get((key, gpu_type))
            self._amounts[key, gpu_type] = more if known is None else [a + b for a, b in zip(known, more, strict=True)]

    def amounts(self) -> Iterator[Used]:
        for (key, gpu_type), (gpu, cpu, memory, members) in self._amounts.items():
            yield key, gpu_type, gpu, cpu, memory, members


async def _by_hour(reader: Reader, wanted: UsageFilter) -> _Collected:
    used = _Collected()
    since = wanted.since
    while since < wanted.until:  # day by day, so that only the rows of one day are in memory
        until = min(wanted.until, (since // DAY + 1) * DAY)
        await _add_segments(reader, By.HOUR, wanted, since, until, used)
        since = until
    return used


async def _by_day(reader: Reader, wanted: UsageFilter) -> _Collected:
    used = _Collected()
    first, end = -(-wanted.since // DAY), wanted.until // DAY
    if first >= end:
        await _add_segments(reader, By.DAY, wanted, wanted.since, wanted.until, used)
        return used
    used.add(await _whole_days(reader, wanted, first, end))
    query = Query(wanted)
    not_summed = f"summed = 0 AND {query.within(first * DAY, end * DAY)}{query.filter_few}"
    rows = await _read(reader, query, not_summed)
    await _divide(By.DAY, rows, first * DAY, end * DAY, used)
    for since, until in ((wanted.since, first * DAY), (end * DAY, wanted.until)):
        if until > since:
            await _add_segments(reader, By.DAY, wanted, since, until, used)
    return used


async def _whole_days(reader: Reader, wanted: UsageFilter, first: int, end: int) -> Iterator[Used]:
    """Return the amounts in the sums of the days from number `first` to number `end`, which is excluded."""
    query, level = Query(wanted), level_of(By.DAY, wanted)
    only = " AND namespace = ''" if level == Level.OWNER.value else ""  # for the index
    columns = ", ".join(f"SUM({column})" for column in SUMMED_COLUMNS.split(", "))
    rows = await reader.fetch(
        f"SELECT first, gpu_type, {columns} FROM usage_sums WHERE level = {query.add(level)} AND days = 1 "
        f"AND first >= {query.add(first)} AND first < {query.add(end)}{query.filter}{only} GROUP BY 1, 2",
        *query.values,
    )
    return amounts([(name_of(By.DAY, int(day)), *row) for day, *row in rows])


async def _add_segments(reader: Reader, by: By, wanted: UsageFilter, since: int, until: int, used: _Collected) -> None:
    """Add the segments that overlap the time between two times. Each counts with its part of that time."""
    query = Query(wanted)
    rows = await _read(reader, query, *query.edge(since, until))
    await _divide(by, rows, since, until, used)


async def _read(reader: Reader, query: Query, *conditions: str) -> list[Row]:
    """Return the segments under any of these conditions, which exclude each other."""
    selects = (
        f"SELECT {AMOUNTS}, members, since, until, member_seconds FROM usage WHERE {condition}"
        for condition in conditions
    )
    return await reader.fetch(" UNION ALL ".join(selects), *query.values)


async def _divide(by: By, rows: list[Row], since: int, until: int, used: _Collected) -> None:
    """Add segments. A thread divides them, because a day may have a hundred thousand of them."""
    await asyncio.to_thread(lambda: used.add(_divided(by, rows, since, until)))


def _divided(by: By, rows: Iterable[Row], since: int, until: int) -> Iterator[Used]:
    for gpu_type, gpus, cpu_millis, memory_bytes, members, began, ended, member_seconds in rows:
        if members:
            parts = [
                (name, members * seconds) for name, seconds in named_shares(by, max(began, since), min(ended, until))
            ]
        else:
            last = ended if began == ended else ended - 1
            parts = [(name_of(by, last // SECONDS[by]), member_seconds)]
        for name, seconds in parts:
            yield name, gpu_type, gpus * seconds, cpu_millis * seconds, memory_bytes * seconds, seconds
