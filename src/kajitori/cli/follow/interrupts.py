"""Ctrl-C and SIGTERM while a run is followed: the main thread waits for them, and other threads do the work."""

from __future__ import annotations

import select
import signal
import socket
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Collects SIGINT and SIGTERM until `wait` asks for them; a context manager for the main thread.

    No signal is lost to a race with a system call that is about to block: the interpreter's C handler writes it to a
    socket (Windows cannot wait for a pipe), and the main thread waits for the other end only. A second signal before
    the first call of `wait` raises KeyboardInterrupt, because the user is waiting for a server that does not answer.
    """

    def __init__(self) -> None:
        self._kept = 0
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._reader.close()
        self._writer.close()

    def wait(self, done: socket.socket, seconds: float | None = None) -> int | None:
        """Return the number of the next signal, or None if `done` became readable or `seconds` have passed."""
        ready, _, _ = select.select([self._reader, done], [], [], seconds)
        if self._reader not in ready:
            return None
        number = self._reader.recv(1)[0]
        self._kept = 0
        return number if number in _SIGNALS else self.wait(done, seconds)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._kept += 1
        if self._kept > 1 and not self._waiting:
            raise KeyboardInterrupt

    _waiting = False

    def begin(self) -> None:
        """Stop raising KeyboardInterrupt: from now on the main thread only waits for signals."""
        self._waiting = True
