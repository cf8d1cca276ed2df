"""Verdicts about telemetry that was recorded from real gangs of 8 processes, minute by minute."""

from __future__ import annotations

import pytest
from tests.helpers.recorded_gangs import Recorded, follow, recorded, scaled

GANGS = list(recorded())
BUSY = 10.0
"""Factor by which a real program uses the processor more than these."""


def names(gangs: list[Recorded]) -> list[str]:
    return [each.scenario for each in gangs]


@pytest.mark.parametrize("factor", [1.0, BUSY])
def test_no_recorded_gang_without_a_slow_rank_is_accused(factor: float) -> None:
    even = [each for each in GANGS if not each.is_slow]
    assert len(even) >= 15 and sum(len(each.intervals) for each in even) >= 250
    assert names([each for each in even if follow(scaled(each, factor)).slow_minutes]) == []


def test_the_slow_rank_of_each_recorded_gang_is_named() -> None:
    slow = [each for each in GANGS if each.is_slow]
    found = {each.scenario: follow(scaled(each, BUSY)).slow_ranks for each in slow}
    assert found == {key: {5} for key in ("slow", "clock", "processor", "figures", "own-pace")}


def test_only_recorded_gangs_that_are_quiet_for_long_are_suspected() -> None:
    suspected = [each for each in GANGS if follow(each).quiet_minutes]
    assert names(suspected) == names([each for each in GANGS if each.is_stuck])
    assert len(suspected) >= 4
