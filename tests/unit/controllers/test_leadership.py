"""Of several controllers one leads, whatever their clocks say and whenever they are stopped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.controllers.leadership import Election, Terms

TERMS = Terms(lease_seconds=15, lead_seconds=10, interval_seconds=2)


def test_a_free_lease_is_taken_at_once() -> None:
    election = Election("a", TERMS)
    election.observe("", "1", now=100)
    assert election.may_take(100)


def test_a_held_lease_is_taken_only_after_it_was_seen_unchanged_for_its_whole_duration() -> None:
    """What counts is when this candidate saw it change, not what is written in it."""
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
def test_never_two_at_once(looks: list[tuple[str, float, float]], offsets: tuple[float, float, float]) -> None:
    """Candidates look at one Lease at any time, with clocks that differ; each may be stopped between its look and its
    write. Writes go through by compare-and-swap only. At no moment do two think that they lead."""
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
