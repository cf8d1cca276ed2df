"""A preempted run: no member is ended without need or without its grace period, and never half of a gang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.gangs import FAILED, NOW, SUCCEEDED, after, member, step

from kajitori.core.formats.times import format_time
from kajitori.core.gang import (
    DeleteMember,
    DeleteMembers,
    Limits,
    Member,
    NeedsNodes,
    Run,
    Sweep,
    keep_waiting,
    next_step,
    place_on,
    preempt,
)
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Setback
from kajitori.core.spec.status_parts.members import MemberCounts, SweepState
from kajitori.core.spec.status_parts.preemption import Preempted

ASKED = Preempted(
    by="vision/urgent", uid="uid-urgent", who="vision/urgent (high, of ana)", since="2026-11-21T12:00:00Z"
)
WORDS = "preempted by vision/urgent (high, of ana)"
ALL_OF_IT = DeleteMembers(60, unfinished_only=True)


def preempted(type: Any = "batch", *, wanted: bool = True, **status: Any) -> Run:
    """Return a run of two members with a preemption and a grace of a minute."""
    attempt = Attempt(number=1, nodes="n[0-1]", planned_at="2026-11-21T11:00:00Z", created=True)
    fresh = RunStatus(phase=Phase.RUNNING, attempt=attempt, attempts=1, queued_at="2026-11-21T10:00:00Z")
    intent = msgspec.structs.replace(preempt(fresh, ASKED), **status)
    limits, withdrawn = (
        Limits(restarts=3, grace_seconds=60, restart_grace_seconds=5),
        frozenset(() if wanted else (ASKED.waiting,)),
    )
    return Run(type, 2, limits, intent, withdrawn=withdrawn)


@pytest.mark.parametrize("type", ["batch", "service"])
def test_a_preemption_is_written_before_members_are_ended(type: str) -> None:
    """Then all members get SIGTERM with their full grace; the run counts as running until their end is seen."""
    status = preempted(type).status
    assert (status.phase, status.reason, status.message) == (Phase.RUNNING, Reason.PREEMPTED, WORDS)
    answer = step(preempted(type), member(0), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.RUNNING, Reason.PREEMPTED)
    assert answer.actions == (ALL_OF_IT,)


@pytest.mark.parametrize("type", ["batch", "service"])
def test_a_withdrawn_preemption_ends_no_member(type: str) -> None:
    answer = step(preempted(type, wanted=False), member(0), member(1))
    assert answer.actions == ()
    assert (answer.status.phase, answer.status.preemption, answer.status.reason) == (Phase.RUNNING, None, Reason.NONE)
    assert answer.status.message == "goes on: vision/urgent no longer waits for its nodes"
    assert step(after(preempted(type), answer), member(0), member(1)).status.phase is Phase.RUNNING


def test_a_run_that_is_given_notice_goes_on_until_then() -> None:
    """Its status says when it ends. The notice is withdrawn with the preemption."""
    ends_at = NOW + timedelta(minutes=10)
    notice = msgspec.structs.replace(ASKED, ends_at=format_time(ends_at))
    run = preempted(preemption=notice)
    answer = step(run, member(0), member(1))
    assert (answer.actions, answer.wake_at, answer.status.phase) == ((), ends_at, Phase.RUNNING)
    assert answer.status.message == f"{WORDS}; its program is asked to end at {format_time(ends_at)}"
    assert next_step(run, (member(0), member(1)), ends_at).actions == (ALL_OF_IT,)
    withdrawn = step(preempted(wanted=False, preemption=notice), member(0), member(1))
    assert (withdrawn.actions, withdrawn.status.preemption) == ((), None)


def test_a_gang_ends_as_a_whole_once_one_member_was_ended() -> None:
    """Even if the preemptor no longer waits: half a gang is useless. It costs no restart."""
    for wanted in (True, False):
        answer = step(preempted(wanted=wanted), member(0, terminating=True), member(1))
        assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.PREEMPTED)
        assert (answer.status.restarts, answer.status.interruptions, answer.actions) == (0, 1, (ALL_OF_IT,))
        told = after(preempted(wanted=wanted), answer)
        for rest in (member(1), member(1, terminating=True)):
            later = step(told, member(0, SUCCEEDED, terminating=True), rest)
            assert later.actions == (() if rest.terminating else (ALL_OF_IT,))
            said = "" if wanted else ", which no longer waits"
            assert later.status.message == f"{WORDS}{said}; 1 member still ending, within 60 s"


@pytest.mark.parametrize(
    "members",
    [
        (member(0, FAILED, reason=Reason.PROGRAM_FAILED, exit_code=143, terminating=True), member(1, terminating=True)),
        (member(0, SUCCEEDED, terminating=True), member(1, SUCCEEDED, terminating=True)),
        (member(1, terminating=True),),
        (),
    ],
)
def test_a_preempted_gang_is_queued_whatever_its_exit_codes(members: Sequence[Member]) -> None:
    """Exit codes only answer SIGTERM, and a Pod that is gone was one that was ended."""
    told = after(preempted(), step(preempted(), *members))
    assert (told.status.phase, told.status.reason) == (Phase.RESTARTING, Reason.PREEMPTED)
    assert (told.status.restarts, told.status.interruptions) == (0, 1)
    back = step(told)
    assert back.actions == (NeedsNodes((0, 1), {0: "n0", 1: "n1"}, frozenset()),)
    assert back.status.queued_at == "2026-11-21T10:00:00Z"


def test_the_last_setback_is_kept_while_the_run_runs_again() -> None:
    """Reason, message, attempt and time, until the next interruption replaces them."""
    told = after(preempted(), step(preempted(), member(0, terminating=True), member(1)))
    placed = place_on(told.status, (0, 1), "n[2-3]", {}, 0, 2, NOW + timedelta(minutes=5))
    assert placed.attempt is not None
    made = msgspec.structs.replace(placed, attempt=msgspec.structs.replace(placed.attempt, created=True))
    runs = step(replace(told, status=made), member(0, attempt=2), member(1, attempt=2))
    assert (runs.status.phase, runs.status.preemption) == (Phase.RUNNING, None)
    expected = Setback(reason="Preempted", message=WORDS, attempt=1, at="2026-11-21T12:00:00Z")
    assert runs.status.setback == expected
    lost = member(1, FAILED, attempt=2, reason=Reason.NODE_LOST, message="node n3 is gone")
    again = step(after(replace(told, status=made), runs), member(0, attempt=2), lost)
    assert again.status.setback is not None
    assert (again.status.setback.reason, again.status.setback.attempt) == ("NodeLost", 2)
    assert again.status.setback.message == "member 1: node n3 is gone"


def test_a_failure_before_the_preemption_ends_the_run() -> None:
    """A program that fails before it was asked to end has failed; one that exhausted its node's memory is not moved."""
    broke = member(0, FAILED, reason=Reason.PROGRAM_FAILED, exit_code=1)
    assert step(preempted(), broke, member(1)).status.restarts == 1
    hog = member(0, FAILED, reason=Reason.OUT_OF_MEMORY, exit_code=137)
    assert step(preempted(), hog, member(1, terminating=True)).status.phase is Phase.FAILED
    assert step(preempted(), member(0, SUCCEEDED), member(1, SUCCEEDED)).status.phase is Phase.SUCCEEDED
    stopped = step(replace(preempted(), stopped=True), member(0), member(1))
    assert stopped.status.reason is Reason.STOPPING


