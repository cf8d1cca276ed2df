"""Base of the keepers: each applies objects that follow from the policy file, and restores them after changes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from kajitori.errors import Forbidden, KajitoriError

LOOK_SECONDS = 2.0
"""Interval at which the wanted objects are compared with the applied ones."""
RENEW_SECONDS = 600.0
"""Interval at which the objects are applied again, because a user may have changed them."""

W = TypeVar("W")


class Keeper(ABC, Generic[W]):
    """Applies the wanted objects after each change, and every RENEW_SECONDS. Only the leader runs it. Without the right
    to do so it changes nothing and logs that.
    """

    def __init__(self, wanted: Callable[[], W], clock: Callable[[], float]) -> None:
        self._wanted = wanted
        self._clock = clock
        self._applied: W | None = None
        """The wanted state that was applied last, or refused for lack of rights."""
        self._renew_at = 0.0
        self._reported: tuple[str, W] | None = None

    async def keep_forever(self) -> None:
        """Follow what is wanted until cancelled."""
        while True:
            await self.keep()
            await asyncio.sleep(LOOK_SECONDS)

    async def keep(self) -> None:
        """Apply what has changed, or is due to be applied again. A failure is logged, and repeated later."""
        wanted = self._wanted()
        if wanted == self._applied and self._clock() < self._renew_at:
            return
        try:
            await self._apply(wanted)
            self._reported = None
        except KajitoriError as error:
            if (error.message, wanted) != self._reported:
                self._reported = error.message, wanted
                self._report(error.message, wanted)
            if not isinstance(error, Forbidden):
                return  # tried again at the next look
        self._applied, self._renew_at = wanted, self._clock() + RENEW_SECONDS

    @abstractmethod
    async def _apply(self, wanted: W) -> None:
        """Change the cluster."""

    @abstractmethod
    def _report(self, message: str, wanted: W) -> None:
        """Log a new failure: as a warning if an operator has to act, else as information."""
