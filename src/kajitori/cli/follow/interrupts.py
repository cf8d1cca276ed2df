"""Ctrl-C and SIGTERM while a run is followed: waited for by the main thread, while other threads do the work."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Keeps SIGINT and SIGTERM until it is asked for them; a context manager for the main thread.

    A signal is never lost to a race with a system call that was about to block: it is written to a pipe by the
    interpreter's own C handler, and the main thread waits for nothing but that pipe. A second signal before the first
    was asked for raises KeyboardInterrupt: somebody is impatient with a server that does not answer.
    """

    def __init__(self) -> None:
        self._kept = 0
        self._before: dict[int, Any] = {}
        self._reader, self._writer, self._wakeup_before = -1, -1, -1

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, done: int, seconds: float | None = None) -> int | None:
        """The number of the next signal; None where the descriptor `done` became readable, or the time was over."""
        ready, _, _ = select.select([self._reader, done], [], [], seconds)
        if self._reader not in ready:
            return None
        number = os.read(self._reader, 1)[0]
        self._kept = 0
        return number if number in _SIGNALS else self.wait(done, seconds)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._kept += 1
        if self._kept > 1 and not self._waiting:
            raise KeyboardInterrupt

    _waiting = False

    def begin(self) -> None:
        """From now on the main thread waits for signals only: none of them interrupts anything."""
        self._waiting = True
