"""Exponential back-off."""

from __future__ import annotations

from kajitori.core.backoff import Backoff, backoff_seconds


def test_pauses_double_up_to_the_limit_and_begin_again_after_a_success() -> None:
    backoff = Backoff(first_seconds=0.5, longest_seconds=3.0)
    assert [backoff.next_seconds() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.next_seconds() == 0.5


def test_any_number_of_failures_has_a_pause() -> None:
    assert backoff_seconds(1, 10.0, 300.0) == 10.0
    assert backoff_seconds(10**6, 10.0, 300.0) == 300.0
