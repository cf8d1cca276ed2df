"""Work in the background of a process begins again after a failure."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kajitori.cluster.background import cancel_all, start_all
from kajitori.errors import Forbidden


async def test_work_that_fails_is_logged_and_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[str] = []
    again = asyncio.Event()

    async def follow(what: str) -> None:
        begun.append(what)
        if len(begun) == 1:
            raise TypeError("nobody expected this")
        again.set()
        await asyncio.Event().wait()

    tasks = start_all([partial(follow, "history")], pause_seconds=0)
    async with asyncio.timeout(5):
        await again.wait()
    assert begun == ["history", "history"]
    assert "follow failed and begins again in 0 s" in caplog.text
    assert "nobody expected this" in caplog.text
    await cancel_all(tasks)
    assert all(task.cancelled() for task in tasks)


async def test_an_error_with_a_message_is_logged_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[None] = []

    async def watch() -> None:
        begun.append(None)
        if len(begun) == 1:
            raise Forbidden("no right to watch Nodes")

    async with asyncio.timeout(5):
        await asyncio.gather(*start_all([watch], pause_seconds=0))
    assert len(begun) == 2
    (record,) = caplog.records
    assert record.getMessage().endswith("ended and begins again in 0 s: no right to watch Nodes")
    assert record.exc_info is None


async def test_work_that_ends_does_not_begin_again() -> None:
    begun: list[None] = []

    async def once() -> None:
        begun.append(None)

    async with asyncio.timeout(5):
        await asyncio.gather(*start_all([once], pause_seconds=0))
    assert len(begun) == 1
