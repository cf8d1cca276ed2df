"""Limit on the logs that a server reads from the API server at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kajitori.errors import Unavailable

MAX_LOGS = 4096
"""Largest number of logs that are read at the same time for all callers; each is a connection to the API server."""


class Slots:
    """Slots for reading logs."""

    def __init__(self, count: int) -> None:
        self.free = count
        self._count = count

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a slot while the context lasts. Raises Unavailable if all are taken."""
        if self.free <= 0:
            raise Unavailable(
                f"this server already reads {self._count} logs", hint="try again later, or follow fewer members at once"
            )
        self.free -= 1
        try:
            yield
        finally:
            self.free += 1
