"""Traffic over time: hourly records of totals that only grow, and the traffic in a span of time.

`ClusterTraffic` has totals since the agents began. A record has such a total at the end of an hour, and how much of
it was counted while history was kept. So the traffic of a span is the difference of two records, and any record between
them can be dropped: that is how old hours become days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from kajitori.core.traffic.cluster_traffic import ClusterTraffic
from kajitori.core.traffic.totals import Totals

HOUR, DAY = 3600, 86_400
HOURS_KEPT_SECONDS = 14 * DAY
"""Age at which only the last record of each day is kept."""
DAYS_KEPT_SECONDS = 400 * DAY
MAX_RUNS_PER_HOUR = 1_000
"""Runs that get a record in one hour, those with most traffic since their last record. Traffic of the others is part of
their next record."""

HistoryGroup = Literal["cluster", "namespace", "user", "run"]
GROUPS: tuple[HistoryGroup, ...] = ("cluster", "namespace", "user", "run")
Bytes = dict[str, int]
"""Bytes by kind, for example `internet.out`."""
Key = tuple[HistoryGroup, str]


class TrafficRecord(msgspec.Struct, frozen=True, array_like=True):
    """The totals of one subject at the end of an hour."""

    raw: Bytes
    """The totals of `ClusterTraffic`."""
    counted: Bytes
    """The part of them that was counted while history was kept; it never decreases."""
    run: str = ""
    """The name of a run."""
    namespace: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class HourRecord:
    """A record with its place in history."""

    group: HistoryGroup
    key: str
    """UID of a run, name of a namespace or user; empty for the cluster."""
    at: int
    """Beginning of the hour, in seconds since 1970."""
    record: TrafficRecord

    @property
    def counted_bytes(self) -> int:
        """The sum over all kinds."""
        return sum(self.record.counted.values())


@dataclass(frozen=True, slots=True)
class TrafficPoint:
    """Traffic in one interval."""

    at: int
    """Beginning, in seconds since 1970."""
    amounts: Bytes | None
    """None if no server recorded anything in the interval. Traffic of that time is in the next interval."""


def records_of(
    traffic: ClusterTraffic, before: Mapping[Key, HourRecord], at: int, *, is_first: bool
) -> list[HourRecord]:
    """Return the records of the hour that begins at `at`. The cluster always has one, others if their totals changed.

    `before` has the last record of each subject in earlier hours. `is_first`: history has no records at all. Then it is
    not known when the present totals were counted, so they do not count.
    """
    found = [
        made
        for group in ("namespace", "user")
        for subject in traffic.subjects(group)
        if (made := _hour_record(group, subject.key, traffic.total(subject), before, at, is_first=is_first)) is not None
    ]
    runs = []
    for subject in traffic.subjects("run"):
        name = traffic.runs[subject.key]
        known = before.get(("run", subject.key))
        made = _hour_record("run", subject.key, traffic.total(subject), before, at, is_first=is_first)
        if made is not None:
            record = msgspec.structs.replace(made.record, run=name.run, namespace=name.namespace, user=name.user)
            new = made.counted_bytes - (known.counted_bytes if known is not None else 0)
            runs.append((new, HourRecord("run", subject.key, at, record)))
    runs.sort(key=lambda item: -item[0])
    cluster: Bytes = {}
    for subject in traffic.subjects("node"):
        _add_amounts(cluster, _bytes_of(traffic.total(subject)))
    whole = HourRecord("cluster", "", at, _with_growth(cluster, before.get(("cluster", "")), is_first=is_first))
    return [whole, *found, *(record for _, record in runs[:MAX_RUNS_PER_HOUR])]


def amounts_between(last: TrafficRecord, earlier: TrafficRecord | None) -> Bytes:
    """Return the bytes by kind that were counted after `earlier` up to `last`; None stands for the beginning."""
    known = earlier.counted if earlier is not None else {}
    return {kind: new for kind, size in last.counted.items() if (new := size - known.get(kind, 0)) > 0}


def interval_seconds(since: int, now: int) -> int:
    """Return the length of the intervals in which traffic since this time is known: hours at first, later days."""
    return HOUR if since >= now - HOURS_KEPT_SECONDS else DAY


def points_between(
    records: Sequence[HourRecord],
    earlier: TrafficRecord | None,
    recorded_at: Iterable[int],
    since: int,
    until: int,
    seconds: int,
) -> list[TrafficPoint]:
    """Return the traffic of a subject in each interval of a span.

    `records` are its records within the span by time, and `earlier` is the last one before. `recorded_at` has the times
    of all records of the cluster: intervals without one are gaps.
    """
    amounts: dict[int, Bytes] = {at - at % seconds: {} for at in recorded_at if since <= at < until}
    for made in records:
        _add_amounts(amounts.setdefault(made.at - made.at % seconds, {}), amounts_between(made.record, earlier))
        earlier = made.record
    first = since - since % seconds
    return [TrafficPoint(at, amounts.get(at)) for at in range(first, until, seconds)]


def _hour_record(
    group: HistoryGroup, key: str, totals: Totals, before: Mapping[Key, HourRecord], at: int, *, is_first: bool
) -> HourRecord | None:
    raw, known = _bytes_of(totals), before.get((group, key))
    if known is not None and known.record.raw == raw:
        return None
    return HourRecord(group, key, at, _with_growth(raw, known, is_first=is_first))


def _with_growth(raw: Bytes, known: HourRecord | None, *, is_first: bool) -> TrafficRecord:
    """Return the record of these totals. A total decreases if `ClusterTraffic` dropped a node that no longer reports;
    then nothing is counted."""
    if known is None:
        return TrafficRecord(raw, {} if is_first else dict(raw))
    counted = dict(known.record.counted)
    _add_amounts(counted, {kind: max(0, size - known.record.raw.get(kind, 0)) for kind, size in raw.items()})
    return TrafficRecord(raw, counted)


def _bytes_of(totals: Totals) -> Bytes:
    return {kind: count.bytes for kind, count in totals.items() if count.bytes}


def _add_amounts(amounts: Bytes, more: Bytes) -> None:
    for kind, size in more.items():
        if size:
            amounts[kind] = amounts.get(kind, 0) + size
