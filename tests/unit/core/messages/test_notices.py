"""Notices: what is noted follows from the status, once, and not long after it happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kajitori.core.formats.times import format_time
from kajitori.core.messages.notices import FRESH, MOST_WAITING, warning_at, with_notices
from kajitori.core.policy.notifications import Notifications
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Setback
from kajitori.core.spec.status_parts.members import SweepState
from kajitori.core.spec.status_parts.notices import Notice, Notices
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.core.spec.status_parts.suspicions import Stuck

NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
RULES = Notifications()


def at(**ago: float) -> str:
    return format_time(NOW - timedelta(**ago))


def status(**fields: Any) -> RunStatus:
    return RunStatus(**{"phase": Phase.RUNNING, "queued_at": at(hours=2), **fields})


def noted(given: RunStatus, *, wanted: bool = True, taken: tuple[str, ...] = (), limit: int | None = None) -> RunStatus:
    return with_notices(given, wanted=wanted, taken=taken, rules=RULES, now=NOW, time_limit_seconds=limit)


def kinds(given: RunStatus) -> list[str]:
    return [notice.kind for notice in given.notices.waiting] if given.notices is not None else []


def attempt(**ago: float) -> Attempt:
    return Attempt(number=1, nodes="n1", planned_at=at(**ago), started_at=at(**ago))


CASES: dict[str, tuple[RunStatus, list[str]]] = {
    "a run that runs": (status(started_at=at(hours=1)), []),
    "a start after a long wait": (status(attempt=attempt(minutes=1)), ["started"]),
    "a start at once": (status(queued_at=at(minutes=2), attempt=attempt(minutes=1)), []),
    "a restart without a wait": (
        status(attempt=attempt(minutes=1), setback=Setback(reason="NodeLost", at=at(minutes=2))),
        [],
    ),
    "success": (status(phase=Phase.SUCCEEDED, finished_at=at(seconds=1)), ["ended"]),
    "a stop": (status(phase=Phase.STOPPED, finished_at=at(seconds=1)), ["ended"]),
    "a restart that was asked for": (
        status(phase=Phase.STOPPED, reason=Reason.RESTARTED_BY_USER, finished_at=at(seconds=1)),
        ["ended"],
    ),
    "a failure": (status(phase=Phase.FAILED, finished_at=at(seconds=1)), ["failed"]),
    "a failure of yesterday": (status(phase=Phase.FAILED, finished_at=at(days=1)), []),
    "a preemption": (status(preemption=Preempted(by="nlp/gpt", uid="u1", since=at(seconds=9))), ["preempted"]),
    "a drain": (status(setback=Setback(reason=Reason.DRAINED.value, at=at(seconds=9))), ["drained"]),
    "a suspicion before anyone looked": (status(stuck=Stuck(since=at(hours=1), attempt=1)), []),
    "a suspicion": (status(stuck=Stuck(since=at(hours=1), attempt=1, looked_at=at(seconds=9))), ["stuck"]),
    "a restart of a stuck run": (status(setback=Setback(reason=Reason.STUCK.value, at=at(seconds=9))), ["stuck"]),
    "another setback": (status(setback=Setback(reason=Reason.NODE_LOST.value, at=at(seconds=9))), []),
}


@pytest.mark.parametrize("case", CASES)
def test_events_are_noted_once_and_removed_once_taken(case: str) -> None:
    given, wanted = CASES[case]
    after = noted(given)
    assert kinds(after) == wanted
    assert noted(after) is after, "the same status gives no second notice"
    ids = tuple(notice.id for notice in after.notices.waiting) if after.notices is not None else ()
    taken = noted(after, taken=ids)
    assert kinds(taken) == [] and kinds(noted(taken)) == []


def test_nothing_is_noted_for_nobody() -> None:
    given = status(phase=Phase.FAILED, finished_at=at(seconds=1))
    assert noted(given, wanted=False) is given


def test_notices_are_still_removed_when_nobody_wants_them_any_more() -> None:
    after = noted(status(phase=Phase.FAILED, finished_at=at(seconds=1)))
    assert after.notices is not None
    assert kinds(noted(after, wanted=False, taken=(after.notices.waiting[0].id,))) == []


def test_a_resumed_run_that_ends_again_is_told_again() -> None:
    first = noted(status(phase=Phase.FAILED, finished_at=at(seconds=9)))
    assert kinds(noted(msgspec.structs.replace(first, finished_at=at(seconds=1)))) == ["failed", "failed"]


def test_a_run_that_was_created_stopped_has_no_end_to_tell() -> None:
    created = status(phase=Phase.STOPPED, reason=Reason.NOT_STARTED, finished_at=at(seconds=9))
    assert kinds(noted(created)) == []


def test_the_time_limit_is_told_ahead_and_once() -> None:
    """Half an hour ahead, and at most a tenth of the limit."""
    running = status(started_at=at(minutes=31))
    assert kinds(noted(running, limit=3600)) == [], "a tenth of an hour is six minutes"
    assert warning_at(running, RULES, 3600) == NOW + timedelta(minutes=23)
    after = noted(status(started_at=at(minutes=55)), limit=3600)
    assert kinds(after) == ["time-limit"] and kinds(noted(after, limit=3600)) == ["time-limit"]
    assert after.notices is not None and after.notices.waiting[0].text == "300"
    long = status(started_at=at(days=7))
    assert warning_at(long, RULES, 8 * 86400) == NOW + timedelta(days=1, minutes=-30)


def test_members_of_a_sweep_have_limits_of_their_own() -> None:
    assert warning_at(status(started_at=at(hours=1), sweep=SweepState()), RULES, 3600) is None


def test_a_status_holds_few_notices_and_the_newest() -> None:
    waiting = tuple(Notice(id=f"n{i}", kind="drained", at=at(minutes=1)) for i in range(MOST_WAITING))
    after = noted(status(phase=Phase.FAILED, finished_at=at(seconds=1), notices=Notices(waiting=waiting)))
    assert after.notices is not None
    assert len(after.notices.waiting) == MOST_WAITING and kinds(after)[-1] == "failed"


def test_old_events_are_not_noted() -> None:
    given = status(phase=Phase.FAILED, finished_at=format_time(NOW - FRESH - timedelta(seconds=1)))
    assert noted(given) is given


def test_a_suspicion_is_told_once_however_often_processes_are_looked_at() -> None:
    stuck = Stuck(since=at(hours=1), attempt=1, looked_at=at(minutes=12))
    first = noted(status(stuck=stuck))
    again = msgspec.structs.replace(first, stuck=msgspec.structs.replace(stuck, verdict="stuck", looked_at=at()))
    assert kinds(noted(again)) == ["stuck"]
    another = msgspec.structs.replace(first, stuck=Stuck(since=at(minutes=20), attempt=1, looked_at=at()))
    assert kinds(noted(another)) == ["stuck", "stuck"]
