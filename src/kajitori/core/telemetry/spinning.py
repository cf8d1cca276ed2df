"""A rank that executes the same lines again and again while all others wait for it.

It moves between looks, like a rank that compiles or evaluates. But those call other functions, or work on other values,
within minutes. A rank that waits in a loop is in the same functions with the same values at each look. A loop that
counts its attempts, or calls functions, looks like work and is not recognised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kajitori.core.telemetry.hangs.stacks import NO_TIME, Doing, MemberStacks, ProcessStacks, place_of
from kajitori.core.telemetry.stuck import Stacks, stood_still

MAX_RANKS = 8
"""Most ranks that are looked at again."""
_SLEEPS = "S"
_TOP_LEVEL = "<module>"
"""Function of code at the top of a program. Its variables are global, so they are not read."""


def moving(looks: Sequence[Stacks], ranks: Collection[int]) -> tuple[int, ...]:
    """Return the ranks that move while all others stand still in a collective operation; empty if the others do not."""
    still = {rank: stood_still([{rank: look[rank]} for look in looks if rank in look], [rank]) for rank in ranks}
    moved = tuple(sorted(rank for rank in ranks if still[rank] is False))
    if not moved or len(moved) > MAX_RANKS or 2 * len(moved) >= len(still):
        return ()
    others = still.keys() - set(moved)
    wait = all(still[rank] and _is_waiting(looks[-1][rank]) for rank in others if rank in looks[-1])
    return moved if wait and others <= looks[-1].keys() else ()


def _is_waiting(processes: Sequence[ProcessStacks]) -> bool:
    return any(place_of(each).doing is Doing.WAITS for each in processes)


def repeats(looks: Sequence[Mapping[int, MemberStacks]], ranks: Collection[int]) -> bool:
    """Whether all threads of these ranks had the same calls and the same values in all looks. Lines may differ.

    The looks must have values. A process that could not be read, is new, or works without Python, may be progress.
    """
    for rank in ranks:
        seen = [_present_calls(look[rank]) for look in looks if rank in look]
        if len(seen) < len(looks) or None in seen or any(each != seen[0] for each in seen):
            return False
    return True


_Calls = dict[int, list[tuple[tuple[tuple[str, str], ...], int]]]
"""By process, for each thread: functions with their files, and the number of its values."""


def _present_calls(member: MemberStacks) -> _Calls | None:
    """Return the present calls of every process; None if they are unknown for a process that may be working."""
    found: _Calls = {}
    if member.left_out:
        return None
    for process in member.processes:
        if not process.threads and (process.trouble == NO_TIME or process.state != _SLEEPS):
            return None
        for thread in process.threads:
            is_open = thread.active and (not thread.frames or thread.frames[0].function == _TOP_LEVEL)
            if not thread.values or is_open:
                return None
        found[process.pid] = [
            (tuple((frame.function, frame.file) for frame in thread.frames), thread.values)
            for thread in process.threads
        ]
    return found
