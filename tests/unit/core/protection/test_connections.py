"""Connections that a server closes when there are too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.protection.connections import YOUNG_SECONDS, Bounds, ConnectionTable, network_of

BOUNDS = Bounds(in_all=8, per_address=6, unauthenticated=4, unauthenticated_per_address=3)


def table(bounds: Bounds = BOUNDS) -> ConnectionTable[str]:
    return ConnectionTable(bounds)


def test_the_oldest_stranger_of_an_address_makes_room_for_its_next() -> None:
    connections = table()
    for number in range(3):
        assert connections.admit(f"eve{number}", "10.0.0.1", number) is None
    assert connections.admit("eve3", "10.0.0.1", 3) == "eve0"
    assert (len(connections), connections.unauthenticated) == (3, 3)


def test_an_address_with_few_strangers_takes_the_place_of_one_with_many() -> None:
    """However young these are."""
    connections = table()
    for number in range(3):
        connections.admit(f"eve{number}", "10.0.0.1", 1.0)
    connections.admit("bob", "10.0.0.2", 1.0)
    assert connections.admit("ada", "10.0.0.3", 1.0) == "eve0"


def test_among_many_addresses_the_oldest_stranger_goes_unless_it_is_young() -> None:
    """A crowd of honest callers that come at once do not throw each other out."""
    connections = table()
    for number in range(4):
        connections.admit(f"c{number}", f"10.0.0.{number}", 1.0)
    assert connections.admit("new", "10.0.0.9", 1.0 + YOUNG_SECONDS / 2) == "new"
    assert connections.admit("new", "10.0.0.9", 1.0 + YOUNG_SECONDS) == "c0"


def test_who_has_shown_credentials_is_not_closed_for_strangers() -> None:
    connections = table()
    connections.admit("ada", "10.0.0.1", 0.0)
    connections.authenticated("ada")
    closed = [connections.admit(f"eve{number}", "10.0.0.1", 1.0) for number in range(40)]
    assert "ada" not in closed
    assert (len(connections), connections.unauthenticated) == (4, 3)


@pytest.mark.parametrize(("addresses", "kept"), [(1, 6), (8, 8)])
def test_no_credentials_help_over_the_bounds_on_all_connections(addresses: int, kept: int) -> None:
    connections = table()
    for number in range(20):
        if connections.admit(f"c{number}", f"10.0.0.{number % addresses}", float(number)) is None:
            connections.authenticated(f"c{number}")
    assert len(connections) == kept


def test_zero_is_no_bound() -> None:
    connections = table(Bounds(in_all=0, per_address=0, unauthenticated=0, unauthenticated_per_address=0))
    assert not any(connections.admit(f"c{number}", "10.0.0.1", 0.0) for number in range(10_000))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "", True),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


STEPS = st.lists(
    st.tuples(st.sampled_from(["admit", "authenticate", "forget"]), st.integers(0, 5), st.integers(0, 30)),
    max_size=120,
)


@given(STEPS)
def test_no_bound_is_ever_passed_and_what_is_forgotten_leaves_nothing(steps: list[tuple[str, int, int]]) -> None:
    connections = table()
    live: dict[str, tuple[str, bool]] = {}
    for number, (what, address, which) in enumerate(steps):
        if what == "admit":
            new = f"c{number}"
            victim = connections.admit(new, f"10.0.0.{address}", number / 4)
            live[new] = (f"10.0.0.{address}", False)
            if victim is not None:
                assert victim == new or not live[victim][1]
                del live[victim]
        elif live:
            chosen = sorted(live)[which % len(live)]
            if what == "authenticate":
                connections.authenticated(chosen)
                live[chosen] = (live[chosen][0], True)
            else:
                connections.forget(chosen)
                del live[chosen]
        assert len(connections) == len(live) <= BOUNDS.in_all
        assert connections.unauthenticated == sum(not known for _, known in live.values()) <= BOUNDS.unauthenticated
        for each in {where for where, _ in live.values()}:
            there = [known for where, known in live.values() if where == each]
            assert len(there) <= BOUNDS.per_address
            assert there.count(False) <= BOUNDS.unauthenticated_per_address
    for each in list(live):
        connections.forget(each)
    assert not connections._addresses and not connections._unauthenticated
