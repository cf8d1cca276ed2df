"""History in one SQLite file: one thread writes, two others read."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from kajitori.errors import Unavailable, Unsupported
from kajitori.history.databases.database import Reader, Row, Statement
from kajitori.history.databases.failures import sqlite_failure
from kajitori.history.databases.schema import CREATE_VERSION_TABLE, VERSION, newer_than_known, upgrade_script

T = TypeVar("T")

BUSY_SECONDS = 10.0
"""Longest wait for another process that writes."""

READERS = 2

_PARAMETER = re.compile(r"\$(\d+)")


class SqliteDatabase:
    """A file in WAL mode: readers never wait for the writer. Each commit is synced to disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = ThreadPoolExecutor(1, "history-writer")
        self._reading = ThreadPoolExecutor(READERS, "history-reader")
        self._writer: sqlite3.Connection | None = None
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []

    @classmethod
    async def open(cls, path: Path) -> SqliteDatabase:
        """Open the file, make it if there is none, and bring its schema up to date."""
        database = cls(path)
        try:
            await database._run(database._writing, database._begin)
        except BaseException:
            await database.close()
            raise
        return database

    async def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        return await self._run(
            self._reading, lambda: self._thread_reader().execute(_sqlite_form(sql), parameters).fetchall()
        )

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        """Yield a reader that sees one unchanging state of the database. It has its own connection and thread."""
        thread = ThreadPoolExecutor(1, "history-snapshot")
        try:
            connection = await self._run(thread, self._begin_snapshot)
            try:
                yield _Snapshot(
                    lambda sql, values: self._run(thread, lambda: connection.execute(sql, values).fetchall())
                )
            finally:
                await self._run(thread, connection.close)
        finally:
            thread.shutdown(wait=False)

    def _begin_snapshot(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        return connection

    async def write(self, statements: Sequence[Statement]) -> None:
        """Execute all statements in one transaction."""
        await self._run(self._writing, lambda: self._write(statements))

    async def close(self) -> None:
        """Close the connections once their work is done."""
        for pool in (self._reading, self._writing):
            await asyncio.to_thread(pool.shutdown)
        for connection in self._opened:
            connection.close()

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except sqlite3.Error as error:
            raise sqlite_failure(str(self._path), error) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        self._opened.append(connection)
        return connection

    def _begin(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"the folder of {self._path} can't be made: {error.strerror}") from error
        self._writer = writer = self._connect()
        self._path.chmod(0o600)
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = FULL")
        writer.execute("PRAGMA cache_size = -16000")
        writer.execute(CREATE_VERSION_TABLE)
        if _schema_version(writer) == VERSION:
            return
        writer.execute("BEGIN IMMEDIATE")
        try:
            current = _schema_version(writer)  # another process may have been faster
            if current != VERSION:
                for statement in upgrade_script("sqlite", current):
                    writer.execute(statement)
            writer.execute("COMMIT")
        except LookupError as error:
            raise Unsupported(newer_than_known(str(self._path), str(error))) from error
        finally:
            if writer.in_transaction:
                writer.execute("ROLLBACK")

    def _thread_reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if connection is None:
            self._readers.connection = connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        return connection

    def _write(self, statements: Sequence[Statement]) -> None:
        assert self._writer is not None, "open it first"
        writer = self._writer
        writer.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                writer.executemany(_sqlite_form(statement.sql), statement.rows)
            writer.execute("COMMIT")
        finally:
            if writer.in_transaction:
                with suppress(sqlite3.Error):
                    writer.execute("ROLLBACK")


class _Snapshot:
    """One transaction that only reads."""

    def __init__(self, execute: Callable[[str, tuple[Any, ...]], Awaitable[list[Row]]]) -> None:
        self._execute = execute

    async def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        return await self._execute(_sqlite_form(sql), parameters)


def _schema_version(connection: sqlite3.Connection) -> str | None:
    found = connection.execute("SELECT version FROM schema_version").fetchone()
    return str(found[0]) if found else None


def _sqlite_form(sql: str) -> str:
    """Return the statement with placeholders in SQLite's form."""
    return _PARAMETER.sub(r"?\1", sql)
