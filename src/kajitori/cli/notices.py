"""What a server has all of its callers know, such as that no controller is at work: told once, on stderr."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kajitori.cli.terminal import say

NOTICE = "Kajitori-Notice"
"""The header of the server's answers that carries it."""

TOLD_AGAIN_SECONDS = 60.0
"""A notice that was withdrawn is told again when it comes back, at most this often."""


class Notices:
    """Tells a notice once, however many answers carry it. Thread-safe."""

    def __init__(self, *, silent: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.say: Callable[[str], None] = say
        """How to say it; a command that draws a progress line makes room first."""
        self._silent = silent
        self._clock = clock
        self._stands = False
        self._told_at: float | None = None
        self._lock = threading.Lock()

    def hush(self) -> None:
        """Say nothing: the command shows it in its own output."""
        self._silent = True

    def note(self, words: str) -> None:
        """Take in an answer's notice, or that it has none (empty)."""
        with self._lock:
            is_new, self._stands = bool(words) and not self._stands, bool(words)
            now = self._clock()
            if not is_new or self._silent or (self._told_at and now - self._told_at < TOLD_AGAIN_SECONDS):
                return
            self._told_at = now
        self.say(f"note: {words}")