def test_a_preempted_service_ends_and_restarts_as_a_whole() -> None:
    subject = preempted("service")
    one_told = step(subject, member(0, terminating=True), member(1))
    assert (one_told.status.phase, one_told.actions) == (Phase.RUNNING, (ALL_OF_IT,))
    told = step(after(subject, one_told), member(0, terminating=True), member(1, terminating=True))
    assert (told.status.phase, told.status.reason, told.status.interruptions) == (Phase.QUEUED, Reason.PREEMPTED, 1)
    ended = member(0, FAILED, reason=Reason.PROGRAM_FAILED, terminating=True)
    later = step(after(subject, told), ended, member(1, terminating=True))
    assert (later.status.phase, later.status.interruptions, later.actions) == (Phase.QUEUED, 1, ())
    back = step(after(subject, later))
    assert (back.status.phase, back.status.restarts) == (Phase.QUEUED, 0)
    assert [action.ranks for action in back.actions if isinstance(action, NeedsNodes)] == [(0, 1)]
    assert not any(isinstance(action, DeleteMember) for action in back.actions)


def test_a_service_whose_members_end_at_once_was_preempted() -> None:
    """No member was observed while it ended."""
    subject = preempted("service")
    gone = step(subject)
    assert (gone.status.phase, gone.status.reason, gone.status.interruptions) == (Phase.QUEUED, Reason.PREEMPTED, 1)
    back = step(after(subject, gone))
    assert back.status.interruptions == 1
    assert [action.ranks for action in back.actions if isinstance(action, NeedsNodes)] == [(0, 1)]


def test_a_preempted_sweep_restarts_only_members_that_ran() -> None:
    """Ended members stay ended; the others are written as requeued before they are deleted."""
    life = preempted(members=MemberCounts(total=3), sweep=SweepState(succeeded="0"))
    assert life.status.attempt is not None
    attempt = msgspec.structs.replace(life.status.attempt, nodes="n[0-2]", ranks="0-2", world_size=1)
    status = msgspec.structs.replace(life.status, attempt=attempt)
    subject = replace(life, status=status, replicas=3, sweep=Sweep((0, 1, 2), 3))
    kept = step(replace(subject, withdrawn=frozenset((ASKED.waiting,))), member(1), member(2))
    assert (kept.status.preemption, kept.actions) == (None, ())
    told = step(subject, member(1), member(2))
    assert told.status.sweep == SweepState(succeeded="0", again="1-2")
    assert (told.status.reason, told.status.interruptions, told.actions) == (Reason.PREEMPTED, 1, (ALL_OF_IT,))
    later = step(after(subject, told), member(1, FAILED, reason=Reason.PROGRAM_FAILED, terminating=True))
    assert later.status.interruptions == 1
    back = next_step(after(subject, later), (), NOW + timedelta(minutes=1))
    (needs,) = (action for action in back.actions if isinstance(action, NeedsNodes))
    assert (needs.ranks, back.status.restarts, back.status.members.failed) == ((1, 2), 0, 0)


def test_until_it_starts_again_it_names_its_preemptor() -> None:
    waiting = keep_waiting(preempted().status, Reason.WAITING_FOR_GPU, "needs 16 h100 on 2 whole nodes")
    assert (waiting.phase, waiting.reason) == (Phase.QUEUED, Reason.PREEMPTED)
    assert waiting.message == "preempted by vision/urgent (high, of ana); needs 16 h100 on 2 whole nodes"
    again = place_on(waiting, (0, 1), "n[0-1]", {}, 0, 2, NOW)
    assert (again.phase, again.attempts, again.preemption) == (Phase.STARTING, 2, None)
