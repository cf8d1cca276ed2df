"""History in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from getpass import getuser
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg

from kajitori.errors import KajitoriError, Unsupported
from kajitori.history.databases.database import Reader, Row, Statement, without_details
from kajitori.history.databases.failures import postgres_failure
from kajitori.history.databases.schema import CREATE_VERSION_TABLE, VERSION, newer_than_known, upgrade_script

CONNECTIONS = 4
SECONDS = 15.0
"""Time limit of one statement."""
UPGRADE_SECONDS = 1800.0
"""Time limit of a statement that changes the schema, or that reads a whole table for a backup."""

_SCHEMA_LOCK = 0x6B616A69
"""Key of the advisory lock under which one process changes the schema."""

_FAILURES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class PostgresDatabase:
    """History in PostgreSQL, over a pool of connections. Lost connections are replaced."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], url: str) -> None:
        self._pool = pool
        self._shown = without_details(url)
        self._user = _user_of(url)

    @classmethod
    async def open(cls, url: str, password: str | None = None) -> PostgresDatabase:
        """Connect, and bring the schema up to date."""
        options: dict[str, Any] = {"password": password} if password else {}
        try:
            pool = await asyncpg.create_pool(
                url, min_size=1, max_size=CONNECTIONS, command_timeout=SECONDS, timeout=SECONDS, **options
            )
        except _FAILURES as error:
            raise postgres_failure(without_details(url), error, user=_user_of(url)) from error
        database = cls(pool, url)
        try:
            await database._upgrade()
        except BaseException:
            await database.close()
            raise
        return database

    async def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        async with self._connection() as connection:
            return [tuple(row) for row in await connection.fetch(sql, *_storable_row(parameters))]

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        """Yield a reader that sees one unchanging state of the database."""
        async with (
            self._connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield _Snapshot(connection)

    async def write(self, statements: Sequence[Statement]) -> None:
        """Execute all statements in one transaction."""
        async with self._connection() as connection, connection.transaction():
            for statement in statements:
                if len(statement.rows) == 1:
                    await connection.execute(statement.sql, *_storable_row(statement.rows[0]))
                else:
                    await connection.executemany(statement.sql, map(_storable_row, statement.rows))

    async def close(self) -> None:
        """Close the connections; connections that do not end in time are cut."""
        try:
            async with asyncio.timeout(SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        try:
            async with self._pool.acquire(timeout=SECONDS) as connection:
                yield connection
        except _FAILURES as error:
            raise await self._failure(error) from error

    async def _failure(self, error: BaseException) -> KajitoriError:
        """Return the error for a failure. After a write to a standby, later requests connect anew: their host may have
        been promoted, or its name may lead to another one."""
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            await self._pool.expire_connections()
        return postgres_failure(self._shown, error, user=self._user)

    async def _upgrade(self) -> None:
        async with self._connection() as connection:
            await connection.execute("SELECT pg_advisory_lock($1)", _SCHEMA_LOCK, timeout=UPGRADE_SECONDS)
            try:
                await connection.execute(CREATE_VERSION_TABLE)
                current = await connection.fetchval("SELECT version FROM schema_version")
                if current != VERSION:
                    statements = await asyncio.to_thread(upgrade_script, "postgresql", current)
                    async with connection.transaction():
                        for statement in statements:
                            await connection.execute(statement, timeout=UPGRADE_SECONDS)
            except LookupError as error:
                raise Unsupported(newer_than_known(self._shown, str(error))) from error
            finally:
                await connection.execute("SELECT pg_advisory_unlock($1)", _SCHEMA_LOCK)


def _storable_row(row: Row) -> Row:
    """Return the values with U+FFFD instead of the null character, which PostgreSQL refuses in texts.

    Some texts come from users and programs, and a text that is refused would hold up all later ones.
    """
    return tuple(value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in row)


class _Snapshot:
    """One transaction that only reads."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        rows = await self._connection.fetch(sql, *parameters, timeout=UPGRADE_SECONDS)
        return [tuple(row) for row in rows]


def _user_of(url: str) -> str:
    return unquote(urlsplit(url).username or getuser())
