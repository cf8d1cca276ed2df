"""Due times of many keys, and loops that run together."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.simulator.timers import Timers
from kajitori.embedded.tasks import Background, run_until

START = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9) | st.none()), max_size=40), st.integers(0, 9))
def test_only_the_latest_time_of_a_key_counts(steps: list[tuple[str, int | None]], until: int) -> None:
    """After setting, resetting and cancelling, the due keys are those of a plain dictionary, in order of time."""
    timers, model = Timers[str](), dict[str, int]()
    for key, second in steps:
        if second is None:
            timers.cancel(key)
            model.pop(key, None)
        else:
            timers.set(key, START + timedelta(seconds=second))
            model[key] = second
    due = timers.pop_due(START + timedelta(seconds=until))
    assert sorted(due) == sorted(k for k, s in model.items() if s <= until)
    assert [model[k] for k in due] == sorted(model[k] for k in due)
    left = [s for s in model.values() if s > until]
    assert timers.next_due() == (START + timedelta(seconds=min(left)) if left else None)


async def test_loops_end_at_the_stop_or_when_one_of_them_fails() -> None:
    """No task is left running, and the error is raised."""
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def soon(stop: asyncio.Event) -> None:
        stop.set()

    async def fail() -> None:
        raise LookupError("broken")

    stop = asyncio.Event()
    await run_until(stop, forever("a"), soon(stop))
    with pytest.raises(LookupError, match="broken"):
        await run_until(asyncio.Event(), forever("b"), fail())
    assert ended == ["a", "b"]


async def test_background_tasks_are_cancelled_at_the_end() -> None:
    """Also those that nothing awaits."""
    background, ended = Background(), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    background.start(wait())
    await asyncio.sleep(0)
    await background.cancel()
    assert ended.is_set()
    assert len(background) == 0
