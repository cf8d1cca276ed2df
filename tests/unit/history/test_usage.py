"""Sums of usage on both databases: between two times, by day and hour, and after runs have expired."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.history.conftest import DAY, FREE, Recorded, all_sums, run, segment

from kajitori.core.spec.status_parts.usage import UsageTotal
from kajitori.core.usage.over_time import name_of
from kajitori.core.usage.records import RunState
from kajitori.core.usage.sums import By, Prices, UsageSum
from kajitori.errors import Conflict
from kajitori.history import usage
from kajitori.history.databases.database import Database
from kajitori.history.runs import RunFilter
from kajitori.history.store import History
from kajitori.history.sums import sum_up
from kajitori.history.usage import EXPIRED, OTHERS, UsageFilter, sum_usage

pytestmark = pytest.mark.xdist_group("postgres")


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
