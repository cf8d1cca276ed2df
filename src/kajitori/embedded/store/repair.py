"""Repair of a damaged store: recover readable objects and list the lost ones, as far as the store still names them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kajitori.embedded.store.database import Contents, converted_errors, lock_folder, open_store, write_store
from kajitori.embedded.store.errors import StoreDamaged
from kajitori.embedded.store.files import MADE, set_aside
from kajitori.embedded.store.integrity import is_intact
from kajitori.embedded.store.journal import Journal
from kajitori.embedded.store.pages import Row, Rows, read_rows
from kajitori.embedded.store.records import Record

Key = tuple[str, str, str]
"""Resource (`group/plural`), namespace and name of an object."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair."""

    kept: Path | None
    """The folder with the damaged files; None if nothing was damaged."""
    damage: str = ""
    objects: int = 0
    """Number of objects after the repair."""
    lost: tuple[Key, ...] = ()
    may_lack_more: bool = False
    """Whether the list of stored objects is damaged as well."""


def repair(folder: Path) -> Repaired:
    """Make a damaged store usable again with all objects that can still be read, and keep the damaged files beside it.
    An intact store is not changed. Blocks.

    Raises:
        DataFolderInUse: another process has locked the store.
        DataFolderUnusable: it cannot be read or written, or has another format.
    """
    try:
        journal = Journal(folder, lambda revision, error: None)
    except StoreDamaged as error:
        return _repair_folder(folder, error)
    try:
        return Repaired(None, objects=len(journal.load().records))
    except StoreDamaged as error:
        damage = error
    finally:
        journal.close()
    return _repair_folder(folder, damage)


def _repair_folder(folder: Path, damage: StoreDamaged) -> Repaired:
    lock = lock_folder(folder)
    try:
        with converted_errors(folder):
            kept = set_aside(folder)
            found = salvaged(read_rows(kept))
            write_store(
                folder, Contents(max((record.revision for record in found.records), default=0), found.records), kept
            )
        open_store(folder, made=True).close()
        os.pwrite(lock, MADE, 0)
    finally:
        os.close(lock)
    return Repaired(kept, damage.message, len(found.records), found.lost, found.may_lack_more)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The recovered objects."""

    records: list[Record]
    lost: tuple[Key, ...]
    may_lack_more: bool


def salvaged(rows: Rows) -> Salvaged:
    """Return the newest objects, and those that the index names but that cannot be read.

    A row counts if it is intact and the index says that it is current; if the index is damaged, the page of the row
    must be current. Otherwise deleted objects or old states would come back.
    """
    entries = {row.rowid: key for row in rows.of_indexes if (key := _key_of_entry(row)) is not None}
    likely_entries = {row.rowid: key for row in rows.likely_of_indexes if (key := _key_of_entry(row)) is not None}
    exact: list[tuple[int, Record]] = []
    others: list[Record] = []
    for row in rows.of_tables:
        if (record := _intact_record(row)) is not None:
            if row.rowid in entries or row.rowid in likely_entries:
                exact.append((row.rowid, record))
            else:
                others.append(record)
    for row in rows.likely_of_tables:
        record = _intact_record(row)
        named = (entries.get(row.rowid), likely_entries.get(row.rowid))
        if record is not None and _key_of(record) in named:
            exact.append((row.rowid, record))
    records = _newest_records(record for _, record in exact)
    if rows.are_present:
        keys = set(entries.values())
        for key, record in _newest_records(others).items():
            if rows.damaged_pages or key in keys:
                records.setdefault(key, record)
    read = {rowid for rowid, _ in exact}
    lost = sorted({key for rowid, key in entries.items() if rowid not in read} - set(records))
    return Salvaged(list(records.values()), tuple(lost), bool(rows.damaged_pages) or not rows.are_present)


def _key_of_entry(row: Row) -> Key | None:
    """Return the object that an entry of the index names: it contains resource, namespace, name and rowid."""
    if len(row.values) != 4:
        return None
    resource, namespace, name, _ = row.values
    if not isinstance(resource, str) or not isinstance(namespace, str) or not isinstance(name, str):
        return None
    return resource, namespace, name


def _intact_record(row: Row) -> Record | None:
    """Return the object of a row if it is intact."""
    values = row.values if len(row.values) != 5 else (*row.values, None)
    if len(values) != 6 or not is_intact(values):
        return None
    return Record(*values[:5])  # type: ignore[arg-type]  # checked by `is_intact`


def _newest_records(records: Iterable[Record]) -> dict[Key, Record]:
    found: dict[Key, Record] = {}
    for record in records:
        key = _key_of(record)
        if key not in found or found[key].revision < record.revision:
            found[key] = record
    return found


def _key_of(record: Record) -> Key:
    return record.resource, record.namespace, record.name
