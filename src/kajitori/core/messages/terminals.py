"""Notices for users who type in a terminal of a run: which are due, and their words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from kajitori.core.formats.node_lists import expand_ranks
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import parse_time, seconds_since
from kajitori.core.messages.idle_question import describe_gpus
from kajitori.core.messages.notices import run_events, warning_at
from kajitori.core.policy.notifications import Notifications
from kajitori.core.spec.notify import Kind
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import PreemptedBy


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
    found = list(_preemption_notices(status, rank, now))
    for kind, mark, _, text in run_events(status, rules, now, time_limit_seconds):
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


def _preemption_notices(status: RunStatus, rank: int, now: datetime) -> Iterator[TerminalNotice]:
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
