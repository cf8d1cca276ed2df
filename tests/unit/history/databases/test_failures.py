"""What databases refuse: what passes by itself, and what an operator has to mend."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from kajitori.core.usage.records import RunRecord, RunState
from kajitori.errors import Conflict, KajitoriError, StorageFull, Unavailable, Unsupported
from kajitori.history.databases.failures import postgres_failure
from kajitori.history.runs import RunFilter
from kajitori.history.store import History

pytestmark = pytest.mark.xdist_group("postgres")

STATE = RunState(
    run=RunRecord(
        uid="u1",
        namespace="vision",
        name="bert",
        owner="ana",
        type="batch",
        phase="Failed",
        reason="out of memory \u2192 killed",
        created_at=1,
        seen_at=1,
        document=b"{}",
    )
)


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (asyncpg.SerializationError("could not serialize access"), Unavailable, ""),
        (asyncpg.DeadlockDetectedError("deadlock detected"), Unavailable, ""),
        (asyncpg.AdminShutdownError("terminating connection"), Unavailable, ""),
        (asyncpg.CannotConnectNowError("the database system is starting up"), Unavailable, ""),
        (asyncpg.ConnectionDoesNotExistError("connection was closed"), Unavailable, ""),
        (asyncpg.InterfaceError("connection is closed"), Unavailable, ""),
        (ConnectionRefusedError(111, "Connection refused"), Unavailable, ""),
        (TimeoutError(), Unavailable, ""),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), Unavailable, "max_connections"),
        (asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT"), Unavailable, "target_session_attrs=read-write"),
        (asyncpg.TargetServerAttributeNotMatched("none of the hosts match"), Unavailable, "primary"),
        (asyncpg.DiskFullError("could not extend file"), StorageFull, "make room"),
        (asyncpg.InsufficientPrivilegeError("permission denied for schema public"), Unsupported, "OWNER TO"),
        (asyncpg.InvalidPasswordError("password authentication failed"), Unsupported, "--history-password-file"),
        (asyncpg.InvalidCatalogNameError('database "x" does not exist'), Unsupported, "createdb"),
        (asyncpg.UndefinedTableError('relation "runs" does not exist'), Unsupported, "kaji restore"),
        (asyncpg.UndefinedColumnError('column "summed" does not exist'), Unsupported, "kaji restore"),
        (asyncpg.UntranslatableCharacterError("has no equivalent"), Unsupported, "UTF8"),
        (asyncpg.CharacterNotInRepertoireError("invalid byte sequence"), Unsupported, "UTF8"),
        (asyncpg.DataCorruptedError("invalid page in block 0"), Unsupported, "kaji restore"),
        (asyncpg.NotNullViolationError("null value in column"), Conflict, ""),
        (asyncpg.PostgresSyntaxError("syntax error"), KajitoriError, "report"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_each_failure_of_postgresql_has_its_kind_and_a_way_out(
    error: BaseException, kind: type[KajitoriError], hint: str
) -> None:
    found = postgres_failure("postgresql://db/kajitori", error)
    assert type(found) is kind
    assert "postgresql://db/kajitori" in found.message
    assert (str(error) or "TimeoutError") in found.message
    assert hint in found.hint


@pytest.fixture
async def server(postgres: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(postgres)
    yield connection
    await connection.close()


async def own_database(server: Any, postgres: str, name: str, options: str = "") -> str:
    await server.execute(f"CREATE DATABASE {name} {options}")
    return postgres.replace("/postgres?", f"/{name}?")


async def refusal(url: str) -> KajitoriError:
    history = History(url)
    try:
        with pytest.raises(KajitoriError) as caught:
            await history.record([STATE])
    finally:
        await history.close()
    return caught.value


async def test_an_account_without_rights_is_told_what_an_administrator_runs(server: Any, postgres: str) -> None:
    url = await own_database(server, postgres, "no_rights")
    await server.execute("CREATE ROLE guest LOGIN")
    found = await refusal(url.replace("kaji@", "guest@"))
    assert isinstance(found, Unsupported)
    assert "permission denied" in found.message
    assert 'ALTER DATABASE "no_rights" OWNER TO "guest"' in found.hint


async def test_a_database_that_does_not_exist_is_named(postgres: str) -> None:
    found = await refusal(postgres.replace("/postgres?", "/nowhere?"))
    assert isinstance(found, Unsupported)
    assert "nowhere" in found.message


async def test_a_database_with_another_encoding_is_refused(server: Any, postgres: str) -> None:
    url = await own_database(server, postgres, "latin", "ENCODING 'LATIN1' TEMPLATE template0")
    found = await refusal(url)
    assert isinstance(found, Unsupported)
    assert "UTF8" in found.hint


async def test_too_many_connections_pass_by_themselves(server: Any, postgres: str) -> None:
    await server.execute("CREATE ROLE busy LOGIN CONNECTION LIMIT 0")
    found = await refusal(postgres.replace("kaji@", "busy@"))
    assert type(found) is Unavailable
    assert "max_connections" in found.hint


async def test_a_missing_table_is_told_from_a_server_that_is_down(server: Any, postgres: str) -> None:
    history = History(await own_database(server, postgres, "torn"))
    try:
        await history.record([STATE])
        await (await history.open()).fetch("DROP TABLE attempts")
        with pytest.raises(Unsupported, match='"attempts" does not exist'):
            await history.attempts("u1")
    finally:
        await history.close()


async def test_writes_work_again_after_a_standby_was_promoted(server: Any, postgres: str) -> None:
    """Connections that know the server as a standby are replaced."""
    history = History(await own_database(server, postgres, "standby"))
    try:
        await history.open()
        set_read_only = "ALTER DATABASE standby SET default_transaction_read_only = "
        await server.execute(set_read_only + "on")
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'standby'"
        await server.execute(end)
        with pytest.raises(Unavailable):  # the connection ended
            await history.record([STATE])
        with pytest.raises(Unavailable, match="read-only") as caught:
            await history.record([STATE])
        assert "primary" in caught.value.hint
        await server.execute(set_read_only + "off")
        await history.record([STATE])
        assert len(await history.runs(RunFilter(), 2)) == 1
    finally:
        await history.close()


async def test_failures_of_sqlite_have_their_kinds(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    history = History(f"sqlite://{file}")
    try:
        database = await history.open()
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("DROP TABLE attempts")
        with pytest.raises(Unsupported, match="no such table") as caught:
            await history.attempts("u1")
        assert "kaji restore" in caught.value.hint
        writer = database._writer  # type: ignore[attr-defined]
        writer.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size instead
        large = msgspec.structs.replace(STATE.run, document=random.Random(1).randbytes(1 << 20))
        with pytest.raises(StorageFull, match="is full"):
            await history.record([msgspec.structs.replace(STATE, run=large)])
    finally:
        await history.close()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    file.write_bytes(b"not a database " * 1000)
    found = await refusal(f"sqlite://{file}")
    assert isinstance(found, Unsupported)
    assert str(file) in found.message
    assert "kaji restore" in found.hint
