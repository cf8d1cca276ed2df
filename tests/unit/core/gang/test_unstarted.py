"""Nodes that are remembered because they alone kept an attempt from starting."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import msgspec
import pytest
from tests.helpers.scenes.gangs import FAILED, PENDING, after, member, run, step

from kajitori.core.gang import Member, Run, Step, Sweep
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.members import SweepState

TOO_LATE = timedelta(hours=1)


def remembered(answer: Step) -> list[tuple[str, int, str, str]]:
    """Return node, rank, reason and time of each note."""
    return [(note.node, note.rank, note.reason, note.since) for note in answer.status.unstarted]


def refused(rank: int, reason: Reason = Reason.KUBELET_REFUSED, **more: Any) -> Member:
    return member(rank, FAILED, reason=reason, **more)


def starting(type: Literal["batch", "service"] = "batch", replicas: int = 3) -> Run:
    return run(type=type, replicas=replicas, phase=Phase.STARTING)


@pytest.mark.parametrize(
    ("pending", "reason"),
    [
        ({"reason": Reason.CREATING}, Reason.START_DEADLINE),
        ({"reason": Reason.IMAGE_PULL, "message": "no route to host"}, Reason.IMAGE_PULL),
        ({"reason": Reason.VOLUME}, Reason.VOLUME),
        ({"reason": Reason.CONTAINER_CONFIG}, Reason.CONTAINER_CONFIG),
    ],
)
def test_the_node_of_the_only_late_member_is_remembered(pending: dict[str, Any], reason: Reason) -> None:
    answer = step(starting(), member(0), member(1, PENDING, **pending), member(2), at=TOO_LATE)
    assert remembered(answer) == [("n1", 1, reason, "2026-11-21T13:00:00Z")]
    assert answer.status.unstarted[0].message == pending.get("message", "")


@pytest.mark.parametrize("reason", [Reason.UNSCHEDULED, Reason.STORAGE, Reason.QUOTA])
def test_refusals_of_scheduler_and_api_server_blame_no_node(reason: Reason) -> None:
    assert remembered(step(starting(), member(0), member(1, PENDING, reason=reason), member(2), at=TOO_LATE)) == []


def test_late_members_on_several_nodes_blame_no_node() -> None:
    late = [member(rank, PENDING, reason=Reason.IMAGE_PULL) for rank in range(2)]
    assert remembered(step(starting(), *late, member(2), at=TOO_LATE)) == []
    same = [replace(member, node="n7") for member in late]
    assert [note[0] for note in remembered(step(starting(), *same, member(2), at=TOO_LATE))] == ["n7"]


def test_members_that_were_not_created_blame_no_node() -> None:
    """The API server is slow."""
    subject = run(replicas=2, phase=Phase.STARTING, created=False)
    assert remembered(step(subject, member(0, PENDING, reason=Reason.CREATING), at=TOO_LATE)) == []


def test_a_node_that_refuses_a_member_is_remembered() -> None:
    """Not if another Pod was faster, or if several nodes refuse."""
    answer = step(
        starting(), refused(1, message="Allocate failed due to no healthy devices present"), member(0), member(2)
    )
    assert [note[:3] for note in remembered(answer)] == [("n1", 1, Reason.KUBELET_REFUSED)]
    quicker = "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 8000, capacity: 8000"
    assert remembered(step(starting(), refused(1, message=quicker), member(0), member(2))) == []
    assert remembered(step(starting(), refused(1), refused(2), member(0))) == []
    assert remembered(step(starting(), refused(1, Reason.FIRST_STEP_NO_SERVER), member(0), member(2))) == []


def test_only_the_last_start_of_a_few_nodes_is_remembered() -> None:
    """A resumed run begins without notes."""
    subject = starting()
    for number in range(12):
        answer = step(subject, refused(1, node=f"m{number}"), member(0), member(2))
        subject = replace(subject, status=answer.status)
        subject = replace(subject, status=starting_again(subject))
    assert [note[0] for note in remembered(answer)] == [f"m{number}" for number in range(4, 12)]
    again = step(subject, refused(1, node="m9"), member(0), member(2), at=timedelta(hours=1))
    assert [note[0] for note in remembered(again)] == [*(f"m{number}" for number in (4, 5, 6, 7, 8, 10, 11)), "m9"]
    stopped = replace(after(subject, again), resumes=1)
    stopped = replace(stopped, status=msgspec.structs.replace(stopped.status, phase=Phase.STOPPED))
    assert remembered(step(stopped)) == []


def starting_again(subject: Run) -> Any:
    """Return the status of the next start, which has the same number here."""
    return msgspec.structs.replace(starting().status, unstarted=subject.status.unstarted)


def test_unstarted_members_of_a_service_are_remembered() -> None:
    answer = step(starting("service"), refused(1), member(0), member(2))
    assert [note[:3] for note in remembered(answer)] == [("n1", 1, Reason.KUBELET_REFUSED)]
    late = [member(0), member(1, PENDING, reason=Reason.VOLUME), member(2)]
    assert [note[0] for note in remembered(step(starting("service"), *late, at=TOO_LATE))] == ["n1"]


def test_unstarted_members_of_a_sweep_are_remembered() -> None:
    status = msgspec.structs.replace(starting().status, sweep=SweepState())
    subject = replace(starting(), status=status, sweep=Sweep((0, 1, 2), 3))
    answer = step(subject, refused(1), member(0), member(2))
    assert [note[:3] for note in remembered(answer)] == [("n1", 1, Reason.KUBELET_REFUSED)]
    assert remembered(step(subject, refused(1), refused(2), member(0))) == []
