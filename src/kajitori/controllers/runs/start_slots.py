"""How many attempts are begun at a time: enough to keep the API server busy. More would only wait for it, as they were
planned, whoever comes meanwhile; so who starts next is decided when there is a turn for it."""

from __future__ import annotations

from collections.abc import Callable

from kajitori.controllers.workqueue import Key

CHOSEN_TOGETHER = 4
"""Where more could start than may at a time, the next are chosen when a quarter of the turns are free: a look for each
one that has begun would take longer than it."""


class Turns:
    """Attempts that are being begun. Who has a higher priority does not wait for those of lower."""

    def __init__(self, at_a_time: Callable[[], int]) -> None:
        self._at_a_time = at_a_time
        self._begun: dict[Key, int] = {}
        """Priorities."""
        self._held_back: int | None = None

    def begin(self, key: Key, priority: int) -> None:
        """This one is being begun."""
        self._begun[key] = priority

    def hold_back(self, priority: int | None) -> None:
        """One of this priority would have started, had it not been one too many; None where all could."""
        self._held_back = priority

    def end(self, key: Key) -> bool:
        """It has begun, or it could not; whether it is time to choose among those that were held back."""
        self._begun.pop(key, None)
        return self._held_back is not None and self.left(self._held_back) > 0

    def left(self, priority: int) -> int:
        """How many more of this priority, and of higher, may begin now."""
        most = self._at_a_time()
        free = max(0, most - sum(other >= priority for other in self._begun.values()))
        waits = self._held_back is not None and priority <= self._held_back
        return 0 if waits and free * CHOSEN_TOGETHER < most else free
