"""Records of runs and of their usage: the statements that write them, and lists of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import zstandard

from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.usage import Amounts
from kajitori.core.usage.lost_time.slices import Mark
from kajitori.core.usage.records import AttemptRecord, RunRecord, RunState
from kajitori.history import lost_time
from kajitori.history.databases.database import Database, Parameters, Row, Statement

_COLUMNS = (
    *("uid", "namespace", "name", "owner", "type", "phase", "reason", "created_at", "started_at", "ended_at"),
    *("removed_at", "members", "gpus", "attempts", "seen_at"),
)
_LISTED = ", ".join(_COLUMNS)

_KEPT = ("uid", "namespace", "name", "created_at")


def _placeholders(count: int) -> str:
    """Return `$1, $2, …` for this number of parameters."""
    return ", ".join(f"${number}" for number in range(1, count + 1))


_CHANGING = [name for name in (*_COLUMNS, "document") if name not in _KEPT]
_UPSERT_RUN = f"""
    INSERT INTO runs ({_LISTED}, document) VALUES ({_placeholders(len(_COLUMNS) + 1)})
    ON CONFLICT (uid) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _CHANGING)}
    WHERE excluded.seen_at >= runs.seen_at
"""
"""Writes a run, unless a newer state of it is there."""
_ATTEMPT_COLUMNS = ("number", "nodes", "planned_at", "started_at", "ended_at", "reason", "message")
_NEW_UNLESS_EMPTY = "{0} = CASE WHEN excluded.{0} <> '' THEN excluded.{0} ELSE attempts.{0} END"
_UPSERT_ATTEMPT = f"""
    INSERT INTO attempts (run_uid, {", ".join(_ATTEMPT_COLUMNS)}) VALUES ({_placeholders(len(_ATTEMPT_COLUMNS) + 1)})
    ON CONFLICT (run_uid, number) DO UPDATE SET {", ".join(map(_NEW_UNLESS_EMPTY.format, _ATTEMPT_COLUMNS[1:]))}
"""
"""Empty values replace nothing: a status that has an attempt's end may no longer have its nodes."""

NAMESPACES = """
    WITH RECURSIVE names(name) AS (
        SELECT MIN(namespace) FROM runs
        UNION ALL
        SELECT (SELECT MIN(namespace) FROM runs WHERE namespace > names.name) FROM names WHERE names.name IS NOT NULL
    )
    SELECT name FROM names WHERE name IS NOT NULL
"""
"""Jumps from one namespace to the next in the index, instead of reading all runs."""
MARK_REMOVED = """
    UPDATE runs SET
        removed_at = $2,
        ended_at = COALESCE(ended_at, $2),
        phase = CASE WHEN ended_at IS NULL THEN 'Stopped' ELSE phase END,
        reason = CASE WHEN ended_at IS NULL THEN 'Deleting' ELSE reason END
    WHERE uid = $1 AND removed_at IS NULL
"""
_USAGE_COLUMNS = (
    "run_uid, id, ledger, namespace, owner, name, attempt, gpu_type, gpus, cpu_millis, memory_bytes, members, "
    "since, until, member_seconds, nodes"
)
STORY_COLUMNS = ("started", "ended", "cause", "culprit", "after", "saves_every", "counts")
_INSERT_SEGMENT = f"""
    INSERT INTO usage ({_USAGE_COLUMNS}, {", ".join(STORY_COLUMNS)})
    VALUES ({_placeholders(len(_USAGE_COLUMNS.split(", ")) + len(STORY_COLUMNS))}) ON CONFLICT (run_uid, id) DO NOTHING
"""
_LEFT_OUT = {
    "run_uid": "TEXT",
    "id": "BIGINT",
    "ledger": "BIGINT",
    "namespace": "TEXT",
    "owner": "TEXT",
    "name": "TEXT",
    "gpu_type": "TEXT",
    "gpus": "BIGINT",
    "cpu_millis": "BIGINT",
    "memory_bytes": "BIGINT",
    "since": "BIGINT",
    "until": "BIGINT",
    "total_seconds": "BIGINT",
}
"""The parameters of the next statement, in their order, with their types."""
_INSERT_LEFT_OUT = f"""
    INSERT INTO usage ({_USAGE_COLUMNS})
    SELECT
        {{run_uid}}, {{id}}, {{ledger}}, {{namespace}}, {{owner}}, {{name}}, 0,
        {{gpu_type}}, {{gpus}}, {{cpu_millis}}, {{memory_bytes}}, 0,
        {{since}}, {{until}}, {{total_seconds}} - stored.seconds, ''
    FROM (
        SELECT CAST(COALESCE(SUM(member_seconds), 0) AS BIGINT) AS seconds FROM usage
        WHERE run_uid = {{run_uid}} AND ledger = {{ledger}} AND gpu_type = {{gpu_type}} AND gpus = {{gpus}}
        AND cpu_millis = {{cpu_millis}} AND memory_bytes = {{memory_bytes}}
    ) AS stored
    WHERE {{total_seconds}} > stored.seconds ON CONFLICT (run_uid, id) DO NOTHING
""".format(**{name: f"CAST(${n} AS {kind})" for n, (name, kind) in enumerate(_LEFT_OUT.items(), start=1)})
"""Adds the time of segments that a status had no room for: the total less the sum of all rows. The difference is 0, and
nothing is added, if no segment was left out or if this time was added before. The run's own row is written first, in
the same transaction, so that one of two writers waits for the other."""

