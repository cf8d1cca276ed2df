"""Notices: events of a run for its owner or its team. They stay in the run's status until an outbox has them.

They follow from the status alone, not from a change of it, and each is noted once: the status keeps the mark of the
last notice of each kind. So a notice is stored together with the decision that it is about, and a controller that is
killed between two writes neither loses nor doubles it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.messages.idle_question import describe_idle
from kajitori.core.policy.notifications import Notifications
from kajitori.core.spec.notify import Kind
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.notices import Notice, Notices

FRESH = timedelta(minutes=15)
"""Older events are not noted: a channel that is added today does not hear about yesterday."""
MOST_WAITING = 16
"""Most notices in a status. They stay for a second; only if none can be taken over for long, the oldest are dropped."""
_TEXT_LIMIT = 500
RESTARTS = "restarts"
"""Text about the end of a run that a user restarts."""
ENDS_AT = "at "
"""First word of the text about a preemption of which the run is given notice."""


class RunEvent(NamedTuple):
    """Something about a run that its owner or team may want to know."""

    kind: Kind
    mark: str
    """Tells events of one kind apart."""
    at: datetime
    text: str
    """The number of seconds that are left, for a time limit; the seconds for which it waited, for a start."""


def with_notices(
    status: RunStatus,
    *,
    wanted: bool,
    taken: Collection[str],
    rules: Notifications,
    now: datetime,
    time_limit_seconds: int | None = None,
) -> RunStatus:
    """Return the status with notices of new events, and without the notices that are `taken` (by their ids).

    `wanted`: whether the owner or the team has channels.
    """
    before = status.notices or Notices()
    noted, waiting = dict(before.noted), [notice for notice in before.waiting if notice.id not in taken]
    for kind, mark, at, text in run_events(status, rules, now, time_limit_seconds) if wanted else ():
        if noted.get(kind) != mark and now - at < FRESH:
            noted[kind] = mark
            waiting.append(Notice(id=f"{kind}.{mark}", kind=kind.value, at=format_time(at), text=text[:_TEXT_LIMIT]))
    after = Notices(noted=noted, waiting=tuple(waiting[-MOST_WAITING:]))
    if after == before:
        return status
    return msgspec.structs.replace(status, notices=after if after != Notices() else None)


def warning_at(status: RunStatus, rules: Notifications, time_limit_seconds: int | None) -> datetime | None:
    """Return when the owner is to be warned that the run reaches its time limit; None if never."""
    started = parse_time(status.started_at)
    if time_limit_seconds is None or started is None or status.phase.is_final or status.sweep is not None:
        return None
    return started + timedelta(seconds=time_limit_seconds - _ahead_seconds(rules, time_limit_seconds))


def _ahead_seconds(rules: Notifications, time_limit_seconds: int) -> float:
    return min(rules.before_time_limit_seconds, time_limit_seconds / 10)


def run_events(
    status: RunStatus, rules: Notifications, now: datetime, time_limit_seconds: int | None
) -> Iterator[RunEvent]:
    """Yield every event that the status shows: setbacks, the start, idle GPUs, the time limit, the end."""
    found = [*_setback_events(status), *_start_events(status, rules), *_idle_events(status)]
    warning = warning_at(status, rules, time_limit_seconds)
    if warning is not None and warning <= now and status.phase is Phase.RUNNING:
        ends = warning + timedelta(seconds=_ahead_seconds(rules, time_limit_seconds or 0))
        left_seconds = max(0, round((ends - now).total_seconds()))
        found.append(RunEvent(Kind.TIME_LIMIT, status.started_at, now, str(left_seconds)))
    found += _end_events(status)
    yield from found


def _setback_events(status: RunStatus) -> Iterator[RunEvent]:
    asked = status.preemption
    if asked is not None and (since := parse_time(asked.since)) is not None:
        ends = f"{ENDS_AT}{asked.ends_at} " if asked.ends_at else ""
        text = f"{ends}for {asked.who or asked.by}"
        yield RunEvent(Kind.PREEMPTED, f"{asked.since}.{asked.uid[:8]}", since, text)
    stuck = status.stuck
    if stuck is not None and stuck.looked_at and (at := parse_time(stuck.looked_at)) is not None:
        yield RunEvent(Kind.STUCK, f"{stuck.attempt}.{stuck.since}", at, stuck.message)
    setback = status.setback
    if setback is not None and setback.reason == Reason.DRAINED and (at := parse_time(setback.at)) is not None:
        yield RunEvent(Kind.DRAINED, setback.at, at, setback.message)
    if setback is not None and setback.reason == Reason.STUCK and (at := parse_time(setback.at)) is not None:
        yield RunEvent(Kind.STUCK, setback.at, at, f"The gang restarts: {setback.message}")


def _idle_events(status: RunStatus) -> Iterator[RunEvent]:
    """Yield the question about idle GPUs, or the warning that follows it."""
    idle = status.idle
    at = parse_time(idle.warned_at or idle.asked_at) if idle is not None else None
    if idle is None or at is None or status.phase.is_final:
        return
    mark = f"{idle.asked_at}.warned" if idle.warned_at else idle.asked_at
    yield RunEvent(Kind.IDLE, mark, at, describe_idle(idle, at))


def _start_events(status: RunStatus, rules: Notifications) -> Iterator[RunEvent]:
    attempt = status.attempt
    started = parse_time(attempt.started_at) if attempt is not None else None
    if attempt is None or started is None:
        return
    queued = parse_time(status.queued_at)
    if status.setback is not None and (again := parse_time(status.setback.at)) is not None and queued is not None:
        queued = max(queued, again)
    if queued is not None and started - queued >= timedelta(seconds=rules.long_wait_seconds):
        waited_seconds = int((started - queued).total_seconds())
        yield RunEvent(Kind.STARTED, f"{status.resumes}.{attempt.number}", started, str(waited_seconds))


def _end_events(status: RunStatus) -> Iterator[RunEvent]:
    finished = parse_time(status.finished_at)
    if status.phase.is_final and finished is not None and status.reason is not Reason.NOT_STARTED:
        kind = Kind.FAILED if status.phase is Phase.FAILED else Kind.ENDED
        text = RESTARTS if status.reason is Reason.RESTARTED_BY_USER else status.message
        yield RunEvent(kind, status.finished_at, finished, text)
