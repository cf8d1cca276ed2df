"""Notices for users who type in a terminal of a run: which are due, their words, and how they appear on a screen.

`wall` and Slurm write a line of their own to the terminal, and so does this. A program that uses the whole screen, such
as an editor, keeps its cursor and gets the notice in its last line until it draws that line again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from kajitori.core.messages.idle_question import describe_gpus
from kajitori.core.messages.notices import events, warning_at
from kajitori.core.policy.notifications import Notifications
from kajitori.core.spec.notify import Kind
from kajitori.core.spec.status import PreemptedBy, RunStatus
from kajitori.core.words.nodes.node_lists import expand_ranks
from kajitori.core.words.quantities import format_duration
from kajitori.core.words.times import parse_time, seconds_since

_SWITCH = re.compile(rb"\x1b\[(?:\?(?:1049|1047|47)([hl])|\d{1,4};\d{1,4}H)")
"""Sequences by which a program begins (h) and ends (l) to use the whole screen, and the one that moves the cursor to a
line and column: a client that attaches to an editor has missed its first sequence, but gets its screen."""
_SWITCH_BYTES = 12
"""Length of the longest of them."""
_BELL, _SAVE, _RESTORE, _LAST_LINE, _REVERSE, _PLAIN = "\a", "\x1b7", "\x1b8", "\x1b[999;1H", "\x1b[7m", "\x1b[0m\x1b[K"


@dataclass(frozen=True, slots=True)
class TerminalNotice:
    """A line for a terminal."""

    mark: str
    """Tells notices apart: one with the same mark is shown once."""
    text: str
    is_past: bool = False
    """Whether it is about something that has happened. A terminal that was opened later does not show it."""


def due_notices(
    status: RunStatus,
    name: str,
    rank: int,
    *,
    rules: Notifications,
    now: datetime,
    time_limit_seconds: int | None,
) -> list[TerminalNotice]:
    """Return the notices that a terminal in the member `rank` of a run shows now, the earliest first."""
    found = list(_preemptions(status, rank, now))
    for kind, mark, _, text in events(status, rules, now, time_limit_seconds):
        marked = f"{kind}.{mark}"
        if kind is Kind.DRAINED:
            found.append(TerminalNotice(marked, f"this run restarts on other nodes: {text}", is_past=True))
        elif kind is Kind.TIME_LIMIT:
            left = _in_words(int(text))
            found.append(TerminalNotice(marked, f"this run reaches its time limit {left} and ends: save your work"))
        elif kind is Kind.IDLE and status.idle is not None:
            found.append(TerminalNotice(marked, _idle_words(status, name, now)))
    return found


def next_notice_at(status: RunStatus, rules: Notifications, time_limit_seconds: int | None) -> datetime | None:
    """Return when the next notice is due that follows from the time alone; None if there is none."""
    return warning_at(status, rules, time_limit_seconds)


class Screen:
    """State of a terminal's screen, as far as the bytes that were sent to it tell."""

    def __init__(self) -> None:
        self.columns = 80
        self._is_full = False
        self._end = b""

    def note(self, output: bytes) -> None:
        """Look for sequences by which a program begins or ends to use the whole screen."""
        seen = self._end + output
        for switch in _SWITCH.finditer(seen):
            self._is_full = switch[1] != b"l"
        self._end = seen[-(_SWITCH_BYTES - 1) :]

    def show(self, text: str) -> bytes:
        """Return the bytes that show a notice."""
        line = "kaji: " + "".join(letter if letter.isprintable() else " " for letter in text)
        if not self._is_full:
            return f"\r\n{_BELL}{line}\r\n".encode()
        cut = line[: max(1, self.columns - 1)]  # a longer line would scroll the screen
        return f"{_BELL}{_SAVE}{_LAST_LINE}{_REVERSE}{cut}{_PLAIN}{_RESTORE}".encode()


def _preemptions(status: RunStatus, rank: int, now: datetime) -> Iterator[TerminalNotice]:
    for asked in status.preemption.each if status.preemption is not None else ():
        if not asked.ranks or rank in expand_ranks(asked.ranks):
            yield TerminalNotice(f"{Kind.PREEMPTED}.{asked.since}.{asked.uid}", _preemption_words(asked, now))


def _preemption_words(asked: PreemptedBy, now: datetime) -> str:
    ends_at = parse_time(asked.ends_at)
    if ends_at is None:
        return f"this run is preempted now, for {asked.who or asked.by}; it starts again when it gets nodes"
    when = f"{_in_words((ends_at - now).total_seconds())} ({ends_at:%H:%M:%S} UTC)"
    return f"this run is preempted {when}, for {asked.who or asked.by}: save your work; it starts again later"


def _idle_words(status: RunStatus, name: str, now: datetime) -> str:
    idle = status.idle
    assert idle is not None
    answers = f"still needed? kaji keep {name} --until 18:00, else kaji park {name}"
    left = seconds_since(idle.park_at, now) if idle.warned_at and idle.park_at else None
    if left is None:
        return f"nothing uses {describe_gpus(idle)} of this run: {answers}"
    return f"this run is parked {_in_words(-left)}, since nothing uses {describe_gpus(idle)}: {answers}"


def _in_words(seconds: float) -> str:
    if seconds < 1:
        return "now"
    return f"in {format_duration(60 * round(seconds / 60) if seconds >= 120 else round(seconds))}"