MAX_SORTED_RUNS = 2_000
"""Up to this number of runs with the same beginning of the name, all of them are read and sorted."""
DAY = 86_400
"""Seconds of a day. The index `runs_by_day_and_name` contains this number, so it must not change."""

_PARTS_OF_QUERY = 100
"""Largest number of parts in one query."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter of runs. Empty fields match all."""

    namespaces: Collection[str] | None = None
    """None: all namespaces."""
    owner: str = ""
    phases: tuple[str, ...] = ()
    name: str = ""
    """Beginning of the name."""
    since: int | None = None
    """Only runs that were created at this time or later."""
    until: int | None = None
    """Only runs that were created before this time."""


def statements_of(states: Iterable[RunState]) -> list[Statement]:
    """Return the statements that store these states, all of them in one transaction. Storing them again changes
    nothing."""
    packer = zstandard.ZstdCompressor(level=3)
    runs, attempts, segments, left_out = list[Row](), list[Row](), list[Row](), list[Row]()
    marks: list[tuple[str, Mark]] = []
    for state in states:
        run = state.run
        runs.append((*(getattr(run, name) for name in _COLUMNS), packer.compress(run.document)))
        for attempt in state.attempts:
            attempts.append((run.uid, *(getattr(attempt, name) for name in _ATTEMPT_COLUMNS)))
        marks += [(run.uid, mark) for mark in state.marks]
        about = state.ledger, run.namespace, run.owner, run.name
        for segment in state.segments:
            held = segment.members, segment.since, segment.until, segment.member_seconds, segment.nodes
            story = [getattr(segment, name) for name in STORY_COLUMNS]
            segments.append((run.uid, segment.id, *about, segment.attempt, *_amounts_of(segment), *held, *story))
        for number, total in enumerate(state.totals):
            key = -(state.last * 16 + number)
            left_out.append((run.uid, key, *about, *_amounts_of(total), state.since, state.until, total.member_seconds))
    written = ((_UPSERT_RUN, runs), (_UPSERT_ATTEMPT, attempts), (_INSERT_SEGMENT, segments))
    statements = [Statement(sql, rows) for sql, rows in (*written, (_INSERT_LEFT_OUT, left_out)) if rows]
    return [*statements, lost_time.statement_of(marks)] if marks else statements


def _amounts_of(part: Amounts) -> tuple[str, int, int, int]:
    return part.gpu_type, part.gpus, part.cpu_millis, part.memory_bytes


