"""Failures in a gang: what is done about them, and what they count against."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.gangs import (
    FAILED,
    NOW,
    PENDING,
    RUNNING,
    SUCCEEDED,
    after,
    failed,
    kinds,
    member,
    run,
    step,
    with_attempt,
)

from kajitori.core.gang import DeleteMembers, Limits, Member, MemberState, NeedsNodes, Run
from kajitori.core.spec.reasons import Phase, Reason


def test_a_failing_program_restarts_the_whole_gang() -> None:
    """The restart counts, survivors get the short grace, and the failed member's Pod stays for its log."""
    answer = step(run(), failed(0, code=7), member(1))
    assert answer.status.phase is Phase.RESTARTING
    assert answer.status.restarts == 1
    assert answer.actions == (DeleteMembers(5, unfinished_only=True),)
    waiting = step(replace(run(), status=answer.status), failed(0), member(1, terminating=True))
    assert waiting.actions == ()
    ready = step(replace(run(), status=answer.status), failed(0))
    assert ready.actions == (NeedsNodes((0, 1), {0: "n0", 1: "n1"}, frozenset()),)


def test_without_restarts_left_the_run_fails_with_the_exit_code() -> None:
    answer = step(run(restarts=1), failed(0))
    assert answer.status.phase is Phase.RESTARTING
    spent = replace(run(restarts=1), status=msgspec.structs.replace(run().status, restarts=1))
    answer = step(spent, failed(1, code=7), member(0))
    assert (answer.status.phase, answer.status.reason, answer.status.exit_code) == (
        Phase.FAILED,
        Reason.PROGRAM_FAILED,
        7,
    )
    assert "restarted 1 of 1 times" in answer.status.message
    tidy = step(replace(spent, status=answer.status), failed(1, code=7), member(0))
    assert tidy.actions == (DeleteMembers(5, unfinished_only=True),)


def test_a_run_killed_for_memory_is_not_moved_to_another_node() -> None:
    """This holds even if other members failed first because of it, and with restarts left."""
    dead = failed(1, Reason.OUT_OF_MEMORY, 137, ended_at="2026-11-21T12:00:05Z")
    answer = step(run(restarts=10), failed(0, code=1, ended_at="2026-11-21T12:00:04Z"), dead)
    assert (answer.status.phase, answer.status.reason, answer.status.exit_code) == (
        Phase.FAILED,
        Reason.OUT_OF_MEMORY,
        137,
    )


@pytest.mark.parametrize(("second", "who"), [("05", "member 1"), ("04", "member 0")])
def test_of_failures_in_one_second_the_killed_member_is_the_cause(second: str, who: str) -> None:
    """Its peers fail because it is gone; a member that failed in an earlier second is the cause itself."""
    lost_its_peer = failed(0, code=1, ended_at=f"2026-11-21T12:00:{second}Z")
    answer = step(run(), lost_its_peer, failed(1, code=137, ended_at="2026-11-21T12:00:05Z"))
    assert answer.status.message.startswith(who)


@pytest.mark.parametrize(
    "reason", [Reason.EVICTED, Reason.NODE_OUT_OF_MEMORY, Reason.PREEMPTED, Reason.DRAINED, Reason.NODE_LOST]
)
def test_interruptions_do_not_count_as_restarts(reason: Reason) -> None:
    answer = step(run(restarts=0), failed(0, reason), failed(1, code=1))
    assert answer.status.phase is Phase.RESTARTING
    assert answer.status.reason is reason
    assert (answer.status.restarts, answer.status.interruptions) == (0, 1)


def unlimited(**status: Any) -> Run:
    """Return a run without a memory limit."""
    return replace(run(**status), limits=Limits(memory_limited=False))


@pytest.mark.parametrize(
    "reason",
    [
        Reason.EVICTED,
        Reason.NODE_OUT_OF_MEMORY,
        Reason.MEMBER_DELETED,
        Reason.NODE_LOST,
        Reason.OUT_OF_MEMORY,
        Reason.PROGRAM_FAILED,
    ],
)
def test_a_run_without_a_memory_limit_is_never_moved(reason: Reason) -> None:
    """For any failure that looks like the node's: the run may have exhausted that node's memory (Q9)."""
    answer = step(unlimited(), failed(1, reason), member(0))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, reason)
    assert answer.status.interruptions == 0


def test_a_dead_node_ends_a_run_without_a_memory_limit() -> None:
    answer = step(unlimited(), member(0), member(1, node_ready=False))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, Reason.NODE_LOST)
    assert "without a memory limit" in answer.status.message


@pytest.mark.parametrize("reason", [Reason.DRAINED, Reason.PREEMPTED, Reason.IMAGE_PULL])
def test_causes_other_than_memory_do_not_end_a_run_without_a_limit(reason: Reason) -> None:
    """A decision of an operator or a scheduler, or a program that never ran."""
    answer = step(unlimited(), failed(1, reason), member(0))
    assert answer.status.phase in (Phase.RESTARTING, Phase.QUEUED)
    assert answer.status.interruptions == 1


