"""The first work of a new leader: it reconciles every existing run once before it plans."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from kajitori.controllers.workqueue import Key

log = logging.getLogger(__name__)

TAKEOVER_SECONDS = 10.0
"""Longest time that a new leader waits for the existing runs to be reconciled before it starts others."""


class Takeover:
    """Existing runs that a new leader has not reconciled yet.

    Each of them may hold nodes, or come before runs that are known to wait. A run that can't be reconciled delays the
    others by at most `TAKEOVER_SECONDS`.
    """

    def __init__(self) -> None:
        self._left: set[Key] = set()
        self._ends_at = 0.0
        """Time of the event loop at which planning begins in any case."""

    def begin(self, keys: Iterable[Key]) -> None:
        """Wait for these runs, from now on."""
        self._left.update(keys)
        self._ends_at = asyncio.get_running_loop().time() + TAKEOVER_SECONDS

    def note(self, key: Key) -> None:
        """Mark this run as reconciled."""
        self._left.discard(key)

    def seconds_left(self) -> float:
        """Return the seconds until planning may begin; 0 if all runs are reconciled or the time is over."""
        if not self._left:
            return 0.0
        left = self._ends_at - asyncio.get_running_loop().time()
        if left <= 0:
            log.warning("%d runs could not be reconciled; the others are planned without them", len(self._left))
            self._left.clear()
        return max(0.0, left)
