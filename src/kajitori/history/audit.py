"""The append-only trail of changes. Triggers of the database refuse to edit or delete it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from kajitori.core.usage.records import AuditEntry
from kajitori.history.database import Database, Statement

_COLUMNS = ("key", "at", "actor", "source", "action", "namespace", "object", "outcome", "rule", "message")
_INSERT = (
    f"INSERT INTO audit ({', '.join(_COLUMNS)}) VALUES ({', '.join(f'${n}' for n in range(1, len(_COLUMNS) + 1))}) "
    "ON CONFLICT (key) DO NOTHING"
)


OBJECT_KINDS = ("run", "node", "nodes", "secret", "channel", "volume", "token", "code", "link")
"""First words of the objects of entries; the name follows."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of entries. Empty fields match all."""

    namespaces: Collection[str] | None = None
    """None: all, also entries about no namespace."""
    actor: str = ""
    object: str = ""
    """Kind and name; a name alone stands for objects of all kinds."""
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
    parameters: list[Any] = []

    def parameter(value: Any) -> str:
        parameters.append(value)
        return f"${len(parameters)}"

    columns = {"actor": wanted.actor, _outcome_column(wanted.outcome): wanted.outcome}
    conditions = [f"{column} = {parameter(value)}" for column, value in columns.items() if value]
    if wanted.object:
        is_name = " " not in wanted.object
        objects = [wanted.object, *(f"{kind} {wanted.object}" for kind in OBJECT_KINDS if is_name)]
        conditions.append(f"object IN ({', '.join(parameter(text) for text in objects)})")
    if wanted.namespaces is not None:
        conditions.append(f"namespace IN ({', '.join(parameter(name) for name in sorted(wanted.namespaces))})")
    if wanted.since is not None:
        conditions.append(f"at >= {parameter(wanted.since)}")
    if wanted.until is not None:
        conditions.append(f"at < {parameter(wanted.until)}")
    if after is not None:
        conditions.append(f"(at, id) < ({parameter(after[0])}, {parameter(after[1])})")
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    sql = f"SELECT id, {', '.join(_COLUMNS)} FROM audit {where}ORDER BY at DESC, id DESC LIMIT {parameter(limit)}"
    rows = await database.fetch(sql, *parameters)
    return [(row[0], AuditEntry(**dict(zip(_COLUMNS, row[1:], strict=True)))) for row in rows]


def _outcome_column(outcome: str) -> str:
    """Return the column, or an expression for it. Nearly all entries are `done`, so another index is better then; an
    expression keeps the databases from using that of outcomes."""
    return "outcome || ''" if outcome == "done" else "outcome"
