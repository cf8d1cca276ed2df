"""Windows of a log: some consecutive lines. At most a window is held in memory, however long the log is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

from kajitori.api.logs.lines import STAMP_BYTES, Position
from kajitori.api.logs.ranges.attempt_logs import AttemptLog, Blocks
from kajitori.errors import Unavailable

COUNTED_BYTES = 512 << 20
"""Most bytes that one request counts to find a line by its number."""


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
        """Return the lines of the next block."""
        lines = []
        for text in block.split(b"\n")[:-1]:
            time = text[:30]
            self._count = self._count + 1 if time == self._time else 1
            self._time = time
            lines.append(Line(time, self._count, text[STAMP_BYTES:]))
        return lines


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

    window = await _first_lines(blocks, limit, is_wanted)
    window.first = number if window.lines else None
    window.is_at_beginning = number == 1
    return window


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
    first_time, dropped = b"", False
    async with aclosing(blocks):
        async for block in blocks:
            lines = numbering.lines(block)
            first_time = first_time or lines[0].time
            is_past = until is not None and (lines[-1].time, lines[-1].nth) >= (until.time, until.count)
            if is_past and until is not None:
                lines = [line for line in lines if (line.time, line.nth) < (until.time, until.count)]
            held.extend(lines)
            while len(held) > limit:
                held.popleft()
                dropped = True
            if is_past:
                break
            await asyncio.sleep(0)
    return first_time, list(held), dropped


async def _first_lines(blocks: Blocks, limit: int, is_wanted: Callable[[Line], bool]) -> Window:
    """Return the first wanted lines. The window is at the end if the blocks have no others."""
    numbering = Numbering()
    wanted: list[Line] = []
    async with aclosing(blocks):
        async for block in blocks:
            for line in numbering.lines(block):
                if not is_wanted(line):
                    continue
                if len(wanted) == limit:
                    return Window(wanted)
                wanted.append(line)
            await asyncio.sleep(0)
    return Window(wanted, is_at_end=True)
