"""What a log server sends, as text in which every line begins with its time: made uniform, cut, resumed.

Logs are worked on in chunks of many lines. Per line only a slice is looked at: a log of 100 MB has a million of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from kajitori.core.logs import notices

STAMP_BYTES = 31
"""A time and the blank after it: RFC 3339 in UTC with nine digits, so that order as text is order in time."""
UNKNOWN_TIME = notices.UNKNOWN_TIME.encode()
"""Of a line without a time, as kubelets send where they could not read a log."""
LINE_LIMIT_BYTES = 256 * 1024
"""A longer line is handed on in parts, so that a program that prints no line ends costs no memory."""
LONGEST_STAMP_BYTES = 48
"""A line that has begun with more than this, and no blank, has no time."""

_UTC = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")
_OFFSET = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([+-]\d\d:\d\d)")
_SHAPE, _END = slice(4, 20, 3), slice(29, 31)
_SHAPES, _ENDS = frozenset({b"--T::."}), frozenset({b"Z "})
"""What stands there in a uniform stamp, and hardly by chance in a line without one."""


class Text(NamedTuple):
    """A part of a log: lines with uniform stamps. The last one may go on in the next part."""

    text: bytes
    inside: bool = False
    """It begins in the middle of a line, without a stamp."""
    stamped: bool = True
    """False for a log that was asked for without times."""

    @property
    def is_open(self) -> bool:
        """Whether its last line goes on."""
        return not self.text.endswith(b"\n")


class Normaliser:
    """Makes all stamps uniform. The beginning of a line waits for its end, until it is asked for or is very long."""

    def __init__(self) -> None:
        self._rest = b""
        self._time = UNKNOWN_TIME
        self._inside = False

    def feed(self, chunk: bytes) -> Text:
        """The lines that are whole now."""
        whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        if not newline:
            return self.take_begun() if len(self._rest) > LINE_LIMIT_BYTES else Text(b"")
        inside, self._inside = self._inside, False
        if inside:
            end, first_newline, whole = whole.partition(b"\n")
            text = end + first_newline + (self._uniform(whole) if first_newline else b"")
        else:
            text = self._uniform(whole)
        return Text(text + newline, inside)

    def take_begun(self) -> Text:
        """What has come of a line that has not ended, once its time is complete."""
        rest, inside = self._rest, self._inside
        if inside:
            self._rest = b""
            return Text(rest, inside=True)
        if len(rest) > LONGEST_STAMP_BYTES or (len(rest) > STAMP_BYTES and _are_uniform([rest])):
            self._rest, self._inside = b"", True
            return Text(self._uniform(rest))
        return Text(b"")

    def flush(self) -> Text:
        """What the end of the log leaves: a last line without an end."""
        rest, self._rest = self._rest, b""
        return Text(self._uniform(rest) if rest and not self._inside else rest, inside=self._inside)

    def _uniform(self, lines: bytes) -> bytes:
        """Lines with the last one's end left out."""
        split = lines.split(b"\n")
        if not _are_uniform(split):
            split = [self._stamped(line) for line in split]
            lines = b"\n".join(split)
        self._time = split[-1][:30]
        return lines

    def _stamped(self, line: bytes) -> bytes:
        first, blank, text = line.partition(b" ")
        time = utc_time(first).encode() if blank else b""
        self._time = time or self._time
        return self._time + b" " + (text if time else line)


def _are_uniform(lines: list[bytes]) -> bool:
    return {line[_SHAPE] for line in lines} == _SHAPES and {line[_END] for line in lines} == _ENDS


def without_stamps(part: Text) -> bytes:
    """The text as the program printed it."""
    if not part.text or not part.stamped:
        return part.text
    lines = part.text.split(b"\n")
    end = lines.pop()
    rows = [line[STAMP_BYTES:] for line in lines]
    if not lines:
        return end if part.inside else end[STAMP_BYTES:]
    if part.inside:
        rows[0] = lines[0]
    rows.append(end[STAMP_BYTES:])
    return b"\n".join(rows)


def with_known_stamps(part: Text) -> bytes:
    """The text with the times that are known."""
    return part.text.replace(UNKNOWN_TIME + b" ", b"") if UNKNOWN_TIME in part.text else part.text


def last_lines(text: bytes, count: int | None) -> bytes:
    """The last so many lines of a text that begins with a line; all of them without a number."""
    if count is None:
        return text
    end = b"\n" if text.endswith(b"\n") else b""
    lines = text.removesuffix(b"\n").split(b"\n")
    return b"\n".join(lines[-count:]) + end if count else b""