def test_an_unreachable_node_does_not_block_the_next_attempt() -> None:
    """The lost member's Pod stays, terminating for ever."""
    lost = member(0, node_ready=False)
    answer = step(run(), lost, member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.NODE_LOST)
    stuck = replace(lost, terminating=True)
    assert kinds(step(replace(run(), status=answer.status), stuck)) == [NeedsNodes]


def test_a_deleted_member_may_write_its_checkpoint_first() -> None:
    """No other member is ended until it is gone; then the reason seen before is remembered."""
    ending = member(0, terminating=True, reason=Reason.PREEMPTED)
    answer = step(run(), ending, member(1))
    assert (answer.status.phase, answer.status.reason, answer.actions) == (Phase.RUNNING, Reason.PREEMPTED, ())
    after = step(replace(run(), status=answer.status), member(1))
    assert (after.status.phase, after.status.reason, after.status.restarts) == (Phase.RESTARTING, Reason.PREEMPTED, 0)


def test_an_eviction_ends_the_whole_gang_at_once() -> None:
    """All members get the run's own grace: a checkpoint is often written by all together."""
    answer = step(run(), member(0), member(1, terminating=True, reason=Reason.DRAINED))
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.DRAINED)
    assert (answer.status.restarts, answer.status.interruptions) == (0, 1)
    assert "member 1 on n1 was evicted" in answer.status.message
    assert answer.actions == (DeleteMembers(Limits().grace_seconds, unfinished_only=True),)


@pytest.mark.parametrize("state", [RUNNING, PENDING])
def test_a_drained_node_moves_the_whole_gang(state: MemberState) -> None:
    """It gets its own grace to write a checkpoint, and this counts as no failure."""
    answer = step(run(), member(0), member(1, state, node_draining=True))
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.DRAINED)
    assert (answer.status.restarts, answer.status.interruptions) == (0, 1)
    assert "n1" in answer.status.message
    assert answer.actions == (DeleteMembers(Limits().grace_seconds, unfinished_only=True),)
    assert answer.status.avoid_nodes == {}


def test_an_ended_member_on_a_drained_node_does_not_move_the_gang() -> None:
    answer = step(run(), member(0), member(1, SUCCEEDED, node_draining=True))
    assert (answer.status.phase, answer.actions) == (Phase.RUNNING, ())


def test_a_late_start_frees_its_nodes_and_backs_off_exponentially() -> None:
    """The message names what hung, it does not count as a restart, and the backoff doubles."""
    slow = member(1, PENDING, reason=Reason.IMAGE_PULL, message="no such image: bert:3")
    subject = run(phase=Phase.STARTING)
    early = step(subject, member(0), slow, at=timedelta(seconds=599))
    assert early.status.phase is Phase.STARTING
    assert early.status.reason is Reason.IMAGE_PULL
    assert early.wake_at == NOW + timedelta(seconds=600)
    late = step(subject, member(0), slow, at=timedelta(seconds=600))
    assert (late.status.phase, late.status.reason) == (Phase.QUEUED, Reason.IMAGE_PULL)
    assert late.actions == (DeleteMembers(5),)
    assert "no such image" in late.status.message
    assert (late.status.restarts, late.status.failed_starts) == (0, 1)
    pauses = []
    for failures in range(1, 9):
        again = replace(
            subject, status=msgspec.structs.replace(subject.status, failed_starts=failures - 1, not_before="")
        )
        answer = step(again, member(0), slow, at=timedelta(seconds=600))
        assert answer.wake_at is not None
        pauses.append((answer.wake_at - NOW).total_seconds() - 600)
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]


@pytest.mark.parametrize("progress", [{"started_at": "2026-11-21T12:09:00Z"}, {"created_at": "2026-11-21T12:09:00Z"}])
def test_a_start_that_goes_on_is_not_given_up(progress: dict[str, Any]) -> None:
    """The members of a large gang are created and started one after the other."""
    members = member(0, **progress), member(1, PENDING, reason=Reason.CREATING)
    subject = run(phase=Phase.STARTING)
    late = step(subject, *members, at=timedelta(minutes=18, seconds=59))
    assert (late.status.phase, late.wake_at) == (Phase.STARTING, NOW + timedelta(minutes=19))
    given_up = step(subject, *members, at=timedelta(minutes=19))
    assert (given_up.status.phase, given_up.actions) == (Phase.QUEUED, (DeleteMembers(5),))
    assert "no member started for 600 s: member 1" in given_up.status.message


def test_the_next_attempt_waits_for_the_backoff() -> None:
    subject = run(phase=Phase.QUEUED, not_before="2026-11-21T12:00:10Z")
    assert step(subject).actions == ()
    assert step(subject).wake_at == NOW + timedelta(seconds=10)
    assert kinds(step(subject, at=timedelta(seconds=10))) == [NeedsNodes]


