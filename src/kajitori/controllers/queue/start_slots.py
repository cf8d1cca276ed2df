"""The number of attempts that start at a time.

It is just large enough to keep the API server busy. Further attempts would only wait for it in the order in which they
were planned, and runs that come later with a higher priority could not overtake them. So the next runs to start are
chosen when there are free slots.
"""

from __future__ import annotations

from collections.abc import Callable

from kajitori.controllers.workqueue import Key

CHOSEN_TOGETHER = 4
"""While runs are held back, the next ones are chosen once 1 / `CHOSEN_TOGETHER` of the slots are free. Planning after
each single start would take longer than the start."""


class StartSlots:
    """The attempts that are starting. A run does not wait for starts of lower priority."""

    def __init__(self, at_a_time: Callable[[], int]) -> None:
        self._at_a_time = at_a_time
        self._begun: dict[Key, int] = {}
        """The priorities of the runs that are starting."""
        self._held_back: int | None = None

    def begin(self, key: Key, priority: int) -> None:
        """Take a slot for a run that starts."""
        self._begun[key] = priority

    def hold_back(self, priority: int | None) -> None:
        """Record the priority of a run that could start but got no slot; None if all runs that could start got one."""
        self._held_back = priority

    def end(self, key: Key) -> bool:
        """Free the slot of a run after its start; return whether it is time to plan the runs that were held back."""
        self._begun.pop(key, None)
        return self._held_back is not None and self.left(self._held_back) > 0

    def left(self, priority: int) -> int:
        """Return the number of free slots for runs of this or a higher priority."""
        most = self._at_a_time()
        free = max(0, most - sum(other >= priority for other in self._begun.values()))
        waits = self._held_back is not None and priority <= self._held_back
        return 0 if waits and free * CHOSEN_TOGETHER < most else free
