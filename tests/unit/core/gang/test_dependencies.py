"""A run that waits for others: when it may ask for nodes, when it ends without having started, and what it says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.scenes.gangs import NOW

from kajitori.core import gang
from kajitori.core.gang import Awaited, Limits, NeedsNodes, Run, SeenRun, Step, Sweep, find_cycle, next_step
from kajitori.core.gang.dependencies import MISSING_PATIENCE
from kajitori.core.gang.restoring import restored
from kajitori.core.spec.reasons import AfterCondition, Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.dependencies import AfterState


def seen(phase: Phase = Phase.RUNNING, uid: str = "u1", **facts: object) -> SeenRun:
    return replace(SeenRun(uid, phase), **facts)  # type: ignore[arg-type]


def checked(phase: Phase = Phase.RUNNING, **facts: object) -> SeenRun:
    """Return a run with a health check."""
    return replace(seen(phase), has_health_check=True, **facts)  # type: ignore[arg-type]


def waiting(
    other: SeenRun | None, condition: AfterCondition = "succeeded", status: RunStatus | None = None, **more: object
) -> Run:
    run = Run("batch", 2, Limits(), status or RunStatus(), after=(Awaited("prepare", condition, other),))
    return replace(run, **more)  # type: ignore[arg-type]


def step(run: Run, *, later: timedelta = timedelta()) -> Step:
    return next_step(run, [], NOW + later)


def after_seeing(first: SeenRun | None, then: SeenRun | None, condition: AfterCondition = "succeeded") -> Step:
    """Return the second step of a run that saw the other run twice."""
    return step(waiting(then, condition, step(waiting(first, condition)).status))


def asks(answer: Step) -> bool:
    return any(isinstance(action, NeedsNodes) for action in answer.actions)


def test_a_run_asks_for_no_nodes_while_it_waits_for_another() -> None:
    answer = step(waiting(seen()))
    assert (answer.status.phase, answer.status.reason) == (Phase.QUEUED, Reason.WAITING_FOR_RUN)
    assert answer.status.message == "waits for prepare (Running) to succeed"
    assert answer.actions == ()
    assert answer.status.after[0].uid == "u1"


@pytest.mark.parametrize("kind", ["gang", "sweep", "service"])
def test_every_type_of_run_waits_and_then_asks_for_nodes(kind: str) -> None:
    kinds: dict[str, dict[str, Any]] = {"sweep": {"sweep": Sweep((0, 1), 2)}, "service": {"type": "service"}}
    facts = kinds.get(kind, {})
    waits = step(waiting(seen(), **facts))
    assert not asks(waits)
    assert asks(step(waiting(seen(Phase.SUCCEEDED), status=waits.status, **facts)))


def test_the_waiting_time_in_the_queue_begins_once_the_condition_holds() -> None:
    waits = step(waiting(seen())).status
    answer = step(waiting(seen(Phase.SUCCEEDED), status=waits), later=timedelta(hours=3))
    assert asks(answer) and answer.status.queued_at > waits.queued_at
    assert answer.status.reason is Reason.NOT_PLANNED_YET and not answer.status.message
    assert answer.status.after[0].met_at


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (seen(Phase.FAILED, reason=Reason.PROGRAM_FAILED), "prepare failed (ProgramFailed)"),
        (seen(Phase.STOPPED), "prepare was stopped"),
        (seen(deleting=True), "prepare is being deleted and did not succeed"),
        (None, "prepare was deleted before it succeeded"),
        (seen(Phase.SUCCEEDED, uid="u2"), "prepare was deleted before it succeeded"),
        (seen(type="service"), "prepare is a service, which never succeeds by itself"),
    ],
)
def test_it_fails_once_the_other_run_can_no_longer_succeed(then: SeenRun | None, words: str) -> None:
    answer = after_seeing(seen(), then)
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, Reason.DEPENDENCY_NEVER_SATISFIED)
    assert answer.status.message == f"it did not start: {words}"
    assert answer.actions == () and answer.status.attempts == 0


@pytest.mark.parametrize("then", [seen(Phase.FAILED), seen(Phase.STOPPED), seen(Phase.SUCCEEDED), None, seen(uid="u2")])
def test_with_ended_any_end_of_the_other_run_counts(then: SeenRun | None) -> None:
    assert asks(after_seeing(seen(), then, "ended"))


def test_it_asks_for_nodes_once_a_service_is_healthy_whatever_becomes_of_its_health() -> None:
    answer = step(waiting(checked(), "healthy"))
    assert answer.status.message == "waits for prepare (Running, not healthy) to be healthy"
    answer = step(waiting(checked(is_healthy=True), "healthy", answer.status))
    assert asks(answer)
    assert asks(step(waiting(checked(), "healthy", answer.status)))


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (checked(Phase.FAILED), "prepare ended before it was healthy (Failed)"),
        (checked(Phase.SUCCEEDED), "prepare ended before it was healthy (Succeeded)"),
        (checked(deleting=True, is_healthy=True), "prepare is being deleted and was not healthy"),
        (None, "prepare was deleted before it was healthy"),
        (seen(), "prepare has no health check"),
    ],
)
def test_it_fails_once_the_other_run_can_no_longer_become_healthy(then: SeenRun | None, words: str) -> None:
    answer = after_seeing(checked(), then, "healthy")
    assert answer.status.reason is Reason.DEPENDENCY_NEVER_SATISFIED
    assert answer.status.message == f"it did not start: {words}"


@pytest.mark.parametrize("condition", ["succeeded", "healthy", "ended"])
@pytest.mark.parametrize(
    ("then", "words"),
    [
        (checked(Phase.RESTARTING), "prepare (Restarting)"),
        (checked(Phase.STOPPED, reason=Reason.PARKED), "prepare (parked; kaji resume prepare)"),
    ],
)
def test_it_goes_on_waiting_for_a_run_that_is_meant_to_run_again(
    then: SeenRun, words: str, condition: AfterCondition
) -> None:
    answer = after_seeing(checked(), then, condition)
    assert answer.status.reason is Reason.WAITING_FOR_RUN and words in answer.status.message


def test_a_run_that_does_not_exist_is_waited_for_only_a_while() -> None:
    """Several runs may be applied at once, in any order; a wrong name must not wait for ever."""
    first = step(waiting(None))
    assert "there is no run of this name yet" in first.status.message
    assert first.wake_at == NOW + MISSING_PATIENCE
    late = step(waiting(None, status=first.status), later=MISSING_PATIENCE)
    assert late.status.reason is Reason.DEPENDENCY_NEVER_SATISFIED
    assert late.status.message == "it did not start: there was no run prepare within 10m"
    assert asks(step(waiting(seen(Phase.SUCCEEDED), status=first.status)))


def test_a_condition_that_held_is_not_judged_again() -> None:
    """Here the other run is resumed and fails while the run waits for nodes, or for a third run."""
    met = step(waiting(seen(Phase.SUCCEEDED))).status
    assert asks(step(waiting(seen(Phase.FAILED), status=met)))


def test_nothing_is_judged_after_the_first_attempt() -> None:
    placed = gang.place_on(RunStatus(), (0, 1), "a,b", {}, 0, 2, NOW)
    ended = msgspec.structs.replace(placed, phase=Phase.RESTARTING)
    assert asks(step(waiting(None, status=ended)))


def test_a_resumed_run_looks_the_other_run_up_again() -> None:
    failed = after_seeing(seen(), seen(Phase.FAILED)).status
    again = step(waiting(seen(uid="u2"), status=failed, resumes=1)).status
    assert again.reason is Reason.WAITING_FOR_RUN and again.after[0].uid == "u2"


def test_a_restored_run_looks_the_other_run_up_again_by_name() -> None:
    """Restored objects have other UIDs."""
    back = restored(step(waiting(seen())).status, NOW, NOW)
    assert step(waiting(seen(uid="u2"), status=back)).status.reason is Reason.WAITING_FOR_RUN


def test_a_waiting_run_can_be_stopped() -> None:
    waits = step(waiting(seen())).status
    assert step(waiting(seen(), status=waits, stopped=True)).status.phase is Phase.STOPPED


def test_it_waits_for_all_runs_and_says_each_fault_at_once() -> None:
    others = [Awaited(name, "succeeded", seen(Phase.FAILED)) for name in ("a", "b")]
    run = Run("batch", 1, Limits(), RunStatus(), after=(*others, Awaited("c", "succeeded", seen(Phase.SUCCEEDED))))
    assert step(run).status.message == "it did not start: a failed; b failed"
    many = tuple(Awaited(name, "ended", seen()) for name in "abcdef")
    text = step(replace(run, after=many)).status.message
    assert text.startswith("waits for a (Running) to end, and for b") and text.endswith("and for 2 more")


def test_a_cycle_is_found_from_any_of_its_runs() -> None:
    edges = {"a": ["b"], "b": ["x", "c"], "c": ["a"], "x": []}
    assert find_cycle("a", lambda name: edges[name]) == ("a", "b", "c", "a")
    assert find_cycle("x", lambda name: edges[name]) == ()
    assert find_cycle("s", lambda name: [name]) == ("s", "s")
    looped = Awaited("b", "ended", seen(Phase.QUEUED), cycle=("a", "b", "a"))
    ended = step(Run("batch", 1, Limits(), RunStatus(), after=(looped,))).status
    assert ended.message == "it did not start: it would wait for itself (a → b → a)"


def test_the_other_run_stays_until_its_end_was_noted() -> None:
    ended = Awaited("prepare", "succeeded", seen(Phase.SUCCEEDED))
    assert gang.has_to_see(RunStatus(), ended, NOW)
    pinned = RunStatus(after=[AfterState(run="prepare", uid="u1")])
    assert gang.has_to_see(pinned, ended, NOW)
    assert not gang.has_to_see(pinned, replace(ended, seen=seen()), NOW)
    assert not gang.has_to_see(step(waiting(seen(Phase.SUCCEEDED))).status, ended, NOW)


_SIGHTS = st.one_of(
    st.none(),
    st.builds(
        SeenRun,
        st.sampled_from(["u1", "u2"]),
        st.sampled_from([Phase.QUEUED, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED]),
        reason=st.sampled_from([Reason.NONE, Reason.PARKED]),
        deleting=st.booleans(),
        has_health_check=st.just(value=True),
        is_healthy=st.booleans(),
    ),
)


@given(
    sights=st.lists(st.tuples(_SIGHTS, st.sampled_from(["written", "killed", "placed"])), max_size=8),
    condition=st.sampled_from(["succeeded", "healthy", "ended"]),
)
def test_it_starts_at_most_once_and_never_before_the_condition_held(
    sights: list[tuple[SeenRun | None, str]], condition: AfterCondition
) -> None:
    """Whatever the other run does, and wherever the controller is killed: before it writes the step's status, after
    that, or after the planner has placed the run."""
    status, pin, has_held = RunStatus(), "", False
    for other, fate in sights:
        answer = step(waiting(other, condition, status))
        followed = pin or (other.uid if other is not None else "")
        holds = has_held or _holds(condition, followed, other)
        assert asks(answer) == holds
        if fate == "killed":
            continue
        status, pin, has_held = answer.status, followed, holds
        if fate == "placed" and asks(answer):
            status = gang.place_on(status, (0, 1), "a,b", {}, 0, 2, NOW)
            assert status.attempts == 1
        if status.attempts or status.phase.is_final:
            break


def _holds(condition: AfterCondition, uid: str, other: SeenRun | None) -> bool:
    """Return whether the condition holds for the run with this UID; empty if there was none so far."""
    is_there = other is not None and other.uid == uid
    if condition == "succeeded":
        return is_there and other is not None and other.phase is Phase.SUCCEEDED
    if condition == "healthy":
        return is_there and other is not None and other.is_healthy and not other.deleting
    if not is_there:
        return bool(uid)
    is_parked = other is not None and other.phase is Phase.STOPPED and other.reason is Reason.PARKED
    return other is not None and other.phase.is_final and not is_parked
