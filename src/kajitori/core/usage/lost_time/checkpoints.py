"""Checkpoints of a run: how often it wrote one, what each cost, and the interval that would have cost least."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from kajitori.core.spec.reasons import Reason
from kajitori.core.usage.lost_time.slices import Held, Kind, Mark, is_interruption, seconds_between_saves

_ANNOUNCED = frozenset({Reason.PREEMPTED.value, Reason.DRAINED.value, Reason.GROWS.value})
"""Causes of an end that the program is told of early enough to write a checkpoint."""

MOST_TIMES = 500
"""Maximum number of checkpoint times in a report."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A run's checkpoints, and the interval between them that would have cost least."""

    count: int = 0
    last: int | None = None
    """Time at which the last one was written."""
    times: tuple[int, ...] = ()
    """Times at which the newest ones were written, the oldest first."""
    every_seconds: float | None = None
    """Median time between two of them, without the time to write one."""
    cost_seconds: float | None = None
    """Median time for which the training stood still to write one, as the program said; None if it is not known."""
    failures: int = 0
    """Attempts that ran and were broken without notice."""
    between_failures: float | None = None
    """Mean time between two of these; None without a failure."""
    best_seconds: float | None = None
    """The interval that would have cost least; None if costs or failures are not known."""

    def waste(self, interval: float | None) -> float | None:
        """Return the expected share of time that checkpoints and repeated work take with this interval."""
        if interval is None or self.cost_seconds is None or self.between_failures is None:
            return None
        cycle = interval + self.cost_seconds
        return min(1.0, self.cost_seconds / cycle + cycle / 2 / self.between_failures)


def checkpoints_of(parts: Sequence[Held], marks: Iterable[Mark]) -> Checkpoints:
    """Return facts about a run's checkpoints, from its marks and the ends of its attempts."""
    saves = sorted(mark for mark in marks if mark.kind == Kind.SAVED)
    between = seconds_between_saves(saves)
    cost = float(median(mark.until - mark.since for mark in saves)) if saves else None
    between_failures, failures = _failures_without_notice(parts)
    return Checkpoints(
        count=len(saves),
        last=max((mark.until for mark in saves), default=None),
        times=tuple(sorted(mark.until for mark in saves)[-MOST_TIMES:]),
        every_seconds=float(median(between)) if between else None,
        cost_seconds=cost,
        failures=failures,
        between_failures=between_failures,
        best_seconds=None if cost is None or between_failures is None else best_interval(cost, between_failures),
    )


def _failures_without_notice(parts: Iterable[Held]) -> tuple[float | None, int]:
    """Return the mean running time between two failures without notice (None without one), and their number."""
    ran: dict[int, tuple[int, int]] = {}
    broken: set[int] = set()
    for held in parts:
        if held.started is not None and not held.loose_seconds:
            end = held.ended if held.ended is not None else held.until
            first, last = ran.get(held.attempt, (held.started, end))
            ran[held.attempt] = min(first, held.started), max(last, end)
            if is_interruption(held.cause) and held.cause not in _ANNOUNCED:
                broken.add(held.attempt)
    running_seconds = sum(max(0, end - start) for start, end in ran.values())
    return running_seconds / len(broken) if broken and running_seconds else None, len(broken)


def best_interval(cost_seconds: float, between_failures: float) -> float:
    """Return the time between two checkpoints that costs least, without the time to write one.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (Future Generation
    Computer Systems 22, 2006); its first term is that of J. W. Young (Communications of the ACM 17, 1974).
    """
    if cost_seconds >= 2 * between_failures:
        return between_failures
    share = cost_seconds / (2 * between_failures)
    first = math.sqrt(2 * cost_seconds * between_failures)
    return first * (1 + math.sqrt(share) / 3 + share / 9) - cost_seconds
