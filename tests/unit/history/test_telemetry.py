"""Bands of telemetry in history, and how they become coarser with age. The same in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import LEVELS, Interval
from kajitori.core.telemetry.node_figures import NodeFigures, pack
from kajitori.history.databases.database import Statement
from kajitori.history.node_figures import NodeRow
from kajitori.history.store import History

NOW = 2_000_000_400
MINUTE, TEN, HOUR = LEVELS


@pytest.fixture(params=["sqlite", "postgresql"])
async def history(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[History]:
    """A history without telemetry."""
    url = f"sqlite://{tmp_path}/history.db" if request.param == "sqlite" else request.getfixturevalue("postgres")
    found = History(url)
    await (await found.open()).write([Statement("DELETE FROM telemetry"), Statement("DELETE FROM node_figures")])
    yield found
    await found.close()


def minute(start: int, value: float, *, uid: str = "u", ranks: int = 1) -> Interval:
    start -= start % 60
    band = Band(ranks, value, value, value, value, value + ranks - 1, Place(0), Place(ranks - 1))
    return Interval(uid, 1, 60, start, ranks, {"cpu.used": band})


async def test_of_two_writers_the_one_with_more_ranks_wins(history: History) -> None:
    for ranks in (2, 8, 4):
        await history.record_telemetry([minute(NOW, 1.0, ranks=ranks)])
    (found,) = await history.telemetry("u", NOW - 60, NOW + 60)
    assert (found.ranks, found.bands["cpu.used"].most) == (8, 8.0)
    assert await history.telemetry("other", NOW - 60, NOW + 60) == []


async def test_old_minutes_become_longer_intervals_and_go_at_last(history: History) -> None:
    """Nothing is counted twice, and extremes are kept exactly."""
    old = NOW - MINUTE.kept_seconds - 1200
    old -= old % 600
    minutes = [minute(old + 60 * number, float(number)) for number in range(20)]
    await history.record_telemetry([*minutes, minute(NOW, 5.0)])
    while await history.downsample_telemetry(NOW):
        pass
    found = sorted(await history.telemetry("u", 0, NOW + 60), key=lambda each: each.start)
    assert [each.seconds for each in found] == [600, 600, 60]
    assert [(each.bands["cpu.used"].least, each.bands["cpu.used"].most) for each in found[:2]] == [(0, 9), (10, 19)]
    later = NOW + TEN.kept_seconds + 3600
    while await history.downsample_telemetry(later):
        pass
    found = await history.telemetry("u", 0, later)
    assert {each.seconds for each in found} == {3600}
    assert max(each.bands["cpu.used"].most for each in found) == 19.0
    much_later = NOW + HOUR.kept_seconds + 7200
    while await history.downsample_telemetry(much_later):
        pass
    assert await history.telemetry("u", 0, much_later) == []


async def test_the_newest_intervals_of_many_runs_are_found_at_once(history: History) -> None:
    """Of each run those of its last attempt, in the finest resolution that is left; of no other run."""
    first = [minute(NOW + 60 * number, float(number), uid="a") for number in range(4)]
    second = replace(minute(NOW + 600, 7.0, uid="a"), attempt=2)
    long = replace(minute(NOW - 6000, 5.0, uid="b"), seconds=600)
    many = [minute(NOW, 1.0, uid=f"n{number}") for number in range(120)]
    await history.record_telemetry([*first, long, *many])
    found = await history.last_telemetry(["a", "b", "gone", *(each.run_uid for each in many)], 3)
    assert [each.bands["cpu.used"].median for each in found["a"]] == [3.0, 2.0, 1.0]
    assert ([each.seconds for each in found["b"]], len(found)) == ([600], 122)
    await history.record_telemetry([second])
    assert [each.attempt for each in (await history.last_telemetry(["a"], 3))["a"]] == [2]
    assert await history.last_telemetry([], 3) == {}


async def test_figures_of_nodes_become_longer_intervals_and_go_after_a_week(history: History) -> None:
    """Minutes that two servers write count once. Each node has its own."""
    old = NOW - MINUTE.kept_seconds - 1200
    old -= old % 600

    def row(node: str, start: int, cores: float) -> NodeRow:
        return NodeRow(node, start // 60, pack(NodeFigures(1, [cores, 0.0, 50.0, 0.0, 0.0, 0.0, cores], {"a/x": 1})))

    rows = [row(node, old + 60 * number, float(number)) for node in ("g1", "g2") for number in range(20)]
    for _ in range(2):
        await history.record_node_figures([*rows, row("g1", NOW - 60, 7.0)])
    before = await history.node_figures("g1", old + 60, NOW)
    assert len(before) == 20
    while await history.downsample_telemetry(NOW):
        pass
    found = sorted(await history.node_figures("g1", old, NOW), key=lambda each: each.start)
    assert [(each.seconds, each.start) for each in found] == [(600, old), (600, old + 600), (60, NOW - 60)]
    assert [each.figures.row[0] for each in found] == [4.5, 14.5, 7.0]
    assert [each.figures.row[6] for each in found] == [9.0, 19.0, 7.0]
    assert found[0].figures.holders == {"a/x": 1}
    assert await history.node_figures("other", old, NOW) == []
    later = NOW + TEN.kept_seconds + 7200
    while await history.downsample_telemetry(later):
        pass
    assert await history.node_figures("g1", old, later) == []
