"""How long a run is expected to take: never less than a second, never more than its limit before that has passed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.expected import (
    ENOUGH,
    UNKNOWN_SECONDS,
    Expectation,
    Finished,
    History,
    Source,
    corrected,
)

HOUR = 3600.0


def done(seconds: float, *, user: str = "ann", kind: str = "bert", size: int = 4, at: float = 0.0) -> Finished:
    return Finished(user, "vision", kind, size, seconds, at)


def expect(history: History, *, kind: str = "bert", size: int = 4, limit: float | None = None) -> Expectation:
    return history.expect("ann", "vision", kind, size, limit)


def test_the_longest_of_the_last_three_of_its_kind() -> None:
    """A fourth back no longer counts, nor do other people's runs or other kinds."""
    history = History()
    for run in (done(9 * HOUR), done(HOUR), done(3 * HOUR), done(2 * HOUR)):
        history.add(run)
    history.add(done(20 * HOUR, user="bob"))
    history.add(done(20 * HOUR, kind="gpt"))
    assert expect(history) == Expectation(3 * HOUR, Source.SIMILAR)


def test_at_most_the_time_limit() -> None:
    history = History()
    history.add(done(9 * HOUR))
    assert expect(history, limit=HOUR) == Expectation(HOUR, Source.SIMILAR)


def test_the_limit_where_nothing_is_known() -> None:
    assert expect(History(), limit=HOUR) == Expectation(HOUR, Source.LIMIT)


def test_in_general_what_four_of_five_of_about_its_size_took() -> None:
    """Where those are too few, runs of every size; where there are hardly any runs at all, six hours."""
    history = History()
    assert expect(history, kind="new") == Expectation(UNKNOWN_SECONDS, Source.UNKNOWN)
    for number in range(ENOUGH):
        history.add(done(HOUR, kind=f"small-{number}", size=1))
    assert expect(history, kind="new", size=64) == Expectation(HOUR, Source.GENERAL)
    for number in range(ENOUGH + 1):
        history.add(done(number * HOUR, kind=f"large-{number}", size=33 + number))
    assert expect(history, kind="new", size=64) == Expectation(8 * HOUR, Source.GENERAL)
    assert expect(history, kind="new", size=1) == Expectation(HOUR, Source.GENERAL)


def test_what_takes_longer_is_expected_to_take_the_limit_then_twice_as_long() -> None:
    before = Expectation(HOUR, Source.SIMILAR)
    assert corrected(before, HOUR - 1, None) == before
    assert corrected(before, HOUR, None) == Expectation(2 * HOUR, Source.CORRECTED)
    assert corrected(before, 5 * HOUR, None) == Expectation(8 * HOUR, Source.CORRECTED)
    assert corrected(before, HOUR, 3 * HOUR) == Expectation(3 * HOUR, Source.CORRECTED)
    assert corrected(before, 3 * HOUR, 3 * HOUR) == Expectation(6 * HOUR, Source.CORRECTED)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 300), st.floats(0, 1e7)), max_size=60),
    st.one_of(st.none(), st.floats(1, 1e7)),
    st.floats(0, 1e8),
)
def test_an_expectation_is_sound(runs: list[tuple[str, int, float]], limit: float | None, elapsed: float) -> None:
    """At least a second, at most the limit; and of what still runs, longer than it has run."""
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
