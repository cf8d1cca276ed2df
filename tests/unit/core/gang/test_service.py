"""The life of a service: members start and end one by one, and the others stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.helpers.scenes.gangs import NOW, PENDING, failed, member, run, step

from kajitori.core import gang
from kajitori.core.gang import CreateMembers, DeleteMember, DeleteMembers, Limits, NeedsNodes, Run
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.attempts import Ran


def service(**more: Any) -> Run:
    return run(type="service", replicas=3, **more)


def test_a_services_members_are_replaced_one_by_one() -> None:
    """Only the lost rank gets a new attempt."""
    lost = failed(1, Reason.EVICTED, None)
    answer = step(service(), member(0), lost, member(2))
    assert answer.actions == (DeleteMember("bert-1-1", "uid-1-1", 0), NeedsNodes((1,), {}, frozenset()))
    placed = gang.place_on(answer.status, (1,), "n7", {}, 0, 3, NOW)
    subject = replace(service(), status=placed)
    assert step(subject, member(0), member(2)).actions == (CreateMembers((1,)),)
    whole = step(subject, member(0), member(2), member(1, attempt=2))
    assert whole.status.phase is Phase.RUNNING


def test_a_service_with_a_member_killed_for_memory_ends() -> None:
    """The member's successor would exhaust another node's memory, too."""
    answer = step(service(), member(0), failed(1, Reason.OUT_OF_MEMORY, code=None), member(2))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, Reason.OUT_OF_MEMORY)
    assert answer.actions == ()
    ended = step(replace(service(), status=answer.status), member(0), failed(1, Reason.OUT_OF_MEMORY), member(2))
    assert [type(action) for action in ended.actions] == [DeleteMembers]


def test_a_services_member_on_a_drained_node_moves_alone() -> None:
    """Its successor starts when it has ended."""
    answer = step(service(), member(0), member(1, node_draining=True), member(2))
    assert answer.actions == (DeleteMember("bert-1-1", "uid-1-1", Limits().grace_seconds),)
    later = step(replace(service(), status=answer.status), member(0), member(2))
    assert later.actions == (NeedsNodes((1,), {}, frozenset()),)


def test_a_program_that_a_kubelet_starts_again_and_again_is_noted_once() -> None:
    """Each of its failures added a note to the status, up to 64."""
    subject = service()
    for _ in range(3):
        waits = step(subject, member(0), member(1, PENDING, reason=Reason.PROGRAM_FAILED), member(2))
        assert [note.rank for note in waits.status.notable] == [1]
        runs = step(replace(subject, status=waits.status), member(0), member(1), member(2))
        subject = replace(subject, status=runs.status)


def test_a_successor_waits_until_its_predecessor_has_ended() -> None:
    answer = step(service(), member(0), member(1, terminating=True), member(2))
    assert not any(isinstance(action, NeedsNodes) for action in answer.actions)


def test_a_member_that_cannot_be_created_ends_only_its_attempt() -> None:
    """Members of earlier attempts stay."""
    subject = service(phase=Phase.STARTING, created=False)
    answer = gang.failed_to_create(subject, subject.status, Reason.QUOTA, "exceeded quota", NOW)
    assert answer.actions == (DeleteMembers(Limits().restart_grace_seconds, attempt=1),)
    assert (answer.status.reason, answer.status.failed_starts) == (Reason.QUOTA, 1)
    later = replace(subject, status=answer.status)
    older = [member(0, attempt=0), member(1, attempt=0)]
    waiting = step(later, *older)
    assert not any(isinstance(action, NeedsNodes | CreateMembers) for action in waiting.actions)
    assert waiting.wake_at == NOW + timedelta(seconds=10)
    (asked,) = step(later, *older, at=timedelta(seconds=10)).actions
    assert isinstance(asked, NeedsNodes) and asked.ranks == (2,)


def test_refused_members_of_a_service_back_off_exponentially() -> None:
    """A node that refuses every member is not asked in a busy loop."""
    subject = service()
    refused = failed(1, Reason.KUBELET_REFUSED, None)
    first = step(subject, member(0), refused, member(2))
    assert first.status.failed_starts == 1
    assert not any(isinstance(action, NeedsNodes) for action in first.actions)
    again = step(replace(subject, status=first.status), member(0), refused, member(2))
    assert again.status.failed_starts == 1
    after = step(replace(subject, status=first.status), member(0), member(2), at=timedelta(seconds=10))
    assert [type(action) for action in after.actions] == [NeedsNodes]


def test_a_services_member_that_never_starts_is_replaced() -> None:
    """An unschedulable pinned Pod is given up early, others after the start deadline."""
    subject = service(phase=Phase.STARTING)
    unscheduled = member(1, PENDING, reason=Reason.UNSCHEDULED, node="")
    assert step(subject, member(0), unscheduled, member(2), at=timedelta(seconds=29)).wake_at == NOW + timedelta(
        seconds=30
    )
    answer = step(subject, member(0), unscheduled, member(2), at=timedelta(seconds=31))
    assert [type(action) for action in answer.actions] == [DeleteMember]
    assert answer.status.failed_starts == 1
    pulling = member(1, PENDING, reason=Reason.IMAGE_PULL)
    patient = step(subject, member(0), pulling, member(2), at=timedelta(seconds=31))
    assert not patient.actions
    late = step(subject, member(0), pulling, member(2), at=timedelta(seconds=601))
    assert [type(action) for action in late.actions] == [DeleteMember]


def test_a_services_run_time_is_from_first_start_to_end() -> None:
    served = service(started_at="2026-11-21T11:00:00Z", phase=Phase.RUNNING)
    assert step(served, member(0), failed(1), member(2)).status.ran is None
    ended = step(replace(served, stopped=True))
    assert (ended.status.phase, ended.status.ran) == (Phase.STOPPED, Ran(seconds=3600, until="2026-11-21T12:00:00Z"))
