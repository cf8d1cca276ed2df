"""Events are written in the background, and fewer of them the longer each write takes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kajitori.kube.events import LONGEST_PAUSE_SECONDS, PAUSE_FACTOR, QUEUE_LIMIT, WRITERS, About, EventRecorder
from kajitori.kube.resources import Resource

ABOUT = About("Run", "bert", "uid", "team")


class SlowServer:
    """Stands for a client and for time: each write takes this many seconds, and pauses take no time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.reasons: list[str] = []
        self.rests: list[float] = []

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> None:
        self.reasons.append(body["reason"])
        self.now += self.seconds

    async def patch(self, *what: Any) -> None:
        raise AssertionError("nothing is said twice")

    async def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        await asyncio.sleep(0)

    async def write(self, *reasons: str) -> None:
        """Write these Events."""
        recorder = EventRecorder(self, "test", monotonic=lambda: self.now, sleep=self.sleep)
        for reason in reasons:
            recorder.emit(ABOUT, "Normal", reason, "")
        expected = len(set(reasons[-QUEUE_LIMIT:]))
        writing = asyncio.create_task(recorder.run())
        while len(self.rests) < expected:  # noqa: ASYNC110 — no event tells when all are written
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


@pytest.mark.parametrize(
    ("seconds", "pause"), [(0.01, 0.01 * PAUSE_FACTOR), (0.5, 0.5 * PAUSE_FACTOR), (30.0, LONGEST_PAUSE_SECONDS)]
)
async def test_a_writer_pauses_for_a_multiple_of_its_last_write(seconds: float, pause: float) -> None:
    """All writers together have less than one write in flight on average."""
    assert PAUSE_FACTOR >= WRITERS
    server = SlowServer(seconds)
    await server.write("one", "two")
    assert server.reasons == ["one", "two"]
    assert server.rests == pytest.approx([pause, pause])


async def test_of_too_many_waiting_events_the_oldest_is_dropped() -> None:
    """An Event that is repeated while it waits is written once."""
    server = SlowServer(0.0)
    await server.write("dropped", *(f"reason-{number}" for number in range(QUEUE_LIMIT)), "reason-0")
    assert server.reasons == [f"reason-{number}" for number in range(QUEUE_LIMIT)]
