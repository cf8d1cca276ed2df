"""Calls in native code: of which ranks they are taken, and what they tell."""

from __future__ import annotations

from kajitori.core.telemetry.hangs import native
from kajitori.core.telemetry.hangs.evidence import read
from kajitori.core.telemetry.hangs.stacks import Frame, Group, MemberStacks, ProcessStacks, ThreadStack

TRAIN = Frame("train", "/code/train.py", 3)
KERNEL = (Frame("rpc_wait_bit_killable", "[sunrpc]", 0), Frame("entry_SYSCALL_64_after_hwframe", native.KERNEL, 0))


def member(*calls: Frame, state: str = "S", is_python: bool = True) -> MemberStacks:
    threads = (ThreadStack("MainThread", (TRAIN,)),) if is_python else ()
    stack = (ThreadStack("MainThread", calls),) if calls else ()
    return MemberStacks("u", 0.0, (ProcessStacks(7, "python", state, threads, native=stack),))


def test_they_are_taken_of_the_odd_ranks_and_one_of_each_group() -> None:
    groups = [Group((4, 5, 6), (), odd=True), *(Group((rank, rank + 1), ()) for rank in range(10, 30, 2))]
    assert native.representatives(groups) == [4, 5, 10, 12, 14, 16, 18, 20]


def test_the_innermost_calls_with_names_are_told() -> None:
    calls = [native.named(*each) for each in (("0x7f78", "/lib/libc.so.6"), ("recv", "/lib/libc.so.6"))]
    library = [native.named(f"f{number}", "/lib/libnccl.so.2") for number in range(5)]
    outer = native.named("__libc_start_main", "/lib/libc.so.6")
    ranks = {
        0: member(*calls, *library[:1], TRAIN, outer),
        1: member(*calls[:1], TRAIN, outer),
        2: member(*KERNEL, state="D"),
    }
    ranks[3], ranks[4] = member(*KERNEL), member(*KERNEL, is_python=False)
    assert native.describe(ranks, [Group((0, 1), ()), Group((2, 3, 4), ())], {0: "n0"}) == [
        "rank 0 on n0, below its program: recv [libc.so.6], called by f0 [libnccl.so.2]",
        "rank 2, below its program: rpc_wait_bit_killable [sunrpc]",
        "rank 3, below its program: a thread waits in rpc_wait_bit_killable [sunrpc]",
        "rank 4, below its program: rpc_wait_bit_killable [sunrpc]",
    ]


def test_a_sentence_has_three_calls_at_most() -> None:
    library = [native.named(f"f{number}", "/lib/libnccl.so.2") for number in range(5)]
    (told,) = native.describe({0: member(*library, TRAIN)}, [Group((0,), ())], {})
    assert told.endswith("f0 [libnccl.so.2], called by f1 [libnccl.so.2], called by f2 [libnccl.so.2]")


def test_calls_without_names_and_parts_of_one_function_are_one_line() -> None:
    unnamed, recv = native.named("0x7f78", "/lib/libc.so.6"), native.named("recv", "/lib/libc.so.6")
    assert native.merged([unnamed, unnamed, recv, recv, TRAIN, TRAIN]) == [unnamed, recv, TRAIN, TRAIN]


def test_they_are_added_to_the_same_process_and_change_no_group() -> None:
    plain, again = {0: member(), 1: member()}, member(*KERNEL)
    found = native.added(plain, {0: again, 5: again})
    assert [len(found[rank].processes[0].native) for rank in (0, 1)] == [1, 0]
    assert read(found, {}, {}).groups == read(plain, {}, {}).groups
    other = MemberStacks("u", 0.0, (ProcessStacks(8, "python", "S", native=again.processes[0].native),))
    assert native.added(plain, {0: other}) == plain
