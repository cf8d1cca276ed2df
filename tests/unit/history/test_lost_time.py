"""Where the time of runs went, in both databases: marks, sums of days by cause, and what is not summed up yet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kajitori.core.spec.status_parts.usage import UsageTotal
from kajitori.core.usage.daily import DAY, TimeAmount, TimeKey, TimeLevel
from kajitori.core.usage.lost_time.slices import NO_CHECKPOINT, Kind, Mark
from kajitori.core.usage.records import RunRecord, RunState, SegmentRecord
from kajitori.core.usage.sums import By, Prices
from kajitori.history.databases.database import Statement
from kajitori.history.store import History

pytestmark = pytest.mark.xdist_group("postgres")

START = 10 * DAY - 500
END = 20 * DAY


@pytest.fixture(params=["sqlite", "postgresql"])
async def history(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[History]:
    if request.param == "sqlite":
        found = History(f"sqlite://{tmp_path}/history.db")
    else:
        found = History(request.getfixturevalue("postgres"))
        tables = ("runs", "attempts", "usage", "usage_sums", "time_sums", "marks")
        await (await found.open()).write([Statement(f"DELETE FROM {table}") for table in tables])
        await (await found.open()).write([Statement("UPDATE history_facts SET value = '0' WHERE name <> 'id'")])
    yield found
    await found.close()


def state(number: int, team: str = "vision", owner: str = "ana") -> RunState:
    """Return a run whose only attempt started over midnight, ran for an hour and was broken by a lost node."""
    run = RunRecord(
        uid=f"u{number}",
        namespace=team,
        name=f"bert-{number}",
        owner=owner,
        type="batch",
        phase="Failed",
        reason="NodeLost",
        created_at=START - 60,
        ended_at=START + 4000,
        removed_at=START + 5000,
        seen_at=1,
        document=b"{}",
    )
    segment = SegmentRecord(
        id=10,
        attempt=1,
        members=4,
        since=START,
        until=START + 3700,
        nodes="gpu-[1-4]",
        gpus=8,
        started=START + 100,
        ended=START + 3690,
        cause="NodeLost",
        culprit="gpu-3",
        saves_every=NO_CHECKPOINT,
        counts=1,
    )
    return RunState(run=run, segments=(segment,), ledger=10, last=10)


async def seen(history: History) -> list[dict[TimeKey, TimeAmount]]:
    return [await history.times(level, START, END, None) for level in TimeLevel]


async def test_sums_by_cause_are_the_usage_before_and_after_they_are_made(history: History) -> None:
    """Dividing twice, or on another controller, changes nothing, and neither does the removal of old runs."""
    await history.record([state(1), state(2, "speech", "bob"), state(3, "speech")])
    marks = [("u1", Mark(1, Kind.SAVED, START + 1000, START + 1040))]
    for _ in range(2):
        await history.record_marks(marks)
    before = await seen(history)
    key = TimeKey("team", 0, "vision", "", "lost", "NodeLost")
    assert before[0][key] == TimeAmount(32 * 2650, 4 * 2650)
    assert before[0][msgspec.structs.replace(key, category="restarting")] == TimeAmount(32 * 10, 4 * 10, 1)
    assert before[0][TimeKey("team", 0, "vision", "", "saving", "")].member_seconds == 4 * 40
    assert before[1][TimeKey("owner", 0, "speech", "bob", "lost", "NodeLost")].member_seconds == 4 * 3590
    assert before[2][TimeKey("node", 0, "", "gpu-3", "lost", "NodeLost")].member_seconds == 4 * (2650 + 2 * 3590)
    usage = await history.usage(By.TEAM, START, END, Prices(gpu={}))
    for team, used in usage.items():
        own = [amount for key, amount in before[0].items() if key.namespace == team]
        assert sum(amount.gpu_seconds for amount in own) == used.gpu_seconds
        assert sum(amount.member_seconds for amount in own) == used.member_seconds
    assert await history.divide(START) == 0, "its attempts may still get marks"
    assert [await history.divide(END), await history.divide(END)] == [3, 0]
    assert await seen(history) == before
    await history.sum_up()
    assert await history.expire(END) == 3
    assert await seen(history) == before
    assert await history.time_of_run("u1") == ({}, [])


async def test_a_report_counts_days_and_teams_that_were_asked_for(history: History) -> None:
    await history.record([state(1), state(2, "speech")])
    await history.divide(END)
    await history.record([state(3, "speech")])
    first_day = await history.times(TimeLevel.TEAM, START, START, {"speech"})
    assert {key.namespace for key in first_day} == {"speech"}
    assert sum(amount.member_seconds for amount in first_day.values()) == 2 * 4 * 500
    assert await history.times(TimeLevel.TEAM, START, END, ()) == {}


async def test_time_without_a_description_is_unclear(history: History) -> None:
    """A status had no room for segments, or an earlier version of Kajitori wrote them."""
    run = state(1).run
    total = UsageTotal(gpu_type="", gpus=8, cpu_millis=0, memory_bytes=0, member_seconds=600)
    left_out = RunState(run=run, ledger=10, last=50, totals=(total,), since=START, until=START + 100)
    old = SegmentRecord(id=60, attempt=2, members=1, since=START, until=START + 100, nodes="n1", gpus=8, counts=-1)
    await history.record([left_out, RunState(run=run, segments=(old,), ledger=10, last=60)])
    for _ in range(2):
        found = await history.times(TimeLevel.TEAM, START, END, None)
        assert found == {TimeKey("team", 0, "vision", "", "unclear", ""): TimeAmount(8 * 600, 600)}
        await history.divide(END)


async def test_a_later_end_of_a_mark_replaces_an_earlier_one(history: History) -> None:
    """A hang that goes on is noted again and again."""
    for until in (200, 900, 400):
        await history.record_marks([("u1", Mark(1, Kind.HUNG, 100, until))])
    assert await history.marks(["u1", "u2"]) == {"u1": [Mark(1, "hung", 100, 900)]}
