"""What a log server sends, taken apart: lines with the time at which each was written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

LINE_LIMIT_BYTES = 256 * 1024
"""A longer line is handed on in pieces, so that a program that prints no line ends costs no memory."""

_UTC = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")
_OFFSET = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([+-]\d\d:\d\d)")


class Piece(NamedTuple):
    """A line, or a piece of a very long one."""

    time: str
    """RFC 3339 in UTC with nine digits, so that text order is time order; empty where the server said none."""
    text: bytes
    begins: bool
    """It is the beginning of a line."""
    ends: bool
    """It is the end of one."""


class LineSplitter:
    """Makes pieces of chunks in which every line begins with a time and a blank."""

    def __init__(self) -> None:
        self._rest = b""
        self._time = ""
        self._inside = False

    def feed(self, chunk: bytes) -> list[Piece]:
        """The pieces that are complete now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        pieces = [self._piece(line, ends=True) for line in lines]
        if len(self._rest) > LINE_LIMIT_BYTES:
            whole = _whole_signs(self._rest)
            pieces.append(self._piece(self._rest[:whole], ends=False))
            self._rest = self._rest[whole:]
        return pieces

    def flush(self) -> list[Piece]:
        """What the end of the log leaves: a last line without an end."""
        rest, self._rest = self._rest, b""
        return [self._piece(rest, ends=True)] if rest or self._inside else []

    def _piece(self, line: bytes, *, ends: bool) -> Piece:
        if self._inside:
            self._inside = not ends
            return Piece(self._time, line, False, ends)
        first, blank, text = line.partition(b" ")
        time = utc_time(first) if blank or ends else ""
        if not time:
            text = line
        self._time = time
        self._inside = not ends
        return Piece(time, text, True, ends)


def _whole_signs(text: bytes) -> int:
    """Up to where a text in UTF-8 may be cut without cutting a sign in two."""
    for back, byte in enumerate(reversed(text[-3:]), start=1):
        if byte >= 0xC0:  # the first of a sign's bytes; it says how many there are
            return len(text) - back if back < 2 + (byte >= 0xE0) + (byte >= 0xF0) else len(text)
        if byte < 0x80:
            break
    return len(text)


class Position:
    """How far a log was read: the time of the last line, and how many lines of that very time there were."""

    def __init__(self) -> None:
        self.time = ""
        self._count = 0

    def note(self, pieces: Iterable[Piece]) -> None:
        """These were handed on."""
        for piece in pieces:
            if piece.begins and piece.time:
                self._count = self._count + 1 if piece.time == self.time else 1
                self.time = piece.time

    def resumed(self) -> Resumption:
        """What leaves out of a log that is read again what was read before."""
        return Resumption(self.time, self._count)


class Resumption:
    """Leaves out lines up to a position."""

    def __init__(self, time: str, count: int) -> None:
        self._time = time
        self._left = count
        self._skipping = False

    def fresh(self, pieces: list[Piece]) -> list[Piece]:
        """Those that were not read before."""
        if not self._time:
            return pieces
        return [piece for piece in pieces if self._is_fresh(piece)]

    def _is_fresh(self, piece: Piece) -> bool:
        if not piece.begins:
            return not self._skipping
        self._skipping = False
        if piece.time and piece.time < self._time:
            self._skipping = True
        elif piece.time == self._time and self._left > 0:
            self._left -= 1
            self._skipping = True
        elif piece.time > self._time:
            self._time = ""
        return not self._skipping


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
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{(found[2] or b'').decode():0<9}Z"
