"""Tickets: for a key there is one for each start of a run, and nobody without the key can make another."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.tickets import Ticket, derive, sign, verify

KEY = bytes(range(32))
TICKET = Ticket("vision", "bert", "0f5a-uid", 2, 4)

tickets = st.builds(
    Ticket,
    namespace=st.text(),
    run=st.text(),
    run_uid=st.text(),
    attempt=st.integers(0, 10**6),
    world_size=st.integers(0, 10**6),
)
keys = st.binary(min_size=1, max_size=64)


@given(ticket=tickets, key=keys)
def test_what_was_signed_comes_back(ticket: Ticket, key: bytes) -> None:
    """The same ticket for the same key, always; the text fits into a header and a URL."""
    text = sign(ticket, key)
    assert verify(text, key) == ticket
    assert sign(replace(ticket), key) == text
    assert re.fullmatch(r"[A-Za-z0-9._-]+", text)


@given(ticket=tickets, key=keys, other=keys)
def test_another_key_does_not_fit(ticket: Ticket, key: bytes, other: bytes) -> None:
    """HMAC fills short keys up with zeros: only what differs then is another key."""
    if key.ljust(64, b"\0") != other.ljust(64, b"\0"):
        assert verify(sign(ticket, key), other) is None


@given(text=st.text())
def test_nothing_else_is_a_ticket(text: str) -> None:
    """Whatever is shown is answered with a no, never with an exception."""
    assert verify(text, KEY) is None


@given(place=st.integers(0, 10**6), char=st.sampled_from("ABCxyz019-_.="))
def test_a_changed_ticket_is_none(place: int, char: str) -> None:
    """Whatever single character is replaced."""
    text = sign(TICKET, KEY)
    place %= len(text)
    changed = text[:place] + char + text[place + 1 :]
    assert changed == text or verify(changed, KEY) is None


def test_parts_of_two_tickets_make_no_third() -> None:
    """The signature covers all that a ticket says."""
    version, payload, _ = sign(TICKET, KEY).split(".")
    _, _, signature = sign(replace(TICKET, attempt=3), KEY).split(".")
    assert verify(f"{version}.{payload}.{signature}", KEY) is None
    assert verify(f"{version}.{payload}.", KEY) is None
    assert verify(f"other.{payload}.{sign(TICKET, KEY).split('.')[2]}", KEY) is None


def test_secrets_of_an_attempt_are_its_own() -> None:
    """The same whoever asks, and others for another attempt, run, purpose or key."""
    secret = derive(TICKET, KEY, "ssh host")
    assert derive(replace(TICKET, world_size=9), KEY, "ssh host") == secret and len(secret) == 32
    others = [
        derive(replace(TICKET, attempt=3), KEY, "ssh host"),
        derive(replace(TICKET, run_uid="another"), KEY, "ssh host"),
        derive(TICKET, KEY, "ssh client"),
        derive(TICKET, KEY[::-1], "ssh host"),
    ]
    assert len({secret, *others}) == 5
