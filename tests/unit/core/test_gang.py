"""The life of a run, case by case, and what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.gangs import FAILED, NOW, PENDING, RUNNING, SUCCEEDED, failed, member, run, step

from kajitori.core import gang
from kajitori.core.gang import (
    CreateMembers,
    DeleteMembers,
    Limits,
    Member,
    MemberState,
    NeedsNodes,
    Release,
    Run,
    Step,
    next_step,
)
from kajitori.core.nodelist import compress
from kajitori.core.reasons import Phase, Reason
from kajitori.core.status import Attempt, MemberCounts, Ran, RunStatus, to_document


def kinds(answer: Step) -> list[type]:
    return [type(action) for action in answer.actions]


def test_a_new_run_asks_for_nodes() -> None:
    answer = step(Run("batch", 2, Limits(), RunStatus()))
    assert answer.actions == (NeedsNodes((0, 1), {}, frozenset()),)
    assert answer.status.queued_at


def test_missing_members_are_created_only_before_the_attempt_was_complete() -> None:
    """Afterwards a missing Pod is a lost member: it is never made again under the same name."""
    starting = run(phase=Phase.STARTING, created=False)
    assert step(starting, member(0, PENDING)).actions == (CreateMembers((1,)),)
    answer = step(run(), member(0))
    assert answer.status.phase is Phase.RESTARTING
    assert answer.status.reason is Reason.MEMBER_DELETED
    assert answer.status.restarts == 0


def test_it_runs_when_all_members_run() -> None:
    answer = step(run(phase=Phase.STARTING, created=False), member(0), member(1))
    assert answer.status.phase is Phase.RUNNING
    assert answer.status.attempt is not None and answer.status.attempt.created
    assert answer.status.started_at and answer.status.attempt.started_at


def test_it_succeeds_when_all_members_did() -> None:
    answer = step(run(), member(0, SUCCEEDED), member(1, SUCCEEDED))
    assert (answer.status.phase, answer.status.exit_code) == (Phase.SUCCEEDED, 0)
    assert answer.actions == ()


def led_by_rank_0() -> Run:
    """A run whose other members do what rank 0 asks of them."""
    subject = run()
    assert subject.status.attempt is not None
    subject.status.attempt.launcher = "mpi"
    return subject


@pytest.mark.parametrize("other", [member(1), failed(1), member(1, PENDING)])
def test_with_an_mpi_launcher_rank_0_says_when_the_work_is_done(other: Member) -> None:
    """Whatever became of the others since; those that still run are ended."""
    answer = step(led_by_rank_0(), member(0, SUCCEEDED), other)
    assert (answer.status.phase, answer.status.exit_code) == (Phase.SUCCEEDED, 0)
    tidied = step(replace(led_by_rank_0(), status=answer.status), member(0, SUCCEEDED), member(1))
    assert kinds(tidied) == [DeleteMembers]


def test_with_an_mpi_launcher_a_member_that_breaks_takes_the_gang_back() -> None:
    for broken in ((failed(0), member(1)), (member(0), failed(1))):
        assert step(led_by_rank_0(), *broken).status.phase is Phase.RESTARTING
    assert step(led_by_rank_0(), member(0), member(1, SUCCEEDED)).status.phase is Phase.RUNNING


def test_members_may_end_one_after_the_other() -> None:
    answer = step(run(), member(0, SUCCEEDED), member(1))
    assert answer.status.phase is Phase.RUNNING


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


def test_stopping_asks_first_and_says_stopped_when_nothing_runs() -> None:
    subject = replace(run(), stopped=True, limits=Limits(grace_seconds=60))
    answer = step(subject, member(0), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.RUNNING, Reason.STOPPING)
    assert answer.actions == (DeleteMembers(60, unfinished_only=True),)
    assert step(subject, member(0, terminating=True)).actions == ()
    assert step(subject).status.phase is Phase.STOPPED


def test_a_stopped_run_can_be_resumed_and_never_uses_an_attempt_number_twice() -> None:
    subject = replace(run(phase=Phase.STOPPED, restarts=2), resumes=1)
    answer = step(subject)
    assert (answer.status.phase, answer.status.resumes, answer.status.attempts) == (Phase.QUEUED, 1, 1)
    assert kinds(answer) == [NeedsNodes]
    placed = gang.place_on(answer.status, (0, 1), "n[0-1]", {}, 0, 2, NOW)
    assert placed.attempt is not None and placed.attempt.number == 2


def test_a_member_that_would_run_as_root_ends_the_run() -> None:
    """Waiting does not help, nor does another start: whether its kubelet keeps it waiting or refused it."""
    for state in (PENDING, FAILED):
        would = member(1, state, reason=Reason.RUNS_AS_ROOT, message="name another user")
        answer = step(run(phase=Phase.STARTING), member(0), would)
        assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, Reason.RUNS_AS_ROOT)
        over = replace(run(), status=answer.status)
        assert kinds(step(over, member(0), would)) == [DeleteMembers]


def test_a_run_whose_status_was_damaged_ends_its_members_and_learns_from_them_how_far_it_was() -> None:
    """Its status says attempt 1, a Pod of it attempt 4: the next is the fifth."""
    over = run(phase=Phase.FAILED, reason=Reason.STATUS_DAMAGED, attempt=None)
    answer = step(over, member(0, attempt=4), member(1, attempt=4))
    assert kinds(answer) == [DeleteMembers]
    assert (answer.status.phase, answer.status.attempts, bool(answer.status.finished_at)) == (Phase.FAILED, 4, True)
    again = step(replace(over, status=answer.status, resumes=1))
    assert kinds(again) == [NeedsNodes]
    assert gang.place_on(again.status, (0, 1), "n[0-1]", {}, 0, 2, NOW).attempts == 5


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


def test_a_change_of_replicas_is_for_the_next_attempt() -> None:
    """Two members run as two, whatever the spec says since; the next attempt has as many as it says then."""
    for replicas in (1, 5):
        edited = replace(run(phase=Phase.STARTING), replicas=replicas)
        assert step(edited, member(0), member(1)).status.phase is Phase.RUNNING
        broken = step(edited, member(0), failed(1))
        assert broken.status.phase is Phase.RESTARTING
        again = step(replace(edited, status=broken.status), failed(0), failed(1))
        assert [action.ranks for action in again.actions if isinstance(action, NeedsNodes)] == [tuple(range(replicas))]


def test_a_service_that_is_refused_now_goes_on_as_it_is() -> None:
    """Its last attempt replaced one member of three: the others are not lost."""
    attempt = Attempt(number=2, nodes="n1", ranks="1", created=True, planned_at="2026-11-21T12:00:00Z")
    status = RunStatus(phase=Phase.RUNNING, attempt=attempt, attempts=2, members=MemberCounts(total=3, running=3))
    outlined = gang.outline("service", 2, status, False)
    answer = step(outlined, member(0), member(1, attempt=2), member(2))
    assert (answer.status.phase, answer.actions) == (Phase.RUNNING, ())


def test_the_time_limit_ends_a_run_for_good() -> None:
    subject = replace(run(started_at="2026-11-21T12:00:00Z"), limits=Limits(time_limit_seconds=60))
    assert step(subject, member(0), member(1)).wake_at == NOW + timedelta(seconds=60)
    late = step(subject, member(0), member(1), at=timedelta(seconds=60))
    assert late.actions == (DeleteMembers(30, unfinished_only=True),)
    ended = step(replace(subject, status=late.status), at=timedelta(seconds=61))
    assert (ended.status.phase, ended.status.reason) == (Phase.FAILED, Reason.TIME_LIMIT)


@pytest.mark.parametrize("reason", [Reason.PROGRAM_FAILED, Reason.NODE_LOST, Reason.EVICTED, Reason.IMAGE_PULL])
def test_a_run_that_waits_again_keeps_its_place_in_the_queue(reason: Reason) -> None:
    """Whatever ended its attempt; who resumes a run that was over stands in the queue anew."""
    before = run()
    broken = step(before, member(0), failed(1, reason), at=timedelta(hours=3))
    waiting = next_step(replace(before, status=broken.status), (), NOW + timedelta(hours=4))
    assert waiting.status.queued_at == before.status.queued_at != ""
    over = run(phase=Phase.FAILED, finished_at="2026-11-21T12:00:00Z")
    resumed = step(replace(over, resumes=1), at=timedelta(hours=5))
    assert resumed.status.queued_at == "2026-11-21T17:00:00Z"


def test_how_long_it_ran_is_known_over_all_attempts() -> None:
    """The time between attempts does not count, nor does an attempt whose program never ran."""
    attempt = Attempt(number=1, nodes="n[0-1]", created=True, started_at="2026-11-21T12:00:00Z")
    first = step(run(attempt=attempt), member(0), failed(1), at=timedelta(minutes=10))
    assert first.status.ran == Ran(seconds=600, until="2026-11-21T12:10:00Z")
    waiting = next_step(replace(run(), status=first.status), (), NOW + timedelta(hours=1))
    assert waiting.status.ran == first.status.ran
    again = msgspec.structs.replace(attempt, number=2, started_at="2026-11-21T13:00:00Z")
    second = msgspec.structs.replace(first.status, phase=Phase.RUNNING, attempt=again, attempts=2)
    done = (member(0, SUCCEEDED, attempt=2), member(1, SUCCEEDED, attempt=2))
    ended = next_step(replace(run(), status=second), done, NOW + timedelta(hours=1, minutes=5))
    assert ended.status.ran == Ran(seconds=900, until="2026-11-21T13:05:00Z")
    assert next_step(replace(run(), status=ended.status), done, NOW + timedelta(hours=9)).status.ran == ended.status.ran
    never = step(run(phase=Phase.STARTING), member(0, PENDING), failed(1, Reason.IMAGE_PULL), at=timedelta(minutes=1))
    assert (never.status.phase, never.status.ran) == (Phase.QUEUED, None)


def test_deleting_ends_members_first_and_then_lets_go() -> None:
    subject = replace(run(), deleting=True)
    assert step(subject, member(0)).actions == (DeleteMembers(30),)
    assert step(subject, member(0, terminating=True)).actions == ()
    assert step(subject, member(0, terminating=True, node_ready=False)).actions == (Release(),)
    assert step(subject).actions == (Release(),)


def test_what_is_left_of_earlier_attempts_goes_once_the_next_exists() -> None:
    second = run(phase=Phase.STARTING, created=False)
    second.status.attempt = Attempt(number=2, nodes="n[0-1]", planned_at="2026-11-21T12:00:00Z")
    answer = step(second, failed(0), member(0, PENDING, attempt=2))
    assert answer.actions == (DeleteMembers(5, attempt=1), CreateMembers((1,)))


def test_a_large_run_stays_small_however_often_it_restarts() -> None:
    """Rule 8: 7,500 members on nodes without any order, all of them failing each time, stay under 300 kB."""
    count = 7500
    shuffled = [f"gpu-{(7 * number) % 10007:05}" for number in range(count)]
    template: dict[str, object] = {
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b" * 20_000}]}]}
    }
    subject = replace(run(replicas=count, restarts=10), status=RunStatus())
    for attempt in range(1, 7):
        placed = gang.place_on(subject.status, range(count), compress(shuffled), template, 20000, count, NOW)
        assert placed.attempt is not None
        placed.attempt.created = True
        members = [
            failed(rank, attempt=attempt, node=shuffled[rank]) if rank % 2 else member(rank, attempt=attempt)
            for rank in range(count)
        ]
        answer = step(replace(subject, status=placed), *[replace(m, message="x" * 2000) for m in members])
        assert answer.status.restarts == attempt
        assert len(msgspec.json.encode(to_document(answer.status))) < 300_000
        subject = replace(subject, status=answer.status)


# ------------------------------------------------------------------------------------------------ properties

phases = st.sampled_from(list(Phase))
members_strategy = st.lists(
    st.builds(
        lambda rank, state, attempt, terminating, ready, draining, reason: member(
            rank,
            state,
            attempt=attempt,
            terminating=terminating,
            node_ready=ready,
            node_draining=draining,
            reason=reason if state is FAILED else Reason.NONE,
        ),
        st.integers(0, 3),
        st.sampled_from(list(MemberState)),
        st.integers(1, 3),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from([Reason.PROGRAM_FAILED, Reason.OUT_OF_MEMORY, Reason.EVICTED, Reason.KUBELET_REFUSED]),
    ),
    max_size=6,
    unique_by=lambda m: (m.rank, m.attempt),
)


@settings(max_examples=300)
@given(
    phase=phases,
    created=st.booleans(),
    members=members_strategy,
    kind=st.sampled_from(["batch", "service"]),
    stopped=st.booleans(),
    deleting=st.booleans(),
    later=st.integers(0, 1000),
)
def test_whatever_is_seen(
    phase: Phase, created: bool, members: Sequence[Member], kind: Any, stopped: bool, deleting: bool, later: int
) -> None:
    """No second attempt beside a live first one; nothing new for a run that is over, stopped or being deleted; asking
    again changes nothing."""
    subject = replace(run(phase=phase, created=created), type=kind, stopped=stopped, deleting=deleting)
    subject.status.attempt = Attempt(number=3, nodes="n[0-1]", planned_at="2026-11-21T12:00:00Z", created=created)
    subject.status.attempts = 3
    answer = step(subject, *members, at=timedelta(seconds=later))
    asked = {type(action) for action in answer.actions}
    starts = asked & {NeedsNodes, CreateMembers}
    if stopped or deleting or answer.status.phase.is_final:
        assert not starts
    if NeedsNodes in asked and kind == "batch":
        assert not any(m.blocks_restart for m in members)
    if NeedsNodes in asked and kind == "service":
        wanted = {rank for action in answer.actions if isinstance(action, NeedsNodes) for rank in action.ranks}
        assert not wanted & {m.rank for m in members if m.blocks_restart}
    if phase.is_final and not deleting:
        assert answer.status.phase is phase
    assert len(answer.status.notable) <= 64
    again = step(replace(subject, status=answer.status), *members, at=timedelta(seconds=later))
    if not starts and answer.status.phase is phase:
        assert again.status == answer.status
