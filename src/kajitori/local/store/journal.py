"""The store's durable side: one SQLite file, written by one thread, many changes to a commit."""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kajitori.local.store.errors import DataFolderInUse, DataFolderUnusable
from kajitori.local.store.records import DELETED, Event, Record

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    revision INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
);
"""
_PUT = "INSERT OR REPLACE INTO objects (resource, namespace, name, revision, value) VALUES (?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_REVISION = "INSERT OR REPLACE INTO meta (name, value) VALUES ('revision', ?)"

Outcome = Callable[[int, Exception | None], None]
"""Called on the writer's thread with the last revision of a batch, and why it was not stored."""


class Journal:
    """The objects in a data folder. Holds the folder's lock until it is closed.

    What `append` was given is on disk (WAL, synchronous=FULL) when the outcome is reported without an error.
    """

    def __init__(self, folder: Path, outcome: Outcome, *, max_pages: int = 0) -> None:
        """Open or make the store in `folder`.

        Raises:
            DataFolderInUse: another process has it.
            DataFolderUnusable: it can't be read or written, or is of another format.
        """
        self._folder = folder
        self._outcome = outcome
        self._queue: queue.SimpleQueue[Sequence[Event] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _lock(folder)
        except OSError as error:
            raise DataFolderUnusable(f"the data folder {folder} can't be used: {error.strerror}") from error
        try:
            self._database = self._open(folder / "store.sqlite", max_pages)
        except sqlite3.Error as error:
            os.close(self._lock)
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            hint = "make room there" if full else "if it can't be repaired, choose another folder with --data"
            raise DataFolderUnusable(f"the store in {folder} can't be opened: {error}", hint=hint) from error
        except DataFolderUnusable:
            os.close(self._lock)
            raise

    def _open(self, path: Path, max_pages: int) -> sqlite3.Connection:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA journal_size_limit = 67108864")
            if max_pages:
                database.execute(f"PRAGMA max_page_count = {max_pages}")
            found = database.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, FORMAT):
                raise DataFolderUnusable(
                    f"the store in {path} has format {found}, this version of Kajitori writes {FORMAT}",
                    hint="start the version that wrote it, or choose another folder with --data",
                )
            database.executescript(_SCHEMA)
            database.execute(f"PRAGMA user_version = {FORMAT}")
        except BaseException:
            database.close()
            raise
        return database

    def load(self) -> tuple[int, Iterator[Record]]:
        """The last revision, and every object."""
        found = self._database.execute("SELECT value FROM meta WHERE name = 'revision'").fetchone()
        rows = self._database.execute("SELECT resource, namespace, name, revision, value FROM objects")
        return (found[0] if found else 0), (Record(*row) for row in rows)

    def start(self) -> None:
        """Begin to write. Nothing may be loaded any more."""
        self._thread = threading.Thread(target=self._write, name="kajitori-store", daemon=True)
        self._thread.start()

    def append(self, events: Sequence[Event]) -> None:
        """Hand a batch over; it is stored whole or not at all."""
        self._queue.put(events)

    def close(self) -> None:
        """Write what is handed over, then give the folder free. Blocks for that long."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._database.close()
        os.close(self._lock)

    def _write(self) -> None:
        while (events := self._queue.get()) is not None:
            error: Exception | None = None
            try:
                self._store(events)
            except (sqlite3.Error, OSError) as caught:
                error = caught
            self._outcome(events[-1].revision, error)

    def _store(self, events: Sequence[Event]) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            # Of several changes to one object only the last is worth writing.
            last = {(event.record.resource, event.record.key): event for event in events}
            puts, deletes = [], []
            for event in last.values():
                record = event.record
                if event.type is DELETED:
                    deletes.append((record.resource, record.namespace, record.name))
                else:
                    puts.append((record.resource, record.namespace, record.name, record.revision, record.value))
            database.executemany(_DELETE, deletes)
            database.executemany(_PUT, puts)
            database.execute(_REVISION, (events[-1].revision,))
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


def _lock(folder: Path) -> int:
    descriptor = os.open(folder / "store.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise DataFolderInUse(folder) from error
    return descriptor