async def list_runs(
    database: Database, wanted: RunFilter, limit: int, after: tuple[int, str] | None = None
) -> list[RunRecord]:
    """Return runs without their documents, newest first: at most `limit`, after this time of creation and UID.

    Each part of the query reads one index in its own order, so the time does not grow with the number of runs.
    """
    if wanted.namespaces is not None and not wanted.namespaces:
        return []
    if wanted.name:
        return [_record_of(row) for row in await _by_name(database, wanted, limit, after)]
    rows: list[Row] = []
    parts = list(_query_parts(wanted))
    for start in range(0, len(parts), _PARTS_OF_QUERY):
        sql, parameters = _union_query(wanted, parts[start : start + _PARTS_OF_QUERY], limit, after)
        rows += await database.fetch(sql, *parameters)
    created_at, uid = _COLUMNS.index("created_at"), _COLUMNS.index("uid")
    rows.sort(key=lambda row: (row[created_at], row[uid]), reverse=True)
    return [_record_of(row) for row in rows[:limit]]


def _query_parts(wanted: RunFilter) -> Iterator[dict[str, str]]:
    """Yield, for each part of the query, the values of the columns that come before the time in one of the indexes."""
    namespaces = [{"namespace": name} for name in sorted(wanted.namespaces)] if wanted.namespaces is not None else [{}]
    phases = wanted.phases or (tuple(Phase) if wanted.owner else ())
    in_phase = [{"phase": str(phase)} for phase in phases] or [{}]
    owner = {"owner": wanted.owner} if wanted.owner else {}
    for one, other in product(namespaces, in_phase):
        yield one | owner | other


def _union_query(
    wanted: RunFilter, parts: Sequence[dict[str, str]], limit: int, after: tuple[int, str] | None
) -> tuple[str, list[Any]]:
    """Return the query that unites these parts, and its parameters."""
    parameters = Parameters()
    common = _common_conditions(wanted, parameters)
    if after is not None:
        common.append(f"(created_at, uid) < ({parameters.add(after[0])}, {parameters.add(after[1])})")
    most = parameters.add(limit)
    selects = []
    for part in parts:
        conditions = [*(f"{column} = {parameters.add(value)}" for column, value in part.items()), *common]
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        selects.append(
            f"SELECT * FROM (SELECT {_LISTED} FROM runs {where}ORDER BY created_at DESC, uid DESC LIMIT {most}) AS part"
        )
    return f"{' UNION ALL '.join(selects)} ORDER BY created_at DESC, uid DESC LIMIT {most}", parameters.values


def _common_conditions(wanted: RunFilter, parameters: Parameters) -> list[str]:
    """Return the conditions on time and name that every part of a list has."""
    conditions = []
    if wanted.since is not None:
        conditions.append(f"created_at >= {parameters.add(wanted.since)}")
    if wanted.until is not None:
        conditions.append(f"created_at < {parameters.add(wanted.until)}")
    if wanted.name:
        beginning, end = parameters.add(wanted.name), parameters.add(_after_all(wanted.name))
        conditions.append(f"name >= {beginning} AND name < {end}")
    return conditions


async def _by_name(database: Database, wanted: RunFilter, limit: int, after: tuple[int, str] | None) -> list[Row]:
    """Return the newest runs with this beginning of the name.

    If there are few, all are read and sorted; otherwise only those of the newest days that together have enough. The
    inner queries read one index only, because it has all columns that a filter may name.
    """
    bounds = wanted.name, _after_all(wanted.name)
    counted = "SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE name >= $1 AND name < $2 LIMIT $3) AS found"
    ((count,),) = await database.fetch(counted, *bounds, MAX_SORTED_RUNS + 1)
    parameters = Parameters()
    conditions = _common_conditions(wanted, parameters)
    if after is not None:
        conditions.append(f"(created_at, uid) < ({parameters.add(after[0])}, {parameters.add(after[1])})")
    if wanted.owner:
        conditions.append(f"owner = {parameters.add(wanted.owner)}")
    if wanted.phases:
        conditions.append(f"phase IN ({parameters.add_all(wanted.phases)})")
    if wanted.namespaces is not None:
        conditions.append(f"namespace IN ({parameters.add_all(sorted(wanted.namespaces))})")
    most = parameters.add(limit)
    if count > MAX_SORTED_RUNS:
        days = await _days_with(
            database, " AND ".join(conditions), parameters.values, most, _creation_span(wanted, after)
        )
        if not days:
            return []
        conditions.append(f"created_at / {DAY} IN ({parameters.add_all(days)})")
    # `+ 0` keeps PostgreSQL from using the index by time, with which it would read runs of all other names as well.
    inner = f"SELECT uid FROM runs WHERE {' AND '.join(conditions)} ORDER BY created_at + 0 DESC, uid DESC LIMIT {most}"
    sql = f"SELECT {_LISTED} FROM runs WHERE uid IN ({inner}) ORDER BY created_at DESC, uid DESC"
    return await database.fetch(sql, *parameters.values)


