"""Traffic by hour, after a while by day, and the largest number of addresses in use of each pool on each day."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from kajitori.core.network.use.exhaustion import DayUse
from kajitori.core.network.use.pools import AddressPool
from kajitori.core.traffic.history import (
    DAY,
    DAYS_KEPT_SECONDS,
    HOURS_KEPT_SECONDS,
    HistoryGroup,
    HourRecord,
    Key,
    TrafficRecord,
)
from kajitori.history.databases.database import Database, Row, Statement

ADDRESS_DAYS = 800
"""Days for which the use of pools is kept."""
LATEST_SECONDS = 31 * DAY
"""A run's record that is older than this is not compared with the next one: servers forget the totals of runs after 30
days."""

_COLUMNS = "subject, key, at, bytes, document"
_STORE = (
    f"INSERT INTO traffic ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (subject, key, at) DO UPDATE SET "
    "bytes = excluded.bytes, document = excluded.document WHERE excluded.bytes >= traffic.bytes"
)
"""If two servers write the same hour, the record with more traffic is kept."""
_LATEST = (
    f"SELECT {_COLUMNS} FROM traffic AS found WHERE at < $1 AND (at >= $2 OR subject <> 'run') AND NOT EXISTS "
    "(SELECT 1 FROM traffic AS later WHERE later.subject = found.subject AND later.key = found.key "
    "AND later.at > found.at AND later.at < $1)"
)
_LAST_WITHIN = (
    f"SELECT {_COLUMNS} FROM traffic AS found WHERE subject = $1 AND at >= $2 AND at < $3 AND NOT EXISTS "
    "(SELECT 1 FROM traffic AS later WHERE later.subject = found.subject AND later.key = found.key "
    "AND later.at > found.at AND later.at < $3)"
)
_LAST_BEFORE = (
    f"SELECT {_COLUMNS} FROM traffic AS found WHERE subject = $1 AND at < $2 AND EXISTS "
    "(SELECT 1 FROM traffic AS within WHERE within.subject = found.subject AND within.key = found.key "
    "AND within.at >= $2 AND within.at < $3) AND NOT EXISTS "
    "(SELECT 1 FROM traffic AS later WHERE later.subject = found.subject AND later.key = found.key "
    "AND later.at > found.at AND later.at < $2)"
)
_OF_SUBJECT = f"SELECT {_COLUMNS} FROM traffic WHERE subject = $1 AND key = $2 AND at >= $3 AND at < $4 ORDER BY at"
_BEFORE_SUBJECT = f"SELECT {_COLUMNS} FROM traffic WHERE subject = $1 AND key = $2 AND at < $3 ORDER BY at DESC LIMIT 1"
_RECORDED_AT = "SELECT at FROM traffic WHERE subject = 'cluster' AND at >= $1 AND at < $2"
_OLDEST_HOUR = (
    "SELECT MIN(at) FROM traffic AS found WHERE at >= $1 AND at < $2 AND EXISTS (SELECT 1 FROM traffic AS later WHERE "
    + (
        "later.subject = found.subject AND later.key = found.key AND later.at > found.at AND later.at < "
        f"found.at - found.at % {DAY} + {DAY})"
    )
)
_THIN = "DELETE FROM traffic WHERE at >= $1 AND at < $2 AND EXISTS (SELECT 1 FROM traffic AS later WHERE " + (
    "later.subject = traffic.subject AND later.key = traffic.key AND later.at > traffic.at AND later.at < $2)"
)
_EXPIRE = "DELETE FROM traffic WHERE at < $1 AND (subject = 'run' OR EXISTS (SELECT 1 FROM traffic AS later WHERE " + (
    "later.subject = traffic.subject AND later.key = traffic.key AND later.at > traffic.at AND later.at < $1))"
)
"""The last record before the limit stays for namespaces and users: later ones are compared with it."""

_STORE_USE = (
    "INSERT INTO address_use (pool, day, used, capacity) VALUES ($1, $2, $3, $4) ON CONFLICT (pool, day) DO UPDATE SET "
    "used = CASE WHEN excluded.used > address_use.used THEN excluded.used ELSE address_use.used END, "
    "capacity = excluded.capacity"
)
_USE = "SELECT pool, day, used FROM address_use WHERE day > $1 ORDER BY pool, day"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TrafficRecord).decode


def statement_of(records: Iterable[HourRecord]) -> Statement:
    """Return the statement that stores these records. Storing them again changes nothing."""
    return Statement(
        _STORE,
        [(made.group, made.key, made.at, made.counted_bytes, _encode(made.record)) for made in records],
    )


async def latest(database: Database, before: int) -> dict[Key, HourRecord]:
    """Return the last record of each subject before this hour. Records of runs are at most a month old."""
    rows = await database.fetch(_LATEST, before, before - LATEST_SECONDS)
    return {(made.group, made.key): made for made in await asyncio.to_thread(_records_of, rows)}


async def within(
    database: Database, group: HistoryGroup, since: int, until: int
) -> list[tuple[HourRecord, TrafficRecord | None]]:
    """Return, for each subject with traffic in a span, its last record in the span and its last one before the span."""
    last = await database.fetch(_LAST_WITHIN, group, since, until)
    before = await database.fetch(_LAST_BEFORE, group, since, until)
    earlier = {made.key: made.record for made in await asyncio.to_thread(_records_of, before)}
    return [(made, earlier.get(made.key)) for made in await asyncio.to_thread(_records_of, last)]


async def of_subject(
    database: Database, group: HistoryGroup, key: str, since: int, until: int
) -> tuple[list[HourRecord], TrafficRecord | None]:
    """Return the records of a subject in a span, by time, and its last record before the span."""
    rows = await database.fetch(_OF_SUBJECT, group, key, since, until)
    earlier = _records_of(await database.fetch(_BEFORE_SUBJECT, group, key, since))
    return _records_of(rows), earlier[0].record if earlier else None


async def recorded_at(database: Database, since: int, until: int) -> list[int]:
    """Return the hours of a span in which anything was recorded."""
    return [int(at) for (at,) in await database.fetch(_RECORDED_AT, since, until)]


async def thin(database: Database, now: int, since: int) -> int:
    """Reduce the oldest day after `since` that still has hourly records to its last records, and remove records that
    are too old. Return the end of that day; `since` if there is no such day."""
    limit = (now - HOURS_KEPT_SECONDS) // DAY * DAY
    (oldest,) = (await database.fetch(_OLDEST_HOUR, since, limit))[0]
    statements = [Statement(_EXPIRE, [(now - DAYS_KEPT_SECONDS,)])]
    end = since
    if oldest is not None:
        day = int(oldest) // DAY * DAY
        end = day + DAY
        statements.append(Statement(_THIN, [(day, end)]))
    await database.write(statements)
    return end


def use_statements(pools: Sequence[AddressPool], day: int) -> list[Statement]:
    """Return the statements that record the use of pools on a day (days since 1970), and delete days that are too
    old."""
    rows = [(pool.name, day, pool.used, pool.capacity) for pool in pools]
    forget = Statement("DELETE FROM address_use WHERE day <= $1", [(day - ADDRESS_DAYS,)])
    return [Statement(_STORE_USE, rows), forget] if rows else [forget]


async def use_since(database: Database, day: int) -> dict[str, list[DayUse]]:
    """Return the use of each pool on each day after this one, by the pool's name."""
    found: dict[str, list[DayUse]] = {}
    for pool, at, used in await database.fetch(_USE, day):
        found.setdefault(pool, []).append(DayUse(int(at), int(used)))
    return found


def _records_of(rows: Sequence[Row]) -> list[HourRecord]:
    return [HourRecord(group, key, int(at), _decode(bytes(document))) for group, key, at, _, document in rows]
