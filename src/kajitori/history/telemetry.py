"""Bands of telemetry, downsampled with age."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from kajitori.core.telemetry.bands import pack, unpack
from kajitori.core.telemetry.levels import LEVELS, Interval, Level, coarser
from kajitori.core.telemetry.quantities import MINUTE_SECONDS
from kajitori.history.databases.database import Database, Row, Statement

_COLUMNS = "run_uid, attempt, seconds, began_at, ranks, document"
_UPSERT = (
    f"INSERT INTO telemetry ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6) "
    "ON CONFLICT (run_uid, attempt, seconds, began_at) DO UPDATE SET ranks = excluded.ranks, "
    "document = excluded.document WHERE excluded.ranks >= telemetry.ranks"
)
"""If two servers write the same minute, the row with more ranks is kept."""
_OF_RUN = (
    f"SELECT {_COLUMNS} FROM telemetry WHERE run_uid = $1 AND began_at >= $2 AND began_at < $3 "
    "ORDER BY began_at DESC LIMIT $4"
)
_LAST_OF_RUN = (
    f"SELECT * FROM (SELECT {_COLUMNS} FROM telemetry WHERE run_uid = {{0}} "
    "AND attempt = (SELECT MAX(attempt) FROM telemetry WHERE run_uid = {0}) "
    "AND seconds = (SELECT MIN(seconds) FROM telemetry WHERE run_uid = {0} "
    "AND attempt = (SELECT MAX(attempt) FROM telemetry WHERE run_uid = {0})) "
    "ORDER BY began_at DESC LIMIT {1}) AS part"
)
"""The newest intervals are the shortest ones: intervals are merged when they are old."""
_OF_MINUTE = f"SELECT {_COLUMNS} FROM telemetry WHERE seconds = $1 AND began_at = $2"
_NEWEST = "SELECT MAX(began_at) FROM telemetry WHERE seconds = $1 AND began_at < $2"
RUNS_AT_ONCE = 2500
"""Number of runs for which the bands of a minute are unpacked at once. They take about twenty megabytes."""
_UNION = 100
"""Number of runs in one query."""
MAX_ROWS = 20_000
"""Largest number of intervals in an answer; 400 days of a run have fewer."""


def statement_of(intervals: Iterable[Interval]) -> Statement:
    """Return the statement that stores these intervals. Storing them again changes nothing."""
    rows = [(each.run_uid, each.attempt, each.seconds, each.start, each.ranks, pack(each.bands)) for each in intervals]
    return Statement(_UPSERT, rows)


async def intervals_of(database: Database, run_uid: str, since: int, until: int) -> list[Interval]:
    """Return the intervals of a run that begin in this time (seconds since 1970), newest first."""
    rows = await database.fetch(_OF_RUN, run_uid, since, until, MAX_ROWS)
    return await asyncio.to_thread(_intervals_of, rows)


async def last_of_runs(database: Database, run_uids: Sequence[str], limit: int) -> dict[str, list[Interval]]:
    """Return the newest intervals of each run's last attempt with any, newest first: at most `limit` of a run."""
    found: dict[str, list[Interval]] = {}
    for first in range(0, len(run_uids), _UNION):
        uids = run_uids[first : first + _UNION]
        parts = (_LAST_OF_RUN.format(f"${number}", f"${len(uids) + 1}") for number in range(1, len(uids) + 1))
        rows = await database.fetch(" UNION ALL ".join(parts), *uids, limit)
        for each in sorted(_intervals_of(rows), key=lambda each: -each.start):
            found.setdefault(each.run_uid, []).append(each)
    return found


async def newest_minute(database: Database, before: int) -> int | None:
    """Return the beginning of the newest minute before this time for which any run has bands."""
    (newest,) = (await database.fetch(_NEWEST, MINUTE_SECONDS, before))[0]
    return None if newest is None else int(newest)


async def minute_of_runs(database: Database, start: int, run_uids: Container[str]) -> AsyncIterator[list[Interval]]:
    """Yield the bands of these runs in the minute that begins at this time, some thousands of runs at a time.

    Yields at least one list, which may be empty.
    """
    rows = [row for row in await database.fetch(_OF_MINUTE, MINUTE_SECONDS, start) if row[0] in run_uids]
    for first in range(0, max(1, len(rows)), RUNS_AT_ONCE):
        yield await asyncio.to_thread(_intervals_of, rows[first : first + RUNS_AT_ONCE])


@dataclass(frozen=True, slots=True)
class Thinned:
    """A table whose intervals become longer with age. It has the columns `seconds` and `began_at`."""

    name: str
    levels: Sequence[Level]
    columns: str
    merge: Callable[[Sequence[Row], int], Statement]
    """Returns the statement that stores these rows merged to intervals of this length. Called in a thread."""


async def downsample(database: Database, table: Thinned, now: int) -> bool:
    """Merge the oldest intervals that are too old for their resolution; return whether there is more to do.

    Each window is merged in one transaction, so that a process that is killed loses nothing. Two servers that merge the
    same window write the same rows.
    """
    more = False
    for number, level in enumerate(table.levels):
        longer = table.levels[number + 1].seconds if number + 1 < len(table.levels) else level.seconds
        until = now - level.kept_seconds
        until -= until % longer
        sql = f"SELECT MIN(began_at) FROM {table.name} WHERE seconds = $1 AND began_at < $2"
        (oldest,) = (await database.fetch(sql, level.seconds, until))[0]
        if oldest is None:
            continue
        window = level.seconds, oldest - oldest % longer, oldest - oldest % longer + longer
        inside = f"FROM {table.name} WHERE seconds = $1 AND began_at >= $2 AND began_at < $3"
        statements = [Statement(f"DELETE {inside}", [window])]
        if longer != level.seconds:
            rows = await database.fetch(f"SELECT {table.columns} {inside}", *window)
            statements.insert(0, await asyncio.to_thread(table.merge, rows, longer))
        await database.write(statements)
        more = True
    return more


def _merge_statement(rows: Sequence[Row], seconds: int) -> Statement:
    return statement_of(coarser(_intervals_of(rows), seconds))


THINNED = Thinned("telemetry", LEVELS, _COLUMNS, _merge_statement)


def _intervals_of(rows: Sequence[Row]) -> list[Interval]:
    return [
        Interval(uid, attempt, seconds, start, ranks, unpack(bytes(document)))
        for uid, attempt, seconds, start, ranks, document in rows
    ]
