"""Limits on how often something may happen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.protection import token_bucket
from kajitori.core.protection.token_bucket import Allowance, Allowances


def test_an_allowance_is_spent_at_once_and_refills_with_time() -> None:
    per_minute = Allowance(60)
    for _ in range(60):
        assert not per_minute.is_spent(100.0)
        per_minute.count(100.0)
    assert per_minute.is_spent(100.9)
    assert not per_minute.is_spent(101.0)


@given(st.lists(st.floats(0, 10), max_size=300))
def test_never_more_than_twice_the_number_in_any_minute(pauses: list[float]) -> None:
    bucket, now, happened = Allowance(20), 0.0, []
    for pause in pauses:
        now += pause
        if not bucket.is_spent(now):
            bucket.count(now)
            happened.append(now)
    for start in happened:
        assert sum(start <= moment < start + 60 for moment in happened) <= 40


def test_one_name_does_not_use_up_the_allowance_of_others() -> None:
    """A name without a record is not limited, even if the common allowance is spent."""
    allowances = Allowances(per_minute=10, of_one_per_minute=4)
    for _ in range(4):
        allowances.count("eve", 0.0)
    assert allowances.is_spent("eve", 0.0)
    assert not allowances.is_spent("ada", 0.0)
    for number in range(10):
        allowances.count(f"eve{number}", 0.0)
    assert allowances.is_spent("eve1", 0.0), "all together were too many"
    assert not allowances.is_spent("ada", 0.0)
    assert not allowances.is_spent("eve1", 120.0)


def test_the_limit_for_each_name_can_be_switched_off() -> None:
    """Behind a proxy all callers have one address. The common limit stays."""
    allowances = Allowances(per_minute=100, of_one_per_minute=0)
    for _ in range(99):
        allowances.count("proxy", 0.0)
    assert not allowances.is_spent("proxy", 0.0)
    allowances.count("proxy", 0.0)
    assert allowances.is_spent("proxy", 0.0)


def test_the_number_of_remembered_names_is_limited() -> None:
    allowances = Allowances(per_minute=1, of_one_per_minute=1)
    for number in range(token_bucket.MOST_NAMES + 10):
        allowances.count(f"eve{number}", 0.0)
    assert len(allowances._by_name) == token_bucket.MOST_NAMES