def rows(part: Text) -> Iterator[tuple[bytes, bytes, bool]]:
    """Each line: its time, empty for the rest of one, its text, and whether it goes on in the next part."""
    lines = part.text.split(b"\n")
    end = lines.pop()
    inside = part.inside
    for line in lines:
        yield (b"", line, False) if inside else (line[:30], line[STAMP_BYTES:], False)
        inside = False
    if end:
        yield (b"", end, True) if inside else (end[:30], end[STAMP_BYTES:], True)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a log was read: its last line that has begun."""

    time: bytes = b""
    count: int = 0
    """Which one of the lines in a row that have this time."""
    offset: int | None = None
    """How many bytes of it were read, if its end was not; without its stamp."""

    def after(self, part: Text) -> Position:
        """The position once this was read, too."""
        text = part.text
        if not text:
            return self
        begin = text.rfind(b"\n", 0, len(text) - (not part.is_open)) + 1
        if part.inside and begin == 0:
            return replace(self, offset=(self.offset or 0) + len(text) if part.is_open else None)
        first_begin = text.find(b"\n") + 1 if part.inside else 0
        time = text[begin : begin + 30]
        count = _in_a_row(text, time, first_begin, begin)
        if count == text.count(b"\n", first_begin, begin) + 1 and self.time == time:
            count += self.count
        return Position(time, count, len(text) - begin - STAMP_BYTES if part.is_open else None)


def _in_a_row(text: bytes, time: bytes, first: int, last: int) -> int:
    """How many lines up to the one that begins at `last` have its time, without another between them."""
    marked = b"\n" + time + b" "
    begin = first if text.startswith(marked[1:], first) else text.find(marked, first) + 1
    same = text.count(marked, max(begin - 1, 0), last + STAMP_BYTES) + (begin == 0)
    if same == text.count(b"\n", begin, last) + 1:
        return same
    lines = text[begin : last + STAMP_BYTES].split(b"\n")
    return next(index for index, line in enumerate(reversed(lines)) if not line.startswith(time))


class Resumption:
    """Leaves out, of a log that is read again, what was read before."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._met = 0
        self._left_out: int | None = 0
        """How much of the line that goes on is still to be left out; None: all of it."""
        self.is_done = not position.time
        self.lost = False
        """The line at the position was not there any more, and so perhaps others that followed it."""

    def fresh(self, part: Text) -> Text:
        """What was not read before. It is inside a line if the position is."""
        if self.is_done or not part.text:
            return part
        text, begin = part.text, 0
        if part.inside:
            begin = text.find(b"\n") + 1 or len(text)
            if self._left_out is not None:
                return self._rest_of_line(text, 0)
        last = text.rfind(b"\n", 0, len(text) - (not part.is_open)) + 1
        if last >= begin and text[last : last + 30] < self._position.time:
            begin = len(text)
        while begin < len(text):
            time = text[begin : begin + 30]
            if time > self._position.time or (time == self._position.time and self._met == self._position.count):
                self.is_done, self.lost = True, self._met < self._position.count
                return Text(text[begin:])
            if time == self._position.time:
                self._met += 1
                if self._met == self._position.count and self._position.offset is not None:
                    self._left_out = self._position.offset
                    return self._rest_of_line(text, begin + STAMP_BYTES)
            begin = text.find(b"\n", begin) + 1 or len(text)
        self._left_out = None
        return Text(b"")

    def _rest_of_line(self, text: bytes, begin: int) -> Text:
        """What follows the part of this line that was read before."""
        assert self._left_out is not None
        left = len(text) - begin
        if self._left_out > left:
            self._left_out -= left
            return Text(b"")
        self.is_done = True
        return Text(text[begin + self._left_out :], inside=True)


def since(moment: bytes) -> Resumption:
    """Leaves out what was written before that time."""
    return Resumption(Position(moment))


def utc_time(text: bytes) -> str:
    """A time of a log in UTC with nine digits, or nothing where the text is none."""
    found = _UTC.fullmatch(text)
    if found is not None:
        return f"{found[1].decode()}.{(found[2] or b'').decode():0<9}Z"
    found = _OFFSET.fullmatch(text)
    if found is None:
        return ""
    try:
        moment = datetime.fromisoformat((found[1] + found[3]).decode()).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{moment.isoformat()[:19]}.{(found[2] or b'').decode():0<9}Z"
