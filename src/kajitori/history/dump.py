"""Copies history from one database into another, of the same kind or not, as rows of plain values.

Rows are read in one transaction, so they are consistent. Loading them again changes nothing: existing rows stay as they
are. A dump has no sums over runs that are still in history, since these sums are computed again.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import zstandard

from kajitori.history.databases.database import Database, Reader, Row, Statement, placeholders
from kajitori.history.sums import fact

PAGE = 2_000

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a dump."""

    name: str
    key: tuple[str, ...]
    """Columns by which rows are ordered and paged."""
    columns: tuple[str, ...]
    run: str = ""
    """Column with the UID of a run."""
    only: str = ""
    """SQL condition of the rows that belong to a dump; empty for all rows."""
    packed: str = ""
    """Column with text that is compressed with zstd."""
    binary: str = ""
    """Column with other bytes."""
    added: tuple[tuple[str, Any], ...] = ()
    """Columns that dumps of earlier versions lack, with the values that they get."""


_STORY: tuple[tuple[str, Any], ...] = (
    *(("started", None), ("ended", None), ("cause", ""), ("culprit", ""), ("after", "")),
    *(("saves_every", 0), ("counts", -1)),
)

TABLES = (
    Table(
        "runs",
        ("uid",),
        (
            *("uid", "namespace", "name", "owner", "type", "phase", "reason", "created_at", "started_at", "ended_at"),
            *("removed_at", "members", "gpus", "attempts", "seen_at", "document"),
        ),
        run="uid",
        packed="document",
    ),
    Table(
        "attempts",
        ("run_uid", "number"),
        ("run_uid", "number", "nodes", "planned_at", "started_at", "ended_at", "reason", "message"),
        run="run_uid",
    ),
    Table(
        "usage",
        ("run_uid", "id"),
        (
            *("run_uid", "id", "ledger", "namespace", "owner", "name", "attempt", "gpu_type", "gpus", "cpu_millis"),
            *("memory_bytes", "members", "since", "until", "member_seconds", "nodes"),
            *(name for name, _ in _STORY),
        ),
        run="run_uid",
        added=_STORY,
    ),
    Table(
        "usage_sums",
        ("level", "days", "namespace", "first", "owner", "gpu_type", "origin"),
        (
            *("level", "days", "namespace", "first", "owner", "gpu_type", "origin"),
            *("gpu_seconds", "cpu_milli_seconds", "mib_seconds", "odd_byte_seconds", "member_seconds"),
        ),
        only="origin <> ''",
    ),
    Table(
        "time_sums",
        ("level", "day", "namespace", "owner", "category", "cause", "origin"),
        (
            *("level", "day", "namespace", "owner", "category", "cause", "origin"),
            *("gpu_seconds", "member_seconds", "times"),
        ),
        only="origin <> ''",
    ),
    Table(
        "marks",
        ("run_uid", "attempt", "kind", "since"),
        ("run_uid", "attempt", "kind", "since", "until"),
        run="run_uid",
    ),
    Table(
        "telemetry",
        ("run_uid", "attempt", "seconds", "began_at"),
        ("run_uid", "attempt", "seconds", "began_at", "ranks", "document"),
        run="run_uid",
        binary="document",
    ),
    Table(
        "traffic",
        ("subject", "key", "at"),
        ("subject", "key", "at", "bytes", "document"),
        binary="document",
    ),
    Table("address_use", ("pool", "day"), ("pool", "day", "used", "capacity")),
    Table(
        "audit",
        ("id",),
        ("key", "at", "actor", "source", "action", "namespace", "object", "outcome", "rule", "message"),
    ),
)


@dataclass(frozen=True, slots=True)
class Target:
    """Facts that the receiving history knows about a dump."""

    skip_before: int = 0
    """A run of the dump that ended before this time and is missing in the receiving history has expired there."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New UIDs of restored runs, by their UIDs in the dump."""


async def facts_of_dump(reader: Reader) -> dict[str, str]:
    """Return the facts about a history that a dump contains."""
    return {name: await fact(reader, name) for name in ("id", "expired_before")}


async def rows_of(reader: Reader, table: Table) -> AsyncIterator[Record]:
    """Yield the rows of a table, as values that JSON knows."""
    unpack = zstandard.ZstdDecompressor().decompress
    columns = (*table.columns, *(name for name in table.key if name not in table.columns))
    keys = ", ".join(table.key)
    condition = f"{table.only} AND " if table.only else ""
    after: Sequence[Any] = ()
    while True:
        beyond = f"WHERE {condition}({keys}) > ({placeholders(len(table.key))})" if after else f"WHERE {condition}1 = 1"
        sql = f"SELECT {', '.join(columns)} FROM {table.name} {beyond} ORDER BY {keys} LIMIT {PAGE}"
        rows = await reader.fetch(sql, *after)
        for row in rows:
            record = dict(zip(columns, row, strict=True))
            if table.packed:
                record[table.packed] = unpack(record[table.packed]).decode()
            if table.binary:
                record[table.binary] = base64.b64encode(record[table.binary]).decode()
            yield {name: record[name] for name in table.columns}
        if len(rows) < PAGE:
            return
        after = [rows[-1][columns.index(name)] for name in table.key]


