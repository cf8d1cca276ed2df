"""The API server's clock, by its answers."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from tests.unit.kube.fake_api import fake_api

from kajitori.kube.client import KubeClient
from kajitori.kube.clock import UPDATE_SECONDS, ServerClock, steady_seconds
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.resources import PODS
from kajitori.kube.transport import Environment

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
ROUGH = timedelta(seconds=1)


class Ticks:
    """A steady clock that the test moves."""

    def __init__(self) -> None:
        self.now = 500.0

    def clock(self) -> ServerClock:
        """The server clock of a machine that is an hour fast."""
        return ServerClock(ticks=lambda: self.now, own=lambda: (NOON + timedelta(hours=1)).timestamp())


def date(moment: datetime) -> str:
    """Return a time as servers write it."""
    return format_datetime(moment, usegmt=True)


def test_before_any_answer_it_is_our_own_time() -> None:
    """There is nothing better; a component that judges deadlines has already read a list."""
    assert Ticks().clock().now() == NOON + timedelta(hours=1)


def test_an_answer_tells_the_time_and_then_it_goes_on_by_itself() -> None:
    """This machine's clock has no effect any more."""
    ticks = Ticks()
    clock = ticks.clock()
    clock.note(date(NOON))
    ticks.now += 30
    assert abs(clock.now() - NOON - timedelta(seconds=30)) < ROUGH


@pytest.mark.parametrize("hours", [1, -1])
def test_a_server_whose_clock_is_set_is_not_followed(hours: int) -> None:
    """No deadline has come nearer by that, or moved away; drift is followed."""
    ticks = Ticks()
    clock = ticks.clock()
    clock.note(date(NOON))
    for minute in range(1, 61):
        ticks.now += UPDATE_SECONDS
        clock.note(date(NOON + timedelta(minutes=minute, hours=hours)))
    assert abs(clock.now() - NOON - timedelta(hours=1)) < timedelta(seconds=5)

    for minute in range(61, 121):  # right again, but drifted by two seconds
        ticks.now += UPDATE_SECONDS
        clock.note(date(NOON + timedelta(minutes=minute, seconds=2)))
    assert abs(clock.now() - NOON - timedelta(hours=2, seconds=2)) <= timedelta(seconds=2)


def test_the_first_answer_after_a_stop_is_used_however_different() -> None:
    """A machine that was stopped for an hour does not know it."""
    ticks = Ticks()
    clock = ticks.clock()
    clock.note(date(NOON))
    clock.accept_next()
    clock.note(date(NOON + timedelta(hours=1)))
    assert abs(clock.now() - NOON - timedelta(hours=1)) < ROUGH


@pytest.mark.parametrize("said", [None, "", "yesterday", "Sun, 99 Nov 2026 12:00:00 GMT"])
def test_what_is_no_time_is_passed_over(said: str | None) -> None:
    """A proxy may remove the header, or write anything."""
    clock = Ticks().clock()
    clock.note(said)
    assert clock.now() == NOON + timedelta(hours=1)


def test_the_steady_clock_goes_forward() -> None:
    """At the pace of any other."""
    began, other = steady_seconds(), time.monotonic()
    time.sleep(0)
    assert 0 <= steady_seconds() - began < 1 + time.monotonic() - other


async def test_a_mirror_knows_the_time_of_its_api_server() -> None:
    """It knows it after its first read, and again when it asks, however wrong this machine's clock is."""
    slow = Environment(wall=lambda: time.time() - 3600)
    async with fake_api() as api, KubeClient(KubeConfig(server=api.url), environment=slow) as client:
        mirror = Mirror(client, (PODS,))
        assert _off(mirror) < -3500
        async with mirror:
            await mirror.wait_synced()
            assert abs(_off(mirror)) < 5
            await mirror.set_clock()  # this server does not know /version, but its refusal has the time
            assert abs(_off(mirror)) < 5


def _off(mirror: Mirror) -> float:
    return mirror.now().timestamp() - time.time()
