"""Ranks are grouped by where their processes are, and the odd ones are named first."""

from __future__ import annotations

import msgspec
import pytest

from kajitori.core.telemetry.hangs.stacks import (
    MAX_FRAMES,
    NO_TIME,
    Frame,
    MemberStacks,
    ProcessStacks,
    ThreadStack,
    group,
    sentences,
    trimmed,
)

TORCH = "/venv/lib/python3.12/site-packages/torch/distributed"
COLLECTIVE = (
    Frame("all_reduce", f"{TORCH}/distributed_c10d.py", 2501),
    Frame("wrapper", f"{TORCH}/c10d_logger.py", 81),
    Frame("step", "/code/train.py", 88),
    Frame("<module>", "/code/train.py", 120),
)
LOADS = (Frame("load_batch", "/code/data.py", 14), Frame("<module>", "/code/train.py", 120))
READS = (Frame("read", "/usr/lib/python3.12/socket.py", 700), *LOADS)


def process(*frames: Frame, state: str = "S", command: str = "python train.py", waits_in: str = "") -> ProcessStacks:
    threads = (ThreadStack("helper", (Frame("wait", "/usr/lib/python3.12/threading.py", 355),)),)
    return ProcessStacks(7, command, state, (*threads, ThreadStack("MainThread", frames)) if frames else (), waits_in)


ELSEWHERE = process(Frame("evaluate", "/code/train.py", 30))
WAITS, LOADING = process(*COLLECTIVE), process(*LOADS)
UNREAD = msgspec.structs.replace(process(), trouble=NO_TIME)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param(
            [WAITS, WAITS, process(*READS), WAITS],
            ["! rank 2 on n2 is in load_batch (data.py:14)", "3 ranks (0-1,3) wait in all_reduce (train.py:88)"],
            id="one-loads",
        ),
        pytest.param(
            [LOADING, LOADING, WAITS],
            ["! 2 ranks (0-1) are in load_batch (data.py:14)", "rank 2 on n2 waits in all_reduce (train.py:88)"],
            id="most-are-late",
        ),
        pytest.param(
            [process(*COLLECTIVE, state="T"), WAITS],
            [
                "! rank 0 on n0 is stopped by a signal (SIGSTOP), in step (train.py:88)",
                "rank 1 on n1 waits in all_reduce (train.py:88)",
            ],
            id="stopped",
        ),
        pytest.param(
            [WAITS, process(state="D", waits_in="rpc_wait_bit_killable")],
            [
                "! rank 1 on n1 waits in the kernel (rpc_wait_bit_killable)",
                "rank 0 on n0 waits in all_reduce (train.py:88)",
            ],
            id="file-server-is-gone",
        ),
        pytest.param([WAITS, WAITS], ["2 ranks (0-1) wait in all_reduce (train.py:88)"], id="all-alike"),
        pytest.param(
            [process(Frame("recv", "/usr/lib/python3.12/multiprocessing/connection.py", 250), *LOADS), WAITS],
            ["! rank 0 on n0 is in load_batch (data.py:14)", "rank 1 on n1 waits in all_reduce (train.py:88)"],
            id="recv-of-another-library",
        ),
        pytest.param(
            [process(Frame("all_gather", "/venv/lib/python3.12/site-packages/own/comm.py", 9), *LOADS), LOADING],
            ["! rank 1 on n1 is in load_batch (data.py:14)", "rank 0 on n0 waits in all_gather (data.py:14)"],
            id="collective-of-any-library",
        ),
        pytest.param(
            [process(Frame("Gang.all_reduce", "/venv/lib/python3.12/site-packages/own/comm.py", 9), *LOADS), LOADING],
            ["! rank 1 on n1 is in load_batch (data.py:14)", "rank 0 on n0 waits in all_reduce (data.py:14)"],
            id="collective-that-is-a-method",
        ),
        pytest.param(
            [LOADING, ELSEWHERE],
            ["rank 0 on n0 is in load_batch (data.py:14)", "rank 1 on n1 is in evaluate (train.py:30)"],
            id="no-majority",
        ),
        pytest.param(
            [WAITS, WAITS, UNREAD],
            [
                "rank 2 on n2 runs python train.py, and there was no time to look into it",
                "2 ranks (0-1) wait in all_reduce (train.py:88)",
            ],
            id="a-busy-node-had-no-time",
        ),
        pytest.param(
            [WAITS, LOADING, UNREAD],
            [
                "! rank 1 on n1 is in load_batch (data.py:14)",
                "rank 0 on n0 waits in all_reduce (train.py:88)",
                "rank 2 on n2 runs python train.py, and there was no time to look into it",
            ],
            id="one-loads-and-one-was-not-read",
        ),
        pytest.param([process(command="./a.out")], ["rank 0 on n0 runs ./a.out, which is no Python program"], id="C"),
    ],
)
def test_the_rank_for_which_others_wait_comes_first(members: list[ProcessStacks], expected: list[str]) -> None:
    groups = group({rank: (each,) for rank, each in enumerate(members)})
    nodes = {rank: f"n{rank}" for rank in range(len(members))}
    told = zip(groups, sentences(groups, nodes), strict=True)
    assert [("! " if each.odd else "") + words for each, words in told] == expected


def test_of_several_processes_the_one_that_differs_is_told() -> None:
    """A launcher waits for its workers on every rank; only the worker matters."""
    launcher = process(Frame("_invoke_run", f"{TORCH}/elastic/agent/server/api.py", 870))
    groups = group({0: (launcher, WAITS), 1: (launcher, WAITS), 2: (launcher, LOADING)})
    assert sentences(groups)[0] == "rank 2 is in load_batch (data.py:14)"


def test_long_stacks_lose_other_threads_before_the_main_thread() -> None:
    frames = tuple(Frame(f"f{number}", "/code/a.py", number) for number in range(50))
    others = tuple(ThreadStack(f"t{number}", frames) for number in range(20))
    many = ProcessStacks(1, "python", "S", (*others, ThreadStack("MainThread", frames)))
    (kept,) = trimmed(MemberStacks("u", 0.0, (many,))).processes
    assert kept.threads[0] == ThreadStack("MainThread", frames)
    assert sum(len(each.frames) for each in kept.threads) == MAX_FRAMES
