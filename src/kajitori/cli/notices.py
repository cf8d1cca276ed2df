"""What a server has all of its callers know, such as that no controller is at work: told once, on stderr."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kajitori.cli.terminal import say
from kajitori.errors import KajitoriError

if TYPE_CHECKING:
    from kajitori.cli.connection.http import Api

NOTICE = "Kajitori-Notice"
"""The header of the server's answers that carries it."""

TOLD_AGAIN_SECONDS = 60.0
"""A notice that was withdrawn is told again when it comes back, at most this often."""

FIRST_LOOK_SECONDS = 5.0
LOOK_SECONDS = 10.0
"""How often a command that waits for a run asks whether a controller is at work."""


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


@contextmanager
def looking_for_notices(api: Api) -> Iterator[None]:
    """Ask the server now and then, in a thread: a stream that is open for hours carries no new header."""
    over = threading.Event()

    def look() -> None:
        pause = FIRST_LOOK_SECONDS
        while not over.wait(pause):
            pause = LOOK_SECONDS
            try:
                api.get("/v1/controller", tries=1, timeout_seconds=LOOK_SECONDS)
            except KajitoriError:
                pass  # the stream itself tells that a server is away
            except RuntimeError:
                return  # the client was closed meanwhile

    threading.Thread(target=look, name="notices", daemon=True).start()
    try:
        yield
    finally:
        over.set()
