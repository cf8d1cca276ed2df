"""The API server's clock, the only one that all parts of a cluster can ask.

A Run carries times that one controller wrote and another judges deadlines by. By each one's own clock, a machine whose
clock is an hour wrong would end every run with a time limit as soon as it leads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LOOK_SECONDS = 60.0
"""An answer is looked at for its time at most this often."""

ROUGHNESS_SECONDS = 1.0
"""Answers tell whole seconds, and take a moment to arrive: less of a difference means nothing."""

DRIFT = 1e-3
"""Clocks drift apart by less than this share (NTP slews by at most 500 ppm). More of a difference is a clock that was
set, or another server: that is not followed, since no deadline has come any nearer."""


def steady_seconds() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class ServerClock:
    """What time it is for the API server, by its answers' `Date` and a steady clock of our own."""

    def __init__(self, *, ticks: Callable[[], float] = steady_seconds, own: Callable[[], float] = time.time) -> None:
        """ticks: seconds of a steady clock; own: this machine's time in seconds of Unix."""
        self._ticks = ticks
        self._own = own
        self._offset: float | None = None
        """What to add to the ticks; None before the first answer."""
        self._told_at = 0.0
        self._anew = True

    def now(self) -> datetime:
        """The API server's time; our own before it has answered at all."""
        seconds = self._own() if self._offset is None else self._ticks() + self._offset
        return datetime.fromtimestamp(seconds, UTC)

    def set_anew(self) -> None:
        """Believes the next answer, however far off it is: this machine may have been stopped for long."""
        self._anew = True

    def note(self, date: str | None) -> None:
        """An answer arrived with this `Date`."""
        ticks = self._ticks()
        if date is None or (not self._anew and ticks - self._told_at < LOOK_SECONDS):
            return
        try:
            offset = parsedate_to_datetime(date).timestamp() + 0.5 - ticks
        except (ValueError, TypeError):
            return
        if self._offset is None or self._anew:
            self._offset = offset
        elif abs(offset - self._offset) > ROUGHNESS_SECONDS:
            reach = (ticks - self._told_at) * DRIFT
            self._offset += max(-reach, min(reach, offset - self._offset))
        self._told_at, self._anew = ticks, False
