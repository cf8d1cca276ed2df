"""Failures in a sweep, and what they count against."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from tests.helpers.scenes.gangs import FAILED, NOW, PENDING, SUCCEEDED, after, failed, member, with_attempt
from tests.helpers.scenes.sweeps import asked_of, step, sweep, taken_away

from kajitori.core import gang
from kajitori.core.gang import DeleteMembers, Member, NeedsNodes, Step
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import SweepState


def test_each_member_has_restarts_of_its_own() -> None:
    """A failed Pod counts once, however often it is seen; the member restarts once the Pod is gone."""
    run = sweep(2)
    seen = [failed(0), member(1)]
    once = step(run, *seen)
    assert once.status.sweep == SweepState(again="0", restarts={"1": "0"})
    assert once.status.restarts == 1
    again = step(after(run, once), *seen)
    assert (again.status.sweep, taken_away(again), asked_of(again)) == (once.status.sweep, ["bert-1-0"], ())
    gone = step(after(run, again), member(1))
    assert asked_of(gone) == (0,)
    placed = gang.place_sweep(gone.status, (0,), "n9", {}, NOW, launcher="array")
    assert placed.sweep == SweepState(restarts={"1": "0"})
    placed = with_attempt(placed, created=True)
    last = step(replace(run, status=placed), failed(0, attempt=2, code=7), member(1))
    assert (last.status.sweep, last.status.phase) == (SweepState(failed="0", restarts={"1": "0"}), Phase.RUNNING)
    (note,) = last.status.notable
    assert (note.rank, note.exit_code, note.attempt, note.message) == (0, 7, 2, "exit code 7 (started again once)")
    end = step(after(run, last), member(1, SUCCEEDED))
    assert (end.status.phase, end.status.reason, end.status.exit_code) == (Phase.FAILED, Reason.PROGRAM_FAILED, 7)
    assert end.status.message == "1 of 2 members failed; member 0: exit code 7 (started again once)"


@pytest.mark.parametrize("reason", [Reason.OUT_OF_MEMORY, Reason.COMMAND_NOT_FOUND, Reason.TIME_LIMIT])
def test_a_failure_that_would_recur_is_not_retried(reason: Reason) -> None:
    """A member killed for memory is not moved to another node, however many restarts are left (rule 7)."""
    answer = step(sweep(2, restarts=9), failed(0, reason, 137), member(1))
    assert (answer.status.sweep, answer.status.phase) == (SweepState(failed="0"), Phase.RUNNING)


@pytest.mark.parametrize("reason", [Reason.RUNS_AS_ROOT, Reason.IMAGE_UNFIT])
def test_a_failure_common_to_all_members_ends_the_sweep(reason: Reason) -> None:
    run = sweep(2)
    answer = step(run, failed(0, reason, None), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, reason)
    assert DeleteMembers(30, unfinished_only=True) in step(after(run, answer), failed(0, reason), member(1)).actions
    assert step(run, member(0, PENDING, reason=reason), member(1)).status.phase is Phase.FAILED


@pytest.mark.parametrize(
    "lost",
    [
        member(0, node_ready=False),
        member(0, node_draining=True),
        failed(0, Reason.EVICTED),
        failed(0, Reason.NODE_LOST, None),
        None,
    ],
    ids=["its node is silent", "its node is drained", "evicted", "lost", "deleted"],
)
def test_an_interrupted_member_keeps_its_restarts(lost: Member | None) -> None:
    run = sweep(2, restarts=0)
    seen = [ending for ending in (lost, member(1)) if ending is not None]
    answer = step(run, *seen)
    assert (answer.status.sweep, answer.status.restarts) == (SweepState(again="0"), 0)
    assert answer.status.interruptions == 1
    next_look = step(after(run, answer), *seen)
    assert next_look.status.interruptions == 1
    assert taken_away(next_look) == (["bert-1-0"] if lost is not None else [])
    assert asked_of(step(after(run, next_look), member(1))) == (0,)


def test_members_that_fail_by_themselves_blame_no_node() -> None:
    """On the only node there is no comparison; a success clears its node; failures everywhere are nobody's."""
    alone = replace(sweep(4, restarts=0), status=msgspec.structs.replace(sweep(4).status, attempt=_on("n0", "0-3")))
    answer = step(alone, *(failed(rank, node="n0") for rank in range(3)), member(3, node="n0"))
    assert answer.status.avoid_nodes == {}
    spread = sweep(8, at_once=4, restarts=0)
    answer = step(spread, *(failed(rank, node=f"n{rank % 2}") for rank in range(4)))
    assert answer.status.avoid_nodes == {"n0": 2, "n1": 2} and _avoided(answer) == frozenset()
    answer = step(after(spread, answer), member(2, SUCCEEDED, node="n0"))
    assert answer.status.avoid_nodes == {"n0": 2, "n1": 2}, "its end is known: this is no news"
    answer = step(after(spread, answer), member(4, SUCCEEDED, node="n0"))
    assert answer.status.avoid_nodes == {"n1": 2}


