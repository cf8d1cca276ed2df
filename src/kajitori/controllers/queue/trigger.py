"""The trigger of queue cycles: it knows whether something has changed since the last one."""

from __future__ import annotations

from collections.abc import Iterable

from kajitori.controllers.workqueue import Key


class CycleTrigger:
    """Whether something changed since the last cycle that may let a run start."""

    def __init__(self) -> None:
        self.is_set = False
        self._passed_over: set[Key] = set()
        """Runs that could not be started or preempted because the controller was working on them."""

    def note_change(self) -> None:
        """Note that something changed that may let a run start."""
        self.is_set = True

    def clear(self) -> None:
        """Note that a cycle begins."""
        self.is_set = False

    def pass_over(self, keys: Iterable[Key]) -> None:
        """Note that a cycle left these runs as they are, because the controller is working on them."""
        self._passed_over.update(keys)

    def note_done(self, key: Key) -> None:
        """Note that the controller has finished its work on this run."""
        if key in self._passed_over:
            self._passed_over.discard(key)
            self.is_set = True
