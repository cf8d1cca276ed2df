"""The SQLite file of a store: creation, opening, verification, replacement."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kajitori.embedded.store import integrity
from kajitori.embedded.store.errors import DataFolderInUse, DataFolderUnusable, StoreDamaged
from kajitori.embedded.store.files import FILE, LOCK, LOG, MADE, REPAIRING, put_in_place
from kajitori.embedded.store.records import Record
from kajitori.embedded.store.wal import check_log

FORMAT = 1
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS objects (resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, "
    "revision INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (resource, namespace, name))",
    f"PRAGMA user_version = {FORMAT}",
)
_CHECKSUM = "ALTER TABLE objects ADD COLUMN checksum INTEGER"
"""The checksum column. Earlier versions of Kajitori did not have it; rows that they wrote get a checksum at the next
start."""
COLUMNS = ("resource", "namespace", "name", "revision", "value")
PUT = "INSERT OR REPLACE INTO objects (resource, namespace, name, revision, value, checksum) VALUES (?, ?, ?, ?, ?, ?)"
DELETE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
SET_REVISION = "INSERT OR REPLACE INTO meta (name, value) VALUES ('revision', ?)"
_ANY = "SELECT 1 FROM objects LIMIT 1"


@dataclass(frozen=True, slots=True)
class Contents:
    """All objects at one revision."""

    revision: int
    records: Sequence[Record]


def lock_folder(folder: Path) -> int:
    """Create the folder if it is missing, lock it, and return the descriptor of the lock.

    Raises:
        DataFolderInUse: another process has locked it.
        DataFolderUnusable: it cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataFolderUnusable(f"the data folder {folder} can't be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise DataFolderInUse(folder) from error
    return descriptor


def is_made(lock: int) -> bool:
    """Return whether the store of this lock was completed before: if its file is missing then, it is damaged."""
    return os.pread(lock, len(MADE), 0) == MADE


def open_store(folder: Path, *, made: bool, max_pages: int = 0) -> sqlite3.Connection:
    """Return the connection to the store in a folder, after a check of the whole file. It is created unless `made` says
    that it was completed before.

    Raises:
        StoreDamaged, DataFolderUnusable: as Journal.
    """
    if (folder / REPAIRING).exists():
        raise StoreDamaged(folder, "its repair was interrupted")
    path = folder / FILE
    with converted_errors(folder):
        size = path.stat().st_size if path.exists() else 0
        integrity.check_head(path, folder)
        if made and not size:
            raise StoreDamaged(folder, f"{FILE} is {'empty' if path.exists() else 'gone'}")
        check_log(folder / LOG, folder)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        database = connected(folder)
        try:
            if size:
                integrity.check_structure(database, folder)
            _prepare(database, folder)
            if max_pages:
                database.execute(f"PRAGMA max_page_count = {max_pages}")
        except BaseException:
            database.close()
            raise
    return database


def write_store(folder: Path, contents: Contents, kept: Path) -> None:
    """Write a new store in place of the one that was set aside in `kept`.

    Raises:
        sqlite3.Error, OSError: it cannot be written. The old store is in `kept`, and also still in place unless
            `put_in_place` was interrupted.
    """
    fresh = folder / f"{FILE}.new"
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as database, transaction(database):
        for statement in (*_SCHEMA, _CHECKSUM):
            database.execute(statement)
        database.executemany(PUT, map(row_of, contents.records))
        database.execute(SET_REVISION, (contents.revision,))
    put_in_place(folder, fresh, kept)


def _prepare(database: sqlite3.Connection, folder: Path) -> None:
    """Check or create the tables.

    Raises:
        StoreDamaged: there are other tables.
        DataFolderUnusable: another version of Kajitori made them.
    """
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA journal_size_limit = 67108864")
    found = database.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    columns = _column_names(database)
    if found not in (0, FORMAT):
        if columns == (*COLUMNS, "checksum"):
            raise StoreDamaged(folder, f"the format in its header is {found}, not {FORMAT}")
        raise DataFolderUnusable(
            f"the store in {folder / FILE} has format {found}, this version of Kajitori writes {FORMAT}",
            hint="start the version that wrote it, or choose another folder with --data",
        )
    if not found:
        # An empty file, or one from an interrupted creation.
        if tables - {"meta", "objects"} or ("objects" in tables and database.execute(_ANY).fetchone()):
            raise StoreDamaged(folder, "its header has no format")
        with transaction(database):
            for statement in _SCHEMA:
                database.execute(statement)
        columns = _column_names(database)
    if columns[: len(COLUMNS)] != COLUMNS or (found and "meta" not in tables):
        raise StoreDamaged(folder, "its tables have unknown columns")
    if "checksum" not in columns:
        database.execute(_CHECKSUM)


def _column_names(database: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(row[1] for row in database.execute("PRAGMA table_info(objects)"))


def connected(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        database.close()
        raise
    return database


def row_of(record: Record) -> tuple[str, str, str, int, bytes, int]:
    what = (record.resource, record.namespace, record.name, record.revision, record.value)
    return (*what, integrity.checksum(*what))


@contextlib.contextmanager
def converted_errors(folder: Path) -> Iterator[None]:
    """Convert errors of SQLite about a folder to our own.

    Raises:
        StoreDamaged, DataFolderUnusable
    """
    try:
        yield
    except sqlite3.Error as error:
        if integrity.is_damage(error):
            raise StoreDamaged(folder, str(error)) from error
        full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        hint = "make room there" if full else "if it can't be mended, choose another folder with --data"
        raise DataFolderUnusable(f"the store in {folder} can't be opened: {error}", hint=hint) from error
    except OSError as error:
        raise DataFolderUnusable(f"the store in {folder} can't be opened: {error.strerror}") from error


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
