"""The first runs of each shape, found without looking at all waiting runs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kajitori.controllers.queue.shapes import QueueByShape
from kajitori.core.placement.planner import GangRequest, MemberRequest
from kajitori.core.queue.waiting import WaitingRun

SMALL, LARGE = MemberRequest(1000, 1), MemberRequest(20_000, 1)


def queued(key: str, member: MemberRequest = SMALL, priority: int = 0) -> WaitingRun:
    return WaitingRun(GangRequest(key, member, (0,), priority=priority), 1.0)


def keys(found: list[WaitingRun]) -> list[str]:
    return [entry.gang.key for entry in found]


def test_the_first_runs_of_each_shape_are_found_in_order() -> None:
    shapes = QueueByShape()
    shapes.replace([queued("a"), queued("b"), queued("c", LARGE), queued("d"), queued("e", LARGE)])
    assert keys(shapes.first_of_each(lambda _: True, 1)) == ["a", "c"]
    assert keys(shapes.first_of_each(lambda _: True, 2)) == ["a", "b", "c", "e"]


def test_a_new_run_comes_after_runs_of_the_same_priority() -> None:
    shapes = QueueByShape()
    shapes.replace([queued("a", priority=1), queued("b")])
    for waiting in (queued("c"), queued("d", priority=1), queued("e", LARGE, priority=2)):
        shapes.add(waiting)
    assert keys(shapes.first_of_each(lambda _: True, 9)) == ["e", "a", "d", "b", "c"]


@given(
    st.lists(st.tuples(st.sampled_from([SMALL, LARGE]), st.integers(0, 2), st.booleans(), st.booleans())),
    st.integers(1, 4),
)
def test_no_waiting_run_is_lost(drawn: list[tuple[MemberRequest, int, bool, bool]], limit: int) -> None:
    """This holds for any number of calls, and if runs start between them."""
    shapes, waiting = QueueByShape(), {}
    known = []
    for number, (member, priority, is_known, waits) in enumerate(drawn):
        each = queued(f"{number}", member, priority)
        if waits:
            waiting[each.gang.key] = each
        if is_known:
            known.append(each)
    known.sort(key=lambda waiting: -waiting.gang.priority)
    shapes.replace(known)
    for number, (member, priority, is_known, _) in enumerate(drawn):
        if not is_known:
            shapes.add(waiting.get(f"{number}") or queued(f"{number}", member, priority))
    seen = []
    while found := shapes.first_of_each(lambda entry: entry.gang.key in waiting, limit):
        assert [-entry.gang.priority for entry in found] == sorted(-entry.gang.priority for entry in found)
        for member in (SMALL, LARGE):
            assert sum(entry.gang.member is member for entry in found) <= limit
        seen += keys(found)
        for entry in found:
            del waiting[entry.gang.key]
    assert not waiting
    assert len(set(seen)) == len(seen)


def test_runs_that_avoid_other_nodes_have_another_shape() -> None:
    shapes = QueueByShape()
    other = queued("b")
    shapes.replace([queued("a"), replace(other, gang=replace(other.gang, avoid=frozenset({"n1"})))])
    assert keys(shapes.first_of_each(lambda _: True, 1)) == ["a", "b"]
