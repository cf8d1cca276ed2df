"""Waiting until something is true, with a time limit that a busy machine keeps."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""Time limit for anything that a test waits for."""

What = str | Callable[[], object]
"""A text that names the awaited condition, or a function that explains the failure after the time limit."""


@overload
async def until(
    condition: Callable[[], Awaitable[T]],
    what: What = ...,
    *,
    seconds: float = ...,
    every: float = ...,
    changed: asyncio.Event | None = ...,
) -> T: ...
@overload
async def until(
    condition: Callable[[], T],
    what: What = ...,
    *,
    seconds: float = ...,
    every: float = ...,
    changed: asyncio.Event | None = ...,
) -> T: ...
async def until(
    condition: Callable[[], object],
    what: What = "",
    *,
    seconds: float = PATIENCE_SECONDS,
    every: float = 0.05,
    changed: asyncio.Event | None = None,
) -> object:
    """Return the first true value of `condition`, which is checked every `every` seconds and whenever `changed` is set.

    Raises AssertionError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    changed = changed or asyncio.Event()
    while True:
        changed.clear()
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        left = _left(deadline, seconds, what)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), min(left, every))


def wait_until(
    condition: Callable[[], T], what: What = "", *, seconds: float = PATIENCE_SECONDS, every: float = 0.1
) -> T:
    """Like `until`, for tests without an event loop: block this thread."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        time.sleep(min(_left(deadline, seconds, what), every))
    return found


def _left(deadline: float, seconds: float, what: What) -> float:
    left = deadline - time.monotonic()
    assert left > 0, f"waited {seconds:.0f} s: {what if isinstance(what, str) else what()}"
    return left
