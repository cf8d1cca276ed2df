"""How many requests we have in flight at an API server: as many as it takes without getting slower.

A congestion window as TCP has it: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the increase
and decrease algorithms for congestion avoidance", 1989). Signs of congestion are 429 and, as in TCP Vegas (Brakmo and
Peterson, 1995), a latency clearly above the lowest one seen lately: with `floor` the latency of a server that has
nothing else to do, `window · (1 - floor / latency)` of our requests wait in a queue there instead of being worked on.
Netflix's concurrency-limits uses the same signal.
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
    """Requests that are made herein go before those of lower precedence where they have to wait for their turn; before
    all that are made elsewhere, which have none."""
    token = _precedence.set(precedence)
    try:
        yield
    finally:
        _precedence.reset(token)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds and tempers of a window. Times are in seconds."""

    initial: int = 32
    least: int = 1
    least_when_slow: int = 16
    """A slow server alone takes us no lower: it may be others who make it slow, and so few requests hurt nobody."""
    most: int = 256
    latency_factor: float = 3.0
    """Latency over this many times its floor, plus the slack, is congestion."""
    latency_slack_seconds: float = 0.1
    """A server that answers within this over its floor is not in distress, whatever the ratio."""
    floor_seconds: float = 30.0
    """The floor is the lowest latency of the last one to two periods of this length, so that it can rise, too."""
    longest_pause_seconds: float = 30.0
    """No server holds us back for longer by one answer, whatever it wishes."""
    smoothing: float = 0.1
    """Weight of the newest latency in the moving average that is judged."""


@dataclass(slots=True)
class _Latency:
    """The average latency of one kind of request, and its lowest in this and in the period before."""

    average: float
    lowest: float
    lowest_before: float
    period_began: float

    @property
    def floor(self) -> float:
        return min(self.lowest, self.lowest_before)


class Window:
    """The state machine; pure: every method takes the time in seconds on any clock that does not go back."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._size = float(self.limits.initial)
        self._halved_at = -math.inf
        self._latencies: dict[str, _Latency] = {}
        self.paused_until = -math.inf
        """No request begins before this time: the server asked for it."""

    @property
    def size(self) -> int:
        """How many requests may be in flight."""
        return int(self._size)

    def answered(self, *, kind: str, began: float, now: float, in_flight: int) -> None:
        """A request of this kind was answered without complaint. An empty kind says that its latency means nothing.

        in_flight: how many requests were in flight, this one included; a window that is not used does not grow.
        """
        if kind and self._is_slow(kind, now - began, now):
            self._halve(began, now, self.limits.least_when_slow)
        elif in_flight >= self.size:
            self._size = min(self._size + 1 / self._size, float(self.limits.most))

    def throttled(self, *, began: float, now: float, retry_after_seconds: float = 0.0) -> None:
        """A request was answered 429, or 503 with the wish to come back later."""
        self._halve(began, now, self.limits.least)
        self.paused_until = max(self.paused_until, now + min(retry_after_seconds, self.limits.longest_pause_seconds))

    def _halve(self, began: float, now: float, least: int) -> None:
        if began < self._halved_at:
            return  # sent before the last halving: it tells of the same congestion
        self._size = max(self._size / 2, min(self._size, float(least)))
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
    """Lets requests begin, no more at a time than the window allows. Every other turn is for who has waited longest, so
    that everybody has one; those between are for the highest precedence, among equals for who has waited longest."""

    window: Window = field(default_factory=Window)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    in_flight: int = 0
    _waiting: dict[float, OrderedDict[int, asyncio.Future[None]]] = field(default_factory=dict)
    """Who waits for his turn, by precedence; numbered as they came. Nothing of what nobody waits with."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _longest_is_next: bool = True

    def slot(self, kind: str = "") -> Slot:
        """A place for one request of this kind: an async context manager that is told how it was answered."""
        return Slot(self, kind)

    @property
    def is_full(self) -> bool:
        """Whether requests wait for others to end."""
        return bool(self._waiting)

    async def acquire(self) -> None:
        """Waits until one more request may begin, and counts it."""
        if self._waiting or self.in_flight >= self.window.size:
            await self._turn()
        else:
            self.in_flight += 1
        try:
            while (pause := self.window.paused_until - self.clock()) > 0:
                await self.sleep(pause)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """A request is over; the next may begin."""
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.window.size:
            by_age, self._longest_is_next = self._longest_is_next, not self._longest_is_next
            precedence = min(self._waiting, key=self._first_of) if by_age else max(self._waiting)
            turn = self._leave(precedence, self._first_of(precedence))
            self.in_flight += 1
            if turn is not None and not turn.done():
                turn.set_result(None)

    async def _turn(self) -> None:
        """Waits for a turn; whoever gives it counts the request."""
        precedence, number, turn = _precedence.get(), next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting.setdefault(precedence, OrderedDict())[number] = turn
        try:
            await turn
        except asyncio.CancelledError:
            if self._leave(precedence, number) is None:  # it had been given
                self.release()
            raise

    def _first_of(self, precedence: float) -> int:
        """Who has waited longest with this precedence."""
        return next(iter(self._waiting[precedence]))

    def _leave(self, precedence: float, number: int) -> asyncio.Future[None] | None:
        """This one waits no more; None where he did not."""
        equals = self._waiting.get(precedence)
        if equals is None:
            return None
        turn = equals.pop(number, None)
        if not equals:
            del self._waiting[precedence]
        return turn


class Slot:
    """One request's place in a limiter. What is not answered says nothing about the server."""

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
        """The server answered this request with this HTTP status."""
        limiter, now = self._limiter, self._limiter.clock()
        if status == 429 or (status == 503 and retry_after_seconds is not None):
            limiter.window.throttled(began=self._began, now=now, retry_after_seconds=retry_after_seconds or 0.0)
        elif status < 500:
            limiter.window.answered(kind=self._kind, began=self._began, now=now, in_flight=limiter.in_flight)
