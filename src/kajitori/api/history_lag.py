"""How far history lags behind the cluster, as the controller that writes it notes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from kajitori.errors import KajitoriError
from kajitori.history.store import History

log = logging.getLogger(__name__)

ASK_SECONDS = 10.0
LATE_SECONDS = 120.0
"""A lag that is worth a message. A controller notes every 15 seconds that history is current."""


class HistoryLag:
    """Asks history regularly, so that no answer waits for its database."""

    def __init__(self, history: History | None, now: Callable[[], datetime]) -> None:
        """`history` is None if this server has none."""
        self.exists = history is not None
        self._history = history
        self._now = now
        self._current_at: int | None = None
        self._since = now()
        self._trouble = ""

    async def follow(self) -> None:
        """Ask until cancelled."""
        while self._history is not None:
            await self.ask()
            await asyncio.sleep(ASK_SECONDS)

    async def ask(self) -> None:
        """Ask once."""
        if self._history is None:
            return
        try:
            self._current_at = await self._history.current_at()
            self._trouble = ""
        except KajitoriError as error:
            log.info("history does not say how current it is: %s", error)
            self._trouble = "history's database does not answer; the log of this server says why"

    def seconds(self) -> float | None:
        """Return for how long history has lacked something; None if that is not known."""
        return max(0.0, self._now().timestamp() - self._current_at / 1000) if self._current_at else None

    def says(self) -> str:
        """Return a sentence about the problem; empty if there is none."""
        if self._trouble:
            return self._trouble
        lag = self.seconds()
        if lag is None:
            if (self._now() - self._since).total_seconds() < LATE_SECONDS:
                return ""  # server and controller may have started together
            return "no controller has noted yet that history is current; give kaji controller the same --history"
        if lag < LATE_SECONDS:
            return ""
        return f"history was current {lag:.0f} s ago; usage and ended runs since then are missing"
