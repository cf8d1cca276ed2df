"""The logs of several members as one, in the order of their lines' times.

Of what lies in the logs already, the order is exact. Of what is being written, a line waits for the other members'
lines only as long as those might still be on their way.
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
"""A member of which nothing came for so long is taken to be silent: the others' lines do not wait for it."""

AHEAD_BATCHES = 2
"""How much is read of each log before it is its turn."""

OUTPUT_BYTES = 256 * 1024
OUTPUT_PARTS = 512

_AFTER_TIME = b"~"
"""Behind the blank that follows a line's time."""


class RankedBatch(NamedTuple):
    rank: int
    batch: Batch


class _Lane:
    """One member's log, read a little ahead."""

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
        """Reads the log as far as there is room for it."""
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
        """The time of what comes next, nothing (b"") for the rest of a line; None if nothing has arrived."""
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
        """What comes next, up to and with lines of that time, or all that has arrived in one piece."""
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
    """Lines of all logs, in batches. Raises what one of them raises, once what came before was handed on."""
    clock = asyncio.get_running_loop().time
    arrived = asyncio.Event()
    lanes = [_Lane(log, arrived, clock()) for log, _ in logs]
    pumps = [asyncio.create_task(lane.pump(tracker)) for lane, (_, tracker) in zip(lanes, logs, strict=True)]
    heads: list[tuple[bytes, int, _Lane]] = []
    lacking = list(lanes)
    try:
        while lacking or heads:
            arrived.clear()
            lacking = [lane for lane in lacking if not _advance(lane, heads)]
            quiet_at = [lane.arrived_at + WINDOW_SECONDS for lane in lacking]
            until = max(quiet_at, default=0.0)
            all_silent = follow and until <= clock()
            if heads and (not lacking or all_silent):
                yield _take(heads, lacking, wait_for_all=not all_silent)
            elif lacking:
                await _wait(arrived, until - clock() if heads and follow else None)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


def _advance(lane: _Lane, heads: list[tuple[bytes, int, _Lane]]) -> bool:
    """Whether a lane lacks nothing any more: it has a head now, or is over. Raises its log's error at its end."""
    head = lane.head
    if head is not None:
        heapq.heappush(heads, (head, lane.log.rank, lane))
        return True
    if lane.is_over and lane.error is not None:
        raise lane.error
    return lane.is_over


def _take(heads: list[tuple[bytes, int, _Lane]], lacking: list[_Lane], *, wait_for_all: bool) -> list[RankedBatch]:
    """The earliest lines; with `wait_for_all` only up to where one log has to be read on."""
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
            lacking.append(lane)
            if wait_for_all:
                break
    return taken


async def _wait(arrived: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds) if seconds is not None else None):
            await arrived.wait()
    except TimeoutError:
        pass
