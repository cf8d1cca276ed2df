"""Connections that a server closes when there are too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.protection.connections import YOUNG_SECONDS, Bounds, ConnectionTable, network_of

BOUNDS = Bounds(in_all=8, per_address=6, unauthenticated=4, unauthenticated_per_address=3)


def table(bounds: Bounds = BOUNDS) -> ConnectionTable[str]:
    return ConnectionTable(bounds)


def test_the_oldest_unauthenticated_connection_of_an_address_is_closed() -> None:
    connections = table()
    for number in range(3):
        assert connections.admit(f"eve{number}", "10.0.0.1", number) is None
    assert connections.admit("eve3", "10.0.0.1", 3) == "eve0"
    assert (len(connections), connections.unauthenticated) == (3, 3)


def test_a_connection_of_the_busiest_address_is_closed_for_another_one() -> None:
    """Its age does not matter."""
    connections = table()
    for number in range(3):
        connections.admit(f"eve{number}", "10.0.0.1", 1.0)
    connections.admit("bob", "10.0.0.2", 1.0)
    assert connections.admit("ada", "10.0.0.3", 1.0) == "eve0"


def test_among_many_addresses_the_oldest_is_closed_unless_it_is_young() -> None:
    """Many honest callers that connect at the same time do not close each other's connections."""
    connections = table()
    for number in range(4):
        connections.admit(f"c{number}", f"10.0.0.{number}", 1.0)
    assert connections.admit("new", "10.0.0.9", 1.0 + YOUNG_SECONDS / 2) == "new"
    assert connections.admit("new", "10.0.0.9", 1.0 + YOUNG_SECONDS) == "c0"


def test_authenticated_connections_are_not_closed_for_others() -> None:
    connections = table()
    connections.admit("ada", "10.0.0.1", 0.0)
    connections.authenticated("ada")
    closed = [connections.admit(f"eve{number}", "10.0.0.1", 1.0) for number in range(40)]
    assert "ada" not in closed
    assert (len(connections), connections.unauthenticated) == (4, 3)


@pytest.mark.parametrize(("addresses", "kept"), [(1, 6), (8, 8)])
def test_the_limits_on_all_connections_hold_for_authenticated_ones(addresses: int, kept: int) -> None:
    connections = table()
    for number in range(20):
        if connections.admit(f"c{number}", f"10.0.0.{number % addresses}", float(number)) is None:
            connections.authenticated(f"c{number}")
    assert len(connections) == kept


def test_zero_means_no_limit() -> None:
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
def test_one_ipv6_network_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


STEPS = st.lists(
    st.tuples(st.sampled_from(["admit", "authenticate", "forget"]), st.integers(0, 5), st.integers(0, 30)),
    max_size=120,
)


@given(STEPS)
def test_no_limit_is_exceeded_and_forgotten_connections_leave_nothing(steps: list[tuple[str, int, int]]) -> None:
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
        for place in {where for where, _ in live.values()}:
            there = [known for where, known in live.values() if where == place]
            assert len(there) <= BOUNDS.per_address
            assert there.count(False) <= BOUNDS.unauthenticated_per_address
    for connection in list(live):
        connections.forget(connection)
    assert not connections._addresses and not connections._unauthenticated
