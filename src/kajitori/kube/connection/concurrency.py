"""Limits the number of requests in flight at an API server to what it handles without getting slower.

A congestion window as in TCP: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the increase and
decrease algorithms for congestion avoidance", 1989). Signs of congestion are 429 and, as in TCP Vegas (Brakmo and
Peterson, 1995), a latency clearly above the lowest recent one. With `floor` as the latency of an idle server, `window ·
(1 - floor / latency)` of our requests wait in a queue there instead of being worked on. Netflix's concurrency-limits
uses the same signal.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType

_precedence: ContextVar[float] = ContextVar("precedence", default=-math.inf)


@contextmanager
def preceding(precedence: float) -> Iterator[None]:
    """Give requests that are made inside this context a precedence. If requests have to wait, a higher precedence goes
    first; requests outside of any such context have the lowest one."""
    token = _precedence.set(precedence)
    try:
        yield
    finally:
        _precedence.reset(token)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds and parameters of a window. Times are in seconds."""

    initial: int = 32
    min_size: int = 1
    min_when_slow: int = 16
    """Lower bound if the server is slow but does not refuse: other clients may be the cause, and this number of
    requests does no harm."""
    max_size: int = 256
    latency_factor: float = 3.0
    """Latency above this multiple of its floor, plus the slack, is congestion."""
    latency_slack_seconds: float = 0.1
    """A server within this distance of its floor is not congested, whatever the ratio."""
    floor_seconds: float = 30.0
    """The floor is the lowest latency of the last one to two periods of this length, so it can also rise."""
    longest_pause_seconds: float = 30.0
    """Longest pause that one answer of a server can cause."""
    smoothing: float = 0.1
    """Weight of the newest latency in the moving average that is judged."""


@dataclass(slots=True)
class _Latency:
    """The average latency of one kind of request, and the lowest one in this period and in the previous period."""

    average: float
    lowest: float
    lowest_before: float
    period_began: float

    @property
    def floor(self) -> float:
        return min(self.lowest, self.lowest_before)


class Window:
    """The state machine of the limiter. Pure: every method takes the time in seconds, by any monotonic clock."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._size = float(self.limits.initial)
        self._halved_at = -math.inf
        self._latencies: dict[str, _Latency] = {}
        self.paused_until = -math.inf
        """No request begins before this time, because the server asked for a pause."""

    @property
    def size(self) -> int:
        """The number of requests that may be in flight."""
        return int(self._size)

    def answered(self, *, kind: str, began: float, now: float, in_flight: int) -> None:
        """Record that a request of this kind succeeded. With an empty kind its latency is ignored.

        `in_flight` is the number of requests in flight, including this one. A window that is not used up does not grow.
        """
        if kind and self._is_slow(kind, now - began, now):
            self._halve(began, now, self.limits.min_when_slow)
        elif in_flight >= self.size:
            self._size = min(self._size + 1 / self._size, float(self.limits.max_size))

    def throttled(self, *, began: float, now: float, retry_after_seconds: float = 0.0) -> None:
        """Record an answer 429, or 503 with a time after which to retry."""
        self._halve(began, now, self.limits.min_size)
        self.paused_until = max(self.paused_until, now + min(retry_after_seconds, self.limits.longest_pause_seconds))

    def _halve(self, began: float, now: float, min_size: int) -> None:
        if began < self._halved_at:
            return  # sent before the last halving, so it shows the same congestion
        self._size = max(self._size / 2, min(self._size, float(min_size)))
        self._halved_at = now
        for latency in self._latencies.values():
            latency.average = latency.floor

    def _is_slow(self, kind: str, seconds: float, now: float) -> bool:
        limits = self.limits
        latency = self._latencies.get(kind)
        if latency is None:
            self._latencies[kind] = _Latency(seconds, seconds, seconds, now)
            return False
        if now - latency.period_began > limits.floor_seconds:
            latency.lowest_before, latency.lowest, latency.period_began = latency.lowest, seconds, now
        latency.lowest = min(latency.lowest, seconds)
        latency.average += limits.smoothing * (seconds - latency.average)
        return latency.average > limits.latency_factor * latency.floor + limits.latency_slack_seconds


@dataclass(slots=True)
class ConcurrencyLimiter:
    """Lets requests begin, at most as many at a time as the window allows.

    Every other turn goes to the request that has waited longest, so that none starves. The turns between go to the
    highest precedence, and among equals to the one that has waited longest.
    """

    window: Window = field(default_factory=Window)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    in_flight: int = 0
    _waiting: dict[float, OrderedDict[int, asyncio.Future[None]]] = field(default_factory=dict)
    """Waiting requests by precedence, numbered in the order of their arrival. Empty precedences are removed."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _longest_is_next: bool = True

    def slot(self, kind: str = "") -> Slot:
        """Return a place for one request of this kind: an async context manager that is told the answer's status."""
        return Slot(self, kind)

    @property
    def is_full(self) -> bool:
        """Whether requests wait for others to end."""
        return bool(self._waiting)

    async def acquire(self) -> None:
        """Wait until one more request may begin, and count it."""
        if self._waiting or self.in_flight >= self.window.size:
            await self._wait_for_turn()
        else:
            self.in_flight += 1
        try:
            while (pause := self.window.paused_until - self.clock()) > 0:
                await self.sleep(pause)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Record that a request is over; the next one may begin."""
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.window.size:
            is_longest_turn, self._longest_is_next = self._longest_is_next, not self._longest_is_next
            precedence = min(self._waiting, key=self._first_of) if is_longest_turn else max(self._waiting)
            turn = self._leave(precedence, self._first_of(precedence))
            self.in_flight += 1
            if turn is not None and not turn.done():
                turn.set_result(None)

    async def _wait_for_turn(self) -> None:
        """Wait for a turn. `release` counts the request when it gives the turn."""
        precedence, number, turn = _precedence.get(), next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting.setdefault(precedence, OrderedDict())[number] = turn
        try:
            await turn
        except asyncio.CancelledError:
            if self._leave(precedence, number) is None:  # the turn had been given
                self.release()
            raise

    def _first_of(self, precedence: float) -> int:
        """Return the number of the request that has waited longest with this precedence."""
        return next(iter(self._waiting[precedence]))

    def _leave(self, precedence: float, number: int) -> asyncio.Future[None] | None:
        """Stop waiting. Returns the request's future; None if it was not waiting."""
        equals = self._waiting.get(precedence)
        if equals is None:
            return None
        turn = equals.pop(number, None)
        if not equals:
            del self._waiting[precedence]
        return turn


class Slot:
    """One request's place in a limiter. If the request gets no answer, the window does not change."""

    __slots__ = ("_began", "_kind", "_limiter")

    def __init__(self, limiter: ConcurrencyLimiter, kind: str) -> None:
        self._limiter = limiter
        self._kind = kind
        self._began = 0.0

    async def __aenter__(self) -> Slot:
        await self._limiter.acquire()
        self._began = self._limiter.clock()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release()

    def answered(self, status: int, retry_after_seconds: float | None = None) -> None:
        """Record the HTTP status of the answer to this request."""
        limiter, now = self._limiter, self._limiter.clock()
        if status == 429 or (status == 503 and retry_after_seconds is not None):
            limiter.window.throttled(began=self._began, now=now, retry_after_seconds=retry_after_seconds or 0.0)
        elif status < 500:
            limiter.window.answered(kind=self._kind, began=self._began, now=now, in_flight=limiter.in_flight)
