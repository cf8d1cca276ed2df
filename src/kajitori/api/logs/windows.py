"""Windows of a log, and the search in it. Both hold a window at most, however long the log is."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

from kajitori.api.logs.expressions import Expression
from kajitori.api.logs.lines import STAMP_BYTES, Position, Text
from kajitori.api.logs.ranges import AttemptLog, Blocks
from kajitori.errors import Unavailable

COUNTED_BYTES = 512 << 20
"""Most bytes that one request counts to find a line by its number."""
SEARCHED_BYTES = 128 << 20
"""Most bytes that one request searches; the client goes on with another."""
SEARCHED_SECONDS = 10.0
"""Longest time for which one request looks for an expression; the client goes on with another."""
PIECE_BYTES = 1 << 20
"""Bytes that are searched at once."""
TOLD_BYTES = 16 << 20
"""A search reports its progress each time it has searched this many bytes."""


class Line(NamedTuple):
    """A line, and its number among consecutive lines with its time, from 1."""

    time: bytes
    nth: int
    text: bytes

    @property
    def position(self) -> Position:
        return Position(self.time, self.nth)


@dataclass(slots=True)
class Window:
    """Consecutive lines of a log."""

    lines: list[Line]
    is_at_beginning: bool = False
    is_at_end: bool = False
    first: int | None = None
    """Number of the first line, from 1, if it is known."""


class Numbering:
    """Splits blocks into lines, and counts consecutive lines with the same time."""

    def __init__(self) -> None:
        self._time = b""
        self._count = 0

    def lines(self, block: bytes) -> list[Line]:
        found = []
        for text in block.split(b"\n")[:-1]:
            time = text[:30]
            self._count = self._count + 1 if time == self._time else 1
            self._time = time
            found.append(Line(time, self._count, text[STAMP_BYTES:]))
        return found


async def last_window(log: AttemptLog, limit: int) -> Window:
    """Return the last lines of a log."""
    held, whole = await _last_lines(log, log.last(limit + 1), limit)
    return Window(held, is_at_beginning=whole, is_at_end=True)


async def window_before(log: AttemptLog, position: Position, limit: int) -> Window:
    """Return the last lines before a position."""
    held, whole = await _last_lines(log, log.before(position.time, limit + 1), limit, until=position)
    return Window(held, is_at_beginning=whole)


async def window_after(log: AttemptLog, position: Position, limit: int, *, inclusive: bool = False) -> Window:
    """Return the first lines after a position, or from it on."""

    def is_wanted(line: Line) -> bool:
        here, there = (line.time, line.nth), (position.time, position.count)
        return here >= there if inclusive else here > there

    return await _first_lines(log.since(position.time), limit, is_wanted)


async def window_since(log: AttemptLog, time: bytes, limit: int) -> Window:
    """Return the first lines of this time or later."""
    return await _first_lines(log.since(time), limit, lambda line: line.time >= time)


async def window_around(log: AttemptLog, position: Position, limit: int) -> Window:
    """Return the lines around a position, with its own line in the middle."""
    before = await window_before(log, position, limit // 2)
    after = await window_after(log, position, limit - len(before.lines), inclusive=True)
    return Window(before.lines + after.lines, before.is_at_beginning, after.is_at_end)


async def window_at_line(log: AttemptLog, number: int, limit: int) -> Window:
    """Return the lines from this number on, counted from 1.

    Raises Unavailable if the log is so long that its lines have to be counted by further requests.
    """
    index = await log.index()
    if index.lines < number and not index.is_whole:
        counted = 0
        async with aclosing(log.counted(index)) as blocks:
            async for block in blocks:
                counted += len(block)
                if index.lines >= number + limit or counted > COUNTED_BYTES:
                    break
                await asyncio.sleep(0)
        await log.keep_index(index)
        if index.lines < number and counted > COUNTED_BYTES:
            message = f"{index.lines:,} lines of this log are counted so far, fewer than {number:,}"
            raise Unavailable(message, hint="ask again to go on counting")
    place, blocks = log.from_entry(index, number - 1)
    to_skip = number - 1 - place

    def is_wanted(line: Line) -> bool:
        nonlocal to_skip
        to_skip -= 1
        return to_skip < 0

    found = await _first_lines(blocks, limit, is_wanted)
    found.first = number if found.lines else None
    found.is_at_beginning = number == 1
    return found


async def _last_lines(
    log: AttemptLog, blocks: Blocks, limit: int, *, until: Position | None = None
) -> tuple[list[Line], bool]:
    """Return the last lines before a position, and whether no line is before them.

    Many lines may have the same time. If the blocks begin among them, their numbers are wrong; then the log is read
    from the first of them on.
    """
    first, held, dropped = await _last_of(blocks, limit, until)
    if dropped and held and held[0].time == first:
        _, held, _ = await _last_of(log.since(first), limit, until)
    return held, not dropped


async def _last_of(blocks: Blocks, limit: int, until: Position | None) -> tuple[bytes, list[Line], bool]:
    """Return the time of the first line of all, the last lines before a position, and whether lines are before them."""
    numbering = Numbering()
    held: deque[Line] = deque()
    first, dropped = b"", False
    async with aclosing(blocks):
        async for block in blocks:
            lines = numbering.lines(block)
            first = first or lines[0].time
            over = until is not None and (lines[-1].time, lines[-1].nth) >= (until.time, until.count)
            if over and until is not None:
                lines = [line for line in lines if (line.time, line.nth) < (until.time, until.count)]
            held.extend(lines)
            while len(held) > limit:
                held.popleft()
                dropped = True
            if over:
                break
            await asyncio.sleep(0)
    return first, list(held), dropped


async def _first_lines(blocks: Blocks, limit: int, is_wanted: Callable[[Line], bool]) -> Window:
    numbering = Numbering()
    found: list[Line] = []
    async with aclosing(blocks):
        async for block in blocks:
            for line in numbering.lines(block):
                if not is_wanted(line):
                    continue
                if len(found) == limit:
                    return Window(found)
                found.append(line)
            await asyncio.sleep(0)
    return Window(found, is_at_end=True)


# ------------------------------------------------------------------------------------------ search


@dataclass(frozen=True, slots=True)
class Query:
    """The conditions of a search."""

    text: bytes
    """Every line that contains it is found; empty: every line."""
    expression: Expression | None = None
    """Every line that it matches is found, whatever the text."""
    ignores_case: bool = False
    """Whether upper and lower case of ASCII letters are the same."""
    since: bytes = b""
    until: bytes = b""
    """Only lines of these times, the second excluded; empty: no bound."""
    after: Position | None = None
    """Only lines after this one."""
    limit: int = 1000
    """Number of lines that are returned; more are only counted."""


@dataclass(slots=True)
class Found:
    """Matches in one part of a log, and the progress of the search."""

    lines: list[tuple[Line, int | None]]
    """The lines, with their numbers from 1 if they are known."""
    matches: int
    searched_bytes: int
    is_over: bool = False
    next: Position | None = None
    """Position from which a further search continues, if this one ended before the end of the log."""


async def search(log: AttemptLog, query: Query) -> AsyncGenerator[Found]:
    """Yield the matches part by part. The last part has `is_over`."""
    begin = query.after.time if query.after is not None else query.since
    searching = _Search(query, is_numbered=not begin)
    told = searched = 0
    following = None
    began = time.monotonic()
    async with aclosing(_pieces(log.since(begin))) as blocks:
        async for block in blocks:
            if query.expression is None:
                lines = searching.feed(block)
            else:  # RE2 does not hold the interpreter while it looks
                lines = await asyncio.to_thread(searching.feed, block)
            searched += len(block)
            if lines or searched - told > TOLD_BYTES:
                told = searched
                yield Found(lines, searching.matches, searched)
            if query.until and block[block.rfind(b"\n", 0, -1) + 1 :][:30] >= query.until:
                break
            is_late = query.expression is not None and time.monotonic() - began > SEARCHED_SECONDS
            if searched > SEARCHED_BYTES or (is_late and searching.is_beyond(query.after)):
                following = searching.place
                break
            await asyncio.sleep(0)
    yield Found([], searching.matches, searched, is_over=True, next=following)


async def _pieces(blocks: Blocks) -> Blocks:
    """Yield blocks in pieces of whole lines, each of about `PIECE_BYTES`."""
    async with aclosing(blocks):
        async for block in blocks:
            start = 0
            while len(block) - start > PIECE_BYTES:
                end = block.find(b"\n", start + PIECE_BYTES - 1) + 1
                yield block[start:end]
                start = end
            if start < len(block):
                yield block[start:]


class _Search:
    """Finds lines in the blocks of a log, in their order."""

    def __init__(self, query: Query, *, is_numbered: bool) -> None:
        self.matches = 0
        self.place = Position()
        """Position of the last line that was passed."""
        self._query = query
        self._needle = query.text.lower() if query.ignores_case else query.text
        self._left = query.limit
        self._number = 0 if is_numbered else None
        self._done = 0
        """Bytes of the present block up to `place`."""

    def feed(self, block: bytes) -> list[tuple[Line, int | None]]:
        """Return the lines of this block that were found."""
        found: list[tuple[Line, int | None]] = []
        self._done = 0
        for start, end in self._matches(block):
            if not self._is_wanted(block, start, end):
                continue
            self.matches += 1
            if self._left > 0:
                self._left -= 1
                self._pass(block, end + 1)
                found.append((Line(self.place.time, self.place.count, block[start + STAMP_BYTES : end]), self._number))
        self._pass(block, len(block))
        return found

    def is_beyond(self, position: Position | None) -> bool:
        """Whether lines after this one were passed, so that another request begins later than this one."""
        return position is None or (self.place.time, self.place.count) > (position.time, position.count)

    def _matches(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each line that contains the text behind its stamp, or that the expression matches."""
        if self._query.expression is not None:
            yield from self._query.expression.lines(block)
            return
        text = block.lower() if self._query.ignores_case else block
        at = 0
        while (place := text.find(self._needle, at)) >= 0:
            start, end = block.rfind(b"\n", 0, place) + 1, block.find(b"\n", place)
            if end < 0:
                return
            if place - start >= STAMP_BYTES or text.find(self._needle, start + STAMP_BYTES, end) >= 0:
                yield start, end
            at = end + 1

    def _is_wanted(self, block: bytes, start: int, end: int) -> bool:
        time, query = block[start : start + 30], self._query
        if time < query.since or (query.until and time >= query.until):
            return False
        if query.after is None or time > query.after.time:
            return True
        if time < query.after.time:
            return False
        self._pass(block, end + 1)
        return self.place.count > query.after.count

    def _pass(self, block: bytes, until: int) -> None:
        """Note that the block was searched up to this byte."""
        part, self._done = block[self._done : until], until
        self.place = self.place.after(Text(part))
        if self._number is not None:
            self._number += part.count(b"\n")
