"""Hourly records of traffic, and what they say about a span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kajitori.core.traffic.cluster_traffic import ClusterTraffic
from kajitori.core.traffic.history import (
    DAY,
    HOUR,
    MAX_RUNS_PER_HOUR,
    Bytes,
    HourRecord,
    Key,
    TrafficPoint,
    TrafficRecord,
    amounts_between,
    interval_seconds,
    points_between,
    records_of,
)
from kajitori.core.traffic.report import Report, node_traffic
from kajitori.core.traffic.totals import Count, RunAccount, Totals

NOW = 1_700_000_000 // DAY * DAY


def traffic_with(**sizes: int) -> ClusterTraffic:
    """Return a traffic with runs of one namespace, given the bytes that each sent to the internet."""
    made = ClusterTraffic(NOW)
    add(made, "n1", **sizes)
    return made


def add(traffic: ClusterTraffic, node: str, /, **sizes: int) -> None:
    totals = {uid: {"internet.out": Count(size, 1)} for uid, size in sizes.items()}
    runs = tuple(RunAccount("team", f"run-{uid}", uid, "ada", sent, NOW, 5.0) for uid, sent in totals.items())
    sums: Totals = {"internet.out": Count(sum(sizes.values()), 1)}
    report = Report(life="0" * 16, read_at=NOW, runs=runs, namespaces={"team": sums}, users={"ada": sums})
    traffic.add(node_traffic(report, node, NOW), NOW)


def by_key(records: list[HourRecord]) -> dict[Key, HourRecord]:
    return {(made.group, made.key): made for made in records}


def counted(records: Mapping[Key, HourRecord], *key: Any) -> Bytes:
    return records[key].record.counted


def test_what_was_counted_before_history_began_is_no_traffic_of_now() -> None:
    traffic = traffic_with(r1=1000)
    first = by_key(records_of(traffic, {}, NOW, is_first=True))
    assert [counted(first, *key) for key in first] == [{}] * 4
    add(traffic, "n1", r1=1500, r2=70)
    later = by_key(records_of(traffic, first, NOW + HOUR, is_first=False))
    assert counted(later, "run", "r1") == {"internet.out": 500}
    assert counted(later, "run", "r2") == {"internet.out": 70}  # all of it: the run is new
    assert counted(later, "namespace", "team") == counted(later, "cluster", "") == {"internet.out": 570}
    assert later["run", "r2"].record.run == "run-r2"


def test_only_the_cluster_has_a_record_if_nothing_changed() -> None:
    traffic = traffic_with(r1=1000)
    first = by_key(records_of(traffic, {}, NOW, is_first=True))
    assert [made.group for made in records_of(traffic, first, NOW + HOUR, is_first=False)] == ["cluster"]


def test_a_total_that_decreases_counts_nothing_and_then_grows_again() -> None:
    """`ClusterTraffic` drops nodes that stopped reporting."""
    first = by_key(records_of(traffic_with(r1=1000), {}, NOW, is_first=False))
    less = by_key(records_of(traffic_with(r1=10), first, NOW + HOUR, is_first=False))
    assert counted(less, "run", "r1") == {"internet.out": 1000}
    more = by_key(records_of(traffic_with(r1=15), less, NOW + 2 * HOUR, is_first=False))
    assert counted(more, "run", "r1") == {"internet.out": 1005}


def test_of_too_many_runs_those_with_most_traffic_get_a_record() -> None:
    sizes = {f"r{number}": number + 1 for number in range(MAX_RUNS_PER_HOUR - 1)}
    traffic = traffic_with(**sizes)
    add(traffic, "n2", **{f"s{number}": 5000 - number for number in range(50)})
    runs = [made for made in records_of(traffic, {}, NOW, is_first=False) if made.group == "run"]
    assert len(runs) == MAX_RUNS_PER_HOUR
    assert runs[0].key == "s0"
    assert "r0" not in {made.key for made in runs}


def record(hours: int, size: int) -> HourRecord:
    return HourRecord("run", "r1", NOW + hours * HOUR, TrafficRecord({}, {"internet.out": size}))


def test_points_are_differences_and_gaps_are_not_zero() -> None:
    """Hour 2 was not recorded by any server, hour 3 had no traffic, and hour 4 has a new total."""
    earlier = TrafficRecord({}, {"internet.out": 100})
    records = [record(0, 130), record(1, 130), record(4, 200)]
    times = [NOW, NOW + HOUR, NOW + 3 * HOUR, NOW + 4 * HOUR]
    found = points_between(records, earlier, times, NOW, NOW + 5 * HOUR, HOUR)
    amounts: list[Bytes | None] = [{"internet.out": 30}, {}, None, {}, {"internet.out": 70}]
    assert found == [TrafficPoint(NOW + number * HOUR, amount) for number, amount in enumerate(amounts)]


def test_days_have_the_sums_of_their_hours() -> None:
    records = [record(hours, 10 * hours) for hours in range(1, 48)]
    times = [made.at for made in records]
    thinned = [record(23, 230), record(47, 470)]
    for given in (records, thinned):
        found = points_between(given, None, times, NOW, NOW + 2 * DAY, DAY)
        assert found == [TrafficPoint(NOW, {"internet.out": 230}), TrafficPoint(NOW + DAY, {"internet.out": 240})]


@pytest.mark.parametrize(("age", "seconds"), [(HOUR, HOUR), (14 * DAY, HOUR), (14 * DAY + 1, DAY)])
def test_old_spans_are_known_by_day(age: int, seconds: int) -> None:
    assert interval_seconds(NOW - age, NOW) == seconds


def test_amounts_of_a_new_subject_are_all_that_was_counted() -> None:
    last = TrafficRecord({}, {"internet.out": 5, "storage.in": 7})
    assert amounts_between(last, None) == last.counted
    assert amounts_between(last, TrafficRecord({}, {"internet.out": 5})) == {"storage.in": 7}
