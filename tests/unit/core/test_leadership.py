"""At most one of several controllers leads, whatever their clocks say; others tell from the Lease whether one does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.leadership import ABSENT_SECONDS, Election, LeaderState, LeaseTimings, ObservedLease

TERMS = LeaseTimings(lease_seconds=15, lead_seconds=10, interval_seconds=2)


def test_a_free_lease_is_taken_at_once() -> None:
    election = Election("a", TERMS)
    election.observe("", "1", now=100)
    assert election.may_take(100)


def test_a_held_lease_is_taken_once_it_was_unchanged_for_its_duration() -> None:
    """The time at which this candidate saw it change counts, not the time that is written in it."""
    election = Election("b", TERMS)
    election.observe("a", "1", now=100)
    assert not election.may_take(114.9)
    election.observe("a", "2", now=114.9)
    assert not election.may_take(129)
    election.observe("a", "2", now=129)
    assert election.may_take(130)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.floats(0, 8, allow_nan=False),
            st.sampled_from([0.0, 0.0, 0.0, 25.0]),
        ),
        min_size=1,
        max_size=60,
    ),
    st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)),
)
def test_there_are_never_two_leaders(
    looks: list[tuple[str, float, float]], offsets: tuple[float, float, float]
) -> None:
    """Candidates with different clocks read one Lease at any time, and each may be suspended between read and write.
    Writes succeed only by compare-and-swap."""
    now, version, holder = 0.0, 0, ""
    offset = dict(zip("abc", offsets, strict=True))
    elections = {name: Election(name, TERMS) for name in "abc"}
    leads_until = dict.fromkeys("abc", float("-inf"))  # in real time
    for name, wait, stopped in looks:
        now += wait
        began, seen = now, version
        own = elections[name]
        own.observe(holder, str(version), began + offset[name])
        willing = own.may_take(began + offset[name])
        now += stopped
        if willing and seen == version:
            version, holder = version + 1, name
            own.observe(name, str(version), now + offset[name])
            leads_until[name] = began + TERMS.lead_seconds
        assert sum(until > now for until in leads_until.values()) <= 1


@given(st.floats(0, 1), st.floats(0, 0.3))
def test_a_killed_leader_is_followed_within_fourteen_seconds(phase: float, request_seconds: float) -> None:
    """For any phase of the follower's interval, and with slow requests; a second is left for the first plan."""
    terms = LeaseTimings()
    follower = Election("b", terms)
    follower.observe("a", "1", now=100 - 10)
    now = 100.0 + phase  # the leader renewed its lease at 100 and was killed at once
    while True:
        now += request_seconds
        follower.observe("a", "2", now)
        if follower.may_take(now):
            break
        now += follower.pause_seconds(now, renewed=False)
    assert terms.lead_seconds < now - 100 < 14


def test_a_leader_that_failed_to_renew_tries_again_sooner() -> None:
    election = Election("a", LeaseTimings())
    election.observe("a", "1", now=100)
    assert election.pause_seconds(100, renewed=True) == 2
    assert election.pause_seconds(100, renewed=False) == 1


def test_the_age_of_a_lease_counts_from_its_last_observed_change() -> None:
    seen = ObservedLease()
    seen.observe("a", "1", now=100)
    seen.observe("a", "1", now=143)
    assert seen.unchanged_seconds(143) == 43
    seen.observe("a", "2", now=144)
    assert seen.unchanged_seconds(145) == 1
    seen.observe("", "", now=146)
    assert (seen.holder, seen.unchanged_seconds(150)) == ("", 4)


def test_an_absent_controller_is_described_in_words() -> None:
    """There is no message while a follower may still take over, or while the state is unknown."""
    assert LeaderState("a", 19.9).says == "" and not LeaderState("a", 19.9).is_absent
    absent = LeaderState("a", 43.2)
    assert absent.is_absent
    assert absent.says == ("no controller has renewed its lease for 43 s; runs do not start or stop until one is back")
    unknown = LeaderState(trouble="forbidden")
    assert not unknown.is_absent and "forbidden" in unknown.says
    assert LeaderState().says == ""
    assert LeaseTimings().lease_seconds + LeaseTimings().look_seconds < ABSENT_SECONDS
