"""The API server's clock, estimated from its answers."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from tests.unit.kube.fake_api import fake_api

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.kube.client import KubeClient
from kajitori.kube.clock import UPDATE_SECONDS, ServerClock, steady_seconds
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.connection.transport import Environment
from kajitori.kube.resources import PODS

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


def test_before_any_answer_the_local_clock_counts() -> None:
    """A component that judges deadlines has always read a list before."""
    assert Ticks().clock().now() == NOON + timedelta(hours=1)


def test_after_an_answer_the_steady_clock_advances_the_time() -> None:
    """This machine's clock has no effect any more."""
    ticks = Ticks()
    clock = ticks.clock()
    clock.note(date(NOON))
    ticks.now += 30
    assert abs(clock.now() - NOON - timedelta(seconds=30)) < ROUGH


@pytest.mark.parametrize("hours", [1, -1])
def test_a_jump_of_the_servers_clock_is_ignored_and_drift_is_followed(hours: int) -> None:
    """A jump brings no deadline nearer."""
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


def test_the_first_answer_after_a_long_pause_is_used() -> None:
    """A machine that was suspended for an hour does not know it."""
    ticks = Ticks()
    clock = ticks.clock()
    clock.note(date(NOON))
    clock.accept_next()
    clock.note(date(NOON + timedelta(hours=1)))
    assert abs(clock.now() - NOON - timedelta(hours=1)) < ROUGH


@pytest.mark.parametrize("said", [None, "", "yesterday", "Sun, 99 Nov 2026 12:00:00 GMT"])
def test_an_invalid_or_missing_date_is_ignored(said: str | None) -> None:
    """A proxy may remove the header, or write anything."""
    clock = Ticks().clock()
    clock.note(said)
    assert clock.now() == NOON + timedelta(hours=1)


def test_the_steady_clock_advances() -> None:
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
