"""Calls that may never return, in threads of their own.

If a file server hangs, opening one of its files blocks the thread in the kernel until the server answers. The agent
has to go on meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """One call in a daemon thread, so that the process can end without it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._outcome: Future[T] = Future()
        threading.Thread(target=self._run, args=(call,), name="background call", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._outcome.done()

    def result(self, seconds: float) -> T:
        """Return the result within a time. Raises TimeoutError, or what the call raised."""
        return self._outcome.result(max(0.0, seconds))

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._outcome.set_result(call())
        except BaseException as error:  # `result` raises it to the caller
            self._outcome.set_exception(error)


class BackgroundCalls(Generic[T]):
    """Background calls, at most one at a time of each name, so that a call that hangs is not made again."""

    def __init__(self) -> None:
        self._running: dict[str, BackgroundCall[T]] = {}

    def start(self, name: str, call: Callable[[], T]) -> BackgroundCall[T] | None:
        """Start a call. Return None if the last call under this name has not ended yet."""
        self._running = {known: running for known, running in self._running.items() if not running.is_over}
        if name in self._running:
            return None
        started = self._running[name] = BackgroundCall(call)
        return started
