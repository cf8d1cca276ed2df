"""Calls that may never return, in threads of their own.

Opening a file on a file server that hangs blocks a thread in the kernel until the server answers. The agent must go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Errand(Generic[T]):
    """One call in a daemon thread, so that the process can end without it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._outcome: Future[T] = Future()
        threading.Thread(target=self._run, args=(call,), name="errand", daemon=True).start()

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


class Errands(Generic[T]):
    """Background calls, at most one at a time of each name, so that a call that hangs is not made again."""

    def __init__(self) -> None:
        self._under_way: dict[str, Errand[T]] = {}

    def start(self, name: str, call: Callable[[], T]) -> Errand[T] | None:
        """Make a call; None if the last one under this name still hangs."""
        self._under_way = {known: errand for known, errand in self._under_way.items() if not errand.is_over}
        if name in self._under_way:
            return None
        errand = self._under_way[name] = Errand(call)
        return errand
