"""What fails in a gang, what is done to it, and whose matter that is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.gangs import FAILED, NOW, PENDING, RUNNING, SUCCEEDED, failed, kinds, member, run, step

from kajitori.core.gang import DeleteMembers, Limits, MemberState, NeedsNodes, Run
from kajitori.core.spec.reasons import Phase, Reason


def test_a_failing_program_takes_the_whole_gang_back_to_its_checkpoint() -> None:
    """The restart counts, survivors get the short grace, and the ended member's Pod stays to be read."""
    answer = step(run(), failed(0, code=7), member(1))
    assert answer.status.phase is Phase.RESTARTING
    assert answer.status.restarts == 1
    assert answer.actions == (DeleteMembers(5, unfinished_only=True),)
    waiting = step(replace(run(), status=answer.status), failed(0), member(1, terminating=True))
    assert waiting.actions == ()
    ready = step(replace(run(), status=answer.status), failed(0))
    assert ready.actions == (NeedsNodes((0, 1), {0: "n0", 1: "n1"}, frozenset()),)


def test_out_of_restarts_the_run_fails_with_the_programs_exit_code() -> None:
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


def test_the_culprit_of_a_memory_kill_is_not_carried_to_another_node() -> None:
    """Even if other members fell over first in consequence, and however many restarts are left."""
    dead = failed(1, Reason.OUT_OF_MEMORY, 137, ended_at="2026-11-21T12:00:05Z")
    answer = step(run(restarts=10), failed(0, code=1, ended_at="2026-11-21T12:00:04Z"), dead)
    assert (answer.status.phase, answer.status.reason, answer.status.exit_code) == (
        Phase.FAILED,
        Reason.OUT_OF_MEMORY,
        137,
    )


@pytest.mark.parametrize(("second", "who"), [("05", "member 1"), ("04", "member 0")])
def test_of_those_that_failed_in_one_second_the_one_that_was_killed_explains_it(second: str, who: str) -> None:
    """Its peers fail because it is gone; who failed before it is another matter."""
    lost_its_peer = failed(0, code=1, ended_at=f"2026-11-21T12:00:{second}Z")
    answer = step(run(), lost_its_peer, failed(1, code=137, ended_at="2026-11-21T12:00:05Z"))
    assert answer.status.message.startswith(who)


@pytest.mark.parametrize(
    "reason", [Reason.EVICTED, Reason.NODE_OUT_OF_MEMORY, Reason.PREEMPTED, Reason.DRAINED, Reason.NODE_LOST]
)
def test_what_is_done_to_a_run_does_not_count_against_it(reason: Reason) -> None:
    answer = step(run(restarts=0), failed(0, reason), failed(1, code=1))
    assert answer.status.phase is Phase.RESTARTING
    assert answer.status.reason is reason
    assert (answer.status.restarts, answer.status.interruptions) == (0, 1)


def unlimited(**status: Any) -> Run:
    """A run whose memory nothing limits."""
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
def test_a_run_without_a_memory_limit_is_never_carried_to_another_node(reason: Reason) -> None:
    """Whatever looks as if its node had suffered: it may have been what ate that node's memory (Q9)."""
    answer = step(unlimited(), failed(1, reason), member(0))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, reason)
    assert answer.status.interruptions == 0


def test_a_dead_node_ends_a_run_without_a_memory_limit() -> None:
    answer = step(unlimited(), member(0), member(1, node_ready=False))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, Reason.NODE_LOST)
    assert "without a memory limit" in answer.status.message


@pytest.mark.parametrize("reason", [Reason.DRAINED, Reason.PREEMPTED, Reason.IMAGE_PULL])
def test_what_says_nothing_about_its_memory_does_not_end_a_run_without_a_limit(reason: Reason) -> None:
    """An operator's or a scheduler's decision, or a program that never ran."""
    answer = step(unlimited(), failed(1, reason), member(0))
    assert answer.status.phase in (Phase.RESTARTING, Phase.QUEUED)
    assert answer.status.interruptions == 1


def test_a_node_that_does_not_answer_is_not_waited_for() -> None:
    """The gang goes on elsewhere although the lost member's Pod is still there, terminating for ever."""
    lost = member(0, node_ready=False)
    answer = step(run(), lost, member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.NODE_LOST)
    stuck = replace(lost, terminating=True)
    assert kinds(step(replace(run(), status=answer.status), stuck)) == [NeedsNodes]


