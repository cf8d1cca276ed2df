"""What is asked of a member's log, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kajitori.api.log_lines import Piece


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What of a log is wanted."""

    follow: bool = False
    """Go on, over restarts too, until the run is final."""
    tail: int | None = None
    """Only so many of the last lines."""
    since: datetime | None = None
    """Only what was written from then on."""
    attempt: int | None = None
    """Only this attempt; else the newest, and with `follow` those that come after."""
    first: int | None = None
    """With `follow`: this attempt and those that come after, of which the Pods may be gone. `tail` and `since` are
    about this one."""


class Batch(NamedTuple):
    """What came at once."""

    attempt: int
    pieces: list[Piece]
