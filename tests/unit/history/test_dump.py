"""History as rows: from one kind of database into the other, once or several times."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from kajitori.core.network.use.pools import AddressPool
from kajitori.core.traffic.history import HourRecord, TrafficRecord
from kajitori.core.usage.daily import TimeLevel
from kajitori.core.usage.lost_time.slices import Mark
from kajitori.core.usage.records import AttemptRecord, AuditEntry, RunRecord, RunState, SegmentRecord
from kajitori.core.usage.sums import By, Prices
from kajitori.history.audit import AuditFilter
from kajitori.history.databases.database import Statement
from kajitori.history.dump import TABLES, complete, facts_of_dump, load, prepare, rename, rows_of, unknown_expired
from kajitori.history.runs import RunFilter
from kajitori.history.store import History

pytestmark = pytest.mark.xdist_group("postgres")

DAY = 86400
FREE = Prices(gpu={})


@pytest.fixture
async def lite(tmp_path: Path) -> AsyncIterator[History]:
    made = History(f"sqlite://{tmp_path}/history.db")
    yield made
    await made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def other(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[History]:
    """An empty history of either kind."""
    url = f"sqlite://{tmp_path}/other.db"
    if request.param == "postgresql":
        server, name = str(request.getfixturevalue("postgres")), f"t{abs(hash(tmp_path))}"
        await (await asyncpg.connect(server)).execute(f"CREATE DATABASE {name}")
        url = server.replace("/postgres?", f"/{name}?")
    made = History(url)
    yield made
    await made.close()


def state(number: int) -> RunState:
    run = RunRecord(
        uid=f"u{number}",
        namespace="vision",
        name=f"bert-{number}",
        owner="ana",
        type="batch",
        phase="Succeeded",
        reason="",
        created_at=number * DAY,
        ended_at=number * DAY + 900,
        removed_at=number * DAY + 1000,
        seen_at=1,
        document=b'{"spec": {"image": "\xc3\xa9"}}',
    )
    held = SegmentRecord(
        id=10, attempt=1, members=2, since=number * DAY, until=number * DAY + 900, nodes="n[1-2]", gpus=8
    )
    attempt = AttemptRecord(number=1, nodes="n[1-2]")
    return RunState(run=run, attempts=(attempt,), segments=(held,), ledger=10, last=10)


async def filled(history: History) -> None:
    """Ten runs, of which the oldest four are left as daily sums, and an entry of the audit trail."""
    await history.record(state(number) for number in range(10))
    entry = AuditEntry(key="k", at=5, actor="ana", action="stop run", namespace="vision", object="x", outcome="done")
    await history.note([entry])
    bands = [(f"u{number}", 1, 60, number * DAY, 2, bytes(range(256))) for number in (3, 9)]
    telemetry = "INSERT INTO telemetry VALUES ($1, $2, $3, $4, $5, $6)"
    await (await history.open()).write([Statement(telemetry, bands)])
    marks = [(f"u{number}", Mark(1, "saved", number * DAY + 10, number * DAY + 20)) for number in (3, 9)]
    await history.record_marks(marks)
    moved = TrafficRecord({"internet.out": 9}, {"internet.out": 7}, "x", "vision", "ana")
    await history.record_traffic([HourRecord("run", f"u{number}", number * DAY, moved) for number in (3, 9)])
    await history.record_address_use([AddressPool("nodes", "10.0.0.0/24", "lyon", 7, 256)], 5)
    await history.sum_up()
    await history.divide(6 * DAY)
    assert await history.expire(4 * DAY) == 4


async def test_every_table_is_part_of_a_dump(lite: History) -> None:
    """But the version of the schema, the facts about the history itself, and figures of nodes, which are kept for a
    week."""
    rows = await (await lite.open()).fetch(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    left_out = {"schema_version", "history_facts", "node_figures"}
    assert {name for (name,) in rows} - left_out == {table.name for table in TABLES}
    for table in TABLES:
        columns = {row[1] for row in await (await lite.open()).fetch(f"PRAGMA table_info({table.name})")}
        assert columns - {"summed", "divided", "id"} == set(table.columns) - {"id"}, table.name


async def copy(source: History, target: History) -> None:
    database, there = await source.open(), await target.open()
    async with database.snapshot() as reader:
        facts = await facts_of_dump(reader)
        dump = {table: [row async for row in rows_of(reader, table)] for table in TABLES}
    noted = await prepare(there, msgspec.json.decode(msgspec.json.encode(facts)))
    gone = await unknown_expired(there, dump[TABLES[0]], noted.skip_before) if noted.skip_before else set()
    for table, rows in dump.items():
        rows = [row for row in rows if not table.run or row[table.run] not in gone]
        await load(there, table, msgspec.json.decode(msgspec.json.encode(rows)), noted)
    await complete(there, facts)


async def seen(history: History) -> Any:
    usage = [await history.usage(by, 0, 50 * DAY, FREE) for by in By]
    runs = await history.runs(RunFilter(), 100)
    whole = [await history.run("vision", run.uid) for run in runs]
    attempts = [await history.attempts(run.uid) for run in runs]
    audit = [entry for _, entry in await history.audit(AuditFilter(), 10)]
    telemetry = await (await history.open()).fetch("SELECT * FROM telemetry ORDER BY run_uid")
    times = [await history.times(level, 0, 50 * DAY, None) for level in TimeLevel]
    marks = [await history.time_of_run(run.uid) for run in runs]
    moved = await history.traffic("run", 0, 50 * DAY)
    return usage, runs, whole, attempts, audit, times, marks, moved, await history.address_use(0), telemetry


async def test_a_history_is_copied_exactly_and_a_second_time_changes_nothing(lite: History, other: History) -> None:
    """Also into the other kind of database, and with runs that are left as daily sums."""
    await filled(lite)
    for _ in range(2):
        await copy(lite, other)
        assert await seen(other) == await seen(lite)
        assert [row[0] for row in (await seen(other))[-1]] == ["u9"], "that of expired runs is gone"
        while await other.sum_up():
            pass
        assert await seen(other) == await seen(lite)


async def test_runs_that_expired_since_a_backup_do_not_come_back(lite: History, other: History) -> None:
    """They would be counted twice."""
    await filled(lite)
    await copy(lite, other)
    await other.sum_up()
    await other.divide(50 * DAY)
    before = await other.usage(By.TEAM, 0, 50 * DAY, FREE)
    assert await other.expire(8 * DAY) == 4
    await copy(lite, other)
    assert await other.usage(By.TEAM, 0, 50 * DAY, FREE) == before
    assert len(await other.runs(RunFilter(), 100)) == 2


async def test_records_of_runs_that_are_made_again_follow_them(lite: History, other: History) -> None:
    """Also if the controller was faster, and has told history about the new object."""
    await filled(lite)
    await copy(lite, other)
    new = msgspec.structs.replace(state(9).run, uid="new", created_at=77 * DAY, removed_at=None, seen_at=2)
    await other.record([RunState(run=new, attempts=(AttemptRecord(number=1, nodes=""),))])
    usage = await other.usage(By.OWNER, 0, 50 * DAY, FREE)
    for _ in range(2):
        await rename(await other.open(), {"u9": "new", "u8": "new-8"})
        await copy(lite, other)
    found = {run.uid: run for run in await other.runs(RunFilter(), 100)}
    assert set(found) == {"u4", "u5", "u6", "u7", "new-8", "new"}
    assert (found["new"].created_at, found["new"].removed_at, found["new-8"].removed_at) == (9 * DAY, None, None)
    assert await other.usage(By.OWNER, 0, 50 * DAY, FREE) == usage
    assert set(await other.usage(By.RUN, 8 * DAY, 50 * DAY, FREE)) == {"vision/bert-9/new", "vision/bert-8/new-8"}
