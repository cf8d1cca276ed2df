"""Exponential back-off: the pause before the next try doubles with each failure in a row, up to a limit."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_DOUBLINGS = 30


def backoff_seconds(failures: int, first_seconds: float, longest_seconds: float) -> float:
    """Return the pause after this many failures in a row, at least one."""
    return min(first_seconds * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), longest_seconds)


@dataclass(slots=True)
class Backoff:
    """Counts the failures in a row of something that is tried again and again."""

    first_seconds: float
    longest_seconds: float
    failures: int = 0

    def next_seconds(self) -> float:
        """Count a failure, and return the pause before the next try."""
        self.failures += 1
        return backoff_seconds(self.failures, self.first_seconds, self.longest_seconds)

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self.failures = 0
