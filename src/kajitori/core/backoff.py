"""Exponential backoff: the pause before the next try grows with each failure in a row, up to a limit."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_STEPS = 30


def backoff_seconds(failures: int, first_seconds: float, longest_seconds: float, growth: float = 2.0) -> float:
    """Return the pause after this many failures in a row, at least one. Each is `growth` times the one before it."""
    return min(first_seconds * growth ** min(failures - 1, _MAX_STEPS), longest_seconds)


@dataclass(slots=True)
class Backoff:
    """Counts the failures in a row of something that is tried again and again."""

    first_seconds: float
    longest_seconds: float
    growth: float = 2.0
    """The factor from one pause to the next."""
    failures: int = 0

    def next_seconds(self) -> float:
        """Count a failure, and return the pause before the next try."""
        self.failures += 1
        return backoff_seconds(self.failures, self.first_seconds, self.longest_seconds, self.growth)

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self.failures = 0
