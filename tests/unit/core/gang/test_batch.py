"""The life of a batch run, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.gangs import NOW, PENDING, SUCCEEDED, after, failed, kinds, member, run, step, with_attempt

from kajitori.core import gang
from kajitori.core.formats.node_lists import compress
from kajitori.core.gang import (
    CreateMembers,
    DeleteMembers,
    HoldMember,
    Limits,
    Member,
    NeedsNodes,
    Release,
    ReleaseMember,
    Remove,
    Run,
    Step,
    Sweep,
    next_step,
)
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.spec.status_parts.attempts import Attempt, Ran
from kajitori.core.spec.status_parts.members import MemberCounts, SweepState


def test_a_new_run_requests_nodes() -> None:
    answer = step(Run("batch", 2, Limits(), RunStatus()))
    assert answer.actions == (NeedsNodes((0, 1), {}, frozenset()),)
    assert answer.status.queued_at


def test_missing_members_are_created_only_until_the_attempt_is_complete() -> None:
    """After that a missing Pod is a lost member, and its name is never used again."""
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
    """Return a run in which rank 0 launches the program in the other members."""
    subject = run()
    return replace(subject, status=with_attempt(subject.status, launcher="mpi"))


@pytest.mark.parametrize("other", [member(1), failed(1), member(1, PENDING)])
def test_with_an_mpi_launcher_the_run_ends_with_rank_0(other: Member) -> None:
    """The state of other members does not matter; those still running are ended."""
    answer = step(led_by_rank_0(), member(0, SUCCEEDED), other)
    assert (answer.status.phase, answer.status.exit_code) == (Phase.SUCCEEDED, 0)
    tidied = step(replace(led_by_rank_0(), status=answer.status), member(0, SUCCEEDED), member(1))
    assert kinds(tidied) == [DeleteMembers]


def test_with_an_mpi_launcher_a_failed_member_restarts_the_gang() -> None:
    for broken in ((failed(0), member(1)), (member(0), failed(1))):
        assert step(led_by_rank_0(), *broken).status.phase is Phase.RESTARTING
    assert step(led_by_rank_0(), member(0), member(1, SUCCEEDED)).status.phase is Phase.RUNNING


def test_a_stop_shortens_the_grace_of_terminating_members() -> None:
    """`kaji kill` after `kaji stop`: members with more time than the new grace are deleted again, the others are
    not."""
    limits = Limits(grace_seconds=600, stop_grace_seconds=5)
    for changed in (replace(run(), stopped=True, limits=limits), replace(run(), deleting=True, limits=limits)):
        patient, told = member(0, terminating=True, grace_seconds=600), member(1, terminating=True, grace_seconds=5)
        assert [action.grace_seconds for action in deletions(step(changed, patient, told))] == [5]
        assert deletions(step(changed, told)) == []


def deletions(answer: Step) -> list[DeleteMembers]:
    return [action for action in answer.actions if isinstance(action, DeleteMembers)]


def test_a_grace_of_zero_becomes_one_second() -> None:
    """With a grace of zero an API server forgets a Pod at once, while its processes may still run."""
    killed = replace(run(), stopped=True, limits=Limits(stop_grace_seconds=0))
    assert [action.grace_seconds for action in deletions(step(killed, member(0)))] == [1]


def test_an_ended_run_is_removed_after_its_retention_time() -> None:
    """It is not removed before, nor if a user resumes it."""
    ended = run(phase=Phase.SUCCEEDED, finished_at="2026-11-21T12:00:00Z")
    ended = replace(ended, limits=Limits(remove_after_seconds=60))
    early = step(ended, at=timedelta(seconds=59))
    assert (early.actions, early.wake_at) == ((), NOW + timedelta(seconds=60))
    assert step(ended, at=timedelta(seconds=60)).actions == (Remove(),)
    assert Remove() not in step(replace(ended, resumes=1), at=timedelta(days=1)).actions
    assert step(replace(ended, limits=Limits()), at=timedelta(days=1)) == Step(ended.status)


def test_an_ended_sweep_is_removed_after_its_retention_time() -> None:
    ended = run(phase=Phase.FAILED, finished_at="2026-11-21T12:00:00Z", sweep=SweepState(failed="0-1"))
    ended = replace(ended, sweep=Sweep((0, 1), 2), limits=Limits(remove_after_seconds=60))
    assert step(ended).wake_at == NOW + timedelta(seconds=60)
    assert step(ended, at=timedelta(seconds=60)).actions == (Remove(),)


def test_members_may_end_one_after_the_other() -> None:
    answer = step(run(), member(0, SUCCEEDED), member(1))
    assert answer.status.phase is Phase.RUNNING


def test_a_run_is_stopped_once_no_member_runs() -> None:
    subject = replace(run(), stopped=True, limits=Limits(grace_seconds=60))
    answer = step(subject, member(0), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.RUNNING, Reason.STOPPING)
    assert answer.actions == (HoldMember("bert-1-0", "uid-1-0"), DeleteMembers(60, unfinished_only=True))
    assert step(subject, member(0, terminating=True)).actions == ()
    assert step(subject).status.phase is Phase.STOPPED


def test_the_pods_of_a_stopped_run_stay_for_their_logs() -> None:
    """Of as many members as policy keeps logs. A controller that begins to lead after they have ended can read them."""
    subject = replace(run(), stopped=True, limits=Limits(held_members=2))
    answer = step(subject, member(2), member(1), member(0, SUCCEEDED), member(3))
    assert [action.pod for action in answer.actions if isinstance(action, HoldMember)] == ["bert-1-1", "bert-1-2"]
    held = [replace(each, kept_for_exit_code=True) for each in (member(1), member(2))]
    assert kinds(step(subject, *held, member(3, terminating=True))) == [DeleteMembers]


@pytest.mark.parametrize(
    ("ended", "code", "message"),
    [
        (failed(0, code=3), 3, "stopped on request; member 0 ended with exit code 3"),
        (member(0, SUCCEEDED, exit_code=0), 0, "stopped on request; member 0 ended with exit code 0"),
        (failed(0, code=143), 143, "stopped on request"),
    ],
)
def test_a_stopped_run_has_the_exit_code_of_rank_0(ended: Member, code: int, message: str) -> None:
    """Its Pod is kept for that until the status is written. A kubelet deletes it right after its last report, so a
    controller that looked late, or was killed, never saw the code."""
    stopping = replace(run(), stopped=True)
    held = replace(ended, terminating=True, kept_for_exit_code=True)
    assert step(stopping, held, member(1, terminating=True)).actions == ()
    answer = step(stopping, held)
    assert (answer.status.phase, answer.status.exit_code, answer.status.message) == (Phase.STOPPED, code, message)
    assert answer.actions == (ReleaseMember("bert-1-0", "uid-1-0"),)
    assert step(after(stopping, answer), held).actions == answer.actions, "the next controller does it again"


@pytest.mark.parametrize("changed", [{"stopped": False}, {"stopped": True, "deleting": True}])
def test_a_run_that_is_no_longer_stopped_lets_go_of_the_pod_kept_for_its_exit_code(changed: dict[str, Any]) -> None:
    kept = member(0, terminating=True, grace_seconds=1, kept_for_exit_code=True)
    assert ReleaseMember(kept.pod, kept.uid) in step(replace(run(), **changed), kept, member(1)).actions


def test_a_run_that_is_stopped_in_the_queue_has_no_exit_code_of_an_earlier_start() -> None:
    waiting = replace(run(phase=Phase.QUEUED), stopped=True)
    assert step(waiting, failed(0)).status.exit_code is None


def test_a_resumed_run_does_not_reuse_attempt_numbers() -> None:
    subject = replace(run(phase=Phase.STOPPED, restarts=2), resumes=1)
    answer = step(subject)
    assert (answer.status.phase, answer.status.resumes, answer.status.attempts) == (Phase.QUEUED, 1, 1)
    assert kinds(answer) == [NeedsNodes]
    placed = gang.place_on(answer.status, (0, 1), "n[0-1]", {}, 0, 2, NOW)
    assert placed.attempt is not None and placed.attempt.number == 2


def test_a_damaged_status_gets_its_attempt_number_from_the_pods() -> None:
    """The status has attempt 1, a Pod has attempt 4: the next attempt is 5."""
    over = run(phase=Phase.FAILED, reason=Reason.STATUS_DAMAGED, attempt=None)
    answer = step(over, member(0, attempt=4), member(1, attempt=4))
    assert kinds(answer) == [DeleteMembers]
    assert (answer.status.phase, answer.status.attempts, bool(answer.status.finished_at)) == (Phase.FAILED, 4, True)
    again = step(replace(over, status=answer.status, resumes=1))
    assert kinds(again) == [NeedsNodes]
    assert gang.place_on(again.status, (0, 1), "n[0-1]", {}, 0, 2, NOW).attempts == 5


def test_a_change_of_replicas_applies_to_the_next_attempt() -> None:
    """The present attempt keeps its two members."""
    for replicas in (1, 5):
        edited = replace(run(phase=Phase.STARTING), replicas=replicas)
        assert step(edited, member(0), member(1)).status.phase is Phase.RUNNING
        broken = step(edited, member(0), failed(1))
        assert broken.status.phase is Phase.RESTARTING
        again = step(replace(edited, status=broken.status), failed(0), failed(1))
        assert [action.ranks for action in again.actions if isinstance(action, NeedsNodes)] == [tuple(range(replicas))]


def test_a_service_that_is_refused_now_keeps_its_members() -> None:
    """Its last attempt replaced one of three members; the others are not taken for lost."""
    attempt = Attempt(number=2, nodes="n1", ranks="1", created=True, planned_at="2026-11-21T12:00:00Z")
    status = RunStatus(phase=Phase.RUNNING, attempt=attempt, attempts=2, members=MemberCounts(total=3, running=3))
    outlined = gang.run_without_spec("service", 2, status, False)
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
    """The cause of its end does not matter. Only a run that is resumed after its end is queued as a new one."""
    before = run()
    broken = step(before, member(0), failed(1, reason), at=timedelta(hours=3))
    waiting = next_step(replace(before, status=broken.status), (), NOW + timedelta(hours=4))
    assert waiting.status.queued_at == before.status.queued_at != ""
    over = run(phase=Phase.FAILED, finished_at="2026-11-21T12:00:00Z")
    resumed = step(replace(over, resumes=1), at=timedelta(hours=5))
    assert resumed.status.queued_at == "2026-11-21T17:00:00Z"


def test_run_time_is_the_sum_of_all_attempts() -> None:
    """The time between attempts does not count, nor does an attempt that never ran its program."""
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


def test_deleting_ends_members_before_the_run_is_released() -> None:
    subject = replace(run(), deleting=True)
    assert step(subject, member(0)).actions == (DeleteMembers(30),)
    assert step(subject, member(0, terminating=True)).actions == ()
    assert step(subject, member(0, terminating=True, node_ready=False)).actions == (Release(),)
    assert step(subject).actions == (Release(),)


def test_a_deleted_run_is_released_after_its_last_pod() -> None:
    """Also after an ended Pod that is being deleted: 272 of 3,000 Pods remained after `kubectl delete run`.

    Only a Pod kept by another controller's finalizer, which may never go, is not waited for.
    """
    subject = replace(run(), deleting=True)
    assert step(subject, failed(0, terminating=True)).actions == ()
    assert step(subject, member(0, SUCCEEDED, terminating=True)).actions == ()
    assert step(subject, member(0, SUCCEEDED)).actions == (DeleteMembers(30),)
    assert step(subject, failed(0, terminating=True, held=True)).actions == (Release(),)
    assert step(subject, member(0, terminating=True, held=True)).actions == ()


@pytest.mark.parametrize("kind", ["batch", "service"])
def test_a_lost_status_reuses_no_attempt_number(kind: Any) -> None:
    """The status was wiped: members that still run are ended, then the attempt after theirs begins."""
    wiped = replace(run(type=kind), status=RunStatus(queued_at="2026-11-21T11:59:00Z"))
    answer = step(wiped, member(0, attempt=3), member(1, attempt=3))
    assert answer.actions == (DeleteMembers(30, unfinished_only=True),)
    status = answer.status
    assert (status.phase, status.reason, status.attempts) == (Phase.QUEUED, Reason.STATUS_DAMAGED, 3)
    assert (status.interruptions, status.message) == (1, "its status was lost; attempt 3 is ended (2 members)")
    waits = step(after(wiped, answer), member(0, attempt=3, terminating=True), failed(1, attempt=3))
    assert (waits.actions, waits.status.interruptions) == ((), 1)
    goes_on = step(after(wiped, waits), failed(0, attempt=3), failed(1, attempt=3))
    assert NeedsNodes in kinds(goes_on) and goes_on.status.attempts == 3
    assert step(after(wiped, goes_on)).status.attempts == 3


def test_a_succeeded_run_with_a_lost_status_does_not_run_again() -> None:
    """Its Pods show that it has succeeded."""
    wiped = replace(run(), status=RunStatus(queued_at="2026-11-21T11:59:00Z"))
    answer = step(wiped, *(member(rank, SUCCEEDED, attempt=2) for rank in range(2)), failed(0))
    assert (answer.status.phase, answer.status.attempts, answer.actions) == (Phase.SUCCEEDED, 2, ())
    unsure = step(wiped, member(0, SUCCEEDED, attempt=2), failed(1))
    assert NeedsNodes in kinds(unsure) and unsure.status.attempts == 2


@pytest.mark.parametrize("kind", ["batch", "service"])
def test_members_of_an_ended_run_count_until_they_end(kind: Any) -> None:
    """The numbers of failed and succeeded members stay as they were at its end."""
    counts = MemberCounts(total=4, running=3, failed=1)
    over = replace(run(type=kind, replicas=4, phase=Phase.FAILED, members=counts, finished_at="2026-11-21T12:00:00Z"))
    going = [member(0, terminating=True), failed(1), member(2, PENDING), member(3, node_ready=False)]
    answer = step(over, *going)
    assert answer.status.members == MemberCounts(total=4, running=1, pending=1, failed=1)
    ended = step(after(over, answer), failed(0), failed(1), failed(2))
    assert ended.status.members == MemberCounts(total=4, failed=1)


def test_pods_of_earlier_attempts_are_deleted_once_the_next_exists() -> None:
    second = run(phase=Phase.STARTING, created=False)
    attempt = Attempt(number=2, nodes="n[0-1]", planned_at="2026-11-21T12:00:00Z")
    second = replace(second, status=msgspec.structs.replace(second.status, attempt=attempt))
    answer = step(second, failed(0), member(0, PENDING, attempt=2))
    assert answer.actions == (DeleteMembers(5, attempt=1), CreateMembers((1,)))


def test_the_status_of_a_large_run_stays_small_after_restarts() -> None:
    """Rule 8: with 7,500 members on unordered nodes, all failing each time, the status stays under 300 kB."""
    count = 7500
    shuffled = [f"gpu-{(7 * number) % 10007:05}" for number in range(count)]
    template: dict[str, object] = {
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b" * 20_000}]}]}
    }
    subject = replace(run(replicas=count, restarts=10), status=RunStatus())
    for attempt in range(1, 7):
        placed = gang.place_on(subject.status, range(count), compress(shuffled), template, 20000, count, NOW)
        placed = with_attempt(placed, created=True)
        members = [
            failed(rank, attempt=attempt, node=shuffled[rank]) if rank % 2 else member(rank, attempt=attempt)
            for rank in range(count)
        ]
        answer = step(replace(subject, status=placed), *[replace(m, message="x" * 2000) for m in members])
        assert answer.status.restarts == attempt
        assert len(msgspec.json.encode(to_document(answer.status))) < 300_000
        subject = replace(subject, status=answer.status)


@pytest.mark.parametrize("parked", [False, True])
def test_a_parked_run_stops_like_a_stopped_one_and_says_so(parked: bool) -> None:
    stopping = step(replace(run(), stopped=True, parked=parked), member(0), member(1))
    assert kinds(stopping) == [HoldMember, DeleteMembers]
    ended = step(after(replace(run(), stopped=True, parked=parked), stopping))
    assert ended.status.phase is Phase.STOPPED
    assert ended.status.reason is (Reason.PARKED if parked else Reason.STOPPED_BY_USER)


def test_a_run_that_is_asked_to_restart_ends_and_is_queued_again_and_says_so() -> None:
    asked = replace(run(), stopped=True, restarting=True, resumes=1)
    stopping = step(asked, member(0), member(1))
    assert "asked to restart" in stopping.status.message
    ended = step(after(asked, stopping))
    assert (ended.status.phase, ended.status.reason) == (Phase.STOPPED, Reason.RESTARTED_BY_USER)
    again = step(after(replace(asked, stopped=False, restarting=False), ended)).status
    assert (again.phase, again.resumes) == (Phase.QUEUED, 1)


def test_a_run_that_was_created_stopped_is_no_run_that_its_user_stopped() -> None:
    """Only its own spec removes it, not the time for which policy keeps ended runs."""
    limits = Limits(remove_after_seconds=60, remove_created_after_seconds=600)
    created = Run("batch", 2, limits, RunStatus(), stopped=True, generation=1)
    status = step(created).status
    assert (status.phase, status.reason) == (Phase.STOPPED, Reason.NOT_STARTED)
    later = replace(created, status=status)
    assert next_step(later, [], NOW + timedelta(seconds=599)).actions == ()
    assert next_step(later, [], NOW + timedelta(seconds=600)).actions == (Remove(),)
    edited = step(replace(created, generation=2))
    assert edited.status.reason is Reason.STOPPED_BY_USER
