"""A rank that repeats itself is told from one that works while the others wait."""

from __future__ import annotations

import msgspec
import pytest

from kajitori.core.telemetry import spinning
from kajitori.core.telemetry.hangs.stacks import NO_TIME, Frame, MemberStacks, ProcessStacks, ThreadStack

WAITS = (Frame("all_reduce", "/venv/lib/python3.12/site-packages/torch/distributed/c10d.py", 2501),)


def at(*functions: str, line: int = 7, values: int = 5) -> ThreadStack:
    frames = tuple(Frame(function, "/code/train.py", line) for function in functions)
    return ThreadStack("MainThread", frames, active=True, values=values)


def process(thread: ThreadStack, pid: int = 7) -> ProcessStacks:
    return ProcessStacks(pid, "python", "R", (thread,))


def waiting(line: int = 88) -> list[ProcessStacks]:
    return [process(ThreadStack("MainThread", (*WAITS, Frame("step", "/code/train.py", line))))]


def member(*processes: ProcessStacks, left_out: int = 0) -> MemberStacks:
    return MemberStacks("u", 0.0, processes, left_out)


def test_the_rank_that_moves_while_the_others_wait_is_looked_at_again() -> None:
    looks = [{0: waiting(), 1: waiting(), 2: [process(at("spin", line=line))]} for line in (7, 8)]
    assert spinning.moving(looks, [0, 1, 2]) == (2,)
    assert spinning.moving([looks[0], looks[0]], [0, 1, 2]) == (), "none moves"
    assert spinning.moving([looks[0], looks[1] | {0: waiting(89)}], [0, 1, 2]) == (), "two of three move"
    halves = [look | {1: [process(at("spin", line=line))], 3: waiting()} for line, look in enumerate(looks)]
    assert spinning.moving(halves, [0, 1, 2, 3]) == (), "half of them move"
    elsewhere = [{**look, 1: [process(at("load"))]} for look in looks]
    assert spinning.moving(elsewhere, [0, 1, 2]) == (), "one is in no collective operation"
    assert spinning.moving([{0: look[0], 2: look[2]} for look in looks], [0, 1, 2]) == (), "one was not seen"


SPINS = process(at("spin", "train"))
SHELL = ProcessStacks(6, "sh -c train.sh", "S", trouble="it is no Python program")


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param([SHELL, process(at("spin", "train", line=9))], True, id="another-line"),
        pytest.param([SHELL, process(at("spin", "train", values=6))], False, id="another-value"),
        pytest.param([SHELL, process(at("decode", "spin", "train"))], False, id="another-call"),
        pytest.param([SHELL, SPINS, process(at("spin"), pid=8)], False, id="a-new-process"),
        pytest.param([msgspec.structs.replace(SHELL, state="R"), SPINS], False, id="another-program-works"),
        pytest.param([msgspec.structs.replace(SHELL, trouble=NO_TIME), SPINS], False, id="no-time"),
        pytest.param([SHELL, process(at("spin", "train", values=0))], False, id="values-not-read"),
    ],
)
def test_calls_and_values_that_never_change_are_no_work(second: list[ProcessStacks], expected: bool) -> None:
    looks = [{5: member(SHELL, SPINS)}, {5: member(*second)}]
    assert spinning.repeats(looks, [5]) is expected


def test_nothing_is_said_of_a_rank_that_was_not_read_whole() -> None:
    """Variables at the top of a program are global, so they are not among the values."""
    assert not spinning.repeats([{5: member(SPINS)}, {}], [5])
    assert not spinning.repeats([{5: member(SPINS, left_out=1)}] * 2, [5])
    assert not spinning.repeats([{5: member(process(at("<module>")))}] * 2, [5])
