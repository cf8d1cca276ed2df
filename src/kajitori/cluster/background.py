"""Background work of a process: a failure is logged, and the work begins again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

PAUSE_SECONDS = 30.0
"""Time after which work that has failed begins again."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""Returns the coroutine of work that handles the errors it expects. It can begin again at any time."""


def start_all(works: Iterable[Work], pause_seconds: float = PAUSE_SECONDS) -> list[asyncio.Task[None]]:
    """Start a task for each work. Work that raises an error begins again after the pause. Otherwise it would stop
    unnoticed, because its task is awaited only when the process ends."""
    return [asyncio.create_task(_keep_going(work, pause_seconds)) for work in works]


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel all tasks, and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_going(work: Work, pause_seconds: float) -> None:
    name = getattr(work, "func", work).__qualname__  # a partial function has the name of its function
    while True:
        try:
            return await work()
        except KajitoriError as error:
            log.warning("%s ended and begins again in %.0f s: %s", name, pause_seconds, error)
        except Exception:
            log.exception("%s failed and begins again in %.0f s; this is a bug", name, pause_seconds)
        await asyncio.sleep(pause_seconds)
