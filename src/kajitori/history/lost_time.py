"""Lost time of runs in the database: marks of attempts, segments with the facts about their time, and sums by cause."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kajitori.core.usage.daily import DAY, TimeAmount, TimedPart, TimeKey, TimeLevel, daily_times
from kajitori.core.usage.lost_time.slices import Held, Mark, divide
from kajitori.history.databases.database import Database, Row, Statement, placeholders

_KEY = tuple(field.name for field in msgspec.structs.fields(TimeKey))
_AMOUNT = tuple(field.name for field in msgspec.structs.fields(TimeAmount))
_COLUMNS = (*_KEY, "origin", *_AMOUNT)
ADD_TO_SUM = (
    f"INSERT INTO time_sums ({', '.join(_COLUMNS)}) VALUES ({placeholders(len(_COLUMNS))}) "
    f"ON CONFLICT ({', '.join((*_KEY, 'origin'))}) DO UPDATE SET "
    + ", ".join(f"{name} = time_sums.{name} + excluded.{name}" for name in _AMOUNT)
)
_DROP_EMPTY = "DELETE FROM time_sums WHERE member_seconds = 0 AND times = 0 AND origin = '' AND " + " AND ".join(
    f"{name} = ${number + 1}" for number, name in enumerate(_KEY)
)
_MARK = (
    "INSERT INTO marks (run_uid, attempt, kind, since, until) VALUES ($1, $2, $3, $4, $5) "
    "ON CONFLICT (run_uid, attempt, kind, since) DO UPDATE SET until = excluded.until "
    "WHERE excluded.until > marks.until"
)
_SEGMENT = (
    *("run_uid", "id", "namespace", "owner", "attempt", "gpus", "members", "since", "until", "member_seconds"),
    *("started", "ended", "cause", "culprit", "after", "saves_every", "counts"),
)
_RUNS_AT_ONCE = 500
"""Largest number of runs in one query for marks."""
MAX_MARKS = 100_000
"""Largest number of marks of a run that are read; the newest ones."""


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """The sums of the time of segments, and the keys of these segments."""

    keys: list[Row]
    sums: dict[TimeKey, TimeAmount]


def statement_of(marks: Iterable[tuple[str, Mark]]) -> Statement:
    """Return the statement that stores these marks, each with the UID of its run. Storing them again changes nothing; a
    later end of a mark replaces an earlier one."""
    return Statement(_MARK, [(uid, mark.attempt, mark.kind, mark.since, mark.until) for uid, mark in marks])


async def segments_of_run(database: Database, run_uid: str) -> dict[int, Held]:
    """Return the segments of a run, by number."""
    rows = await database.fetch(f"SELECT {', '.join(_SEGMENT)} FROM usage WHERE run_uid = $1", run_uid)
    return {row[1]: _part_of(row).held for row in rows}


async def marks_of(database: Database, uids: Collection[str]) -> dict[str, list[Mark]]:
    """Return the marks of these runs, by UID."""
    found: dict[str, list[Mark]] = defaultdict(list)
    wanted = sorted(uids)
    for start in range(0, len(wanted), _RUNS_AT_ONCE):
        some = wanted[start : start + _RUNS_AT_ONCE]
        sql = (
            "SELECT run_uid, attempt, kind, since, until FROM marks "
            f"WHERE run_uid IN ({placeholders(len(some))}) ORDER BY since DESC"
        )
        for uid, *fields in await database.fetch(f"{sql} LIMIT {MAX_MARKS}", *some):
            found[uid].append(Mark(*fields))
    return found


async def sums_of(database: Database, condition: str, parameters: Sequence[Any], *, limit: int = 0) -> SegmentSums:
    """Return the sums of the time of the segments that meet this condition."""
    end = f" LIMIT {limit}" if limit else ""
    rows = await database.fetch(f"SELECT {', '.join(_SEGMENT)} FROM usage WHERE {condition}{end}", *parameters)
    marks = await marks_of(database, {row[0] for row in rows})
    return SegmentSums([row[:2] for row in rows], await asyncio.to_thread(_daily_sums, rows, marks))


def _daily_sums(rows: Iterable[Row], marks: Mapping[str, Sequence[Mark]]) -> dict[TimeKey, TimeAmount]:
    parts = ((part, divide(part.held, marks.get(row[0], ()))) for row in rows for part in (_part_of(row),))
    return daily_times(parts)


async def report(
    database: Database, level: TimeLevel, since: int, until: int, namespaces: Collection[str] | None
) -> dict[TimeKey, TimeAmount]:
    """Return the sums from the day of `since` to the day of `until` (seconds since 1970).

    Time of segments that have not ended is not included. The keys have the day 0.
    """
    if namespaces is not None and not namespaces:
        return {}
    first, last = since // DAY, until // DAY
    columns = ("namespace", "owner", "category", "cause")
    parameters: list[Any] = [level.value, first, last]
    only = ""
    if namespaces is not None:
        only = f" AND namespace IN ({', '.join(f'${number + 4}' for number in range(len(namespaces)))})"
        parameters += sorted(namespaces)
    sums = ", ".join(f"SUM({name})" for name in _AMOUNT)
    sql = (
        f"SELECT {', '.join(columns)}, {sums} FROM time_sums WHERE level = $1 AND day >= $2 AND day <= $3{only} "
        f"GROUP BY {', '.join(columns)}"
    )
    found: dict[TimeKey, TimeAmount] = {}
    for row in await database.fetch(sql, *parameters):
        found[TimeKey(level.value, 0, *row[:4])] = TimeAmount(*(int(value) for value in row[4:]))
    fresh = await sums_of(database, "divided = 0 AND +until >= $1", [first * DAY])
    add_days(found, fresh.sums, level, first, last, namespaces)
    return found


def add_days(
    found: dict[TimeKey, TimeAmount],
    more: Mapping[TimeKey, TimeAmount],
    level: TimeLevel,
    first: int,
    last: int,
    namespaces: Collection[str] | None,
) -> None:
    """Add the daily sums that belong to a report to its sums."""
    for key, amount in more.items():
        if (
            key.level == level.value
            and first <= key.day <= last
            and (namespaces is None or key.namespace in namespaces)
        ):
            sums = found.setdefault(msgspec.structs.replace(key, day=0), TimeAmount())
            sums.add(amount.gpu_seconds, amount.member_seconds, amount.times)


def added(sums: Mapping[TimeKey, TimeAmount], origin: str, factor: int = 1) -> list[Statement]:
    """Return the statement that adds these amounts, times a factor, to the sums."""
    rows = [
        (*msgspec.structs.astuple(key), origin, *(factor * value for value in msgspec.structs.astuple(amount)))
        for key, amount in sorted(sums.items())
        if amount.member_seconds or amount.times
    ]
    return [Statement(ADD_TO_SUM, rows)] if rows else []


def moved(sums: Mapping[TimeKey, TimeAmount], origin: str) -> list[Statement]:
    """Return the statements that move these amounts to the sums of removed runs."""
    keys = [msgspec.structs.astuple(key) for key in sums]
    drop = [Statement(_DROP_EMPTY, keys)] if keys else []
    return [*added(sums, origin), *added(sums, "", -1), *drop]


def _part_of(row: Row) -> TimedPart:
    _, _, namespace, owner, attempt, gpus, members, since, until, member_seconds, *story = row
    started, ended, cause, culprit, after, saves_every, counts = story
    held = Held(
        attempt=attempt,
        members=members,
        gpus=gpus,
        since=since,
        until=until,
        started=started,
        ended=ended,
        cause=cause,
        node=culprit,
        after=after,
        saves_every=saves_every,
        is_known=counts >= 0,
        loose_seconds=0 if members else member_seconds,
    )
    return TimedPart(namespace=namespace, owner=owner, held=held, counts=counts)
