"""An empty history in each kind of database, with one PostgreSQL for all tests, and records to store in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.servers.postgres import running_postgres

from kajitori.core.usage.records import RunRecord, SegmentRecord
from kajitori.core.usage.sums import By, Prices
from kajitori.history.databases.database import Database, Statement
from kajitori.history.runs import RunFilter
from kajitori.history.store import History

DAY = 86400
FREE = Prices(gpu={})
"""Prices with which nothing costs anything."""


@pytest.fixture(scope="package")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
async def history(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[History]:
    """An empty history."""
    if request.param == "sqlite":
        found = History(f"sqlite://{tmp_path}/history.db")
    else:
        found = History(request.getfixturevalue("postgres"))
        tables = ("runs", "attempts", "usage", "usage_sums")
        await (await found.open()).write([*(Statement(f"DELETE FROM {table}") for table in tables)])
        await (await found.open()).write([Statement("UPDATE history_facts SET value = '0' WHERE name <> 'id'")])
        await (await found.open()).write([Statement("TRUNCATE audit")])
    yield found
    await found.close()


def run(number: int, **changes: Any) -> RunRecord:
    """Return the record of an ended run."""
    plain = RunRecord(
        uid=f"uid-{number:03}",
        namespace="vision",
        name=f"bert-{number}",
        owner="ana",
        type="batch",
        phase="Succeeded",
        reason="",
        created_at=1000 + number,
        ended_at=2000 + number,
        seen_at=1,
        document=b'{"spec": {"image": "python:3.12"}}',
    )
    return msgspec.structs.replace(plain, **changes)


def segment(number: int, **changes: Any) -> SegmentRecord:
    """Return a segment of usage: two members with eight GPUs each, for 100 seconds."""
    plain = SegmentRecord(
        id=number, attempt=1, members=2, since=100, until=200, nodes="gpu-[1-2]", gpu_type="h100", gpus=8
    )
    return msgspec.structs.replace(plain, **changes)


async def names(history: History, wanted: RunFilter, limit: int = 100, after: Any = None) -> list[str]:
    return [found.name for found in await history.runs(wanted, limit, after)]


class Recorded:
    """Remembers what is asked of a database, and how many rows it returned."""

    def __init__(self, database: Database) -> None:
        self.database, self.asked, self.rows = database, list[tuple[str, tuple[Any, ...]]](), 0

    async def fetch(self, sql: str, *parameters: Any) -> list[Any]:
        found = await self.database.fetch(sql, *parameters)
        self.asked.append((sql, parameters))
        self.rows += len(found)
        return found


async def all_sums(history: History, since: int, until: int, *bys: By) -> dict[Any, Any]:
    filters: list[dict[str, Any]] = [{}, {"namespaces": {"team-1", "team-2"}}, {"owner": "user-3"}]
    filters.append(filters[1] | filters[2])
    return {
        (by, number): await history.usage(by, since, until, Prices(gpu={"": 2.0}), **chosen)
        for by in bys or By
        if by is not By.HOUR or until - since < 2 * DAY
        for number, chosen in enumerate(filters)
    }
