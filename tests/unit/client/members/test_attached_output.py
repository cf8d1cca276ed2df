"""The output of an attached program, joined with its log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.client.members.attached_output import KEPT_BYTES, Shown

LINES = [b"line %d\n" % number for number in range(2000)]
OUTPUT = b"".join(LINES)


@pytest.mark.parametrize(
    ("log", "attached", "shown"),
    [
        (b"# ", b"", b"# "),
        (b"a\nb\n", b"b\nc\n", b"a\nb\nc\n"),
        (b"a\n", b"c\n", b"a\nc\n"),
        (b"", b"c\n", b"c\n"),
        (b"abab", b"ab", b"abab"),
        (b"one\r\ntwo", b"two\r\nthree", b"one\r\ntwo\r\nthree"),
        (b"early\nTYPED\n", b"TYPED", b"early\nTYPED"),
        (b"a\nb\n", b"b2\n", b"a\nb\nb2\n"),
    ],
)
def test_output_that_is_in_the_log_and_the_connection_is_shown_once(log: bytes, attached: bytes, shown: bytes) -> None:
    it = Shown()
    assert it.begin(log, attached) + it.new(attached) == shown


@given(st.data())
def test_no_byte_is_lost_or_doubled_over_any_number_of_connections(data: st.DataObject) -> None:
    """Connections begin and break anywhere. A log is read at any moment of a connection, and may be ahead of it."""
    it, shown, end = Shown(), b"", 0
    for number in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(end, len(OUTPUT)), label="connection")
        until = data.draw(st.integers(start, len(OUTPUT)), label="of which came before the log was read")
        log = data.draw(st.integers(until, len(OUTPUT)) if until >= start + 30 else st.just(until), label="log")
        end = data.draw(st.integers(log, len(OUTPUT)), label="break")
        first, rest = OUTPUT[start:until], OUTPUT[until:end]
        missed = it.begin(OUTPUT[:log], first) if number == 0 else it.go_on(OUTPUT[:log], first)
        if missed is None:
            assert not shown
            missed = it.begin(OUTPUT[:log], first)
        shown += missed + it.new(first) + it.new(rest[:100]) + it.new(rest[100:])
        assert shown == OUTPUT[:end]


def test_a_connection_without_the_log_before_it_goes_on_after_a_break() -> None:
    """`kaji attach` shows what is new. A log that was read meanwhile says what came before, also to a program that has
    printed nothing since."""
    for printed in (b"", LINES[40]):
        it = Shown()
        it.new(printed)
        it.precede(b"".join(LINES[:40]) + printed)
        assert it.go_on(b"".join(LINES[30:45]), b"") == b"".join(LINES[40:45]).removeprefix(printed)


@pytest.mark.parametrize("attaches_late", [False, True])
@pytest.mark.parametrize("piece", [b".", b"tick\n"])
def test_identical_lines_are_counted(piece: bytes, attaches_late: bool) -> None:
    """There are more of them than are remembered, also while the connection is broken. Another line is there once."""
    first, shown, missed = b"epoch 1\n", piece * 3000, piece * 2000
    it = Shown()
    if attaches_late:
        it.new(shown)
        it.precede(first)
    else:
        it.begin(first, b"")
        it.new(shown)
    assert it.go_on(first + shown + missed, b"", guesses=False) == missed
    assert it.go_on(first + shown + 2 * missed, b"", guesses=False) == missed


def test_identical_lines_without_anything_else_are_guessed() -> None:
    """The end of the log was cut off before what was shown begins: nothing is shown twice."""
    it = Shown()
    it.add(b"." * 5000)
    assert it.go_on(b"." * 7000, b"", guesses=False) is None
    assert it.go_on(b"." * 7000, b"") == b""


def test_the_order_of_two_streams_may_differ_between_the_log_and_the_connection() -> None:
    it = Shown()
    it.add(b"error\n" + b"out\n" + OUTPUT[:1000])
    assert it.go_on(b"out\n" + b"error\n" + OUTPUT[:1010], b"") == OUTPUT[1000:1010]


def test_an_unfinished_line_is_not_ended_by_the_log() -> None:
    it = Shown()
    it.add(b"name? ")
    assert it.go_on(b"name? \n", b"") == b""


def test_a_log_that_has_not_what_was_shown_is_no_continuation() -> None:
    it = Shown()
    assert it.go_on(b"a\n", b"") is None
    it.add(OUTPUT[:KEPT_BYTES])
    assert it.go_on(b"something else\n", b"") is None
