"""Sums of usage by day or by hour: whole days come from daily sums, the rest from segments that this module divides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kajitori.core.usage.daily import DAY, Level
from kajitori.core.usage.over_time import SECONDS, name_of
from kajitori.core.usage.sums import By, Prices, ResourceTime, UsageSum, add_whole
from kajitori.history.databases.database import Database, Reader, Row
from kajitori.history.usage import AMOUNTS, SUMMED_COLUMNS, Query, UsageFilter, add_expired, level_of, resource_times

Amounts = tuple[int, int, int, int]
"""GPU-seconds, milli-core-seconds, byte-seconds and member-seconds."""


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
    """Amounts of each day or hour, by GPU type. They are priced once all are known, so that the order does not change
    the cost."""

    def __init__(self, by: By) -> None:
        self._by = by
        self._each_seconds = SECONDS[by]
        self._amounts: dict[tuple[int, str], Amounts] = {}
        """By the number of the day or hour, counted from 1970."""
        self._whole: dict[tuple[int, str], Amounts] = {}
        """Changes of the amounts that whole days or hours have, from this one on. A segment of weeks is two of them."""

    def add(self, number: int, gpu_type: str, amounts: Amounts) -> None:
        """Add amounts to a day or hour."""
        _add(self._amounts, (number, gpu_type), amounts)

    def add_span(self, gpu_type: str, each_second: Amounts, since: int, until: int) -> None:
        """Add the time between two times, of which each second has the same amounts."""
        if until <= since:
            return
        each = self._each_seconds
        first, last = since // each, (until - 1) // each
        if first == last:
            self.add(first, gpu_type, _times(each_second, until - since))
            return
        self.add(first, gpu_type, _times(each_second, (first + 1) * each - since))
        self.add(last, gpu_type, _times(each_second, until - last * each))
        if last - first > 1:
            _add(self._whole, (first + 1, gpu_type), _times(each_second, each))
            _add(self._whole, (last, gpu_type), _times(each_second, -each))

    def amounts(self) -> Iterator[ResourceTime]:
        """Yield the amounts of each day or hour in which there are any, with its name."""
        for gpu_type in {gpu_type for _, gpu_type in (*self._amounts, *self._whole)}:
            now: Amounts = (0, 0, 0, 0)
            numbers = [number for number, each in (*self._amounts, *self._whole) if each == gpu_type]
            for number in range(min(numbers), max(numbers) + 1):
                now = _sum(now, self._whole.get((number, gpu_type), (0, 0, 0, 0)))
                found = _sum(now, self._amounts.get((number, gpu_type), (0, 0, 0, 0)))
                if any(found):
                    yield ResourceTime(name_of(self._by, number), gpu_type, *found)


def _add(amounts: dict[tuple[int, str], Amounts], key: tuple[int, str], more: Amounts) -> None:
    known = amounts.get(key)
    amounts[key] = more if known is None else _sum(known, more)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _times(amounts: Amounts, factor: int) -> Amounts:
    return amounts[0] * factor, amounts[1] * factor, amounts[2] * factor, amounts[3] * factor


async def _by_hour(reader: Reader, wanted: UsageFilter) -> _Collected:
    used = _Collected(By.HOUR)
    since = wanted.since
    while since < wanted.until:  # day by day, so that only the rows of one day are in memory
        until = min(wanted.until, (since // DAY + 1) * DAY)
        await _add_segments(reader, wanted, since, until, used)
        since = until
    return used


async def _by_day(reader: Reader, wanted: UsageFilter) -> _Collected:
    used = _Collected(By.DAY)
    first, end = -(-wanted.since // DAY), wanted.until // DAY
    if first >= end:
        await _add_segments(reader, wanted, wanted.since, wanted.until, used)
        return used
    await _add_whole_days(reader, wanted, first, end, used)
    query = Query(wanted)
    not_summed = f"summed = 0 AND {query.within(first * DAY, end * DAY)}{query.filter_few}"
    rows = await _read(reader, query, not_summed)
    await asyncio.to_thread(_divide, rows, first * DAY, end * DAY, used)
    for since, until in ((wanted.since, first * DAY), (end * DAY, wanted.until)):
        if until > since:
            await _add_segments(reader, wanted, since, until, used)
    return used


async def _add_whole_days(reader: Reader, wanted: UsageFilter, first: int, end: int, used: _Collected) -> None:
    """Add the sums of the days from number `first` to number `end`, which is excluded."""
    query, level = Query(wanted), level_of(By.DAY, wanted)
    only = " AND namespace = ''" if level == Level.OWNER.value else ""  # for the index
    columns = ", ".join(f"SUM({column})" for column in SUMMED_COLUMNS.split(", "))
    rows = await reader.fetch(
        f"SELECT first, gpu_type, {columns} FROM usage_sums WHERE level = {query.add(level)} AND days = 1 "
        f"AND first >= {query.add(first)} AND first < {query.add(end)}{query.filter}{only} GROUP BY 1, 2",
        *query.values,
    )
    for number, gpu_type, *amounts in resource_times(rows):
        gpu_seconds, cpu_milli_seconds, byte_seconds, member_seconds = amounts
        used.add(int(number), gpu_type, (gpu_seconds, cpu_milli_seconds, byte_seconds, member_seconds))


async def _add_segments(reader: Reader, wanted: UsageFilter, since: int, until: int, used: _Collected) -> None:
    """Add the segments that overlap the time between two times, each with its part in it."""
    query = Query(wanted)
    rows = await _read(reader, query, *query.edge(since, until))
    await asyncio.to_thread(_divide, rows, since, until, used)  # a day may have a hundred thousand of them


async def _read(reader: Reader, query: Query, *conditions: str) -> list[Row]:
    """Return the segments under any of these conditions, which exclude each other."""
    selects = (
        f"SELECT {AMOUNTS}, members, since, until, member_seconds FROM usage WHERE {condition}"
        for condition in conditions
    )
    return await reader.fetch(" UNION ALL ".join(selects), *query.values)


def _divide(rows: list[Row], since: int, until: int, used: _Collected) -> None:
    """Add segments, each with its part between two times. Time without members counts as a whole at its end."""
    for gpu_type, gpus, cpu_millis, memory_bytes, members, began, ended, member_seconds in rows:
        if members:
            each_second = gpus * members, cpu_millis * members, memory_bytes * members, members
            used.add_span(gpu_type, each_second, max(began, since), min(ended, until))
        else:
            seconds, last = member_seconds, ended if began == ended else ended - 1
            amounts = gpus * seconds, cpu_millis * seconds, memory_bytes * seconds, seconds
            used.add_span(gpu_type, amounts, last, last + 1)
