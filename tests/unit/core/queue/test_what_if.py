"""What-ifs: room by obstacle, changes that start the run sooner, and its expected start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from tests.unit.core.queue.test_freeing import GIB, HOUR, Case, Held, cases, node, queued

from kajitori.core.placement.planner import MemberRequest
from kajitori.core.queue.freeing import StopWatch
from kajitori.core.queue.what_if import Answer, ask

HALF = MemberRequest(8000, 32 * GIB, gpus=4)


def what_if_for(case: Case, key: str = "team/mine") -> Answer:
    return ask(case.situation(), key)


def nodes(count: int, **more: Any) -> tuple[Any, ...]:
    return tuple(node(f"n{number}", **more) for number in range(count))


def test_room_is_counted_by_obstacle() -> None:
    """Free, reserved, held, cordoned and broken nodes; at most as many as the run could use."""
    case = Case(
        (*nodes(4), node("c", schedulable=False), node("b", ready=False)),
        (Held("a/1", ("n0",), ends_at=HOUR), Held("a/2", ("n1", "n2"))),
        (queued(6),),
    )
    room = what_if_for(case).room
    assert (room.free, room.reserved, room.held, room.cordoned, room.broken) == (1, 0, 3, 1, 1)
    large = replace(queued(2, key="team/large"), overdue=True)
    behind = replace(case, queue=(large, queued(1, seconds=9 * HOUR)))
    room = what_if_for(behind).room
    assert (room.free, room.reserved) == (0, 1)
    assert what_if_for(behind).freeing is not None


def test_a_run_that_starts_now_has_a_placement() -> None:
    found = what_if_for(Case(nodes(2), (), (queued(2),)))
    assert found.placement is not None and found.placement.nodes == ("n0", "n1")
    assert (found.expected_at, found.sooner, found.room.free) == (0.0, (), 2)


def test_smaller_requests_that_would_start_now_are_named() -> None:
    """Another GPU type, fewer members, or less of one resource; the planner has tried each."""
    some = (*nodes(2), node("a", gpu_type="a100"), node("small", gpu_type="v100", gpus=2))
    held = (Held("a/1", ("n0",), HALF),)
    found = what_if_for(Case(some, held, (queued(2, gpu_type="h100"),)))
    assert found.sooner == ("--replicas 1", "--gpus 4")
    found = what_if_for(Case(some, held, (queued(1, gpu_type="h100", gpus=8, cpu_millis=16_000),)))
    assert found.placement is not None
    found = what_if_for(Case(some[:1], held, (queued(1, gpus=4, memory_bytes=48 * GIB),)))
    assert found.sooner == ("--memory 32Gi",)
    found = what_if_for(Case(some[:1], held, (queued(1, gpus=4, cpu_millis=16_000),)))
    assert found.sooner == ("--cpus 8",)
    found = what_if_for(Case(some[:1], held, (queued(1, gpus=7, cpu_millis=1000),)))
    assert found.sooner == ("--gpus 4",)
    found = what_if_for(Case(some[:1], (Held("a/1", ("n0",), replace(HALF, gpus=7)),), (queued(1, gpus=8),)))
    assert found.sooner == ("--gpus 1",)
    found = what_if_for(Case(some[:1], held, (queued(1, gpus=4, whole_node=True),)))
    assert found.sooner == ("no --whole-node",)
    found = what_if_for(Case(some[:1], held, (queued(1, gpus=4, unlimited=True),)))
    assert found.sooner == ("--memory SIZE",)
    found = what_if_for(Case(some[1:3], (Held("a/1", ("n1",)),), (queued(1, gpu_type="h100"),)))
    assert found.sooner == ("--gpu-type a100",)


def test_a_shorter_time_limit_is_suggested_for_backfill() -> None:
    """With it the run ends before a reservation begins."""
    held = (Held("a/1", ("n0",), ends_at=2 * HOUR),)
    found = what_if_for(Case(nodes(2), held, (queued(2, key="team/large"), queued(1, seconds=9 * HOUR))))
    assert found.sooner == ("--time-limit 1h",)
    assert found.shortage is not None and found.shortage.behind == ("team/large",)


def test_when_a_start_is_expected() -> None:
    """By the ends of running runs and of runs ahead; there is no answer if one of them has no known end."""
    held = (Held("a/1", ("n0",), ends_at=HOUR), Held("a/2", ("n1",), ends_at=2 * HOUR))
    queue = (queued(1, key="team/first", seconds=3 * HOUR), queued(1, key="team/second"), queued(2))
    case = Case(nodes(2), held, queue)
    assert what_if_for(case, "team/first").expected_at == HOUR
    assert what_if_for(case, "team/second").expected_at == 2 * HOUR
    assert what_if_for(case).expected_at == 4 * HOUR
    assert what_if_for(replace(case, held=(*held[:1], replace(held[1], ends_at=None)))).expected_at is None
    assert what_if_for(Case(nodes(1), (), (queued(2),))).expected_at is None


@settings(deadline=None, max_examples=25)  # a busy machine is no fault of the planner
@given(cases())
def test_an_estimate_is_in_the_future_unless_the_run_starts_now(case: Case) -> None:
    """A run that starts now gets no suggestions."""
    started = case.started()
    for waiting in case.queue:
        found = what_if_for(case, waiting.gang.key)
        assert (found.placement is not None) == (waiting.gang.key in started)
        if found.placement is not None:
            assert (found.expected_at, found.sooner) == (0.0, ())
        elif found.expected_at is not None:
            assert found.expected_at > 0.0
            assert found.freeing is not None


def limited_to(looks: int) -> StopWatch:
    """Return a stop-watch whose time is over after it was asked `looks` times."""
    left = iter(range(looks))
    return lambda: lambda: next(left, None) is not None


def test_without_time_nothing_is_guessed() -> None:
    """Either no steps are named, or they are enough but not marked as the fewest. There is no expected start."""
    held = (Held("a/1", ("n0",), ends_at=HOUR), Held("a/2", ("n1",), ends_at=2 * HOUR))
    case = Case(nodes(2), held, tuple(queued(2, key=f"team/{number}") for number in range(3)))
    found = ask(case.situation(), "team/2", lambda: lambda: False)
    assert found.freeing is not None and (found.freeing.steps, found.freeing.least) == ((), False)
    assert (found.expected_at, found.sooner) == (None, ())
    for looks in range(1, 8):
        found = ask(case.situation(), "team/2", limited_to(looks))
        assert found.freeing is not None
        if found.freeing.steps:
            assert "team/2" in case.without(found.freeing.steps).started()
    first = ask(case.situation(), "team/0", lambda: lambda: False)
    assert first.freeing is not None and first.freeing.least
    assert first.expected_at == 2 * HOUR