def test_a_node_on_which_most_members_fail_is_avoided() -> None:
    spread = sweep(8, at_once=4, restarts=0)
    answer = step(spread, failed(0, node="n0"), failed(1, node="n0"), failed(2), member(3))
    assert answer.status.avoid_nodes == {"n0": 2, "n2": 1} and _avoided(answer) == {"n0"}


def _on(node: str, ranks: str) -> Attempt:
    return Attempt(number=1, nodes=node, ranks=ranks, world_size=1, created=True, planned_at="2026-11-21T12:00:00Z")


def _avoided(answer: Step) -> frozenset[str]:
    (asked,) = [action for action in answer.actions if isinstance(action, NeedsNodes)]
    return asked.avoid


def test_a_member_on_a_dead_node_is_replaced_at_once() -> None:
    run = sweep(2, sweep=SweepState(again="0"))
    lingering = member(0, node_ready=False, terminating=True)
    assert asked_of(step(run, lingering, member(1))) == (0,)
    assert asked_of(step(run, replace(lingering, node_ready=True), member(1))) == ()


def test_members_without_a_memory_limit_are_not_moved() -> None:
    run = sweep(2)
    unlimited = replace(run, limits=replace(run.limits, memory_limited=False))
    assert step(unlimited, failed(0, Reason.EVICTED), member(1)).status.sweep == SweepState(failed="0")
    assert step(unlimited, failed(0, Reason.PREEMPTED), member(1)).status.sweep == SweepState(again="0")


def test_a_deletion_is_neither_success_nor_failure() -> None:
    run = sweep(2)
    for state in (SUCCEEDED, FAILED):
        ending = member(0, state, terminating=True, reason=Reason.PROGRAM_FAILED)
        assert step(run, ending, member(1)).status.sweep == SweepState()
    assert step(run, member(1)).status.sweep == SweepState(again="0")


def test_failed_starts_delay_new_starts_and_spare_running_members() -> None:
    run = sweep(3)
    late = member(0, PENDING, reason=Reason.IMAGE_PULL, message="no such image")
    answer = step(run, late, member(1), member(2), at=timedelta(seconds=599))
    assert (answer.status.sweep, answer.wake_at) == (SweepState(), NOW + timedelta(seconds=600))
    answer = step(run, late, member(1), member(2), at=timedelta(seconds=600))
    assert (answer.status.sweep, answer.status.phase) == (SweepState(again="0"), Phase.RUNNING)
    assert (answer.status.reason, answer.status.failed_starts) == (Reason.IMAGE_PULL, 1)
    paused = step(after(run, answer), member(1), member(2), at=timedelta(seconds=605))
    assert (asked_of(paused), paused.wake_at) == ((), NOW + timedelta(seconds=610))
    assert paused.status.reason is Reason.IMAGE_PULL
    assert asked_of(step(after(run, paused), member(1), member(2), at=timedelta(seconds=610))) == (0,)


def test_members_that_fail_one_after_another_are_one_failed_start() -> None:
    run = sweep(3)
    first = step(run, failed(0, Reason.VOLUME, None), member(1, PENDING), member(2, PENDING))
    second = step(after(run, first), failed(0, Reason.VOLUME), failed(1, Reason.VOLUME, None), member(2, PENDING))
    assert (second.status.failed_starts, second.status.not_before) == (1, first.status.not_before)
    assert second.status.sweep == SweepState(again="0-1")


def test_room_in_a_quota_is_used_as_soon_as_a_member_ends() -> None:
    run = sweep(3, sweep=SweepState(again="2"), not_before="2026-11-21T12:09:00Z", failed_starts=3, reason=Reason.QUOTA)
    assert asked_of(step(run, member(0), member(1))) == ()
    answer = step(run, member(0, SUCCEEDED), member(1))
    assert asked_of(answer) == (2,)


def test_members_that_the_api_server_refuses_are_retried_later() -> None:
    run = sweep(4, restarts=0)
    status = gang.failed_to_create_in_sweep(run, run.status, Reason.QUOTA, "no room", (2, 3), NOW)
    assert (status.sweep, status.reason, status.failed_starts) == (SweepState(again="2-3"), Reason.QUOTA, 1)
    assert status.attempt is not None and status.attempt.created
    paused = step(replace(run, status=status), member(0), member(1))
    assert (asked_of(paused), paused.status.interruptions) == ((), 0)
    assert asked_of(step(replace(run, status=status), member(0), member(1), at=timedelta(seconds=11))) == (2, 3)


def test_members_beyond_a_quota_are_removed_from_the_attempt() -> None:
    run = sweep(4)
    status = gang.without_uncreated(run.status, [1, 3], NOW)
    assert status.attempt is not None
    assert gang.node_by_rank(status.attempt) == {0: "n0", 2: "n2"}
    answer = step(replace(run, status=status), member(0), member(2))
    assert (asked_of(answer), answer.status.interruptions) == ((1, 3), 0)
