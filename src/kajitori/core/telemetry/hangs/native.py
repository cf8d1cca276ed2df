"""Calls in native code: the ranks that are asked for them, and sentences about them.

They show what a line of Python waits for: a lock, a socket, a collective operation of NCCL, a file server. py-spy stops
a process for half a second and more to read them, so only a few ranks are asked, after the stacks of all were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kajitori.core.telemetry.hangs.stacks import (
    UNINTERRUPTIBLE,
    ZOMBIE,
    Frame,
    Group,
    MemberStacks,
    ProcessStacks,
    main_thread,
)

MAX_RANKS = 8
"""Most ranks that are asked for native calls."""
_ODD_RANKS = 2
"""Number of ranks of an odd group that are asked; it is one for any other group."""
_MAX_NAMED = 3
"""Most functions that a sentence names."""
_UNNAMED = "?"
KERNEL = "[kernel]"
_ENTRY = re.compile(r"^(?:entry_SYSCALL|do_syscall|ret_from_fork|el0|invoke_syscall)")
"""The kernel's way from the program to a system call. It is the same for all of them."""


def representatives(groups: Sequence[Group]) -> list[int]:
    """Return the ranks to ask for native calls: two ranks of each odd group, and one of each other group."""
    chosen = [rank for each in groups for rank in each.ranks[: _ODD_RANKS if each.odd else 1]]
    return sorted(chosen[:MAX_RANKS])


def added(ranks: Mapping[int, MemberStacks], taken: Mapping[int, MemberStacks]) -> dict[int, MemberStacks]:
    """Return the stacks of `ranks`, with the native calls of the same processes that were taken later."""
    found = dict(ranks)
    for rank in taken.keys() & ranks.keys():
        later = {each.pid: each for each in taken[rank].processes}
        processes = tuple(_with_native(each, later.get(each.pid)) for each in ranks[rank].processes)
        found[rank] = msgspec.structs.replace(ranks[rank], processes=processes)
    return found


def _with_native(process: ProcessStacks, later: ProcessStacks | None) -> ProcessStacks:
    if later is None or not (later.native or later.native_trouble):
        return process
    return msgspec.structs.replace(process, native=later.native, native_trouble=later.native_trouble)


def named(function: str, module: str) -> Frame:
    """Return a call in native code. A function without a symbol has an address instead of a name."""
    return Frame(_UNNAMED if function.startswith("0x") else function, f"[{module.rpartition('/')[2]}]", 0)


def merged(frames: Iterable[Frame]) -> list[Frame]:
    """Return frames without repeated native ones: several without a name, or parts of one function."""
    found: list[Frame] = []
    for frame in frames:
        if not frame.is_native or not found or found[-1] != frame:
            found.append(frame)
    return found


def describe(ranks: Mapping[int, MemberStacks], groups: Sequence[Group], nodes: Mapping[int, str]) -> list[str]:
    """Return a sentence without its full stop for each rank with native calls, in the order of the groups."""
    order = (rank for each in groups for rank in each.ranks)
    innermost = ((rank, next(filter(None, map(_innermost_calls, ranks[rank].processes)), "")) for rank in order)
    return [
        f"rank {rank}{f' on {nodes[rank]}' if nodes.get(rank) else ''}, below its program: {calls}"
        for rank, calls in innermost
        if calls
    ][:MAX_RANKS]


def _innermost_calls(process: ProcessStacks) -> str:
    """Return the innermost native calls with names: `recv [libc.so.6], called by ncclSend [libnccl.so.2]`."""
    thread = main_thread(process.native)
    if thread is None or process.state == ZOMBIE:
        return ""
    inner: list[Frame] = []
    for frame in thread.frames:
        if not frame.is_native:  # from here on Python's own stack is more useful
            break
        if frame.function != _UNNAMED and not _ENTRY.match(frame.function):
            inner.append(frame)
    calls = ", called by ".join(f"{each.function} {each.file}" for each in inner[:_MAX_NAMED])
    is_helper = thread.frames[-1].file == KERNEL and bool(process.threads) and process.state != UNINTERRUPTIBLE
    return f"a thread waits in {calls}" if is_helper and calls else calls
