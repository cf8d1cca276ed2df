"""History on both databases: the same records, lists and sums."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import asyncpg
import msgspec
import pytest

from kajitori.core.spec.status import UsageTotal
from kajitori.core.usage.over_time import name_of
from kajitori.core.usage.records import AttemptRecord, AuditEntry, RunRecord, RunState, SegmentRecord
from kajitori.core.usage.sums import By, Prices, UsageSum
from kajitori.errors import Conflict, KajitoriError, Unavailable, Unsupported
from kajitori.history import runs, usage
from kajitori.history.audit import AuditFilter
from kajitori.history.databases.database import Database, Statement
from kajitori.history.databases.schema import CREATE_VERSION_TABLE, VERSION, VERSIONS, upgrade_script
from kajitori.history.runs import RunFilter
from kajitori.history.store import History
from kajitori.history.sums import sum_up
from kajitori.history.usage import EXPIRED, OTHERS, UNKNOWN_NODE, UsageFilter, sum_usage

pytestmark = pytest.mark.xdist_group("postgres")

FREE = Prices(gpu={})


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
    plain = SegmentRecord(
        id=number, attempt=1, members=2, since=100, until=200, nodes="gpu-[1-2]", gpu_type="h100", gpus=8
    )
    return msgspec.structs.replace(plain, **changes)


async def names(history: History, wanted: RunFilter, limit: int = 100, after: Any = None) -> list[str]:
    return [found.name for found in await history.runs(wanted, limit, after)]


async def test_a_state_that_is_recorded_twice_is_stored_once(history: History) -> None:
    """A controller that is killed before it gets the answer writes the same state again."""
    state = RunState(run=run(1), segments=(segment(10),), ledger=10, last=10)
    for _ in range(2):
        await history.record([state])
    assert await names(history, RunFilter()) == ["bert-1"]
    assert (await history.usage(By.TEAM, 0, 1000, FREE))["vision"].gpu_seconds == 2 * 100 * 8


async def test_an_older_state_never_replaces_a_newer_one(history: History) -> None:
    """A controller that lost its lease may write late."""
    await history.record([RunState(run=run(1, phase="Succeeded", seen_at=9))])
    await history.record([RunState(run=run(1, phase="Running", seen_at=5))])
    found = await history.run("vision", "bert-1")
    assert found is not None
    assert (found.phase, found.document) == ("Succeeded", b'{"spec": {"image": "python:3.12"}}')


async def test_time_that_does_not_fit_into_a_status_is_added_once(history: History) -> None:
    """The totals decide: the difference to them is one more row, however often the state is recorded."""
    total = UsageTotal(gpu_type="h100", gpus=8, member_seconds=1000)
    state = RunState(run=run(1), segments=(segment(50),), ledger=10, last=50, totals=(total,), since=0, until=200)
    for _ in range(3):
        await history.record([state])
    later = msgspec.structs.replace(total, member_seconds=1200)
    more = RunState(run=run(1), segments=(segment(51),), ledger=10, last=51, totals=(later,), since=0, until=300)
    await history.record([more])
    by_node = await history.usage(By.NODE, 0, 1000, FREE)
    assert {node: found.member_seconds for node, found in by_node.items()} == {
        "gpu-1": 200,
        "gpu-2": 200,
        UNKNOWN_NODE: 800,
    }
    assert (await history.usage(By.RUN, 0, 1000, FREE))["vision/bert-1/uid-001"].member_seconds == 1200


async def test_a_ledger_that_was_lost_is_added_to_its_successor(history: History) -> None:
    """After a lost status, numbers and totals start again."""
    await history.record([RunState(run=run(1), segments=(segment(10),), ledger=10, last=10)])
    total = UsageTotal(gpu_type="h100", gpus=8, member_seconds=300)
    again = RunState(run=run(1), segments=(segment(90),), ledger=90, last=90, totals=(total,), until=200)
    await history.record([again])
    assert (await history.usage(By.OWNER, 0, 1000, FREE))["ana"].member_seconds == 200 + 300


async def test_sums_count_the_usage_between_two_times(history: History) -> None:
    """A segment that is partly outside counts with the part inside; every grouping gives the same total."""
    other = segment(11, members=1, since=150, until=250, nodes="cpu-1", gpu_type="", gpus=0, cpu_millis=4000)
    large = segment(12, members=7500, since=0, until=400, nodes="big-[1-7500]", memory_bytes=2**40)
    await history.record([RunState(run=run(1), segments=(segment(10), other, large), ledger=10, last=12)])
    for by in By:
        sums = (await history.usage(by, 120, 180, FREE)).values()
        assert sum(found.member_seconds for found in sums) == 2 * 60 + 30 + 7500 * 60, by
        assert sum(found.gpu_seconds for found in sums) == (2 * 60 + 7500 * 60) * 8
        assert sum(found.cpu_milli_seconds for found in sums) == 30 * 4000
        assert sum(found.byte_seconds for found in sums) == 7500 * 60 * 2**40


async def test_usage_is_priced_as_policy_says(history: History) -> None:
    """A price of one GPU type, and a price of all others."""
    other = segment(11, gpu_type="a100", since=0, until=3600, members=1)
    await history.record([RunState(run=run(1), segments=(segment(10, since=0, until=3600), other), ledger=1, last=11)])
    found = await history.usage(By.TYPE, 0, 4000, Prices(gpu={"h100": 3.0, "": 1.0}))
    assert {kind: total.cost for kind, total in found.items()} == {"h100": 48.0, "a100": 8.0}


DAY = 86400


def some_usage() -> list[RunState]:
    """Runs of several teams and users over a hundred days, some short, some long, one with time left out."""
    states = []
    for number in range(40):
        since = number * 2 * DAY + number * 3777
        until, members = since + (number * number * 997) % (9 * DAY), number % 7 + 1
        nodes = f"gpu-[1-{members}]" if members > 1 else "gpu-1"
        held = segment(10, since=since, until=until, members=members, nodes=nodes, memory_bytes=2**41)
        total = UsageTotal(gpu_type="h100", gpus=8, memory_bytes=2**41, member_seconds=held.member_seconds + number)
        states.append(
            RunState(
                run=run(
                    number,
                    namespace=f"team-{number % 3}",
                    owner=f"user-{number % 4}",
                    created_at=since,
                    ended_at=held.until,
                    removed_at=held.until if number != 3 else None,
                ),
                segments=(held,),
                ledger=10,
                last=10,
                totals=(total,) if number % 5 == 0 else (),
                since=since,
                until=held.until,
            )
        )
    return states


async def all_sums(history: History, since: int, until: int, *bys: By) -> dict[Any, Any]:
    filters: list[dict[str, Any]] = [{}, {"namespaces": {"team-1", "team-2"}}, {"owner": "user-3"}]
    filters.append(filters[1] | filters[2])
    return {
        (by, number): await history.usage(by, since, until, Prices(gpu={"": 2.0}), **chosen)
        for by in bys or By
        if by is not By.HOUR or until - since < 2 * DAY
        for number, chosen in enumerate(filters)
    }


WINDOWS = (
    (0, 200 * DAY),
    (5 * DAY + 77, 61 * DAY + 3),
    (20 * DAY, 20 * DAY + 9000),
    (0, 33 * DAY),
    (31 * DAY + 1, 64 * DAY),
)


async def test_sums_of_days_give_what_the_segments_give(history: History) -> None:
    """For every grouping, filter and time: before, while and after segments are summed up, however often."""
    await history.record(some_usage())
    before = [await all_sums(history, *window) for window in WINDOWS]
    await sum_up(await history.open(), 13)
    assert [await all_sums(history, *window) for window in WINDOWS] == before
    while await history.sum_up():
        await history.record(some_usage())
    assert [await all_sums(history, *window) for window in WINDOWS] == before


async def test_each_day_and_each_hour_has_its_part_of_the_usage(history: History) -> None:
    """Also before segments are summed up, for the days at both ends, and for time that is known by its length alone."""
    since, until = 9 * DAY + 77, 15 * DAY + 3
    await history.record(some_usage())
    for _ in range(2):
        for by, seconds in ((By.DAY, DAY), (By.HOUR, 3600)):
            found = await history.usage(by, since, until, FREE, owner="user-3")
            for number in {*range(since // DAY * DAY, until, DAY), since // 3600 * 3600, 12 * DAY + 7200}:
                part = max(since, number), min(until, number + seconds)
                whole = UsageSum()
                for used in (await history.usage(By.TYPE, *part, FREE, owner="user-3")).values():
                    whole.add(used)
                assert found.pop(name_of(by, number // seconds), UsageSum()) == whole
            assert by is By.HOUR or not found
        await history.sum_up()


async def test_two_controllers_never_sum_up_a_segment_twice(history: History) -> None:
    """One that was stopped in between, and goes on with what it read, changes nothing."""
    await history.record(some_usage())
    database = await history.open()
    before = await all_sums(history, 0, 200 * DAY)

    class Slow:
        async def fetch(self, sql: str, *parameters: Any) -> list[Any]:
            return await database.fetch(sql, *parameters)

        async def write(self, statements: Any) -> None:
            await sum_up(database)
            await database.write(statements)

    with pytest.raises(Conflict):
        await sum_up(cast(Database, Slow()))
    assert await all_sums(history, 0, 200 * DAY) == before


async def test_expired_runs_leave_their_daily_sums(history: History) -> None:
    """By team, owner and type nothing changes; by run and node their time has one key. A run whose object exists, or
    that ended later, stays."""
    await history.record(some_usage())
    assert await history.expire(50 * DAY) == 0, "nothing was summed up yet"
    await history.sum_up()
    assert await history.expire(50 * DAY) == 0, "its time was not divided yet"
    await history.divide(200 * DAY)
    bys = By.TEAM, By.OWNER, By.TYPE
    windows = [(since // DAY * DAY, -(-until // DAY) * DAY) for since, until in WINDOWS]
    windows.append((50 * DAY + 5, 80 * DAY + 7))
    sums = [await all_sums(history, *window, *bys) for window in windows]
    runs = await history.usage(By.RUN, 0, 200 * DAY, FREE)
    while await history.expire(50 * DAY + 99):
        pass
    assert [await all_sums(history, *window, *bys) for window in windows] == sums
    left = [found for found in await history.runs(RunFilter(), 100) if (found.ended_at or 0) < 50 * DAY]
    assert [found.name for found in left] == ["bert-3"]
    for by in (By.RUN, By.NODE):
        now = await history.usage(by, 0, 200 * DAY, FREE)
        assert sum(found.byte_seconds for found in now.values()) == sum(found.byte_seconds for found in runs.values())
        assert now[EXPIRED].member_seconds > 0
    assert [await history.countable(*window) for window in WINDOWS[1:3]] == [
        (5 * DAY, 61 * DAY + 3),
        (20 * DAY, 21 * DAY),
    ]


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


class Recorded:
    """Remembers what is asked of a database, and how many rows it returned."""

    def __init__(self, database: Database) -> None:
        self.database, self.asked, self.rows = database, list[tuple[str, tuple[Any, ...]]](), 0

    async def fetch(self, sql: str, *parameters: Any) -> list[Any]:
        found = await self.database.fetch(sql, *parameters)
        self.asked.append((sql, parameters))
        self.rows += len(found)
        return found


async def test_the_newest_of_many_names_are_found_by_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither all runs nor all names are read and sorted. PostgreSQL took 0.1 to 0.4 s for 111,000 old names."""
    monkeypatch.setattr(runs, "MAX_SORTED_RUNS", 4)
    history = History(f"sqlite://{tmp_path}/history.db")
    try:
        await history.record(
            RunState(run=run(number, name=f"{'train' if number < 50 else 'eval'}-{number}", created_at=number * DAY))
            for number in range(100)
        )
        recorded = Recorded(await history.open())
        found = await runs.list_runs(cast(Database, recorded), RunFilter(name="train", namespaces={"vision"}), 3)
        assert [one.name for one in found] == ["train-49", "train-48", "train-47"]
        plans = [
            str(row[-1])
            for sql, parameters in recorded.asked
            for row in await recorded.database.fetch(f"EXPLAIN QUERY PLAN {sql}", *parameters)
        ]
    finally:
        await history.close()
    assert (
        sum("USING COVERING INDEX runs_by_day_and_name (<expr>=? AND name>? AND name<?)" in one for one in plans) == 2
    )
    assert not [one for one in plans if one.startswith("SCAN runs")]
    assert recorded.rows < 20


