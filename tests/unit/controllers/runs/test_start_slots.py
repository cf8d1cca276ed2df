"""How many begin at a time, and who waits for whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.controllers.runs.start_slots import Turns


def test_who_has_a_higher_priority_waits_for_nobody_of_lower() -> None:
    turns = Turns(lambda: 2)
    turns.begin(("team", "a"), 0)
    turns.begin(("team", "b"), 0)
    assert (turns.left(0), turns.left(1)) == (0, 2)
    turns.begin(("team", "urgent"), 1)
    assert (turns.left(0), turns.left(1), turns.left(2)) == (0, 1, 2)
    assert not turns.end(("team", "a"))  # nobody was held back
    assert turns.left(0) == 0  # three of these had begun


def test_those_that_were_held_back_are_chosen_together() -> None:
    """When a quarter of the turns are free; who has a higher priority than they is not held back."""
    turns = Turns(lambda: 8)
    for number in range(8):
        turns.begin(("team", f"{number}"), 1)
    turns.hold_back(1)
    assert not turns.end(("team", "0"))
    assert (turns.left(0), turns.left(1), turns.left(2)) == (0, 0, 8)
    assert turns.end(("team", "1"))
    assert (turns.left(0), turns.left(1)) == (2, 2)
    turns.hold_back(None)
    turns.begin(("team", "8"), 1)
    assert turns.left(1) == 1


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans())))
def test_no_more_of_any_priority_begin_than_may(most: int, drawn: list[tuple[int, int, bool]]) -> None:
    """And one that ended in any way gives back its turn."""
    turns, begun = Turns(lambda: most), dict[tuple[str, str], int]()
    for number, priority, ends in drawn:
        key = ("team", f"{number}")
        if ends:
            turns.end(key)
            begun.pop(key, None)
        elif key not in begun and turns.left(priority):
            turns.begin(key, priority)
            begun[key] = priority
        for level in range(4):
            same_or_higher = sum(each >= level for each in begun.values())
            assert turns.left(level) == max(0, most - same_or_higher)
            assert turns.left(level) <= turns.left(level + 1)
