"""The append-only trail of changes. Triggers of the database refuse to edit or delete it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kajitori.core.usage.records import AuditEntry
from kajitori.history.databases.database import Database, Parameters, Statement

_COLUMNS = ("key", "at", "actor", "source", "action", "namespace", "object", "outcome", "rule", "message")
_INSERT = (
    f"INSERT INTO audit ({', '.join(_COLUMNS)}) VALUES ({', '.join(f'${n}' for n in range(1, len(_COLUMNS) + 1))}) "
    "ON CONFLICT (key) DO NOTHING"
)


OBJECT_KINDS = ("run", "node", "nodes", "secret", "channel", "volume", "token", "code", "link")
"""Kinds of objects. An entry's object is written as kind and name."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of entries. Empty fields match all."""

    namespaces: Collection[str] | None = None
    """None: all, including entries that are about no namespace."""
    actor: str = ""
    object: str = ""
    """Kind and name; a name alone matches objects of all kinds."""
    outcome: str = ""
    since: int | None = None
    """Only entries of this time (milliseconds since 1970) or later."""
    until: int | None = None
    """Only entries before this time."""


def statement_of(entries: Iterable[AuditEntry]) -> Statement:
    """Return the statement that appends these entries; entries that exist already stay as they are."""
    return Statement(_INSERT, [tuple(getattr(entry, name) for name in _COLUMNS) for entry in entries])


async def list_audit(
    database: Database, wanted: AuditFilter, limit: int, after: tuple[int, int] | None = None
) -> list[tuple[int, AuditEntry]]:
    """Return entries with their numbers, newest first: at most `limit`, after this time and number."""
    if wanted.namespaces is not None and not wanted.namespaces:
        return []
    parameters = Parameters()
    columns = {"actor": wanted.actor, _outcome_column(wanted.outcome): wanted.outcome}
    conditions = [f"{column} = {parameters.add(value)}" for column, value in columns.items() if value]
    if wanted.object:
        is_name = " " not in wanted.object
        objects = [wanted.object, *(f"{kind} {wanted.object}" for kind in OBJECT_KINDS if is_name)]
        conditions.append(f"object IN ({parameters.add_all(objects)})")
    if wanted.namespaces is not None:
        conditions.append(f"namespace IN ({parameters.add_all(sorted(wanted.namespaces))})")
    if wanted.since is not None:
        conditions.append(f"at >= {parameters.add(wanted.since)}")
    if wanted.until is not None:
        conditions.append(f"at < {parameters.add(wanted.until)}")
    if after is not None:
        conditions.append(f"(at, id) < ({parameters.add(after[0])}, {parameters.add(after[1])})")
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    sql = f"SELECT id, {', '.join(_COLUMNS)} FROM audit {where}ORDER BY at DESC, id DESC LIMIT {parameters.add(limit)}"
    rows = await database.fetch(sql, *parameters.values)
    return [(row[0], AuditEntry(**dict(zip(_COLUMNS, row[1:], strict=True)))) for row in rows]


def _outcome_column(outcome: str) -> str:
    """Return the column, or an expression for it that keeps the databases from using the index of outcomes.

    Nearly all entries are `done`, so another index is better for them.
    """
    return "outcome || ''" if outcome == "done" else "outcome"
