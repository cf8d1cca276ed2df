"""The window of requests grows while the server keeps up, and is halved when it is overloaded."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.kube.connection.concurrency import ConcurrencyLimiter, Limits, Window, preceding


def test_a_full_window_grows_by_one_per_round() -> None:
    """Additive increase: as many answers as the window is wide make it one wider."""
    window = Window(Limits(initial=10))
    for _ in range(11):
        window.answered(kind="", began=0, now=1, in_flight=10)
    assert window.size == 11


def test_a_window_that_is_not_used_does_not_grow() -> None:
    """An unused window says nothing about the server's capacity."""
    window = Window(Limits(initial=10))
    for _ in range(1000):
        window.answered(kind="", began=0, now=1, in_flight=9)
    assert window.size == 10


def test_429_halves_the_window_once_per_round() -> None:
    """Answers to requests sent before the halving show the same congestion, later ones a new one."""
    window = Window(Limits(initial=64))
    for _ in range(20):
        window.throttled(began=0.0, now=1.0)
    assert window.size == 32
    window.throttled(began=1.5, now=2.0)
    assert window.size == 16


def test_retry_after_pauses_all_requests() -> None:
    """The longest requested pause counts."""
    window = Window()
    window.throttled(began=0, now=10, retry_after_seconds=5)
    window.throttled(began=0, now=11, retry_after_seconds=1)
    assert window.paused_until == 15


def test_retry_after_is_limited() -> None:
    """One answer cannot silence the client for an hour."""
    window = Window(Limits(longest_pause_seconds=30))
    window.throttled(began=0, now=10, retry_after_seconds=3600)
    assert window.paused_until == 40


def feed(window: Window, latency_seconds: float, answers: int, began: float) -> float:
    """Feed a full window's answers one after the other, each with this latency; return the time afterwards."""
    for _ in range(answers):
        window.answered(kind="get", began=began, now=began + latency_seconds, in_flight=window.size)
        began += latency_seconds / 8
    return began


def test_rising_latency_halves_the_window() -> None:
    """Clearly over the floor, for longer than a moment, is congestion."""
    window = Window(Limits(initial=64))
    now = feed(window, 0.010, 50, 0.0)
    before = window.size
    feed(window, 1.0, 5, now)
    assert window.size <= before // 2


def test_a_single_slow_answer_is_no_congestion() -> None:
    """The moving average tolerates one slow answer."""
    window = Window(Limits(initial=64))
    now = feed(window, 0.010, 50, 0.0)
    before = window.size
    feed(window, 0.6, 1, now)
    assert window.size >= before


def test_small_changes_of_a_low_latency_are_no_congestion() -> None:
    """From five to fifty milliseconds is no congestion."""
    window = Window(Limits(initial=64))
    now = feed(window, 0.005, 50, 0.0)
    feed(window, 0.050, 200, now)
    assert window.size >= 64


def test_a_permanently_slower_server_becomes_the_new_floor() -> None:
    """The floor follows recent latencies: after a server has moved far away, the window grows again."""
    window = Window(Limits(initial=64, floor_seconds=10))
    now = feed(window, 0.010, 50, 0.0)
    now = feed(window, 1.0, 400, now)
    low = window.size
    feed(window, 1.0, 400, now)
    assert window.size > low


def test_each_kind_of_request_has_its_own_latency_floor() -> None:
    """A kind of request is not congested because it is slower than another one."""
    window = Window(Limits(initial=64))
    for number in range(50):
        window.answered(kind="get", began=number, now=number + 0.001, in_flight=64)
        window.answered(kind="create", began=number, now=number + 0.9, in_flight=64)
    assert window.size >= 64


ANSWER = st.tuples(
    st.sampled_from(["ok", "429"]), st.floats(0, 5), st.floats(0, 2), st.integers(1, 300), st.floats(0, 3)
)


@given(st.lists(ANSWER, max_size=200))
def test_the_window_stays_within_its_bounds(answers: list[tuple[str, float, float, int, float]]) -> None:
    """At least one request may be in flight, and never more than the upper limit."""
    window = Window(Limits(initial=32, min_size=1, max_size=64))
    now = 0.0
    for word, latency, gap, in_flight, wish in answers:
        now += gap
        before = window.size
        if word == "ok":
            window.answered(kind="get", began=now - latency, now=now, in_flight=in_flight)
        else:
            window.throttled(began=now - latency, now=now, retry_after_seconds=wish)
            assert window.size <= before
            assert window.paused_until >= now + wish
        assert 1 <= window.size <= 64
        assert window.size <= before + 1


