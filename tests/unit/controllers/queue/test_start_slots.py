"""The number of attempts that start at a time, by priority."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.controllers.queue.start_slots import StartSlots


def test_a_run_does_not_wait_for_starts_of_lower_priority() -> None:
    slots = StartSlots(lambda: 2)
    slots.begin(("team", "a"), 0)
    slots.begin(("team", "b"), 0)
    assert (slots.left(0), slots.left(1)) == (0, 2)
    slots.begin(("team", "urgent"), 1)
    assert (slots.left(0), slots.left(1), slots.left(2)) == (0, 1, 2)
    assert not slots.end(("team", "a"))  # no run was held back
    assert slots.left(0) == 0  # three starts for two slots: the third had priority


def test_held_back_runs_are_planned_once_a_quarter_of_the_slots_is_free() -> None:
    """A run of higher priority does not wait for that."""
    slots = StartSlots(lambda: 8)
    for number in range(8):
        slots.begin(("team", f"{number}"), 1)
    slots.hold_back(1)
    assert not slots.end(("team", "0"))
    assert (slots.left(0), slots.left(1), slots.left(2)) == (0, 0, 8)
    assert slots.end(("team", "1"))
    assert (slots.left(0), slots.left(1)) == (2, 2)
    slots.hold_back(None)
    slots.begin(("team", "8"), 1)
    assert slots.left(1) == 1


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans())))
def test_each_priority_gets_the_slots_that_higher_ones_leave(limit: int, drawn: list[tuple[int, int, bool]]) -> None:
    """A start that ended frees its slot, whether or not it had one."""
    slots, begun = StartSlots(lambda: limit), dict[tuple[str, str], int]()
    for number, priority, ends in drawn:
        key = ("team", f"{number}")
        if ends:
            slots.end(key)
            begun.pop(key, None)
        elif key not in begun and slots.left(priority):
            slots.begin(key, priority)
            begun[key] = priority
        for level in range(4):
            same_or_higher = sum(number >= level for number in begun.values())
            assert slots.left(level) == max(0, limit - same_or_higher)
            assert slots.left(level) <= slots.left(level + 1)
