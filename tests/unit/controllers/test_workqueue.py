"""When a key is taken from the work queue: at once, later, after its task, and after a failure."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.controllers import workqueue
from kajitori.controllers.workqueue import RETRY_MAX_SECONDS, TAKEN_OF_BURST, Key, WorkQueue
from kajitori.errors import Conflict, KajitoriError, NotFound, Unavailable

KEY = ("vision", "bert")
OTHER = ("vision", "gpt")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


async def all_done() -> None:
    """Wait until all begun tasks have ended."""
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


@pytest.mark.parametrize("error", [Conflict("changed"), NotFound("gone"), Unavailable("busy"), ValueError("a bug")])
async def test_the_pause_grows_with_each_failure_in_a_row(error: Exception) -> None:
    """The first conflict is retried at once, because another writer was faster. A permanent failure costs almost
    nothing."""
    clock = Clock()
    work = WorkQueue(clock)

    async def fails() -> None:
        raise error

    async def pause() -> float:
        work.begin(KEY, fails)
        await all_done()
        failed_at = clock.now
        while not work.take():
            clock.now += timedelta(milliseconds=100)
        return (clock.now - failed_at).total_seconds()

    pauses = [await pause() for _ in range(12)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= (1.0 if isinstance(error, KajitoriError) else RETRY_MAX_SECONDS)
    assert pauses[-1] == RETRY_MAX_SECONDS

    async def succeeds() -> None:
        return None

    work.begin(KEY, succeeds)
    await all_done()
    assert await pause() == pauses[0]


async def test_a_key_that_changes_during_its_task_is_taken_again_afterwards() -> None:
    over: list[Key] = []
    work = WorkQueue(Clock(), over.append)
    may_end = asyncio.Event()

    async def waits() -> None:
        await may_end.wait()

    work.add(KEY)
    assert work.take() == {KEY}
    work.begin(KEY, waits)
    work.add(KEY, OTHER)
    assert work.take() == {OTHER}
    assert work.take() == set()
    may_end.set()
    await all_done()
    assert over == [KEY]
    assert work.take() == {KEY}


async def test_a_burst_of_keys_that_may_wait_is_taken_in_parts() -> None:
    """They are taken in order of arrival; keys that may not wait are in the first part."""
    work = WorkQueue(Clock())
    never: asyncio.Task[bool] = asyncio.create_task(asyncio.Event().wait())
    burst = [("team", f"{number}") for number in range(2 * TAKEN_OF_BURST + 10)]
    work.add(*burst, KEY)
    taken = [work.take(lambda key: key != KEY)]
    work.add(*burst[:1], OTHER)
    while taken[-1]:
        await work.wait(never, [], 0.0)
        taken.append(work.take(lambda key: key != KEY))
    first, second = set(burst[:TAKEN_OF_BURST]), set(burst[TAKEN_OF_BURST : 2 * TAKEN_OF_BURST])
    assert taken == [first | {KEY}, second, {*burst[2 * TAKEN_OF_BURST :], burst[0], OTHER}, set()]
    never.cancel()


async def test_a_key_with_long_tasks_rests_after_each() -> None:
    clock = Clock()
    work = WorkQueue(clock)
    work.rest(KEY, 10.0)
    work.add(KEY)
    assert work.take() == set()
    clock.now += timedelta(seconds=39)
    assert work.take() == set()
    work.forget(KEY)
    work.add(KEY)
    assert work.take() == {KEY}


async def test_wait_returns_when_a_key_is_due_or_added() -> None:
    clock = Clock()
    work = WorkQueue(clock)
    never: asyncio.Task[bool] = asyncio.create_task(asyncio.Event().wait())
    work.wake(KEY, timedelta(hours=1))
    work.wake(KEY, timedelta(hours=2))
    await work.wait(never, [NOW], None)
    await work.wait(never, [], 0.0)
    waiting = asyncio.create_task(work.wait(never, [NOW + timedelta(minutes=1)], 60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    work.nudge()
    await waiting
    assert work.take() == set()
    clock.now += timedelta(hours=1)
    assert work.take() == {KEY}
    never.cancel()


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9), st.sampled_from(["wake", "forget", "take"]))))
def test_a_key_is_due_at_the_earliest_of_its_times(drawn: list[tuple[str, int, str]]) -> None:
    """This holds for any number of wake-ups and forgotten keys. Superseded alarms are removed."""

    async def checked() -> None:
        with mock.patch.object(workqueue, "MOST_STALE", 2):
            clock = Clock()
            work, due = WorkQueue(clock), dict[Key, datetime]()
            for name, seconds, act in drawn:
                key, moment = ("team", name), clock.now + timedelta(seconds=seconds)
                if act == "wake":
                    work.wake_at(key, moment)
                    due[key] = min(moment, due.get(key, moment))
                elif act == "forget":
                    work.forget(key)
                    due.pop(key, None)
                else:
                    clock.now = moment
                    expected = {other for other, at in due.items() if at <= moment}
                    assert work.take() == expected
                    due = {other: at for other, at in due.items() if other not in expected}
                assert len(work._alarms) <= 3 + 2 * max(1, len(due)) + sum(action[2] == "forget" for action in drawn)
            clock.now += timedelta(hours=1)
            assert work.take() == set(due)

    asyncio.run(checked())


async def test_closing_cancels_tasks_and_starts_no_others() -> None:
    work = WorkQueue(Clock())
    began: list[Key] = []

    async def never_ends() -> None:
        began.append(KEY)
        await asyncio.Event().wait()

    work.begin(KEY, never_ends)
    await asyncio.sleep(0)
    work.begin(OTHER, never_ends)
    await work.close()
    assert (began, len(work.busy)) == ([KEY], 0)