async def prepare(database: Database, facts: Mapping[str, str]) -> Target:
    """Record from which history the rows come, and return what the receiving history knows about them.

    An empty history takes over the identifier of the dump's history.
    """
    own, source = await fact(database, "id"), facts["id"]
    is_empty = not await database.fetch("SELECT 1 FROM runs LIMIT 1") and not await database.fetch(
        "SELECT 1 FROM usage_sums LIMIT 1"
    )
    restored, renamed = await _facts_of_kind(database, "restored:"), await renamed_runs(database)
    statements: list[Statement] = []
    if is_empty and own != source:
        statements.append(Statement("UPDATE history_facts SET value = $1 WHERE name = 'id'", [(source,)]))
    elif own != source and source not in restored:
        statements.append(_new_fact([(f"restored:{source}", "1")]))
    expired = int(await fact(database, "expired_before"))
    if statements:
        await database.write(statements)
    was_here = own == source or source in restored
    return Target(expired if was_here and not is_empty else 0, renamed)


async def complete(database: Database, facts: Mapping[str, str]) -> None:
    """Record for which days the dump has only sums. Call this after all rows are loaded: until then a load can be
    repeated."""
    if int(facts["expired_before"]) > int(await fact(database, "expired_before")):
        sql = "UPDATE history_facts SET value = $1 WHERE name = 'expired_before'"
        await database.write([Statement(sql, [(facts["expired_before"],)])])


async def load(database: Database, table: Table, records: Iterable[Record], target: Target) -> None:
    """Write rows into a table. Existing rows with the same keys stay as they are."""
    pack = zstandard.ZstdCompressor(level=3).compress
    rows: list[Row] = []
    for record in records:
        whole = dict(table.added) | record
        if table.run:
            whole[table.run] = target.renamed.get(whole[table.run], whole[table.run])
        if table.packed:
            whole[table.packed] = pack(whole[table.packed].encode())
        if table.binary:
            whole[table.binary] = base64.b64decode(whole[table.binary])
        rows.append(tuple(whole[name] for name in table.columns))
    columns = ", ".join(table.columns)
    sql = f"INSERT INTO {table.name} ({columns}) VALUES ({placeholders(len(table.columns))}) ON CONFLICT DO NOTHING"
    if rows:
        await database.write([Statement(sql, rows)])


async def unknown_expired(database: Database, records: Sequence[Record], before: int) -> set[str]:
    """Return the UIDs of runs in the dump that ended before a time and are no longer in this history."""
    old = [record["uid"] for record in records if (record["ended_at"] or before) < before]
    found: set[str] = set()
    for start in range(0, len(old), 500):
        part = old[start : start + 500]
        sql = f"SELECT uid FROM runs WHERE uid IN ({placeholders(len(part))})"
        found |= {uid for (uid,) in await database.fetch(sql, *part)}
    return set(old) - found


async def rename(database: Database, uids: Mapping[str, str]) -> None:
    """Give the records of restored runs their new UIDs, and store both UIDs for later restores."""
    pairs = [(old, new) for old, new in uids.items()]
    if not pairs:
        return
    moved = (
        "UPDATE runs SET created_at = (SELECT old.created_at FROM runs AS old WHERE old.uid = $1) "
        "WHERE uid = $2 AND EXISTS (SELECT 1 FROM runs AS old WHERE old.uid = $1)",
        "DELETE FROM runs WHERE uid = $1 AND EXISTS (SELECT 1 FROM runs AS made WHERE made.uid = $2)",
        "UPDATE runs SET uid = $2, removed_at = NULL WHERE uid = $1",
        "DELETE FROM attempts WHERE run_uid = $1 AND number IN (SELECT made.number FROM attempts AS made "
        "WHERE made.run_uid = $2)",
        "UPDATE attempts SET run_uid = $2 WHERE run_uid = $1",
        "UPDATE usage SET run_uid = $2 WHERE run_uid = $1",
        "UPDATE telemetry SET run_uid = $2 WHERE run_uid = $1",
        "UPDATE marks SET run_uid = $2 WHERE run_uid = $1",
        "DELETE FROM traffic WHERE subject = 'run' AND key = $1 AND at IN (SELECT made.at FROM traffic AS made "
        "WHERE made.subject = 'run' AND made.key = $2)",
        "UPDATE traffic SET key = $2 WHERE subject = 'run' AND key = $1",
    )
    statements = [Statement(sql, pairs) for sql in moved]
    await database.write([*statements, _new_fact([(f"run:{old}", new) for old, new in pairs])])


async def renamed_runs(database: Database) -> dict[str, str]:
    """Return the new UIDs of restored runs, by their UIDs in the dump."""
    return await _facts_of_kind(database, "run:")


async def _facts_of_kind(database: Database, prefix: str) -> dict[str, str]:
    rows = await database.fetch("SELECT name, value FROM history_facts WHERE name LIKE $1", f"{prefix}%")
    return {name.removeprefix(prefix): value for name, value in rows}


def _new_fact(rows: Sequence[Row]) -> Statement:
    return Statement("INSERT INTO history_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", rows)
