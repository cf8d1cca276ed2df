"""The durable part of the store: one SQLite file, written by one thread, many changes per commit."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from kajitori.embedded.store import integrity
from kajitori.embedded.store.database import (
    COLUMNS,
    DELETE,
    PUT,
    SET_REVISION,
    Contents,
    connected,
    converted_errors,
    is_made,
    lock_folder,
    open_store,
    row_of,
    transaction,
    write_store,
)
from kajitori.embedded.store.errors import DataFolderUnusable, StoreDamaged
from kajitori.embedded.store.files import MADE, set_aside
from kajitori.embedded.store.records import DELETED, Event, Record

_CHECK_SECONDS = 3600.0
"""Interval of full reads of the file, which find damage while memory still has the data."""

Outcome = Callable[[int, Exception | None], None]
"""Called on the writer's thread with the last revision of a batch and the error if it was not stored."""

log = logging.getLogger(__name__)


class Journal:
    """The objects in a data folder, which is locked until `close`.

    When the outcome of a batch is reported without an error, the batch is on disk (WAL, synchronous=FULL).
    """

    def __init__(
        self,
        folder: Path,
        outcome: Outcome,
        damaged: Callable[[StoreDamaged], None] = lambda error: None,
        *,
        max_pages: int = 0,
    ) -> None:
        """Open or create the store in `folder`. `damaged` is called on a thread when a check finds damage; damage found
        by a batch is reported in its outcome.

        Raises:
            DataFolderInUse: another process has locked it.
            StoreDamaged: its contents are not what was written.
            DataFolderUnusable: it cannot be read or written, or has another format.
        """
        self._folder = folder
        self._outcome = outcome
        self._damaged = damaged
        self._max_pages = max_pages
        self._queue: queue.SimpleQueue[Sequence[Event] | Contents | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._lock = lock_folder(folder)
        try:
            self._database = open_store(folder, made=is_made(self._lock), max_pages=max_pages)
            os.pwrite(self._lock, MADE, 0)
        except BaseException:
            os.close(self._lock)
            raise

    def load(self) -> Contents:
        """Return everything that is stored.

        Raises:
            StoreDamaged: it is not what was written.
        """
        with converted_errors(self._folder):
            found = self._database.execute("SELECT value FROM meta WHERE name = 'revision'").fetchone()
            records, bad, unsummed = [], [], []
            rows = self._database.execute(f"SELECT {', '.join(COLUMNS)}, checksum, rowid FROM objects")
            for *row, rowid in rows:
                if not integrity.is_intact(row):
                    bad.append(integrity.named(*row[:3]))
                    continue
                records.append(Record(*row[:5]))
                if row[5] is None:
                    unsummed.append((integrity.checksum(*row[:5]), rowid))
            integrity.refuse_damaged_objects(bad, self._folder)
            if unsummed:
                with transaction(self._database):
                    self._database.executemany("UPDATE objects SET checksum = ? WHERE rowid = ?", unsummed)
        return Contents(found[0] if found else 0, records)

    def start(self) -> None:
        """Start writing. Nothing may be loaded afterwards."""
        for name, work in (("kajitori-store", self._write), ("kajitori-store-check", self._check)):
            self._threads.append(threading.Thread(target=work, name=name, daemon=True))
            self._threads[-1].start()

    def append(self, events: Sequence[Event]) -> None:
        """Queue a batch, which is stored as a whole or not at all."""
        self._queue.put(events)

    def replace(self, contents: Contents) -> None:
        """Replace a damaged file with a new one; the damaged one is kept beside it."""
        self._queue.put(contents)

    def close(self) -> None:
        """Write everything that is queued, then unlock the folder. Blocks meanwhile."""
        self._closing.set()
        self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._database.close()
        os.close(self._lock)

    def check(self) -> None:
        """Verify the whole file, as at the start, while writes go on.

        Raises:
            StoreDamaged: it is not what was written.
            DataFolderUnusable: it cannot be read.
        """
        with converted_errors(self._folder), contextlib.closing(connected(self._folder)) as database:
            integrity.check_structure(database, self._folder)
            bad = []
            for row in database.execute(f"SELECT {', '.join(COLUMNS)}, checksum FROM objects"):
                if self._closing.is_set():
                    return
                if not integrity.is_intact(row):
                    bad.append(integrity.named(*row[:3]))
            integrity.refuse_damaged_objects(bad, self._folder)

    def _check(self) -> None:
        while not self._closing.wait(_CHECK_SECONDS):
            try:
                self.check()
            except StoreDamaged as error:
                self._damaged(error)
            except DataFolderUnusable as error:
                log.warning("the stored objects could not be verified: %s", error.message)

    def _write(self) -> None:
        while (work := self._queue.get()) is not None:
            if isinstance(work, Contents):
                self._replace_contents(work)
                continue
            error: Exception | None = None
            try:
                self._store(work)
            except sqlite3.Error as caught:
                error = StoreDamaged(self._folder, str(caught)) if integrity.is_damage(caught) else caught
            except OSError as caught:
                error = caught
            self._outcome(work[-1].revision, error)

    def _store(self, events: Sequence[Event]) -> None:
        # Only the last of several changes to one object is worth writing.
        last = {(event.record.resource, event.record.key): event for event in events}
        puts, deletes = [], []
        for event in last.values():
            record = event.record
            if event.type is DELETED:
                deletes.append((record.resource, record.namespace, record.name))
            else:
                puts.append(row_of(record))
        with transaction(self._database):
            self._database.executemany(DELETE, deletes)
            self._database.executemany(PUT, puts)
            self._database.execute(SET_REVISION, (events[-1].revision,))

    def _replace_contents(self, contents: Contents) -> None:
        try:
            self._database.close()
            kept = set_aside(self._folder)
            write_store(self._folder, contents, kept)
            self._database = open_store(self._folder, made=True, max_pages=self._max_pages)
        except (sqlite3.Error, OSError, DataFolderUnusable) as error:
            log.error("the damaged store in %s could not be replaced: %s", self._folder, error)
        else:
            log.error(
                "all %d objects were still in memory and were written to a new file; the damaged file is kept in %s. "
                "Check the disk",
                len(contents.records),
                kept,
            )
