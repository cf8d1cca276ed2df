"""Logs on stdout: of one member unchanged, of several members with the rank before each line."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from typing import Protocol

import click

from kajitori.cli.terminal import beginning, cells, echo_data, json_text, one_line, write_as_is
from kajitori.client.streams import LogPart

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow")
_UP, _CLEAR_BELOW, _STYLE_OFF = "\x1b[{}A", "\x1b[J", "\x1b[0m"
_COLOUR = re.compile(r"(\x1b\[[0-9;:]*m)")
_DRIVES_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[^\[])")

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\S+ ")


class LogPrinter:
    """Writes the output of members to stdout at once, unfinished lines included.

    With ranks, lines of several members do not mix. At a terminal, unfinished lines are drawn below all others, one for
    each member. In a file or a pipe, the rank is written at the beginning of a line and after each carriage return, and
    an unfinished line is ended when another member prints: everything is kept and readable.
    """

    def __init__(self, *, prefix: bool = False, colour: bool | None = None) -> None:
        """`colour` False prints ranks without colour; None colours them at a terminal. Colours of the program stay."""
        styled = colour is not False and sys.stdout.isatty()
        rank_words = _coloured_rank if styled else _plain_rank
        moves_cursor = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._shape: _Shape = _OneMember()
        if prefix:
            self._shape = _Redrawn(rank_words) if moves_cursor else _OneBelowTheOther(rank_words)

    def print(self, part: LogPart) -> None:
        """Write one piece of a log at once."""
        if out := self._shape.add(part.rank, part.text):
            write_as_is(out)

    def make_room(self) -> None:
        """Prepare stdout for a message of `kaji` itself."""
        if out := self._shape.make_room():
            write_as_is(out)

    def end(self) -> None:
        """Finish the output."""
        if out := self._shape.end():
            write_as_is(out)


class LogDocuments:
    """Writes each line of a log to stdout as a document of JSON, in the shape `LogLine` of the Web API.

    The parts need timestamps. A very long line that the server sends in pieces is one document.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], bytes] = {}
        """Unfinished line by rank and attempt."""

    def print(self, part: LogPart) -> None:
        """Write the lines that this piece ends."""
        key = part.rank, part.attempt
        *lines, self._begun[key] = (self._begun.get(key, b"") + part.text).split(b"\n")
        for line in lines:
            self._write_line(key, line)

    def make_room(self) -> None:
        """Do nothing: messages of `kaji` itself are on stderr."""

    def end(self) -> None:
        """Write the unfinished lines."""
        for key, line in self._begun.items():
            if line:
                self._write_line(key, line)

    def _write_line(self, key: tuple[int, int], line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        time = found[0] if (found := _TIME.match(text)) else ""
        document = {"rank": key[0], "attempt": key[1], "time": time.rstrip(), "line": text[len(time) :]}
        echo_data(json_text(document) + "\n")


class _Shape(Protocol):
    """Turns pieces of logs into the bytes to write."""

    def add(self, rank: int, text: bytes) -> bytes: ...
    def make_room(self) -> bytes: ...
    def end(self) -> bytes: ...


class _OneMember:
    """One member's log, unchanged."""

    def __init__(self) -> None:
        self._is_open = False

    def add(self, rank: int, text: bytes) -> bytes:
        self._is_open = not text.endswith(b"\n")
        return text

    def make_room(self) -> bytes:
        """End the line at a terminal, where a message follows it. A file or a pipe gets the log alone."""
        if not self._is_open or not sys.stdout.isatty():
            return b""
        self._is_open = False
        return b"\n"

    end = make_room


class _OneBelowTheOther:
    """Logs of several members in a file or a pipe."""

    def __init__(self, rank_words: Callable[[int], str]) -> None:
        self._rank_words = rank_words
        self._open: int | None = None
        """Rank of the member with the unfinished line."""
        self._returned = False
        """Whether a carriage return has to be written before the rest of that line."""

    def add(self, rank: int, text: bytes) -> bytes:
        before = self.end() if self._open != rank else b""
        prefix = f"{self._rank_words(rank)} ".encode()
        if b"\r" not in text and not self._returned:
            begin = prefix if self._open is None else b""
            self._open = None if text.endswith(b"\n") else rank
            end = b"\n" if self._open is None else b""
            return before + begin + text.removesuffix(b"\n").replace(b"\n", b"\n" + prefix) + end
        lines = text.split(b"\n")
        rest = lines.pop()
        whole = [self._with_rank_after_returns(rank, prefix, line) + self.end(or_empty=prefix) for line in lines]
        return before + b"".join(whole) + self._with_rank_after_returns(rank, prefix, rest)

    def _with_rank_after_returns(self, rank: int, prefix: bytes, content: bytes) -> bytes:
        """Return `content` with the rank after each carriage return, because the line is drawn over its old rank."""
        out = b""
        for number, drawing in enumerate(content.split(b"\r")):
            self._returned = self._returned or number > 0
            if drawing:
                if self._open is None:
                    out += prefix
                elif self._returned:
                    out += b"\r" + prefix
                out += drawing
                self._open, self._returned = rank, False
        return out

    def end(self, or_empty: bytes | None = None) -> bytes:
        """Return the end of the unfinished line; without one, `or_empty` as a line of its own, or nothing."""
        was_open, self._open, self._returned = self._open is not None, None, False
        return b"\n" if was_open else b"" if or_empty is None else or_empty + b"\n"

    def make_room(self) -> bytes:
        return self.end()


class _Redrawn:
    """Logs of several members at a terminal: unfinished lines are drawn again below all others."""

    def __init__(self, rank_words: Callable[[int], str]) -> None:
        self._rank_words = rank_words
        self._open: dict[int, bytes] = {}
        """The unfinished line of each member, as it was drawn last, with the carriage return that followed it."""
        self._rows = 0
        """Number of unfinished lines on the screen."""

    def add(self, rank: int, text: bytes) -> bytes:
        prefix = f"{self._rank_words(rank)} ".encode()
        lines = text.split(b"\n")
        rest = lines.pop()
        whole = b"".join(
            prefix + _last_drawing(self._open.pop(rank, b"") + line).rstrip(b"\r") + b"\n" for line in lines
        )
        if rest:
            self._open[rank] = _last_drawing(self._open.get(rank, b"") + rest)
        return self.make_room() + whole + self._draw_rows()

    def make_room(self) -> bytes:
        rows, self._rows = self._rows, 0
        if not rows:
            return b""
        return f"\r{_UP.format(rows - 1) if rows > 1 else ''}{_CLEAR_BELOW}".encode()

    def end(self) -> bytes:
        drawn = self.make_room() + self._draw_rows()
        self._open.clear()
        return drawn + b"\n" if drawn else b""

    def _draw_rows(self) -> bytes:
        columns, most = shutil.get_terminal_size()
        shown = sorted(self._open.items())
        rows = [self._row_of(rank, text, columns) for rank, text in shown[: max(1, most - 2)]]
        if len(rows) < len(shown):
            rows[-1] = f"and {len(shown) - len(rows) + 1} more"
        self._rows = len(rows)
        return "\n".join(rows).encode(errors="replace")

    def _row_of(self, rank: int, text: bytes, columns: int) -> str:
        room = columns - len(_plain_rank(rank)) - 2
        return f"{self._rank_words(rank)} {_cut_to_width(text.decode(errors='replace'), room)}"


def _last_drawing(line: bytes) -> bytes:
    """Return the visible part of a line with carriage returns, and the carriage return at its end, if it has one."""
    drawings = [drawing for drawing in line.split(b"\r") if drawing]
    return (drawings[-1] if drawings else b"") + (b"\r" if line.endswith(b"\r") else b"")


def _cut_to_width(text: str, room: int) -> str:
    """Return the beginning of `text` that takes at most `room` columns, with its colours."""
    shown, styled = "", False
    for number, part in enumerate(_COLOUR.split(text.rstrip("\r"))):
        if number % 2:
            shown, styled = shown + part, True
            continue
        words = one_line(_DRIVES_TERMINAL.sub("", part))
        fits = beginning(words, room)
        room = room - cells(fits) if fits == words else 0
        shown += fits
    return shown + _STYLE_OFF if styled else shown


def _plain_rank(rank: int) -> str:
    return f"[{rank}]"


def _coloured_rank(rank: int) -> str:
    return click.style(_plain_rank(rank), fg=_COLOURS[rank % len(_COLOURS)])
