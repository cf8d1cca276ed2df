"""How many logs a server reads from the API server at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kajitori.errors import Unavailable

MAX_LOGS = 4096
"""Logs that are read from the API server at once, for all callers together; each is one connection to it."""


class Slots:
    """How many logs may be read at once."""

    def __init__(self, count: int) -> None:
        self.free = count
        self._count = count

    @contextmanager
    def one(self) -> Iterator[None]:
        """One of them; raises Unavailable where all are taken."""
        if self.free <= 0:
            raise Unavailable(
                f"this server reads {self._count} logs already", hint="try again later, or follow fewer members at once"
            )
        self.free -= 1
        try:
            yield
        finally:
            self.free += 1
