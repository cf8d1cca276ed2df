"""The logs of several members as one, in the order of their lines' times.

Of what lies in the logs already, the order is exact. Of what is being written, a line waits for the other members'
lines only as long as those might still be on their way.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from kajitori.api.log_lines import Piece
from kajitori.api.log_source import MemberLog
from kajitori.api.tracking import RunTracker

WINDOW_SECONDS = 0.5
"""A member of which nothing came for so long is taken to be silent: the others' lines do not wait for it."""

AHEAD_BATCHES = 2
"""How much is read of each log before it is its turn."""

OUTPUT_LINES = 512


class RankedPiece(NamedTuple):
    rank: int
    attempt: int
    piece: Piece


class _Lane:
    """One member's log, read a little ahead."""

    def __init__(self, log: MemberLog, arrived: asyncio.Event, now: float) -> None:
        self.log = log
        self.ahead: asyncio.Queue[tuple[int, list[Piece]]] = asyncio.Queue(AHEAD_BATCHES)
        self.pieces: deque[RankedPiece] = deque()
        self.arrived_at = now
        self.done = False
        self.error: Exception | None = None
        self._arrived = arrived

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

    def refill(self) -> None:
        """Takes what was read ahead once everything before it was handed on."""
        if not self.pieces and not self.ahead.empty():
            attempt, pieces = self.ahead.get_nowait()
            self.pieces.extend(RankedPiece(self.log.rank, attempt, piece) for piece in pieces)

    @property
    def is_over(self) -> bool:
        return self.done and not self.pieces and self.ahead.empty()


async def merged(logs: Sequence[tuple[MemberLog, RunTracker]], *, follow: bool) -> AsyncGenerator[list[RankedPiece]]:
    """Lines of all logs, in batches. Raises what one of them raises, once what came before was handed on."""
    clock = asyncio.get_running_loop().time
    arrived = asyncio.Event()
    lanes = [_Lane(log, arrived, clock()) for log, _ in logs]
    pumps = [asyncio.create_task(lane.pump(tracker)) for lane, (_, tracker) in zip(lanes, logs, strict=True)]
    heads: list[tuple[str, int, _Lane]] = []
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


def _advance(lane: _Lane, heads: list[tuple[str, int, _Lane]]) -> bool:
    """Whether a lane lacks nothing any more: it has a head now, or is over. Raises its log's error at its end."""
    lane.refill()
    if lane.pieces:
        heapq.heappush(heads, (lane.pieces[0].piece.time, lane.log.rank, lane))
        return True
    if lane.is_over and lane.error is not None:
        raise lane.error
    return lane.is_over


def _take(heads: list[tuple[str, int, _Lane]], lacking: list[_Lane], *, wait_for_all: bool) -> list[RankedPiece]:
    """The earliest lines; with `wait_for_all` only up to where one log has to be read on."""
    taken: list[RankedPiece] = []
    while heads and len(taken) < OUTPUT_LINES:
        _, rank, lane = heads[0]
        taken.append(lane.pieces.popleft())
        lane.refill()
        if lane.pieces:
            heapq.heapreplace(heads, (lane.pieces[0].piece.time, rank, lane))
            continue
        heapq.heappop(heads)
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
