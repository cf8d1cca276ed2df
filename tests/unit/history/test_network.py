"""Traffic over time and the use of addresses in history. The same in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kajitori.core.network.use.exhaustion import DayUse
from kajitori.core.network.use.pools import AddressPool
from kajitori.core.traffic.history import DAY, DAYS_KEPT_SECONDS, HOUR, HistoryGroup, HourRecord, TrafficRecord
from kajitori.history.databases.database import Statement
from kajitori.history.store import History

NOW = 2_000_000_000 // DAY * DAY


@pytest.fixture(params=["sqlite", "postgresql"])
async def history(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[History]:
    """A history without traffic."""
    url = f"sqlite://{tmp_path}/history.db" if request.param == "sqlite" else request.getfixturevalue("postgres")
    found = History(url)
    await (await found.open()).write([Statement("DELETE FROM traffic"), Statement("DELETE FROM address_use")])
    yield found
    await found.close()


def record(at: int, size: int, key: str = "r1", group: HistoryGroup = "run") -> HourRecord:
    return HourRecord(group, key, at, TrafficRecord({"internet.out": size}, {"internet.out": size}, key, "team", "ada"))


async def test_of_two_servers_the_record_with_more_traffic_stays(history: History) -> None:
    for size in (100, 150, 120):
        await history.record_traffic([record(NOW, size)])
    records, earlier = await history.traffic_of("run", "r1", NOW, NOW + HOUR)
    assert (records, earlier) == ([record(NOW, 150)], None)
    assert await history.traffic_of("run", "r1", NOW + HOUR, NOW + 2 * HOUR) == ([], record(NOW, 150).record)


async def test_a_span_has_the_last_records_in_it_and_before_it(history: History) -> None:
    made = [record(NOW + hours * HOUR, 100 * hours, key) for key in ("r1", "r2") for hours in range(1, 6)]
    await history.record_traffic([*made, record(NOW, 7, "old"), record(NOW, 9, "", "cluster")])
    found = await history.traffic("run", NOW + 3 * HOUR, NOW + 5 * HOUR)
    assert sorted(found, key=lambda item: item[0].key) == [
        (record(NOW + 4 * HOUR, 400, key), record(NOW + 2 * HOUR, 200, key).record) for key in ("r1", "r2")
    ]
    latest = await history.latest_traffic(NOW + 3 * HOUR)
    assert latest["run", "r1"] == record(NOW + 2 * HOUR, 200)
    assert set(latest) == {("run", "r1"), ("run", "r2"), ("run", "old"), ("cluster", "")}
    assert await history.traffic_recorded_at(NOW, NOW + DAY) == [NOW]


async def test_old_hours_become_days_and_old_days_are_removed(history: History) -> None:
    """The sums do not change. The last record of a namespace stays, since the next one is compared with it."""
    hours = [record(NOW + number * HOUR, number + 1, key, group) for number in range(48) for group, key in GROUPS]
    await history.record_traffic([*hours, record(NOW + 20 * DAY, 99)])
    now, since = NOW + 20 * DAY, 0
    while (until := await history.thin_traffic(now, since)) > since:
        since = until
    for group, key in GROUPS:
        records, _ = await history.traffic_of(group, key, NOW, NOW + 2 * DAY)
        assert records == [record(NOW + number * HOUR, number + 1, key, group) for number in (23, 47)]
    assert await history.thin_traffic(NOW + 2 * DAY + DAYS_KEPT_SECONDS, since) == since
    assert (await history.traffic_of("run", "r1", 0, NOW + 30 * DAY))[0] == [record(NOW + 20 * DAY, 99)]
    assert len((await history.traffic_of("namespace", "team", 0, NOW + 30 * DAY))[0]) == 1


GROUPS: tuple[tuple[HistoryGroup, str], ...] = (("run", "r1"), ("namespace", "team"))


async def test_the_most_used_addresses_of_a_day_are_kept(history: History) -> None:
    for used in (10, 30, 20):
        await history.record_address_use([AddressPool("nodes", "10.0.0.0/24", "lyon", used, 256)], 5)
    await history.record_address_use([AddressPool("own ranges", "", "", 7, 99)], 6)
    assert await history.address_use(4) == {"nodes 10.0.0.0/24": [DayUse(5, 30)], "own ranges": [DayUse(6, 7)]}
    assert await history.address_use(5) == {"own ranges": [DayUse(6, 7)]}
    await history.record_address_use([], 805)
    assert await history.address_use(0) == {"own ranges": [DayUse(6, 7)]}