# ---------------------------------------------------------------------------------------------- the limiter


class Work:
    """Requests that last until they are told to end."""

    def __init__(self, limiter: ConcurrencyLimiter) -> None:
        self.limiter = limiter
        self.running: list[int] = []
        self.largest = 0
        self.ends = [asyncio.Event() for _ in range(20)]

    async def one(self, number: int, status: int = 200) -> None:
        """One request."""
        async with self.limiter.slot("get") as slot:
            self.running.append(number)
            self.largest = max(self.largest, len(self.running))
            await self.ends[number].wait()
            slot.answered(status, 0.0 if status == 429 else None)
            self.running.remove(number)


async def settle() -> None:
    """Run all tasks as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_at_most_the_window_of_requests_runs_in_order_of_arrival() -> None:
    work = Work(ConcurrencyLimiter(Window(Limits(initial=3, max_size=3))))
    tasks = [asyncio.create_task(work.one(number)) for number in range(8)]
    await settle()
    assert work.running == [0, 1, 2]
    work.ends[1].set()
    await settle()
    assert work.running == [0, 2, 3]
    for end in work.ends:
        end.set()
    await asyncio.gather(*tasks)
    assert (work.largest, work.limiter.in_flight) == (3, 0)


async def test_every_other_turn_goes_to_the_highest_precedence() -> None:
    """The turns between go to the request that has waited longest, so that none starves."""
    work, tasks = Work(ConcurrencyLimiter(Window(Limits(initial=1, max_size=1)))), []
    for number, precedence in enumerate([None, None, None, None, 1, 2, 1, 2]):
        with contextlib.nullcontext() if precedence is None else preceding(precedence):
            tasks.append(asyncio.create_task(work.one(number)))
    await settle()
    order = []
    while work.running:
        order += work.running
        work.ends[work.running[0]].set()
        await settle()
    assert order == [0, 1, 5, 2, 7, 3, 4, 6]
    await asyncio.gather(*tasks)
    assert not work.limiter.is_full and work.limiter.in_flight == 0


async def test_after_429_requests_begin_once_fewer_than_half_are_in_flight() -> None:
    """Requests in flight finish normally."""
    work = Work(ConcurrencyLimiter(Window(Limits(initial=4)), clock=lambda: 1.0))
    tasks = [asyncio.create_task(work.one(number, 429 if number == 0 else 200)) for number in range(8)]
    await settle()
    work.ends[0].set()
    await settle()
    assert work.running == [1, 2, 3]
    work.ends[1].set()
    await settle()
    assert work.running == [2, 3]
    work.ends[2].set()
    await settle()
    assert work.running == [3, 4]
    for end in work.ends:
        end.set()
    await asyncio.gather(*tasks)
    assert work.limiter.in_flight == 0


async def test_a_cancelled_request_passes_its_turn_on() -> None:
    """Whether it is cancelled while it waits, or just when it gets its turn."""
    work = Work(ConcurrencyLimiter(Window(Limits(initial=1, max_size=1))))
    tasks = [asyncio.create_task(work.one(number)) for number in range(4)]
    await settle()
    tasks[1].cancel()
    work.ends[0].set()
    await settle()
    assert work.running == [2]
    work.ends[2].set()
    await asyncio.sleep(0)
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert work.limiter.in_flight == 0
    async with asyncio.timeout(1), work.limiter.slot():
        assert work.limiter.in_flight == 1


async def test_no_request_begins_during_a_pause_of_the_server() -> None:
    """Retry-After pauses all requests of the client, not only the one with that answer."""
    now, slept = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    limiter = ConcurrencyLimiter(clock=lambda: now[0], sleep=sleep)
    async with limiter.slot() as slot:
        slot.answered(503, 7.0)
    async with limiter.slot():
        assert now[0] == pytest.approx(107.0)
    assert slept == [7.0]
