"""Token buckets, which limit the rate of events."""

from __future__ import annotations

from collections import OrderedDict

MOST_NAMES = 4096
"""Maximum number of names. The least recently used one is removed first."""


class Allowance:
    """A token bucket that allows a number of events per minute, even all at once. Times are seconds of a monotonic
    clock."""

    __slots__ = ("_at", "_per_minute", "_used")

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._used = 0.0
        self._at = 0.0

    def used(self, now: float) -> float:
        """Number of events that still count."""
        return max(0.0, self._used - (now - self._at) * self._per_minute / 60.0)

    def is_spent(self, now: float) -> bool:
        """Whether one more event would exceed the limit."""
        return self.used(now) + 1.0 > self._per_minute

    def count(self, now: float) -> None:
        """Count an event."""
        self._used, self._at = self.used(now) + 1.0, now


class Allowances:
    """Limits for the events of each name and of all names together. When the total limit is reached, only names without
    recent events are allowed more."""

    def __init__(self, per_minute: int, of_one_per_minute: int) -> None:
        """of_one_per_minute: limit of each name; 0 for no limit."""
        self._all = Allowance(per_minute)
        self._of_one_per_minute = of_one_per_minute
        self._by_name: OrderedDict[str, Allowance] = OrderedDict()

    def is_spent(self, name: str, now: float) -> bool:
        """Whether one more event of this name would exceed a limit."""
        own = self._by_name.get(name)
        if own is None or own.used(now) <= 0.0:
            return False
        return self._all.is_spent(now) or (self._of_one_per_minute > 0 and own.is_spent(now))

    def count(self, name: str, now: float) -> None:
        """Count an event of this name."""
        self._all.count(now)
        own = self._by_name.get(name)
        if own is None:
            own = self._by_name[name] = Allowance(self._of_one_per_minute or MOST_NAMES)
        own.count(now)
        self._by_name.move_to_end(name)
        while len(self._by_name) > MOST_NAMES:
            self._by_name.popitem(last=False)
