"""Answers that are remembered for a while."""

from __future__ import annotations

from tests.unit.api.conftest import Clock

from kajitori.api.context import Remembered


def test_costly_answers_are_remembered_and_cheap_ones_are_computed() -> None:
    """Computing takes at most a twentieth of the time, and no answer is older than a second."""
    clock = Clock()
    remembered = Remembered(clock, share=0.05, longest_seconds=1.0)
    made: list[float] = []

    def make(cost_seconds: float) -> bytes:
        clock.now += cost_seconds
        made.append(cost_seconds)
        return str(len(made)).encode()

    def ask(key: str, cost_seconds: float, *, after: float) -> bytes:
        clock.now += after
        return remembered.get(key, lambda: make(cost_seconds))

    assert [ask("cheap", 0.0, after=0.0) for _ in range(3)] == [b"1", b"2", b"3"]
    assert [ask("nodes", 0.02, after=0.15) for _ in range(5)] == [b"4", b"4", b"4", b"5", b"5"]
    assert [ask("all", 5.0, after=0.6) for _ in range(4)] == [b"6", b"6", b"7", b"7"]
