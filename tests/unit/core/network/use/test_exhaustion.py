"""When a pool of addresses runs out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.network.use.exhaustion import MAX_DAYS, DayUse, Exhaustion, ExhaustionState, exhaustion, theil_sen

TODAY = 20_000


def days(*used: int) -> list[DayUse]:
    """Return samples of consecutive days, the last of them today."""
    return [DayUse(TODAY - len(used) + 1 + index, number) for index, number in enumerate(used)]


def test_steady_growth_runs_out_on_the_day_of_its_line() -> None:
    """40 samples up to 395, 5 a day: the remaining 605 addresses last 121 days."""
    found = exhaustion(days(*range(200, 400, 5)), 1000, TODAY)
    assert (found.state, found.per_day, found.days_known) == (ExhaustionState.RUNS_OUT, 5.0, 40)
    assert found.day == found.earliest == found.latest == TODAY + 121


def test_days_of_unusual_use_do_not_change_the_date() -> None:
    used = list(range(200, 400, 5))
    for place in range(3, 40, 4):
        used[place] = 900
    found = exhaustion(days(*used), 1000, TODAY)
    assert found.day is not None
    assert found.per_day == pytest.approx(5.0, rel=0.1)
    assert found.day == pytest.approx(TODAY + 121, abs=12)


def test_the_dates_enclose_the_expected_one_if_growth_is_noisy() -> None:
    used = [200 + 5 * index + (index * 7919) % 31 for index in range(40)]
    found = exhaustion(days(*used), 1000, TODAY)
    assert found.day is not None
    assert found.earliest is not None
    assert found.latest is not None
    assert TODAY < found.earliest < found.day < found.latest


def test_the_latest_date_is_where_the_slowest_line_through_the_middle_of_the_samples_meets_the_capacity() -> None:
    used = [200 + 5 * index + (index * 7919) % 31 for index in range(40)]
    found = exhaustion(days(*used), 1000, TODAY)
    low = theil_sen(days(*used)).low
    middle_day, middle_use = TODAY - 19.5, (sorted(used)[19] + sorted(used)[20]) / 2
    assert found.latest == pytest.approx(middle_day + (1000 - middle_use) / low)


def test_growth_that_became_faster_begins_at_the_use_of_the_last_week() -> None:
    """After 40 days without growth: 10 a day for 40 days. The line of all days lies far below what is in use now."""
    used = [*[100] * 40, *range(110, 510, 10)]
    found = exhaustion(days(*used), 550, TODAY)
    slope = theil_sen(days(*used)).slope
    assert found.day == pytest.approx(TODAY + (550 - 470) / slope)


@pytest.mark.parametrize(
    ("used", "capacity", "state"),
    [
        ((), 100, ExhaustionState.TOO_LITTLE_HISTORY),
        (tuple(range(13)), 100, ExhaustionState.TOO_LITTLE_HISTORY),
        (tuple(range(14)), 100, ExhaustionState.RUNS_OUT),
        ((50,) * 30, 100, ExhaustionState.NOT_GROWING),
        (tuple(range(60, 30, -1)), 100, ExhaustionState.NOT_GROWING),
        ((50, 53, 49, 52, 50, 51) * 5, 100, ExhaustionState.NOT_GROWING),
        ((98, 99, 100), 100, ExhaustionState.FULL),
        (tuple(range(30)), 10**7, ExhaustionState.FAR),
    ],
)
def test_what_is_not_known_is_not_said(used: tuple[int, ...], capacity: int, state: ExhaustionState) -> None:
    found = exhaustion(days(*used), capacity, TODAY)
    assert found.state is state
    assert (found.day is not None) is (state is ExhaustionState.RUNS_OUT)


def test_samples_with_gaps_count_by_their_days() -> None:
    """Every third day of a growth of 2 a day; 14 samples of which span 40 days."""
    samples = [DayUse(TODAY - 3 * index, 500 - 6 * index) for index in range(14)]
    assert exhaustion(samples, 600, TODAY).day == TODAY + 50


def test_growth_before_the_last_90_days_does_not_count() -> None:
    used = [*range(0, 1000, 10), *[1000] * 90]
    assert exhaustion(days(*used), 1100, TODAY).state is ExhaustionState.NOT_GROWING


def test_the_interval_of_five_days_takes_in_all_slopes() -> None:
    """By hand: 10 slopes; Kendall's variance is 5 * 4 * 15 / 18, and 1.96 times its root is 8.0 of the 10 slopes."""
    trend = theil_sen([DayUse(day, used) for day, used in enumerate((10, 22, 21, 30, 40))])
    slopes = (12, 5.5, 20 / 3, 7.5, -1, 4, 6, 9, 9.5, 10)
    assert (trend.low, trend.high) == (min(slopes), max(slopes))
    assert trend.slope == pytest.approx((20 / 3 + 7.5) / 2)


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 1000))
def test_dates_are_in_order_and_never_in_the_past(used: list[int], capacity: int) -> None:
    found: Exhaustion = exhaustion(days(*used), capacity, TODAY)
    dates = [date for date in (found.earliest, found.day, found.latest) if date is not None]
    assert dates == sorted(dates)
    assert all(TODAY <= date <= TODAY + MAX_DAYS for date in dates)
