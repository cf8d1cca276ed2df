"""Detection of damage to the store's file: bytes changed by a disk, a copy or an editor.

SQLite checks the structure of its pages but not their contents, so each object has a checksum.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kajitori.embedded.store.errors import StoreDamaged

DAMAGE = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_INTERNAL,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
    }
)
"""Error codes of SQLite for damaged files; other errors mean that the file is inaccessible or the disk is full."""
_NAMED = 3


def checksum(resource: str, namespace: str, name: str, revision: int, value: bytes) -> int:
    """Return the checksum of an object as it is stored."""
    return zlib.crc32(value, zlib.crc32(f"{resource}\0{namespace}\0{name}\0{revision}\0".encode(errors="replace")))


def named(resource: str, namespace: str, name: str) -> str:
    """Return the name of an object in messages: `pods default/bert-1-0`."""
    return f"{resource.removeprefix('/')} {f'{namespace}/' if namespace else ''}{name}"


def is_intact(row: Sequence[object]) -> bool:
    """Return whether a row of `objects` (resource, namespace, name, revision, value, checksum) is intact."""
    resource, namespace, name, revision, value, found = row
    if not isinstance(resource, str) or not isinstance(namespace, str) or not isinstance(name, str):
        return False
    if not isinstance(revision, int) or not isinstance(value, bytes):
        return False
    if found is not None:
        return found == checksum(resource, namespace, name, revision, value)
    try:  # an earlier version of Kajitori wrote it, without a checksum
        meta = msgspec.json.decode(value)["metadata"]
        detail = (meta["name"], meta.get("namespace") or "", meta["resourceVersion"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return detail == (name, namespace, str(revision))


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error of SQLite means that the file is damaged, rather than inaccessible or the disk full."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in DAMAGE


def check_head(path: Path, folder: Path) -> None:
    """Check a file that SQLite takes for one of another version, although it may be damaged.

    Raises:
        StoreDamaged: SQLite did not write it.
        OSError: it cannot be read.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        head = file.read(20)
    if head and (head[:16] != b"SQLite format 3\0" or not set(head[18:20]) <= {1, 2}):
        raise StoreDamaged(folder, f"{path.name} has no valid header")


def check_structure(database: sqlite3.Connection, folder: Path) -> None:
    """Check all pages of the file.

    Raises:
        StoreDamaged: some are damaged.
        sqlite3.Error: they cannot be read.
    """
    found = [" ".join(str(row[0]).split()) for row in database.execute(f"PRAGMA integrity_check({_NAMED})")]
    if found != ["ok"]:
        raise StoreDamaged(folder, "; ".join(found))


def refuse_damaged_objects(objects: Sequence[str], folder: Path) -> None:
    """Check the checksums of all objects.

    Raises:
        StoreDamaged: some objects are damaged.
    """
    if objects:
        more = f" and {len(objects) - _NAMED} more" if len(objects) > _NAMED else ""
        raise StoreDamaged(
            folder, f"{', '.join(objects[:_NAMED])}{more} {'has' if len(objects) == 1 else 'have'} a wrong checksum"
        )
