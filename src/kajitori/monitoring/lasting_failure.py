"""Logs the failure of work that is tried again and again only once, and not at every try."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from kajitori.errors import KajitoriError


class LastingFailure:
    """The failure of work that is tried again until it succeeds. It is logged when it begins and when its message
    changes, and again if it comes back after a success.
    """

    def __init__(self, log: logging.Logger, text: str, level: int = logging.WARNING) -> None:
        """`text` is the text to log; its `%s` is replaced by the message of the failure."""
        self._log = log
        self._text = text
        self._level = level
        self.message = ""
        """The message of the last try; empty if it succeeded."""

    def note(self, message: str) -> None:
        """Record that a try failed."""
        if message != self.message:
            self._log.log(self._level, self._text, message)
        self.message = message

    async def note_failure_of(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work; if it raises a KajitoriError, record the failure instead."""
        try:
            await work()
        except KajitoriError as error:
            self.note(error.message)

    def end(self) -> None:
        """Record that a try succeeded."""
        self.message = ""
