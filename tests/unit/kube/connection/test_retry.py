"""Only requests that may safely be repeated are retried, for a limited time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.kube.connection.retry import NO_RETRY, RetryPolicy, jittered, worth_retrying
from kajitori.kube.errors import ApiError, ConnectionFailed, error_from_status


def answered(code: int, retry_after_seconds: float | None = None) -> ApiError:
    """Return the error for an answer of this status."""
    return error_from_status({"code": code}, retry_after_seconds=retry_after_seconds)


BROKEN = ConnectionFailed("broke", maybe_applied=True)
NEVER_SENT = ConnectionFailed("refused", maybe_applied=False)


@pytest.mark.parametrize(
    ("error", "if_idempotent", "if_not"),
    [
        (answered(500), True, False),
        (answered(503), True, False),
        (answered(503, 1), True, True),
        (answered(429), True, False),
        (answered(429, 1), True, True),
        (BROKEN, True, False),
        (NEVER_SENT, True, True),
        (answered(409), False, False),
        (answered(404), False, False),
        (answered(410), False, False),
        (answered(507), False, False),
        (answered(401), False, False),
    ],
)
def test_which_errors_are_retried(error: ApiError | ConnectionFailed, if_idempotent: bool, if_not: bool) -> None:
    """A create whose connection broke may have been applied, so the caller has to decide."""
    assert worth_retrying(error, idempotent=True) is if_idempotent
    assert worth_retrying(error, idempotent=False) is if_not


def test_retry_after_is_the_minimum_pause() -> None:
    pause = RetryPolicy().pause(answered(429, 2.0), tried=1, elapsed_seconds=0, idempotent=False, chance=0.5)
    assert pause == pytest.approx(2.0 + 0.5 * 0.2)


def test_the_policy_without_retries_never_waits() -> None:
    assert NO_RETRY.pause(NEVER_SENT, tried=1, elapsed_seconds=0, idempotent=True, chance=0) is None


@given(
    st.integers(1, 12),
    st.floats(0, 100),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([answered(500), answered(429, 3), answered(503, 30), BROKEN, NEVER_SENT]),
)
def test_retries_are_limited_in_number_and_time(
    tried: int, elapsed: float, chance: float, error: ApiError | ConnectionFailed
) -> None:
    """No pause is negative."""
    policy = RetryPolicy()
    pause = policy.pause(error, tried=tried, elapsed_seconds=elapsed, idempotent=True, chance=chance)
    if pause is not None:
        assert tried < policy.attempts
        assert pause >= 0
        assert elapsed + pause <= policy.total_seconds


@given(st.floats(0.01, 10), st.floats(0.01, 100), st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_below_its_cap(base: float, cap: float, step: int, chance: float) -> None:
    """After any number of failures the pause is finite and at most the cap."""
    assert 0 <= jittered(base, cap, step, chance) <= cap