async def test_of_very_many_runs_the_largest_have_a_row(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others share one, so that memory and answer are bounded; the total is exact."""
    await history.record(some_usage())
    whole = await history.usage(By.RUN, 5 * DAY, 61 * DAY, Prices(gpu={"": 2.0}))
    monkeypatch.setattr(usage, "MOST_SEGMENTS", 12)
    monkeypatch.setattr(usage, "MOST_RUNS", 3)
    found = await history.usage(By.RUN, 5 * DAY, 61 * DAY, Prices(gpu={"": 2.0}))
    largest = sorted(whole, key=lambda run: (-whole[run].gpu_seconds, run))[:3]
    assert len(whole) > 12
    assert found.keys() == {*largest, OTHERS}
    assert [found[name] for name in largest] == [whole[name] for name in largest]
    for field in ("gpu_seconds", "cpu_milli_seconds", "byte_seconds", "member_seconds"):
        assert sum(getattr(one, field) for one in found.values()) == sum(getattr(one, field) for one in whole.values())
    assert sum(one.cost for one in found.values()) == pytest.approx(sum(one.cost for one in whole.values()))


async def test_usage_by_node_reads_a_row_for_each_list_of_nodes(history: History) -> None:
    """Not one for each segment."""
    await history.record(
        RunState(run=run(number), segments=(segment(10, nodes=f"gpu-[1-{1 + number % 2}]"),)) for number in range(40)
    )
    recorded = Recorded(await history.open())
    found = await sum_usage(cast(Database, recorded), By.NODE, UsageFilter(0, 1000), FREE)
    assert {node: used.member_seconds for node, used in found.items()} == {"gpu-1": 4000, "gpu-2": 2000}
    assert recorded.rows == 2


async def test_many_names_that_begin_alike_are_found(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among the newest runs, or else among all."""
    monkeypatch.setattr(runs, "MAX_SORTED_RUNS", 4)
    await history.record(
        RunState(run=run(number, name=f"{'train' if number < 20 else 'eval'}-{number}")) for number in range(30)
    )
    assert await names(history, RunFilter(name="eval"), 3) == ["eval-29", "eval-28", "eval-27"]
    assert await names(history, RunFilter(name="train"), 3) == ["train-19", "train-18", "train-17"]
    assert await names(history, RunFilter(name="eval"), 2, (1028, "uid-028")) == ["eval-27", "eval-26"]


async def test_lists_are_filtered_and_come_in_pages(history: History) -> None:
    """Newest first, with each filter alone and with several; the next page starts after the last entry."""
    await history.record(
        RunState(
            run=run(
                number,
                namespace=("vision", "nlp")[number % 2],
                owner=("ana", "bob", "cy")[number % 3],
                phase=("Succeeded", "Failed")[number % 5 == 0],
                name=f"{'train' if number < 20 else 'eval'}-{number}",
            )
        )
        for number in range(30)
    )
    everything = [f"{'train' if number < 20 else 'eval'}-{number}" for number in range(29, -1, -1)]
    assert await names(history, RunFilter()) == everything
    last = (await history.runs(RunFilter(), 10))[-1]
    assert await names(history, RunFilter(), 5, (last.created_at, last.uid)) == everything[10:15]
    assert await names(history, RunFilter(namespaces={"nlp"}, owner="ana", phases=("Failed",))) == ["train-15"]
    assert await names(history, RunFilter(namespaces={"nlp", "vision"}, phases=("Failed",)), 2) == [
        "eval-25",
        "eval-20",
    ]
    assert await names(history, RunFilter(namespaces={"vision"}, name="train-1")) == [
        f"train-{number}" for number in (18, 16, 14, 12, 10)
    ]
    assert await names(history, RunFilter(owner="bob", since=1020)) == ["eval-28", "eval-25", "eval-22"]
    assert await names(history, RunFilter(namespaces=())) == []


async def test_a_run_is_found_by_name_or_uid(history: History) -> None:
    """By name, the newest run of that name, and only in its own namespace."""
    await history.record([RunState(run=run(1, name="x")), RunState(run=run(2, name="x"))])
    newest, old = await history.run("vision", "x"), await history.run("vision", "uid-001")
    assert newest is not None
    assert old is not None
    assert (newest.uid, old.uid) == ("uid-002", "uid-001")
    assert await history.run("nlp", "uid-001") is None


async def test_news_of_an_attempt_are_combined(history: History) -> None:
    """A first status has its nodes, a later one has its end."""
    await history.record([RunState(run=run(1), attempts=(AttemptRecord(number=1, nodes="n[1-2]", planned_at="a"),))])
    ended = AttemptRecord(number=1, nodes="", ended_at="b", reason="NodeLost")
    await history.record([RunState(run=run(1), attempts=(ended, AttemptRecord(number=2, nodes="n[3-4]")))])
    first, second = await history.attempts("uid-001")
    assert (first.nodes, first.planned_at, first.ended_at, first.reason) == ("n[1-2]", "a", "b", "NodeLost")
    assert second.nodes == "n[3-4]"


async def test_the_audit_trail_is_append_only(history: History) -> None:
    """Entries cannot be changed or deleted, and an entry that is written twice is stored once."""
    plain = AuditEntry(key="1", at=5000, actor="ana", action="stop run", namespace="vision", object="x", outcome="done")
    refused = msgspec.structs.replace(plain, key="2", at=6000, actor="bob", outcome="refused", rule="MemoryCeiling")
    await history.note([plain, refused])
    await history.note([msgspec.structs.replace(plain, actor="eve")])
    entries = await history.audit(AuditFilter(), 10)
    assert [entry for _, entry in entries] == [refused, plain]
    assert [entry for _, entry in await history.audit(AuditFilter(), 1, (6000, entries[0][0]))] == [plain]
    assert [entry for _, entry in await history.audit(AuditFilter(namespaces={"nlp"}), 10)] == []
    assert [entry for _, entry in await history.audit(AuditFilter(outcome="refused"), 10)] == [refused]
    database = await history.open()
    for change in ("DELETE FROM audit", "UPDATE audit SET actor = 'eve'"):
        with pytest.raises(KajitoriError, match="append-only"):
            await database.write([Statement(change)])


async def test_a_text_with_a_null_character_is_stored(history: History) -> None:
    """PostgreSQL has none in texts. One such entry must not hold up all later ones."""
    entry = AuditEntry(
        key="1", at=5000, actor="ana", action="delete run", namespace="vision", object="run \0", outcome="refused"
    )
    await history.note([entry])
    await history.record(
        [RunState(run=run(1, reason="ended\0"), attempts=(AttemptRecord(number=1, nodes="", message="\0"),))]
    )
    assert len(await history.audit(AuditFilter(object="run \0"), 10)) == 1
    assert await names(history, RunFilter(name="bert\0")) == []
    assert await names(history, RunFilter()) == ["bert-1"]


async def test_a_transaction_is_stored_as_a_whole_or_not_at_all(history: History) -> None:
    """A fault in one statement undoes the earlier ones."""
    database = await history.open()
    with pytest.raises(Unsupported):
        await database.write([Statement("DELETE FROM runs"), Statement("INSERT INTO elsewhere VALUES (1)")])
    await history.record([RunState(run=run(1))])
    with pytest.raises(Unsupported):
        await database.write([Statement("DELETE FROM runs"), Statement("INSERT INTO elsewhere VALUES (1)")])
    assert await names(history, RunFilter()) == ["bert-1"]


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


async def test_a_database_that_is_down_fails_requests_but_not_the_start(tmp_path: Path) -> None:
    """Requests work once it is back."""
    history = History(f"postgresql://kaji@/postgres?host={tmp_path}")
    with pytest.raises(Unavailable, match="is not available"):
        await history.record([RunState(run=run(1))])
    assert "is not available" in history.trouble
