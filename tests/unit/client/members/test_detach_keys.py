"""Keys that detach a terminal from a program."""

from __future__ import annotations

import pytest

from kajitori.client.members.detach_keys import DETACH_KEYS, DetachKeys, parse_keys
from kajitori.errors import FieldError


@pytest.mark.parametrize(
    ("text", "keys"), [(DETACH_KEYS, b"\x10\x11"), ("a", b"a"), ("ctrl-],q", b"\x1dq"), ("ctrl-@", b"\x00"), ("", b"")]
)
def test_keys_are_written_in_dockers_notation(text: str, keys: bytes) -> None:
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-pq", "pq", "ctrl-", "é", "ctrl-p,", "ctrl-1"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(FieldError):
        parse_keys(text)


@pytest.mark.parametrize(
    ("typed", "passed", "detached"),
    [
        ([b"ls\n"], b"ls\n", False),
        ([b"\x10\x11"], b"", True),
        ([b"ls", b"\x10", b"\x11", b"more"], b"ls", True),
        ([b"\x10p"], b"\x10p", False),
        ([b"\x10", b"\x10", b"\x11"], b"\x10", True),
        ([b"\x11\x10"], b"\x11", False),
    ],
)
def test_keys_detach_only_in_their_order(typed: list[bytes], passed: bytes, detached: bool) -> None:
    """The beginning of the keys is passed on as soon as another key follows."""
    keys = DetachKeys(b"\x10\x11")
    found, ended = b"", False
    for data in typed:
        if not ended:
            piece, ended = keys.feed(data)
            found += piece
    assert (found, ended) == (passed, detached)


def test_without_keys_everything_is_passed_on() -> None:
    assert DetachKeys(b"").feed(b"\x10\x11") == (b"\x10\x11", False)
