"""The latest minutes of one server: what counts, when bands are made of it, and what other servers are told."""

from __future__ import annotations

from array import array

import pytest

from kajitori.core.telemetry import collector as module
from kajitori.core.telemetry.bands import RankMinute, bands_of, unpack
from kajitori.core.telemetry.collector import (
    KEPT_MINUTES,
    LAST_MINUTES,
    SETTLE_SECONDS,
    SHARED_AFTER_SECONDS,
    Attempt,
    TelemetryCollector,
    decode_part,
)
from kajitori.core.telemetry.report import MemberMinute

FIRST = Attempt("uid", 1)
MINUTE = 1000
END = (MINUTE + 1) * 60.0


def value(rank: int, figure: float, minute: int = MINUTE) -> RankMinute:
    return RankMinute(rank, ("a",), (), MemberMinute("ns", "pod", f"u{rank}", minute, array("f", [figure]).tobytes()))


def settled(collector: TelemetryCollector, now: float) -> dict[int, tuple[int, float]]:
    """Make the bands that are due; return the number of ranks and the median by minute."""
    found = {}
    for minute, attempt, ranks in list(collector.due(now)):
        bands = collector.settle(minute, attempt, len(ranks), bands_of(ranks)).bands
        found[minute] = len(ranks), bands["a"].median
    return found


def test_the_first_value_of_a_rank_and_minute_counts() -> None:
    collector = TelemetryCollector()
    for figure in (1.0, 9.0):
        collector.add(FIRST, value(0, figure))
    assert settled(collector, END) == {}, "the minute may not be complete yet"
    assert settled(collector, END + SETTLE_SECONDS) == {MINUTE: (1, 1.0)}
    assert settled(collector, END + SETTLE_SECONDS) == {}, "nothing is new"
    collector.add(FIRST, value(1, 3.0))
    assert settled(collector, END + SETTLE_SECONDS) == {MINUTE: (2, 2.0)}, "a late rank changes the bands"


def test_minutes_that_are_too_old_or_ahead_are_not_accepted() -> None:
    accepted = [
        minute for minute in range(MINUTE - 20, MINUTE + 20) if TelemetryCollector().accepts(minute, MINUTE * 60.0)
    ]
    assert accepted == list(range(MINUTE - KEPT_MINUTES + 1, MINUTE + 3))


def test_the_latest_minute_is_one_that_most_ranks_have_reported() -> None:
    collector = TelemetryCollector()
    for rank in range(3):
        collector.add(FIRST, value(rank, 1.0))
    collector.add(FIRST, value(0, 2.0, MINUTE + 1))
    found = collector.latest("uid")
    assert found is not None and (found[1], len(found[2])) == (MINUTE, 3)
    for rank in (1, 2):
        collector.add(FIRST, value(rank, 2.0, MINUTE + 1))
    found = collector.latest("uid")
    assert found is not None and (found[1], len(found[2])) == (MINUTE + 1, 3)
    collector.add(Attempt("uid", 2), value(0, 3.0, MINUTE + 1))
    found = collector.latest("uid")
    assert found is not None and found[0].number == 2, "a new attempt replaces the one before"


def test_servers_tell_each_other_what_they_received_themselves() -> None:
    here, there = TelemetryCollector(), TelemetryCollector()
    here.add(FIRST, value(0, 1.0))
    there.add(FIRST, value(1, 3.0))
    due = END + SHARED_AFTER_SECONDS
    assert (here.unshared(due - 1), here.unshared(due)) == ([], [MINUTE])
    there.take(decode_part(here.part(MINUTE)), due)
    assert here.unshared(due) == [], "it is told once"
    here.keep_unshared(MINUTE)
    assert here.unshared(due) == [MINUTE], "the part could not be stored"
    assert [entry.rank for entry in decode_part(there.part(MINUTE)).entries] == [1], "nothing is passed on"
    assert settled(there, END + SETTLE_SECONDS) == {MINUTE: (2, 2.0)}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values stay for minutes, bands for an hour or until they need too much room."""
    collector = TelemetryCollector()
    for minute in range(MINUTE, MINUTE + 70):
        collector.add(FIRST, value(0, 1.0, minute))
        settled(collector, (minute + 1) * 60 + SETTLE_SECONDS)
        collector.forget((minute + 1) * 60.0)
    assert len(collector.recent("uid", 0, 1e9)) == 60
    assert collector.latest("uid") is not None
    monkeypatch.setattr(module, "MAX_RECENT_BYTES", 0)
    collector.forget((MINUTE + 70) * 60.0)
    assert collector.recent("uid", 0, 1e9) == []
    collector.forget((MINUTE + 70 + KEPT_MINUTES) * 60.0)
    assert collector.latest("uid") is None


def test_the_last_minutes_of_a_run_are_known_until_it_reports_no_more() -> None:
    """Newest first, a late rank's bands instead of those before, and those of a new attempt first."""
    collector = TelemetryCollector()
    for number in range(LAST_MINUTES + 2):
        collector.add(FIRST, value(0, 1.0, MINUTE + number))
    collector.add(Attempt("uid", 2), value(0, 1.0, MINUTE))
    now = (MINUTE + LAST_MINUTES + 2) * 60 + SETTLE_SECONDS
    settled(collector, now)
    collector.add(FIRST, value(1, 3.0, MINUTE + LAST_MINUTES + 1))
    settled(collector, now)
    found = collector.last("uid")
    assert [each[:2] for each in found[:2]] == [(2, MINUTE), (1, MINUTE + LAST_MINUTES + 1)]
    assert (len(found), unpack(found[1].document)["a"].median) == (LAST_MINUTES, 2.0)
    collector.forget(now + KEPT_MINUTES * 60)
    assert collector.last("uid") == []
