"""The first look of who leads anew: at every run once, before anything is planned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from kajitori.controllers.workqueue import Key

log = logging.getLogger(__name__)

FIRST_LOOK_SECONDS = 10.0
"""Who leads anew waits so long for what he writes of each run that he finds, before he starts others."""


class FirstLook:
    """Runs of which it is not known yet whether they wait for nodes. Any may hold some, or come before those that wait
    already. One that can't be looked at holds up the others for a while only."""

    def __init__(self) -> None:
        self._left: set[Key] = set()
        self._ends_at = 0.0
        """Of the event loop's time."""

    def begin(self, keys: Iterable[Key]) -> None:
        """These are to be looked at, from now on."""
        self._left.update(keys)
        self._ends_at = asyncio.get_running_loop().time() + FIRST_LOOK_SECONDS

    def note(self, key: Key) -> None:
        """It is known of this one."""
        self._left.discard(key)

    def seconds_left(self) -> float:
        """How long nothing is planned yet, at most."""
        if not self._left:
            return 0.0
        left = self._ends_at - asyncio.get_running_loop().time()
        if left <= 0:
            log.warning("%d runs could not be looked at; the others are planned without them", len(self._left))
            self._left.clear()
        return max(0.0, left)
