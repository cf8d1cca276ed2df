"""Tickets: a key determines one ticket per attempt, and without the key no ticket can be made."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.pods.tickets import Ticket, derive, run_of_signed_member, sign, sign_member, verify

KEY = bytes(range(32))
TICKET = Ticket("vision", "bert", "0f5a-uid", 2, 4)

tickets = st.builds(
    Ticket,
    namespace=st.text(),
    run=st.text(),
    run_uid=st.text(),
    attempt=st.integers(0, 10**6),
    world_size=st.integers(0, 10**6),
    code=st.sampled_from(["", "sha256:1"]),
    files=st.sampled_from(["", "sha256:2"]),
)
keys = st.binary(min_size=1, max_size=64)


@given(ticket=tickets, key=keys)
def test_a_signed_ticket_is_read_back(ticket: Ticket, key: bytes) -> None:
    """The same key always gives the same ticket; the text fits into a header and a URL."""
    text = sign(ticket, key)
    assert verify(text, key) == ticket
    assert sign(replace(ticket), key) == text
    assert re.fullmatch(r"[A-Za-z0-9._-]+", text)


@given(ticket=tickets, key=keys, other=keys)
def test_another_keys_ticket_is_refused(ticket: Ticket, key: bytes, other: bytes) -> None:
    """HMAC pads short keys with zeros, so keys that differ only in such zeros are the same key."""
    if key.ljust(64, b"\0") != other.ljust(64, b"\0"):
        assert verify(sign(ticket, key), other) is None


@given(text=st.text())
def test_any_other_text_is_refused_without_an_exception(text: str) -> None:
    assert verify(text, KEY) is None


@given(place=st.integers(0, 10**6), char=st.sampled_from("ABCxyz019-_.="))
def test_a_ticket_with_one_changed_character_is_refused(place: int, char: str) -> None:
    text = sign(TICKET, KEY)
    place %= len(text)
    changed = text[:place] + char + text[place + 1 :]
    assert changed == text or verify(changed, KEY) is None


def test_parts_of_two_tickets_cannot_be_combined() -> None:
    """The signature covers the whole content."""
    version, payload, _ = sign(TICKET, KEY).split(".")
    _, _, signature = sign(replace(TICKET, attempt=3), KEY).split(".")
    assert verify(f"{version}.{payload}.{signature}", KEY) is None
    assert verify(f"{version}.{payload}.", KEY) is None
    assert verify(f"other.{payload}.{sign(TICKET, KEY).split('.')[2]}", KEY) is None


def test_each_attempt_has_its_own_secrets() -> None:
    """They are deterministic, and differ for another attempt, run, purpose or key."""
    secret = derive(TICKET, KEY, "ssh host")
    assert derive(replace(TICKET, world_size=9), KEY, "ssh host") == secret and len(secret) == 32
    others = [
        derive(replace(TICKET, attempt=3), KEY, "ssh host"),
        derive(replace(TICKET, run_uid="another"), KEY, "ssh host"),
        derive(TICKET, KEY, "ssh client"),
        derive(TICKET, KEY[::-1], "ssh host"),
    ]
    assert len({secret, *others}) == 5


uids = st.from_regex(r"[a-z0-9-]{1,36}", fullmatch=True)


@given(namespace=st.text(), pod=st.text(), uid=uids, key=keys)
def test_a_members_signature_identifies_its_run(namespace: str, pod: str, uid: str, key: bytes) -> None:
    signature = sign_member(namespace, pod, uid, key)
    assert run_of_signed_member(signature, namespace, pod, key) == uid
    assert len(signature) < 128 and signature.isascii()


@given(one=st.tuples(st.text(), st.text(), uids), other=st.tuples(st.text(), st.text(), uids))
def test_a_copied_signature_proves_nothing(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """For a Pod with another name or namespace, another run, or another key."""
    signature = sign_member(*one, KEY)
    if one[:2] != other[:2]:
        assert not run_of_signed_member(signature, *other[:2], KEY)
    if one[2] != other[2]:
        claimed = f"{other[2]}.{signature.partition('.')[2]}"
        assert not run_of_signed_member(claimed, *one[:2], KEY)
    assert not run_of_signed_member(signature, *one[:2], b"another")
    assert not run_of_signed_member(sign(TICKET, KEY), *one[:2], KEY)


@given(text=st.text())
def test_any_other_text_is_no_signature(text: str) -> None:
    assert not run_of_signed_member(text, "vision", "bert-1-0", KEY)
