"""How a node left the pool and came back: a short list of entries, kept on the Node itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from kajitori.core.words.times import format_time, parse_time

KEPT = 12
"""Entries of a node, the latest."""

_LINES, _LINE_LENGTH = 6, 240


class What(StrEnum):
    """What an entry tells."""

    OUT = "out"
    """It left the pool."""
    BACK = "back"
    """It takes work again."""
    LOST = "lost"
    """It fell silent while members were on it."""
    PASSED = "passed"
    """It passed its test."""
    FAILED = "failed"
    """It failed its test, and is where it was: out already, or in the pool because too many are out."""
    UNTESTED = "untested"
    """The test could not be run."""


TESTS = (What.PASSED, What.FAILED, What.UNTESTED)
_REPEATED = TESTS
"""What is said once, with how often, while it goes on."""


class Entry(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One thing that happened to a node."""

    at: str
    what: What
    reason: str = ""
    """In a word: a condition's type, or one of ours."""
    by: str = ""
    """Who asked for it, where a person did."""
    evidence: tuple[str, ...] = ()
    run: str = ""
    """Of a test: the run that was it."""
    times: int = 1
    """So often in a row, this time included."""

    @property
    def time(self) -> datetime | None:
        """When it was."""
        return parse_time(self.at)


def entry(
    at: datetime, what: What, reason: str = "", *, by: str = "", evidence: Sequence[str] = (), run: str = ""
) -> Entry:
    """An entry whose evidence is short enough to be kept."""
    lines = tuple(" ".join(line.split())[:_LINE_LENGTH] for line in evidence[:_LINES])
    return Entry(at=format_time(at), what=what, reason=reason, by=by, evidence=lines, run=run)


def read_trail(text: str) -> tuple[Entry, ...]:
    """The trail as it stands on a Node, the oldest entry first; none where there is none, or it can't be read."""
    if not text:
        return ()
    try:
        entries = msgspec.json.decode(text, type=tuple[Entry, ...])
        return tuple(each for each in entries if each.time is not None)
    except (msgspec.DecodeError, ValueError):
        return ()


def write_trail(trail: Sequence[Entry]) -> str:
    """The trail as it is kept on a Node."""
    return msgspec.json.encode(trail).decode()


def added(trail: Sequence[Entry], new: Entry) -> tuple[Entry, ...]:
    """The trail with one more entry; what happens again in a row stands there once, with how often."""
    last = trail[-1] if trail else None
    if last is not None and new.what in _REPEATED and (last.what, last.reason) == (new.what, new.reason):
        return (*trail[:-1], msgspec.structs.replace(new, times=last.times + 1))
    return (*trail, new)[-KEPT:]


def left_as(trail: Sequence[Entry]) -> Entry | None:
    """The entry that tells why it is out; None where the trail tells of no leaving that lasts."""
    for each in reversed(trail):
        if each.what is What.BACK:
            return None
        if each.what is What.OUT:
            return each
    return None


def came_back_at(trail: Sequence[Entry]) -> datetime | None:
    """When it came back last: what was before that counts no more."""
    return next((each.time for each in reversed(trail) if each.what is What.BACK), None)


def tests_in_a_row(trail: Sequence[Entry]) -> Iterator[Entry]:
    """Tests that it did not pass since anything else happened, the latest first."""
    for each in reversed(trail):
        if each.what is What.LOST:
            continue
        if each.what is What.OUT and each.run:
            yield each
        if each.what not in (What.FAILED, What.UNTESTED):
            return
        yield each


def last_test(trail: Sequence[Entry]) -> Entry | None:
    """The entry with the result of its last test."""
    return next((each for each in reversed(trail) if each.run or each.what in TESTS), None)


def as_taint_value(reason: str) -> str:
    """The reason as a taint may hold it."""
    return re.sub(r"[^-A-Za-z0-9_.]", "-", reason)[:63].strip("-_.")


def in_words(entry: Entry) -> str:
    """One line: what happened, and the first of the evidence."""
    what = {
        What.OUT: f"out of the pool: {entry.reason}",
        What.BACK: f"back in the pool: {entry.reason}",
        What.LOST: "fell silent with members on it",
        What.PASSED: "passed its test",
        What.FAILED: "failed its test",
        What.UNTESTED: "could not be tested",
    }[entry.what]
    by = f", {'asked for by' if entry.run else 'by'} {entry.by}" if entry.by else ""
    often = f" ({entry.times} times)" if entry.times > 1 else ""
    said = f"; {entry.evidence[0]}" if entry.evidence else ""
    return f"{what}{by}{often}{said}"