def test_a_member_that_somebody_deletes_may_write_its_checkpoint_first() -> None:
    """While it is being ended nothing else is; once it is gone the reason seen before is remembered."""
    ending = member(0, terminating=True, reason=Reason.PREEMPTED)
    answer = step(run(), ending, member(1))
    assert (answer.status.phase, answer.status.reason, answer.actions) == (Phase.RUNNING, Reason.PREEMPTED, ())
    after = step(replace(run(), status=answer.status), member(1))
    assert (after.status.phase, after.status.reason, after.status.restarts) == (Phase.RESTARTING, Reason.PREEMPTED, 0)


def test_a_member_that_is_evicted_takes_the_whole_gang_along() -> None:
    """All are asked to end at once, within the run's own grace: a checkpoint is often written by all together."""
    answer = step(run(), member(0), member(1, terminating=True, reason=Reason.DRAINED))
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.DRAINED)
    assert (answer.status.restarts, answer.status.interruptions) == (0, 1)
    assert "member 1 on n1 was evicted" in answer.status.message
    assert answer.actions == (DeleteMembers(Limits().grace_seconds, unfinished_only=True),)


@pytest.mark.parametrize("state", [RUNNING, PENDING])
def test_a_node_that_is_drained_sends_the_whole_gang_elsewhere(state: MemberState) -> None:
    """With the run's own grace, so that it may write its checkpoint; it counts as nobody's failure."""
    answer = step(run(), member(0), member(1, state, node_draining=True))
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.DRAINED)
    assert (answer.status.restarts, answer.status.interruptions) == (0, 1)
    assert "n1" in answer.status.message
    assert answer.actions == (DeleteMembers(Limits().grace_seconds, unfinished_only=True),)
    assert answer.status.avoid_nodes == {}


def test_a_member_that_ended_on_a_drained_node_moves_nobody() -> None:
    answer = step(run(), member(0), member(1, SUCCEEDED, node_draining=True))
    assert (answer.status.phase, answer.actions) == (Phase.RUNNING, ())


def test_a_start_that_takes_too_long_frees_its_nodes_and_pauses_longer_each_time() -> None:
    """It names what hung, does not count as a restart, and the pause doubles."""
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


def test_the_pause_is_waited_out() -> None:
    subject = run(phase=Phase.QUEUED, not_before="2026-11-21T12:00:10Z")
    assert step(subject).actions == ()
    assert step(subject).wake_at == NOW + timedelta(seconds=10)
    assert kinds(step(subject, at=timedelta(seconds=10))) == [NeedsNodes]


def test_a_pinned_pod_that_the_scheduler_gave_up_on_is_not_waited_for_long() -> None:
    stuck = member(1, PENDING, reason=Reason.UNSCHEDULED, message="0/3 nodes are available")
    answer = step(run(phase=Phase.STARTING), member(0), stuck, at=timedelta(seconds=30))
    assert (answer.status.phase, answer.status.reason) == (Phase.QUEUED, Reason.UNSCHEDULED)


def test_two_failures_on_a_node_and_the_run_avoids_it() -> None:
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
    """Waiting does not help, nor does another start: whether its kubelet keeps it waiting or refused it."""
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
def test_what_was_deleted_did_not_fail_and_did_not_finish(state: MemberState, said: Reason, reason: Reason) -> None:
    """However a program ends that somebody else asked to end: it costs no restart, and its run is not done."""
    subject = run(restarts=0, reason=said)
    ended = [member(rank, state, terminating=True, reason=Reason.NONE) for rank in (0, 1)]
    if state is FAILED:
        ended = [replace(each, reason=Reason.PROGRAM_FAILED, exit_code=143) for each in ended]
    for seen in (ended, [ended[0], member(1)]):
        answer = step(subject, *seen)
        assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, reason)
        assert (answer.status.restarts, answer.status.interruptions) == (0, 1)
    culprit = replace(ended[0], state=FAILED, reason=Reason.OUT_OF_MEMORY)
    assert step(subject, culprit, member(1)).status.phase is Phase.FAILED


def test_nodes_that_members_were_not_let_onto_are_left_in_the_end() -> None:
    """A volume in another zone, a foreign Pod that is always quicker: what was planned is blamed."""
    for subject in (run(replicas=3, phase=Phase.STARTING), run(replicas=3, type="service")):
        stuck = [member(rank, PENDING, reason=Reason.UNSCHEDULED, node="") for rank in (1, 2)]
        answer = step(subject, member(0), *stuck, at=timedelta(seconds=600))
        assert answer.status.avoid_nodes == {"n1": 1, "n2": 1}
