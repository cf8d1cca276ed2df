"""How a node left the pool and came back: a short list of entries, stored on the Node object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from kajitori.core.formats.times import format_time, parse_time

KEPT = 12
"""Most entries that are kept, the latest ones."""

_LINES, _LINE_LENGTH = 6, 240


class TrailEvent(StrEnum):
    """Kind of an event in the history of a node."""

    OUT = "out"
    """It left the pool."""
    BACK = "back"
    """It is in the pool again."""
    LOST = "lost"
    """It stopped answering while members were on it."""
    PASSED = "passed"
    """It passed its test."""
    FAILED = "failed"
    """The node failed its test and stayed out, or stayed in the pool because too many others are out."""
    UNTESTED = "untested"
    """The test could not be run."""
    DRAINED = "drained"
    """A user drained it. This event and the next are kept apart from the others: they decide nothing."""
    UNCORDONED = "uncordoned"
    """A user let it take work again."""


TESTS = (TrailEvent.PASSED, TrailEvent.FAILED, TrailEvent.UNTESTED)
_REPEATED = TESTS
"""Events that are stored once, with a count, while they repeat."""


class Entry(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One event in the history of a node."""

    at: str
    what: TrailEvent
    reason: str = ""
    """One word: a condition's type, or one of the reasons in `core.nodes.health`."""
    by: str = ""
    """The user who asked for it, if a user did."""
    evidence: tuple[str, ...] = ()
    run: str = ""
    """The run that tested the node, for a test's result."""
    times: int = 1
    """Number of times in a row, this one included."""

    @property
    def time(self) -> datetime | None:
        """Time of the event; None if it cannot be parsed."""
        return parse_time(self.at)


def new_entry(
    at: datetime, what: TrailEvent, reason: str = "", *, by: str = "", evidence: Sequence[str] = (), run: str = ""
) -> Entry:
    """Return an entry with its evidence shortened to the limits."""
    lines = tuple(" ".join(line.split())[:_LINE_LENGTH] for line in evidence[:_LINES])
    return Entry(at=format_time(at), what=what, reason=reason, by=by, evidence=lines, run=run)


def read_trail(text: str) -> tuple[Entry, ...]:
    """Return the trail stored on a Node, oldest entry first; empty if there is none or it cannot be decoded."""
    if not text:
        return ()
    try:
        entries = msgspec.json.decode(text, type=tuple[Entry, ...])
        return tuple(entry for entry in entries if entry.time is not None)
    except (msgspec.DecodeError, ValueError):
        return ()


def write_trail(trail: Sequence[Entry]) -> str:
    """Return the trail as it is stored on a Node."""
    return msgspec.json.encode(trail).decode()


def append_entry(trail: Sequence[Entry], new: Entry) -> tuple[Entry, ...]:
    """Return the trail with one more entry. A repeated event increases the count of the last entry instead."""
    last = trail[-1] if trail else None
    if last is not None and new.what in _REPEATED and (last.what, last.reason) == (new.what, new.reason):
        return (*trail[:-1], msgspec.structs.replace(new, times=last.times + 1))
    return (*trail, new)[-KEPT:]


def last_removal(trail: Sequence[Entry]) -> Entry | None:
    """Return the entry with the reason why the node is out of the pool; None if it is in."""
    for entry in reversed(trail):
        if entry.what is TrailEvent.BACK:
            return None
        if entry.what is TrailEvent.OUT:
            return entry
    return None


def returned_at(trail: Sequence[Entry]) -> datetime | None:
    """Return when the node last came back to the pool; earlier entries no longer count."""
    return next((entry.time for entry in reversed(trail) if entry.what is TrailEvent.BACK), None)


def unpassed_tests_in_a_row(trail: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the tests that the node did not pass since any other event, the latest first."""
    for entry in reversed(trail):
        if entry.what is TrailEvent.LOST:
            continue
        if entry.what is TrailEvent.OUT and entry.run:
            yield entry
        if entry.what not in (TrailEvent.FAILED, TrailEvent.UNTESTED):
            return
        yield entry


def last_test(trail: Sequence[Entry]) -> Entry | None:
    """Return the entry with the result of the last test; None if there is none."""
    return next((entry for entry in reversed(trail) if entry.run or entry.what in TESTS), None)


def as_taint_value(reason: str) -> str:
    """Return the reason in the characters that a taint's value may have."""
    return re.sub(r"[^-A-Za-z0-9_.]", "-", reason)[:63].strip("-_.")


def describe_entry(entry: Entry) -> str:
    """Return one line: what happened, and the first line of the evidence."""
    if entry.what is TrailEvent.DRAINED:
        return ": ".join((f"drained by {entry.by}", *entry.evidence[:1]))
    what = {
        TrailEvent.OUT: f"out of the pool: {entry.reason}",
        TrailEvent.BACK: f"back in the pool: {entry.reason}",
        TrailEvent.LOST: "stopped answering with members on it",
        TrailEvent.PASSED: "passed its test",
        TrailEvent.FAILED: "failed its test",
        TrailEvent.UNTESTED: "could not be tested",
        TrailEvent.UNCORDONED: "takes work again",
    }[entry.what]
    by = f", {'asked for by' if entry.run else 'by'} {entry.by}" if entry.by else ""
    often = f" ({entry.times} times)" if entry.times > 1 else ""
    evidence = f"; {entry.evidence[0]}" if entry.evidence else ""
    return f"{what}{by}{often}{evidence}"
