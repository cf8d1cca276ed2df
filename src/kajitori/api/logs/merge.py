"""Merge the logs of several members in the order of their lines' times.

The order is exact for lines that are already in the logs. A line that is just being written waits for the other
members' lines only as long as those may still be under way.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from kajitori.api.logs.lines import Text
from kajitori.api.logs.request import BEGINNING, Batch
from kajitori.api.logs.source import MemberLog
from kajitori.api.runs.tracking import RunTracker

WINDOW_SECONDS = 0.05
"""Time without data after which a member counts as silent, and the others' lines do not wait for it."""

AHEAD_BATCHES = 2
"""Number of batches that are read ahead from each log."""

OUTPUT_BYTES = 256 * 1024
OUTPUT_PARTS = 512
"""Number of bytes and of batches after which merged lines are passed on."""

_AFTER_TIME = b"~"
"""A byte that sorts after the blank behind a line's time."""


class RankedBatch(NamedTuple):
    rank: int
    batch: Batch


class _Lane:
    """One member's log, with a small read-ahead buffer."""

    def __init__(self, log: MemberLog, arrived: asyncio.Event, now: float) -> None:
        self.log = log
        self.ahead: asyncio.Queue[Batch] = asyncio.Queue(AHEAD_BATCHES)
        self.arrived_at = now
        self.done = False
        self.error: Exception | None = None
        self._arrived = arrived
        self._batch: Batch | None = None
        self._lines: list[bytes] = []
        self._next = 0
        self._inside = False
        self._attempt, self._position = 0, BEGINNING

    async def pump(self, tracker: RunTracker) -> None:
        """Read the log into the buffer, waiting while it is full."""
        try:
            async for batch in self.log.batches(tracker):
                await self.ahead.put(batch)
                self.arrived_at = asyncio.get_running_loop().time()
                self._arrived.set()
        except Exception as error:
            self.error = error
        finally:
            self.done = True
            self._arrived.set()

    @property
    def head(self) -> bytes | None:
        """The time of the next line; empty (b"") if the rest of a line is next, None if nothing has arrived."""
        if self._batch is None and not self.ahead.empty():
            self._batch = self.ahead.get_nowait()
            if self._batch.attempt != self._attempt:
                self._attempt, self._position = self._batch.attempt, BEGINNING
            self._lines = [line + b"\n" for line in self._batch.part.text.split(b"\n")]
            if (end := self._lines.pop()[:-1]) or not self._lines:
                self._lines.append(end)
            self._next, self._inside = 0, self._batch.part.inside
        if self._batch is None:
            return None
        return b"" if self._inside else self._lines[self._next][:30]

    def take(self, until: bytes | None) -> Batch:
        """Return the next lines up to and including that time; all lines of the current batch if `until` is None."""
        batch, first = self._batch, self._next
        assert batch is not None
        if until is None:
            self._next = len(self._lines)
        else:
            self._next = max(first + 1, bisect_left(self._lines, until + _AFTER_TIME, first + self._inside))
        part = Text(b"".join(self._lines[first : self._next]), self._inside, batch.part.stamped)
        self._inside = False
        if self._next == len(self._lines):
            self._batch, self._position = None, batch.position
        elif not batch.is_notice:
            self._position = self._position.after(part)
        return batch._replace(part=part, position=self._position)

    @property
    def is_over(self) -> bool:
        return self.done and self._batch is None and self.ahead.empty()


async def merged(logs: Sequence[tuple[MemberLog, RunTracker]], *, follow: bool) -> AsyncGenerator[list[RankedBatch]]:
    """Yield the lines of all logs in batches. An error of one log is raised after the lines before it."""
    clock = asyncio.get_running_loop().time
    arrived = asyncio.Event()
    lanes = [_Lane(log, arrived, clock()) for log, _ in logs]
    pumps = [asyncio.create_task(lane.pump(tracker)) for lane, (_, tracker) in zip(lanes, logs, strict=True)]
    heads: list[tuple[bytes, int, _Lane]] = []
    waiting = list(lanes)
    try:
        while waiting or heads:
            arrived.clear()
            waiting = [lane for lane in waiting if not _advance(lane, heads)]
            silent_at = [lane.arrived_at + WINDOW_SECONDS for lane in waiting]
            until = max(silent_at, default=0.0)
            all_silent = follow and until <= clock()
            if heads and (not waiting or all_silent):
                yield _take(heads, waiting, wait_for_all=not all_silent)
            elif waiting:
                await _wait(arrived, until - clock() if heads and follow else None)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


def _advance(lane: _Lane, heads: list[tuple[bytes, int, _Lane]]) -> bool:
    """Push a lane's next line on the heap. Return whether the lane has one or is over, so that it need not be awaited.

    Raises the error of the lane's log at the end of the lane.
    """
    head = lane.head
    if head is not None:
        heapq.heappush(heads, (head, lane.log.rank, lane))
        return True
    if lane.is_over and lane.error is not None:
        raise lane.error
    return lane.is_over


def _take(heads: list[tuple[bytes, int, _Lane]], waiting: list[_Lane], *, wait_for_all: bool) -> list[RankedBatch]:
    """Return the earliest lines; with `wait_for_all` only until a log has no buffered line."""
    taken: list[RankedBatch] = []
    size = 0
    while heads and size < OUTPUT_BYTES and len(taken) < OUTPUT_PARTS:
        _, rank, lane = heapq.heappop(heads)
        batch = lane.take(heads[0][0] if heads else None)
        taken.append(RankedBatch(rank, batch))
        size += len(batch.part.text)
        head = lane.head
        if head is not None:
            heapq.heappush(heads, (head, rank, lane))
            continue
        if not lane.is_over or lane.error is not None:
            waiting.append(lane)
            if wait_for_all:
                break
    return taken


async def _wait(arrived: asyncio.Event, seconds: float | None) -> None:
    """Wait until data has arrived, for at most this time; None: without a limit."""
    try:
        async with asyncio.timeout(max(0.0, seconds) if seconds is not None else None):
            await arrived.wait()
    except TimeoutError:
        pass
