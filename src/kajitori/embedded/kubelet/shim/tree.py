"""A process and all processes below it: finding them, counting their memory and processor time, killing them."""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Return all processes below `pid`, parents first. If `pid` is a subreaper, this includes double-forked ones."""
    children_of = _children_of if os.path.exists("/proc/thread-self/children") else _children_by_scan()
    found: list[int] = []
    seen = {pid}
    generation = [pid]
    while generation:
        generation = [child for parent in generation for child in children_of(parent) if child not in seen]
        seen.update(generation)
        found += generation
    return found


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    # The kernel lists children with the thread that forked them.
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
    return found


def _children_by_scan() -> Callable[[int], list[int]]:
    by_parent: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                by_parent.setdefault(_parent_in(file.read()), []).append(int(name))
    return lambda pid: by_parent.get(pid, [])


def ancestors(pid: int) -> list[int]:
    """Return the processes above `pid`, its parent first. Empty if it has ended.

    Lists of children may be incomplete while processes start or end. A process always has a parent, so this is exact.
    """
    while True:
        above = [pid]
        while (parent := _parent_of(above[-1])) > 0:
            above.append(parent)
        if parent == 0:  # the first process, which has no parent
            return above[1:]
        if len(above) == 1:
            return []
        # A process above ended meanwhile, and its children got another parent.


def _parent_of(pid: int) -> int:
    """Return the parent of a process; -1 if the process has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return _parent_in(file.read())
    return -1


def _parent_in(stat: bytes) -> int:
    # The command's name may hold anything, even spaces and brackets, so fields begin after the last bracket.
    return int(stat.rpartition(b")")[2].split()[1])


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the processes' memory, with shared pages counted for each process: cheap, and never too low."""
    resident = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/statm", "rb") as file:
            resident += int(file.read().split()[1]) * PAGE_BYTES
    return resident


def memory_bytes(pids: Iterable[int]) -> int:
    """Return the processes' memory, with shared pages counted once (proportional set size). The kernel walks page
    tables for it."""
    return sum(_proportional_bytes(pid) for pid in pids)


def _proportional_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(subreaper: int, below: Iterable[int]) -> float:
    """Return the processor time of the processes below a subreaper, including ended ones.

    A process that waits for a child inherits the child's times, and in the end the subreaper does. Its own time is not
    included.
    """
    ticks = sum(_cpu_ticks(subreaper)[2:])
    for pid in below:
        ticks += sum(_cpu_ticks(pid))
    return ticks / TICKS_PER_SECOND


def _cpu_ticks(pid: int) -> list[int]:
    """Return ticks in user and system mode: the process' own, then those of the children that it has waited for."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:
        return [int(field) for field in file.read().rpartition(b")")[2].split()[11:15]]
    return []


def of_session(leader: int) -> set[int]:
    """Return the processes in the session of `leader`, which has not been waited for yet.

    All processes of the machine are read, because lists of children may be incomplete while processes end.
    """
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(name)) == leader:
                    found.add(int(name))
    return found


def file_of(descriptor: int | str) -> tuple[int, int]:
    """Return device and inode of a descriptor's file, which identify it."""
    found = os.stat(descriptor)
    return found.st_dev, found.st_ino


def uses(pid: int, files: Collection[tuple[int, int]]) -> bool:
    """Return whether the process has one of the files open."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if file_of(f"/proc/{pid}/fd/{name}") in files:
                    return True
    return False


def streams_of(pid: int) -> frozenset[tuple[int, int]]:
    """Return device and inode of a process's standard output and error."""
    found = set()
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            found.add(file_of(f"/proc/{pid}/fd/{descriptor}"))
    return frozenset(found)


def signal_command(leader: int, streams: Collection[tuple[int, int]], number: int) -> None:
    """Signal a command, which leads a session, and all processes that it started and that use its streams.

    A process that it left in the background with other streams goes on, as after a broken SSH connection: the server of
    an editor, to which the next connection returns.
    """
    signalled: set[int] = set()
    found = {leader}
    while found:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        signalled |= found
        others = of_session(leader) - signalled  # again: a process may have started another one
        found = {pid for pid in others if uses(pid, streams)}


def kill_all(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
