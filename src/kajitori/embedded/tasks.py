"""Runs the loops of a controller together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def run_until(stop: asyncio.Event, *loops: Coroutine[Any, Any, None]) -> None:
    """Run all loops until `stop` is set. A loop that fails ends the others, and its error is raised."""
    tasks = [asyncio.ensure_future(loop) for loop in loops]
    stopping = asyncio.ensure_future(stop.wait())
    waiting: set[asyncio.Future[Any]] = {stopping, *tasks}
    try:
        while not stopping.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(task.exception() is not None for task in done):
                break
    finally:
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (failure := task.exception()) is not None:
            raise failure


async def after(event: asyncio.Event, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a loop that begins once the event is set."""
    await event.wait()
    await loop()


class Background:
    """Short tasks that run in the background. This object keeps a reference to them, and cancels them at the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_finished)

    def __len__(self) -> int:
        return len(self._tasks)

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "a background task failed", "exception": failure})
