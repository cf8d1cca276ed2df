"""Health checks, which the bridge runs in a container."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from tests.unit.docker.test_containers import container

from kajitori.client.target import Target
from kajitori.docker import health as module
from kajitori.docker.health import Health, HealthCheck, HealthChecks
from kajitori.docker.platform import Platform
from kajitori.docker.translation.container import Container
from kajitori.docker.translation.filters import matching
from kajitori.docker.translation.inspection import status_words
from kajitori.errors import Unavailable

SECOND = 10**9
TEST = {"Test": ["CMD-SHELL", "test -e /ready"], "Interval": SECOND, "Retries": 2}


def checked(phase: str = "Running", check: dict[str, Any] = TEST, **fields: Any) -> Container:
    return container(phase, notes={"Config": {"Healthcheck": check}}, **fields)


def test_a_check_has_dockers_defaults() -> None:
    assert HealthCheck.of(checked()) == HealthCheck(("/bin/sh", "-c", "test -e /ready"), interval=1.0, retries=2)
    assert HealthCheck.of(checked(check={"Test": ["CMD", "a", "b"]})) == HealthCheck(
        ("a", "b"), 30.0, 30.0, 3, 0.0, 5.0
    )
    assert HealthCheck.of(checked(check={"Test": ["NONE"]})) is None and HealthCheck.of(container()) is None


def test_a_container_that_has_run_for_long_is_tested_at_once() -> None:
    """After a restart of the bridge it was `starting` for half a minute, and `docker compose up` waited for it."""
    check = HealthCheck(("a",), interval=30.0, start_period=5.0)
    assert [check.pause(Health(), running) for running in (0.0, 1.0, 6.0, 600.0)] == [5.0, 4.0, 24.0, 0.0]
    tested = Health()
    tested.note(check, {"ExitCode": 1}, 600.0)
    assert check.pause(tested, 600.0) == 30.0


def test_failures_count_after_the_start_period_and_in_a_row() -> None:
    check, health = HealthCheck(("x",), retries=2, start_period=10.0), Health()
    outcomes = [(1, 1), (1, 5), (1, 11), (1, 12), (0, 13), (1, 14), (0, 15)]
    changes = [health.note(check, {"ExitCode": code}, at) and health.status for code, at in outcomes]
    assert changes == [False, False, False, "unhealthy", "healthy", False, False]
    assert (health.failing_streak, len(health.view()["Log"])) == (0, 5)
    starting = Health(results=health.results)
    assert (check.pause(starting, 5.0), check.pause(starting, 11.0), check.pause(health, 5.0)) == (5.0, 30.0, 30.0)


class Runs(Platform):
    """A server with a run that is started, restarted and ended."""

    def __init__(self, views: list[Container]) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self.views = views
        self.next = asyncio.Event()

    async def changes(self, container: Container) -> AsyncGenerator[Container]:
        for view in self.views[:-1]:
            yield view
            await self.next.wait()
            self.next.clear()
        yield self.views[-1]


async def test_each_start_is_tested_anew_until_the_container_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that takes too long, or that can't be run, has failed."""
    first, second = checked(), checked(status={"startedAt": "2026-11-23T20:05:00Z"})
    runs = Runs([checked("Starting"), first, second, checked("Failed")])
    runs.next.set()
    answers: list[Any] = [(0, b"fine", b"!"), Unavailable("away"), TimeoutError()]
    events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    pauses: list[float] = []

    async def output_of(platform: Platform, tested: Container, words: Sequence[str]) -> tuple[int, bytes, bytes]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) in (2, 5):  # it is started again, and ends
            runs.next.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(module, "output_of", output_of)
    monkeypatch.setattr(asyncio, "sleep", pause)
    checks = HealthChecks(runs, lambda action, one: events.put_nowait((action, one.started_at)), lambda: 0.0)
    assert checks.status(first) == "starting" and checks.status(container()) == "none"
    checks.watch(first)
    checks.watch(first)  # it is watched already
    (task,) = checks._tasks.values()
    assert await events.get() == ("health_status: healthy", first.started_at)
    assert await events.get() == ("health_status: unhealthy", second.started_at)
    health = checks.of(second)
    assert health is not None
    told = [(one["ExitCode"], one["Output"]) for one in health.view()["Log"]]
    assert told == [(-1, "away"), (-1, "Health check exceeded timeout (30s)")]
    await task
    assert checks.status(second) == "unhealthy", "as it was when the container ended"
    checks.watch(checked("Failed"))
    assert not checks._tasks
    await checks.close()


def test_health_is_shown_and_filtered() -> None:
    one, other = checked(), container(uid="u2")
    assert matching(
        [one, other], {"health": frozenset({"starting"})}, lambda c: "starting" if c is one else "none"
    ) == [one]
    assert matching([one, other], {"health": frozenset({"none"})}) == [one, other]
    assert status_words(one, 1e12, "starting").endswith(" (health: starting)")
    assert status_words(one, 1e12, "healthy").endswith(" (healthy)")
