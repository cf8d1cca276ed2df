"""Health checks of containers. The bridge runs the test in the container while it lives, as Docker's daemon does."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kajitori.core.spec.reasons import Phase
from kajitori.docker.execution import output_of
from kajitori.docker.platform import Platform
from kajitori.docker.translation.container import Container, seconds_of
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

STARTING, HEALTHY, UNHEALTHY, NO_CHECK = "starting", "healthy", "unhealthy", "none"
KEPT_RESULTS = 5
KEPT_OUTPUT_BYTES = 4096
REMEMBERED = 1000
"""Largest number of containers for which health is remembered."""
FAILED_TO_RUN = -1
"""Exit code of a test that ran for too long, or could not be run."""


@dataclass(frozen=True)
class HealthCheck:
    """The test of a container, with Docker's defaults. All times are in seconds."""

    words: tuple[str, ...]
    interval: float = 30.0
    timeout: float = 30.0
    retries: int = 3
    start_period: float = 0.0
    start_interval: float = 5.0

    @classmethod
    def of(cls, container: Container) -> HealthCheck | None:
        """Return the check that a client asked for; None if it asked for none."""
        given = container.config.get("Healthcheck") or {}
        kind, *words = given.get("Test") or ["NONE"]
        if kind not in ("CMD", "CMD-SHELL"):
            return None
        return cls(
            ("/bin/sh", "-c", *words) if kind == "CMD-SHELL" else tuple(words),
            _seconds(given, "Interval") or cls.interval,
            _seconds(given, "Timeout") or cls.timeout,
            int(given.get("Retries") or 0) or cls.retries,
            _seconds(given, "StartPeriod"),
            _seconds(given, "StartInterval") or cls.start_interval,
        )

    def pause(self, health: Health, running_seconds: float) -> float:
        """Return the time until the next test. A container that an earlier bridge has started is tested at once."""
        is_starting = health.status == STARTING and running_seconds < self.start_period
        pause = self.start_interval if is_starting else self.interval
        return pause if health.results else max(0.0, pause - running_seconds)


@dataclass
class Health:
    """The health of a container since its start."""

    status: str = STARTING
    failing_streak: int = 0
    results: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEPT_RESULTS))

    def note(self, check: HealthCheck, result: Mapping[str, Any], running_seconds: float) -> bool:
        """Take the result of a test, and return whether the status has changed. Failures do not count while the
        container is starting."""
        before = self.status
        self.results.append(dict(result))
        if result["ExitCode"] == 0:
            self.status, self.failing_streak = HEALTHY, 0
        elif before != STARTING or running_seconds >= check.start_period:
            self.failing_streak += 1
            self.status = UNHEALTHY if self.failing_streak >= check.retries else before
        return self.status != before

    def view(self) -> dict[str, Any]:
        """Return it as `docker inspect` shows it."""
        return {"Status": self.status, "FailingStreak": self.failing_streak, "Log": list(self.results)}


class HealthChecks:
    """Runs the tests of containers that were made through a bridge."""

    def __init__(self, platform: Platform, tell: Callable[..., None], now: Callable[[], float]) -> None:
        """`tell` adds an event of a container."""
        self._platform = platform
        self._tell = tell
        self._now = now
        self._health: OrderedDict[str, Health] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def of(self, container: Container) -> Health | None:
        """Return a container's health; None if it has no check."""
        if HealthCheck.of(container) is None:
            return None
        return self._health.get(container.uid) or Health()

    def status(self, container: Container) -> str:
        """Return the status of a container as the filter `health` names it."""
        health = self.of(container)
        return health.status if health is not None else NO_CHECK

    def watch(self, container: Container) -> None:
        """Test a container from now on until it ends, if it has a check."""
        check = HealthCheck.of(container)
        if check is None or not container.is_active or container.uid in self._tasks:
            return
        task = asyncio.create_task(self._follow(container, check))
        self._tasks[container.uid] = task
        task.add_done_callback(lambda _: self._tasks.pop(container.uid, None))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, container: Container, check: HealthCheck) -> None:
        """Run the test during each start of a container."""
        testing: asyncio.Task[None] | None = None
        started_at = ""
        try:
            async with aclosing(self._platform.changes(container)) as changes:
                async for latest in changes:
                    is_new = latest.phase is Phase.RUNNING and latest.started_at != started_at
                    if testing is not None and (is_new or latest.phase is not Phase.RUNNING):
                        testing.cancel()
                    if is_new:
                        started_at = latest.started_at
                        testing = asyncio.create_task(self._test(latest, check))
        except KajitoriError as error:
            log.warning("%s: its health is no longer checked: %s", container.name, error)
        finally:
            if testing is not None:
                testing.cancel()
                await asyncio.gather(testing, return_exceptions=True)

    async def _test(self, container: Container, check: HealthCheck) -> None:
        health = self._health[container.uid] = Health()
        self._health.move_to_end(container.uid)
        while len(self._health) > REMEMBERED:
            self._health.popitem(last=False)
        while True:
            await asyncio.sleep(check.pause(health, self._running_seconds(container)))
            began = self._now()
            code, output = await self._run(container, check)
            result = {"Start": _time(began), "End": _time(self._now()), "ExitCode": code, "Output": output}
            if health.note(check, result, self._running_seconds(container)):
                self._tell(f"health_status: {health.status}", container)

    async def _run(self, container: Container, check: HealthCheck) -> tuple[int, str]:
        try:
            async with asyncio.timeout(check.timeout):
                code, out, errors = await output_of(self._platform, container, check.words)
        except TimeoutError:
            return FAILED_TO_RUN, f"Health check exceeded timeout ({check.timeout:g}s)"
        except (KajitoriError, ConnectionError) as error:
            return FAILED_TO_RUN, str(error)
        return code, (out + errors)[:KEPT_OUTPUT_BYTES].decode("utf-8", "replace")

    def _running_seconds(self, container: Container) -> float:
        return max(0.0, self._now() - seconds_of(container.started_at))  # the server's clock may be ahead


def _seconds(given: Mapping[str, Any], name: str) -> float:
    return int(given.get(name) or 0) / 1e9


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
