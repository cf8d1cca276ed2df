"""The API server's clock, which all parts of a cluster can read.

One controller writes times into a Run, and another one judges deadlines by them. If each used its own clock, a
controller on a machine with a wrong clock could end every run that has a time limit as soon as it leads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

UPDATE_SECONDS = 60.0
"""Shortest interval between two updates of the time."""

PRECISION_SECONDS = 1.0
"""Answers have whole seconds and take a moment to arrive, so a smaller difference means nothing."""

DRIFT = 1e-3
"""Largest drift between two clocks (NTP slews by at most 500 ppm). A larger difference means that a clock was set or
that another server answered. It is ignored, because no deadline has come nearer."""


def steady_seconds() -> float:
    """Return seconds of a clock that is never set, and that continues while the machine sleeps if the system has such a
    clock."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class ServerClock:
    """The API server's time, by the `Date` of its answers and a steady clock of this machine."""

    def __init__(self, *, ticks: Callable[[], float] = steady_seconds, own: Callable[[], float] = time.time) -> None:
        """`ticks` returns seconds of a steady clock; `own` this machine's Unix time in seconds."""
        self._ticks = ticks
        self._own = own
        self._offset: float | None = None
        """Difference to the ticks in seconds; None before the first answer."""
        self._updated_at = 0.0
        self._accepts_any = True

    def now(self) -> datetime:
        """Return the API server's time; this machine's before the first answer."""
        seconds = self._own() if self._offset is None else self._ticks() + self._offset
        return datetime.fromtimestamp(seconds, UTC)

    def accept_next(self) -> None:
        """Use the time of the next answer even if it differs much: this machine may have been stopped for long."""
        self._accepts_any = True

    def note(self, date: str | None) -> None:
        """Update the clock by the `Date` of an answer."""
        ticks = self._ticks()
        if date is None or (not self._accepts_any and ticks - self._updated_at < UPDATE_SECONDS):
            return
        try:
            offset = parsedate_to_datetime(date).timestamp() + 0.5 - ticks
        except (ValueError, TypeError):
            return
        if self._offset is None or self._accepts_any:
            self._offset = offset
        elif abs(offset - self._offset) > PRECISION_SECONDS:
            largest_drift = (ticks - self._updated_at) * DRIFT
            self._offset += max(-largest_drift, min(largest_drift, offset - self._offset))
        self._updated_at, self._accepts_any = ticks, False