def _creation_span(wanted: RunFilter, after: tuple[int, str] | None) -> tuple[int | None, int | None]:
    """Return the times of creation (seconds since 1970) between which the runs of a page are; None: no bound."""
    ends = [end for end in (wanted.until, after[0] if after is not None else None) if end is not None]
    return wanted.since, min(ends, default=None)


async def _days_with(
    database: Database, condition: str, parameters: Sequence[Any], most: str, span: tuple[int | None, int | None]
) -> list[int]:
    """Return the newest days (numbers from 1970) on which together enough runs that meet the condition were created.

    `most` is the placeholder of the number of runs that is enough.

    The database walks back day by day, with one look into the index for each.
    """
    bounds = "SELECT (SELECT MIN(created_at) FROM runs), (SELECT MAX(created_at) FROM runs)"
    ((first, last),) = await database.fetch(bounds)
    if first is None:
        return []
    since, until = span
    oldest = max(first, since if since is not None else first) // DAY
    newest = min(last, until if until is not None else last) // DAY
    begin, end = f"${len(parameters) + 1}", f"${len(parameters) + 2}"
    runs_of_day = f"SELECT 1 FROM runs WHERE created_at / {DAY} = walk.day - 1 AND {condition} LIMIT {most}"
    sql = f"""
        WITH RECURSIVE walk(day, runs, runs_before) AS (
            SELECT CAST({begin} AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT)
            UNION ALL
            SELECT walk.day - 1, (SELECT COUNT(*) FROM ({runs_of_day}) AS same), walk.runs_before + walk.runs
            FROM walk WHERE walk.runs_before + walk.runs < {most} AND walk.day > {end}
        )
        SELECT day FROM walk WHERE runs > 0
    """
    return [day for (day,) in await database.fetch(sql, *parameters, newest + 1, oldest)]


def _after_all(beginning: str) -> str:
    """Return a text after all texts that begin like this, and before all others."""
    return beginning + "\U0010ffff"


def _record_of(row: Row, document: bytes = b"") -> RunRecord:
    return RunRecord(**dict(zip(_COLUMNS, row, strict=True)), document=document)


async def find_run(database: Database, namespace: str, name: str) -> RunRecord | None:
    """Return the newest run with this name, or the run with this UID, with its document; None if there is none."""
    sql = f"SELECT {_LISTED}, document FROM runs WHERE "
    named = "uid IN (SELECT uid FROM runs WHERE name = $2 AND namespace = $1)"  # else SQLite reads the whole namespace
    rows = await database.fetch(f"{sql}{named} ORDER BY created_at DESC, uid DESC LIMIT 1", namespace, name)
    if not rows:
        rows = await database.fetch(f"{sql}uid = $2 AND namespace = $1", namespace, name)
    for row in rows:
        return _record_of(row[:-1], zstandard.ZstdDecompressor().decompress(row[-1]))
    return None


async def documents_of(database: Database, uids: Sequence[str]) -> dict[str, bytes]:
    """Return the documents of these runs (at most a page of them) by UID."""
    if not uids:
        return {}
    unpacker = zstandard.ZstdDecompressor()
    places = ", ".join(f"${number + 1}" for number in range(len(uids)))
    rows = await database.fetch(f"SELECT uid, document FROM runs WHERE uid IN ({places})", *uids)
    return {uid: unpacker.decompress(document) for uid, document in rows}


async def attempts_of(database: Database, uid: str, limit: int) -> list[AttemptRecord]:
    """Return the last attempts of a run, in the order of their numbers."""
    sql = f"SELECT {', '.join(_ATTEMPT_COLUMNS)} FROM attempts WHERE run_uid = $1 ORDER BY number DESC LIMIT $2"
    rows = await database.fetch(sql, uid, limit)
    return [AttemptRecord(**dict(zip(_ATTEMPT_COLUMNS, row, strict=True))) for row in reversed(rows)]
