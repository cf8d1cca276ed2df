"""Processing of log text in which each line begins with its time: make the stamps uniform, cut the text, and resume
after an earlier read.

Logs are processed in chunks of many lines, with only a slice per line, since a log of 100 MB has a million lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from kajitori.core.logs import notices

STAMP_BYTES = 31
"""Length of a stamp: a time in RFC 3339 and UTC with nine digits, so that text order is time order, and a blank."""
UNKNOWN_TIME = notices.UNKNOWN_TIME.encode()
"""Stamp of a line without a time, as kubelets send if they cannot read a log."""
LINE_LIMIT_BYTES = 256 * 1024
"""Longest line that is buffered. A longer one is passed on in parts, so that a program without line ends costs no
memory."""
LONGEST_STAMP_BYTES = 48
"""Number of bytes without a blank after which a line counts as a line without a time."""

_UTC = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")
_OFFSET = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([+-]\d\d:\d\d)")
_SHAPE, _END = slice(4, 20, 3), slice(29, 31)
_SHAPES, _ENDS = frozenset({b"--T::."}), frozenset({b"Z "})
"""Bytes of a uniform stamp at `_SHAPE` and `_END`; a line without a stamp hardly has them by chance."""


class Text(NamedTuple):
    """A part of a log: lines with uniform stamps. The last line may continue in the next part."""

    text: bytes
    inside: bool = False
    """Whether the text begins inside a line, without a stamp."""
    stamped: bool = True
    """False for a log that was requested without times."""
    is_added_end: bool = False
    """Whether this is only the end of the last line, which the program has not written."""

    @property
    def is_open(self) -> bool:
        """Whether the last line continues in the next part."""
        return not self.text.endswith(b"\n")


class Normaliser:
    """Makes all stamps uniform. An incomplete line is buffered until its end, a call of `take_begun`, or its limit."""

    def __init__(self) -> None:
        self._rest = b""
        self._time = UNKNOWN_TIME
        self._inside = False

    def feed(self, chunk: bytes) -> Text:
        """Return the lines that are complete with this chunk."""
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
        """Return the buffered beginning of an incomplete line; empty until its stamp is complete."""
        rest, inside = self._rest, self._inside
        if inside:
            self._rest = b""
            return Text(rest, inside=True)
        if len(rest) > LONGEST_STAMP_BYTES or (len(rest) > STAMP_BYTES and _are_uniform([rest])):
            self._rest, self._inside = b"", True
            return Text(self._uniform(rest))
        return Text(b"")

    def flush(self) -> Text:
        """Return the last line of the log if it has no line end."""
        rest, self._rest = self._rest, b""
        return Text(self._uniform(rest) if rest and not self._inside else rest, inside=self._inside)

    def _uniform(self, lines: bytes) -> bytes:
        """Return lines, without the last line end, with uniform stamps."""
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
    """Return the text as the program printed it."""
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
    """Return the text without stamps of unknown time."""
    return part.text.replace(UNKNOWN_TIME + b" ", b"") if UNKNOWN_TIME in part.text else part.text


def last_lines(text: bytes, count: int | None) -> bytes:
    """Return the last `count` lines of a text that begins with a line; all lines if `count` is None."""
    if count is None:
        return text
    end = b"\n" if text.endswith(b"\n") else b""
    lines = text.removesuffix(b"\n").split(b"\n")
    return b"\n".join(lines[-count:]) + end if count else b""


def rows(part: Text) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield, per line, its time (empty for the rest of a line), its text, and whether it continues in the next part."""
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
    """The last line of a log that was read, completely or in part."""

    time: bytes = b""
    count: int = 0
    """Number of the line among consecutive lines with this time, counted from 1."""
    offset: int | None = None
    """Bytes of the line that were read, without its stamp; None if it was read to its end."""

    def after(self, part: Text) -> Position:
        """Return the position after this part."""
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
    """Return the number of consecutive lines with this time that end with the line that begins at `last`."""
    marked = b"\n" + time + b" "
    begin = first if text.startswith(marked[1:], first) else text.find(marked, first) + 1
    same = text.count(marked, max(begin - 1, 0), last + STAMP_BYTES) + (begin == 0)
    if same == text.count(b"\n", begin, last) + 1:
        return same
    lines = text[begin : last + STAMP_BYTES].split(b"\n")
    return next(index for index, line in enumerate(reversed(lines)) if not line.startswith(time))


class Resumption:
    """Skips the part of a log that was read before."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._matched = 0
        self._to_skip: int | None = 0
        """Bytes of the current line that are still to be skipped; None: the whole line."""
        self.is_done = not position.time
        self.lost = False
        """Whether the line at the position is missing, so that later lines may be missing, too."""

    def fresh(self, part: Text) -> Text:
        """Return the rest of a part that was not read before. It begins inside a line if the position does."""
        if self.is_done or not part.text:
            return part
        text, begin = part.text, 0
        if part.inside:
            begin = text.find(b"\n") + 1 or len(text)
            if self._to_skip is not None:
                return self._rest_of_line(text, 0)
        last = text.rfind(b"\n", 0, len(text) - (not part.is_open)) + 1
        if last >= begin and text[last : last + 30] < self._position.time:
            begin = len(text)
        while begin < len(text):
            time = text[begin : begin + 30]
            if time > self._position.time or (time == self._position.time and self._matched == self._position.count):
                self.is_done, self.lost = True, self._matched < self._position.count
                return Text(text[begin:])
            if time == self._position.time:
                self._matched += 1
                if self._matched == self._position.count and self._position.offset is not None:
                    self._to_skip = self._position.offset
                    return self._rest_of_line(text, begin + STAMP_BYTES)
            begin = text.find(b"\n", begin) + 1 or len(text)
        self._to_skip = None
        return Text(b"")

    def _rest_of_line(self, text: bytes, begin: int) -> Text:
        """Return the rest of the current line and what follows it."""
        assert self._to_skip is not None
        left = len(text) - begin
        if self._to_skip > left:
            self._to_skip -= left
            return Text(b"")
        self.is_done = True
        return Text(text[begin + self._to_skip :], inside=True)


def since(moment: bytes) -> Resumption:
    """Return a Resumption that skips lines before that time."""
    return Resumption(Position(moment))


def utc_time(text: bytes) -> str:
    """Return a log's time in UTC with nine digits; empty if the text is no time."""
    match = _UTC.fullmatch(text)
    if match is not None:
        return f"{match[1].decode()}.{(match[2] or b'').decode():0<9}Z"
    match = _OFFSET.fullmatch(text)
    if match is None:
        return ""
    try:
        moment = datetime.fromisoformat((match[1] + match[3]).decode()).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{moment.isoformat()[:19]}.{(match[2] or b'').decode():0<9}Z"


def stamp_of(moment: datetime) -> bytes:
    """Return a moment in the format of a line's time."""
    return utc_time(moment.astimezone(UTC).isoformat().encode()).encode()
