"""The expected length of a run: at least a second, and at most its time limit until that has passed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.queue.expected import (
    ENOUGH,
    UNKNOWN_SECONDS,
    Expectation,
    Finished,
    History,
    Size,
    Source,
    corrected,
    of_limit,
    remaining,
)

HOUR = 3600.0


def done(seconds: float, *, user: str = "ann", kind: str = "bert", size: int = 4, at: float = 0.0) -> Finished:
    return Finished(user, "vision", kind, Size(size), seconds, at)


def expect(history: History, *, kind: str = "bert", size: int = 4, limit: float | None = None) -> Expectation:
    return history.expect("ann", "vision", kind, Size(size), limit)


def test_a_run_is_expected_to_take_the_longest_of_the_last_three() -> None:
    """Runs of the same kind and user count; the fourth last does not count any more."""
    history = History()
    for run in (done(9 * HOUR), done(HOUR), done(3 * HOUR), done(2 * HOUR)):
        history.add(run)
    history.add(done(20 * HOUR, user="bob"))
    history.add(done(20 * HOUR, kind="gpt"))
    assert expect(history) == Expectation(3 * HOUR, Source.SIMILAR, HOUR, 3, sure=True)


def test_at_most_the_time_limit() -> None:
    history = History()
    history.add(done(9 * HOUR))
    assert expect(history, limit=HOUR) == Expectation(HOUR, Source.SIMILAR, HOUR, 1)


def test_the_time_limit_is_expected_if_there_is_no_evidence() -> None:
    assert expect(History(), limit=HOUR) == of_limit(HOUR) == Expectation(HOUR, Source.LIMIT, sure=True)


def test_runs_of_another_size_are_no_evidence() -> None:
    """Runs of half to twice the size are comparable; runs of one member are no evidence for 24 members."""
    history = History()
    for _ in range(3):
        history.add(done(3.0, size=1))
    assert expect(history, size=24) == Expectation(UNKNOWN_SECONDS, Source.UNKNOWN, weak_seconds=3.0)
    assert expect(history, size=24, limit=HOUR) == replace(of_limit(HOUR), weak_seconds=3.0)
    assert expect(history, size=2).source is Source.SIMILAR
    history.add(done(9 * HOUR, size=24))
    assert (expect(history, size=12).seconds, expect(history, size=48).seconds) == (9 * HOUR, 9 * HOUR)
    assert expect(history, size=1).seconds == 3.0


def test_runs_of_another_size_count_for_the_order_only() -> None:
    """The mean of the longest of the last three of the kind and of what is expected. Nothing is promised because of
    them."""
    history = History()
    for seconds in (9 * HOUR, 600.0, 1200.0, 300.0):
        history.add(done(seconds, size=1))
    unknown, limited = expect(history, size=24), expect(history, size=24, limit=900.0)
    assert (unknown.weak_seconds, unknown.seconds, unknown.sure) == (1200.0, UNKNOWN_SECONDS, False)
    assert unknown.order_seconds == pytest.approx((1200.0 * UNKNOWN_SECONDS) ** 0.5)
    assert (limited.order_seconds, limited.seconds, limited.source) == (900.0, 900.0, Source.LIMIT)
    assert remaining(unknown, 400.0, None).weak_seconds == 800.0
    assert remaining(unknown, 2000.0, None).order_seconds == UNKNOWN_SECONDS - 2000.0
    history.add(done(HOUR, size=24))
    assert expect(history, size=24).order_seconds == HOUR
    assert expect(history, kind="gpt").order_seconds == UNKNOWN_SECONDS


def test_runs_without_gpus_are_no_evidence_for_runs_with_some() -> None:
    history = History()
    for number in range(ENOUGH):
        history.add(Finished("bob", "nlp", f"echo-{number}", Size(24), 3.0, 0.0))
    with_gpus = history.expect("ann", "vision", "bert", Size(24, gpus=True), None)
    assert with_gpus == Expectation(UNKNOWN_SECONDS, Source.UNKNOWN)
    assert history.expect("ann", "vision", "bert", Size(24), None).source is Source.GENERAL


def test_an_estimate_is_sure_only_if_its_evidence_lies_close_together() -> None:
    """A single run is not enough. Lengths of one kind may differ a lot: `sleep 3` and `sleep 3600` are one kind."""
    history = History()
    history.add(done(HOUR))
    assert not expect(history).sure
    history.add(done(2 * HOUR))
    assert expect(history) == Expectation(2 * HOUR, Source.SIMILAR, HOUR, 2, sure=True)
    history.add(done(3.0))
    assert expect(history) == Expectation(2 * HOUR, Source.SIMILAR, 3.0, 3, sure=False)
    assert not Expectation(UNKNOWN_SECONDS, Source.UNKNOWN).sure


def test_a_remaining_time_is_as_sure_as_the_whole_estimate() -> None:
    whole = Expectation(2 * HOUR, Source.SIMILAR, HOUR, 2, sure=True)
    assert remaining(whole, 1.5 * HOUR, None) == Expectation(HOUR / 2, Source.SIMILAR, 1.0, 2, sure=True)
    assert not remaining(whole, 3 * HOUR, None).sure
    assert remaining(whole, 3 * HOUR, 4 * HOUR) == Expectation(HOUR, Source.CORRECTED, sure=True)


def test_a_new_kind_is_estimated_from_runs_of_similar_size() -> None:
    """Four of five of these were at most that long. With too few of them there is no estimate, whatever other sizes
    took."""
    history = History()
    assert expect(history, kind="new") == Expectation(UNKNOWN_SECONDS, Source.UNKNOWN)
    for number in range(ENOUGH):
        history.add(done(HOUR, kind=f"small-{number}", size=1))
    assert expect(history, kind="new", size=64) == Expectation(UNKNOWN_SECONDS, Source.UNKNOWN)
    assert expect(history, kind="new", size=1) == Expectation(HOUR, Source.GENERAL, HOUR, ENOUGH, sure=True)
    for number in range(ENOUGH + 1):
        history.add(done(number * HOUR, kind=f"large-{number}", size=33 + number))
    large = expect(history, kind="new", size=64)
    assert (large.seconds, large.source, large.runs, large.sure) == (8 * HOUR, Source.GENERAL, ENOUGH + 1, False)
    assert round(large.shortest) == 2 * HOUR, "the lengths differ too much"


def test_a_late_run_is_expected_to_take_its_limit_then_twice_as_long() -> None:
    before = Expectation(HOUR, Source.SIMILAR)
    assert corrected(before, HOUR - 1, None) == before
    assert corrected(before, HOUR, None) == Expectation(2 * HOUR, Source.CORRECTED)
    assert corrected(before, 5 * HOUR, None) == Expectation(8 * HOUR, Source.CORRECTED)
    assert corrected(before, HOUR, 3 * HOUR) == Expectation(3 * HOUR, Source.CORRECTED, sure=True)
    assert corrected(before, 3 * HOUR, 3 * HOUR) == Expectation(6 * HOUR, Source.CORRECTED)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 300), st.floats(0, 1e7)), max_size=60),
    st.one_of(st.none(), st.floats(1, 1e7)),
    st.floats(0, 1e8),
)
def test_an_expectation_is_sound(runs: list[tuple[str, int, float]], limit: float | None, elapsed: float) -> None:
    """At least a second and at most the limit; for a running run, longer than it has run."""
    history = History()
    for kind, size, seconds in runs:
        history.add(done(seconds, kind=kind, size=size))
    before = expect(history, kind="a", size=8, limit=limit)
    assert 1 <= before.seconds <= max(limit or 1e7, UNKNOWN_SECONDS)
    if limit is not None:
        assert before.seconds <= limit and before.source not in (Source.GENERAL, Source.UNKNOWN)
    now = corrected(before, elapsed, limit)
    assert now.seconds > elapsed
    assert (now == before) == (elapsed < before.seconds)