def test_a_pinned_pod_that_is_unschedulable_is_given_up_early() -> None:
    stuck = member(1, PENDING, reason=Reason.UNSCHEDULED, message="0/3 nodes are available")
    answer = step(run(phase=Phase.STARTING), member(0), stuck, at=timedelta(seconds=30))
    assert (answer.status.phase, answer.status.reason) == (Phase.QUEUED, Reason.UNSCHEDULED)


def test_a_run_avoids_a_node_after_two_failures() -> None:
    subject = run(restarts=9)
    for _ in range(2):
        answer = step(subject, failed(0), member(1))
        subject = replace(
            subject, status=msgspec.structs.replace(answer.status, phase=Phase.RUNNING, attempt=run().status.attempt)
        )
    waiting = replace(subject, status=msgspec.structs.replace(subject.status, phase=Phase.RESTARTING))
    (wanted,) = step(waiting).actions
    assert isinstance(wanted, NeedsNodes)
    assert wanted.avoid == {"n0"}


def test_a_member_that_would_run_as_root_ends_the_run() -> None:
    """Neither waiting nor another start helps, whether the kubelet keeps the member waiting or has refused it."""
    for state in (PENDING, FAILED):
        would = member(1, state, reason=Reason.RUNS_AS_ROOT, message="name another user")
        answer = step(run(phase=Phase.STARTING), member(0), would)
        assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, Reason.RUNS_AS_ROOT)
        over = replace(run(), status=answer.status)
        assert kinds(step(over, member(0), would)) == [DeleteMembers]


@pytest.mark.parametrize(
    ("said", "reason"),
    [(Reason.NONE, Reason.MEMBER_DELETED), (Reason.PREEMPTED, Reason.PREEMPTED)],
    ids=["kubectl delete", "told before"],
)
@pytest.mark.parametrize("state", [FAILED, SUCCEEDED], ids=["killed by SIGTERM", "exit code 0 at SIGTERM"])
def test_a_deleted_member_neither_failed_nor_succeeded(state: MemberState, said: Reason, reason: Reason) -> None:
    """For any exit code it costs no restart, and the run is not finished."""
    subject = run(restarts=0, reason=said)
    ended = [member(rank, state, terminating=True, reason=Reason.NONE) for rank in (0, 1)]
    if state is FAILED:
        ended = [replace(member, reason=Reason.PROGRAM_FAILED, exit_code=143) for member in ended]
    for seen in (ended, [ended[0], member(1)]):
        answer = step(subject, *seen)
        assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, reason)
        assert (answer.status.restarts, answer.status.interruptions) == (0, 1)
    culprit = replace(ended[0], state=FAILED, reason=Reason.OUT_OF_MEMORY)
    assert step(subject, culprit, member(1)).status.phase is Phase.FAILED


def test_nodes_that_never_admit_members_are_avoided() -> None:
    """A volume may be in another zone, or another Pod may always be faster; the planned node is avoided."""
    for subject in (run(replicas=3, phase=Phase.STARTING), run(replicas=3, type="service")):
        stuck = [member(rank, PENDING, reason=Reason.UNSCHEDULED, node="") for rank in (1, 2)]
        answer = step(subject, member(0), *stuck, at=timedelta(seconds=600))
        assert answer.status.avoid_nodes == {"n1": 1, "n2": 1}


@pytest.mark.parametrize("why", [failed(1), failed(1, Reason.EVICTED, None)], ids=["exit code 1", "evicted"])
def test_how_the_last_attempt_ended_stays_known_while_the_next_one_waits(why: Member) -> None:
    """Notes on what members waited for go once all members run."""
    ended = step(run(), member(0), why)
    subject = replace(run(), status=with_attempt(ended.status, number=2))
    next_one = replace(subject, status=msgspec.structs.replace(subject.status, phase=Phase.STARTING))
    waits = step(next_one, member(0, attempt=2), member(1, PENDING, attempt=2, reason=Reason.UNSCHEDULED))
    assert [note.reason for note in waits.status.notable] == ["Unscheduled", why.reason.value]
    runs = step(after(next_one, waits), member(0, attempt=2), member(1, attempt=2))
    assert (runs.status.phase, runs.status.notable) == (Phase.RUNNING, ended.status.notable)
    fails = step(after(next_one, runs), failed(0, attempt=2), member(1, attempt=2))
    assert [(note.rank, note.attempt) for note in fails.status.notable] == [(0, 2)]


def test_what_members_waited_for_is_not_shown_once_they_run() -> None:
    subject = run(phase=Phase.STARTING)
    waits = step(subject, member(0), member(1, PENDING, reason=Reason.UNSCHEDULED))
    assert [note.rank for note in waits.status.notable] == [1]
    assert step(after(subject, waits), member(0), member(1)).status.notable == []
