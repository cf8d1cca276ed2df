"""History on both databases: the same records, lists and sums."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec
import pytest
from tests.unit.history.conftest import DAY, FREE, Recorded, names, run, segment

from kajitori.core.spec.status_parts.usage import UsageTotal
from kajitori.core.usage.records import AttemptRecord, AuditEntry, RunState
from kajitori.core.usage.sums import By
from kajitori.errors import KajitoriError, Unavailable, Unsupported
from kajitori.history import runs
from kajitori.history.audit import AuditFilter
from kajitori.history.databases.database import Database, Statement
from kajitori.history.runs import RunFilter
from kajitori.history.store import History
from kajitori.history.usage import UNKNOWN_NODE

pytestmark = pytest.mark.xdist_group("postgres")


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


async def test_a_database_that_is_down_fails_requests_but_not_the_start(tmp_path: Path) -> None:
    """Requests work once it is back."""
    history = History(f"postgresql://kaji@/postgres?host={tmp_path}")
    with pytest.raises(Unavailable, match="is not available"):
        await history.record([RunState(run=run(1))])
    assert "is not available" in history.trouble
