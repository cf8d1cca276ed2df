"""Versions of the schema: older ones are brought up to date, and newer ones are refused."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest
from tests.unit.history.conftest import all_sums, names

from kajitori.core.usage.sums import By
from kajitori.errors import Unsupported
from kajitori.history import runs
from kajitori.history.databases.database import Statement
from kajitori.history.databases.schema import CREATE_VERSION_TABLE, VERSION, VERSIONS, upgrade_script
from kajitori.history.runs import RunFilter
from kajitori.history.store import History

pytestmark = pytest.mark.xdist_group("postgres")
OLDER = [version for version in sorted(path.name[1:5] for path in VERSIONS.glob("v*.py")) if version != VERSION]


@pytest.mark.parametrize("version", OLDER)
async def test_history_of_an_older_schema_is_brought_up_to_date(
    version: str, request: pytest.FixtureRequest, tmp_path: Path, history: History
) -> None:
    """With its runs and its usage, which is summed up afterwards."""
    old = History(await database_of_version(version, history, request, tmp_path))
    try:
        await old.open()
        before = await all_sums(old, 0, 1000)
        assert before[By.TEAM, 0]["vision"].gpu_seconds == 2 * 100 * 8
        assert await old.sum_up() == 1
        assert await old.sum_up() == 0
        assert await all_sums(old, 0, 1000) == before
        assert await names(old, RunFilter(name="bert")) == ["bert-1"]
    finally:
        await old.close()


async def database_of_version(version: str, history: History, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of a database with this version of the schema, one run and one segment."""
    run_row = ("u1", "vision", "bert-1", "ana", "batch", "Succeeded", "", 1, 1, 200, None, 2, 16, 1, 1, b"")
    usage_row = ("u1", 10, 10, "vision", "ana", "bert-1", 1, "h100", 8, 0, 0, 2, 100, 200, 200, "gpu-[1-2]")
    usage_table = f'"usage" ({runs._USAGE_COLUMNS})'
    is_file, name = history.where.startswith("sqlite"), f"old{version}"
    script = (CREATE_VERSION_TABLE, *upgrade_script("sqlite" if is_file else "postgresql", None, version))
    if is_file:
        with closing(sqlite3.connect(folder / f"{name}.db")) as file:
            for statement in script:
                file.execute(statement)
            for table, row in (("runs", run_row), (usage_table, usage_row)):
                file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
            file.commit()
        return f"sqlite://{folder}/{name}.db"
    server = str(request.getfixturevalue("postgres"))
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    url = server.replace("/postgres?", f"/{name}?")
    connection = await asyncpg.connect(url)
    for statement in script:
        await connection.execute(statement)
    for table, row in (("runs", run_row), (usage_table, usage_row)):
        places = ", ".join(f"${number + 1}" for number in range(len(row)))
        await connection.execute(f"INSERT INTO {table} VALUES ({places})", *row)
    await connection.close()
    return url


async def test_several_processes_may_create_the_schema_at_once(tmp_path: Path) -> None:
    """The controller and the Web API start together on an empty database."""
    several = [History(f"sqlite://{tmp_path}/history.db") for _ in range(4)]
    await asyncio.gather(*(history.open() for history in several))
    for history in several:
        await history.close()


async def test_a_newer_schema_is_refused(history: History) -> None:
    """An older Kajitori does not write into unknown tables."""
    database = await history.open()
    await database.write([Statement("UPDATE schema_version SET version = '9999'")])
    newer = History(history._url)
    with pytest.raises(Unsupported, match="version 9999"):
        await newer.open()
    await database.write([Statement(f"UPDATE schema_version SET version = '{VERSION}'")])


def test_the_constant_has_the_newest_schema_version() -> None:
    """So a start need not import alembic."""
    assert sorted(path.name[1:5] for path in VERSIONS.glob("v*.py"))[-1] == VERSION
    assert upgrade_script("sqlite", VERSION)[:-2] == []
