"""Notices of the server to all callers, such as that no controller is at work: printed once, on stderr."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kajitori.cli.terminal import say

REPEAT_SECONDS = 60.0
"""Shortest time between two reports of a notice that was withdrawn and came back."""


class Notices:
    """Prints a notice once, however many answers carry it. Thread-safe."""

    def __init__(self, *, silent: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.say: Callable[[str], None] = say
        """Prints the notice. A command with a progress line replaces this by a function that clears the line first."""
        self._silent = silent
        self._clock = clock
        self._stands = False
        self._own = ""
        self.tells_own = True
        """Whether the question to this user is printed after the command. Not if its output is for programs."""
        self._printed_at: float | None = None
        self._lock = threading.Lock()

    def hush(self) -> None:
        """Print no notices, because the command shows them in its own output."""
        self._silent = True

    def note_own(self, words: str) -> None:
        """Record the question to this user in an answer; empty if it has none."""
        self._own = words

    def say_own(self) -> None:
        """Print the question to this user once, after the output of the command."""
        words, self._own = self._own, ""
        if words and self.tells_own and not self._silent:
            say(f"note: {words}")

    def note(self, words: str) -> None:
        """Record the notice of an answer; empty if it has none."""
        with self._lock:
            is_new, self._stands = bool(words) and not self._stands, bool(words)
            now = self._clock()
            if not is_new or self._silent or (self._printed_at and now - self._printed_at < REPEAT_SECONDS):
                return
            self._printed_at = now
        self.say(f"note: {words}")
