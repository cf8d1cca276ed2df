"""Search the log of one rank in one attempt, in pieces: at most a piece of the log is held in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from kajitori.api.logs.lines import STAMP_BYTES, Position, Text
from kajitori.api.logs.ranges.attempt_logs import AttemptLog, Blocks
from kajitori.api.logs.ranges.expressions import Expression
from kajitori.api.logs.ranges.windows import Line

SEARCHED_BYTES = 128 << 20
"""Most bytes that one request searches; the client goes on with another."""
SEARCHED_SECONDS = 10.0
"""Longest time for which one request looks for an expression; the client goes on with another."""
PIECE_BYTES = 1 << 20
"""Bytes that are searched at once."""
PROGRESS_BYTES = 16 << 20
"""A search reports its progress each time it has searched this many bytes."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """The conditions of a search."""

    text: bytes
    """Lines that contain this text match; empty: every line."""
    expression: Expression | None = None
    """Instead of the text: lines that this expression matches."""
    ignores_case: bool = False
    """Whether upper and lower case are the same; of a text, those of ASCII letters."""
    since: bytes = b""
    """Only lines of this time or later; empty: no bound."""
    until: bytes = b""
    """Only lines before this time; empty: no bound."""
    after: Position | None = None
    """Only lines after this one."""
    limit: int = 1000
    """Number of lines that are returned; more are only counted."""


@dataclass(slots=True)
class SearchPart:
    """Matches in one part of a log, and the progress of the search."""

    lines: list[tuple[Line, int | None]]
    """The lines, with their numbers from 1 if they are known."""
    matches: int
    searched_bytes: int
    is_over: bool = False
    next: Position | None = None
    """Position from which a further search continues, if this one ended before the end of the log."""


async def search(log: AttemptLog, query: SearchQuery) -> AsyncGenerator[SearchPart]:
    """Yield the matches part by part. The last part has `is_over`."""
    begin = query.after.time if query.after is not None else query.since
    finder = _LineFinder(query, is_numbered=not begin)
    reported = searched = 0
    next_position = None
    began_at = time.monotonic()
    async with aclosing(_pieces(log.since(begin))) as blocks:
        async for block in blocks:
            if query.expression is None:
                lines = finder.feed(block)
            else:  # RE2 does not hold the interpreter while it looks
                lines = await asyncio.to_thread(finder.feed, block)
            searched += len(block)
            if lines or searched - reported > PROGRESS_BYTES:
                reported = searched
                yield SearchPart(lines, finder.matches, searched)
            if query.until and block[block.rfind(b"\n", 0, -1) + 1 :][:30] >= query.until:
                break
            is_late = query.expression is not None and time.monotonic() - began_at > SEARCHED_SECONDS
            if searched > SEARCHED_BYTES or (is_late and finder.is_beyond(query.after)):
                next_position = finder.place
                break
            await asyncio.sleep(0)
    yield SearchPart([], finder.matches, searched, is_over=True, next=next_position)


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


class _LineFinder:
    """Finds lines in the blocks of a log, in their order."""

    def __init__(self, query: SearchQuery, *, is_numbered: bool) -> None:
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
        """Return the matching lines of the next block, with their numbers from 1 if they are known."""
        matching: list[tuple[Line, int | None]] = []
        self._done = 0
        for start, end in self._matches(block):
            if not self._is_wanted(block, start, end):
                continue
            self.matches += 1
            if self._left > 0:
                self._left -= 1
                self._pass(block, end + 1)
                matching.append(
                    (Line(self.place.time, self.place.count, block[start + STAMP_BYTES : end]), self._number)
                )
        self._pass(block, len(block))
        return matching

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
        """Whether a line is in the requested time, and after the position where the search begins."""
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
