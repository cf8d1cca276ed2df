"""Keeps the sums of whole days up to date, and removes old runs once their usage is in them.

Segments are added to the sums some time after they are written, and marked in the same transaction. A sum
with an `origin` is about runs that were removed, and the origin is the identifier of the history that had them. All
other sums could be computed again from the segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from kajitori.core.usage.daily import DAY, Amount, SumKey, UsedPart, daily_sums
from kajitori.history import lost_time
from kajitori.history.databases.database import Database, Reader, Row, Statement, placeholders

SUMMED_AT_ONCE = 5_000
"""Largest number of segments that are summed up in one transaction."""
DIVIDED_AT_ONCE = 1_000
"""The same for sums of time by cause, which take longer to compute."""
EXPIRED_AT_ONCE = 200
"""Largest number of runs that are removed in one transaction."""

_PART = tuple(field.name for field in msgspec.structs.fields(UsedPart))
_KEY = tuple(field.name for field in msgspec.structs.fields(SumKey))
_AMOUNT = tuple(field.name for field in msgspec.structs.fields(Amount))
_COLUMNS = (*_KEY, "origin", *_AMOUNT)

ADD_TO_SUM = (
    f"INSERT INTO usage_sums ({', '.join(_COLUMNS)}) VALUES ({placeholders(len(_COLUMNS))}) "
    f"ON CONFLICT ({', '.join((*_KEY, 'origin'))}) DO UPDATE SET "
    + ", ".join(f"{name} = usage_sums.{name} + excluded.{name}" for name in _AMOUNT)
)
_DROP_EMPTY = "DELETE FROM usage_sums WHERE member_seconds = 0 AND origin = '' AND " + " AND ".join(
    f"{name} = ${number + 1}" for number, name in enumerate(_KEY)
)
_COUNT_CHANGE = "UPDATE history_facts SET value = CASE WHEN value = $1 THEN $2 END WHERE name = 'sums'"
"""Fails if another process changed the sums since they were counted: `value` must not be null."""
_SET_FACT = "UPDATE history_facts SET value = $2 WHERE name = $1"


async def sum_up(database: Database, limit: int = SUMMED_AT_ONCE) -> int:
    """Add segments that are in no sum yet to the sums; return how many. Raises Conflict, and changes nothing, if
    another process did so at the same time."""
    changes = await fact(database, "sums")
    rows = await database.fetch(f"SELECT run_uid, id, {', '.join(_PART)} FROM usage WHERE summed = 0 LIMIT $1", limit)
    if rows:
        mark = Statement("UPDATE usage SET summed = 1 WHERE run_uid = $1 AND id = $2", [row[:2] for row in rows])
        await database.write([_count_change(changes), *_add(_sums_of(rows), ""), mark])
    return len(rows)


async def divide(database: Database, before: int, limit: int = DIVIDED_AT_ONCE) -> int:
    """Add segments that ended before this time (seconds since 1970) to the sums of time by category and cause; return
    how many. Marks of their attempts that come later do not change the sums. Raises Conflict like `sum_up`."""
    changes = await fact(database, "sums")
    found = await lost_time.sums_of(database, "divided = 0 AND +until < $1", [before], limit=limit)
    if found.keys:
        mark = Statement("UPDATE usage SET divided = 1 WHERE run_uid = $1 AND id = $2", found.keys)
        await database.write([_count_change(changes), *lost_time.added(found.sums, ""), mark])
    return len(found.keys)


async def expire(database: Database, before: int, limit: int = EXPIRED_AT_ONCE) -> int:
    """Remove runs that ended before the day of this time (seconds since 1970); return how many were removed now.

    Their usage stays in the sums of days. A run whose object exists, or whose usage is not in the sums yet, stays.
    """
    day_start, changes = before // DAY * DAY, await fact(database, "sums")
    runs = await database.fetch(
        "SELECT uid FROM runs WHERE created_at < $1 AND ended_at < $1 AND removed_at IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM usage WHERE run_uid = uid AND summed = 0) "
        "AND NOT EXISTS (SELECT 1 FROM usage WHERE run_uid = uid AND divided = 0) ORDER BY created_at, uid LIMIT $2",
        day_start,
        limit,
    )
    if not runs:
        return 0
    uids = [uid for (uid,) in runs]
    sql = f"SELECT run_uid, id, {', '.join(_PART)} FROM usage WHERE run_uid IN ({placeholders(len(uids))})"
    rows = await database.fetch(sql, *uids)
    origin, sums = await fact(database, "id"), _sums_of(rows)
    times = await lost_time.sums_of(database, f"run_uid IN ({placeholders(len(uids))})", uids)
    negated = {key: Amount(**{name: -getattr(amount, name) for name in _AMOUNT}) for key, amount in sums.items()}
    known = int(await fact(database, "expired_before"))
    statements = [
        _count_change(changes),
        *_add(sums, origin),
        *_add(negated, ""),
        Statement(_DROP_EMPTY, [msgspec.structs.astuple(key) for key in negated]),
        *lost_time.moved(times.sums, origin),
        Statement("DELETE FROM usage WHERE run_uid = $1 AND id = $2", [row[:2] for row in rows]),
        Statement("DELETE FROM attempts WHERE run_uid = $1", runs),
        Statement("DELETE FROM telemetry WHERE run_uid = $1", runs),
        Statement("DELETE FROM marks WHERE run_uid = $1", runs),
        Statement("DELETE FROM runs WHERE uid = $1", runs),
        Statement(_SET_FACT, [("expired_before", str(max(known, day_start)))]),
    ]
    await database.write([statement for statement in statements if statement.rows])
    return len(uids)


async def fact(reader: Reader, name: str) -> str:
    """Return a fact about the history.

    `id` is its identifier, `sums` the number of changes of the sums, `expired_before` the end of the days for which
    only sums are kept, and `current_at` the last time at which it lacked nothing (milliseconds).
    """
    ((value,),) = await reader.fetch("SELECT value FROM history_facts WHERE name = $1", name)
    return str(value)


def note_current(at_millis: int) -> Statement:
    """Return the statement that records that history was complete at this time."""
    return Statement(_SET_FACT, [("current_at", str(at_millis))])


def _count_change(changes: str) -> Statement:
    """Return the statement that counts a change of the sums. It fails if another process changed them since the count
    was read."""
    return Statement(_COUNT_CHANGE, [(changes, str(int(changes) + 1))])


def _sums_of(rows: Iterable[Row]) -> dict[SumKey, Amount]:
    return daily_sums(UsedPart(**dict(zip(_PART, row[2:], strict=True))) for row in rows)


def _add(sums: Mapping[SumKey, Amount], origin: str) -> Sequence[Statement]:
    rows = [
        tuple(chain(msgspec.structs.astuple(key), (origin,), msgspec.structs.astuple(amount)))
        for key, amount in sorted(sums.items())
        if amount.member_seconds
    ]
    return [Statement(ADD_TO_SUM, rows)] if rows else []
