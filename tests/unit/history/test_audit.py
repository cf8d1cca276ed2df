"""Filters of the audit trail read an index, whatever they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from kajitori.history.audit import AuditFilter, list_audit
from kajitori.history.databases.database import Database
from kajitori.history.store import History

RARE = {
    "an object": (AuditFilter(object="run bert"), "object"),
    "a name of objects of any kind": (AuditFilter(object="bert"), "object"),
    "an object in namespaces": (AuditFilter(object="run bert", namespaces={"vision", "nlp"}), "object"),
    "refused": (AuditFilter(outcome="refused"), "outcome"),
    "refused in namespaces": (AuditFilter(outcome="refused", namespaces={"vision", "nlp"}), "outcome"),
    "done in a namespace": (AuditFilter(outcome="done", namespaces={"empty"}), "namespace"),
}
"""Filters that match few of many entries, and the column by which these are found."""


class Plans:
    """A database that answers each question with the way in which it would be answered."""

    def __init__(self, database: Database) -> None:
        self.database, self.found = database, list[str]()

    async def fetch(self, sql: str, *parameters: Any) -> list[Any]:
        self.found += [row[-1] for row in await self.database.fetch(f"EXPLAIN QUERY PLAN {sql}", *parameters)]
        return []


async def test_few_of_many_entries_are_found_by_an_index(tmp_path: Path) -> None:
    """Otherwise the whole trail is read: with a million entries, that of an object took up to three seconds."""
    history = History(f"sqlite://{tmp_path}/history.db")
    found = {}
    try:
        for name, (wanted, _) in RARE.items():
            plans = Plans(await history.open())
            await list_audit(cast(Database, plans), wanted, 100)
            found[name] = plans.found[0]
    finally:
        await history.close()
    for name, (_, column) in RARE.items():
        assert f"INDEX audit_of_{column} ({column}=?)" in found[name], name
