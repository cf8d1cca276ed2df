"""Takes the stacks of a member's processes from outside: py-spy for Python, /proc for the rest and for connections.

py-spy reads the memory of a process, so it needs nothing of the program or its image. It stops the process for
milliseconds meanwhile, or for half a second if native calls are wanted. It does not stop a process that is stopped
already, or that has a thread which waits in the kernel and cannot be stopped. For such threads, and for programs
without Python, the stack shows the kernel's functions.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from kajitori.agent.telemetry import py_spy
from kajitori.agent.telemetry.background import BackgroundCall, BackgroundCalls
from kajitori.agent.telemetry.flight import Recorders
from kajitori.agent.telemetry.members import LocalMember
from kajitori.core.telemetry.hangs.connections import connections
from kajitori.core.telemetry.hangs.flight import Flight
from kajitori.core.telemetry.hangs.native import KERNEL
from kajitori.core.telemetry.hangs.stacks import (
    MAX_PROCESSES,
    MAX_TEXT,
    NO_TIME,
    STOPPED,
    TRACED,
    UNINTERRUPTIBLE,
    ZOMBIE,
    Detail,
    Frame,
    MemberStacks,
    ProcessStacks,
    ThreadStack,
    trimmed,
)

PATIENCE_SECONDS = 5.0
"""Time in which all stacks for one question are taken. Processes that were not reached in this time have no stacks."""
GRACE_SECONDS = 0.5
"""Extra time for processes that are being read at the end of it."""
PROCESS_SECONDS = 3.0
"""Longest time for one process."""
MAX_TASKS = 16
"""Largest number of threads of a process for which the kernel's functions are read."""
MAX_STATES = 1024
"""Largest number of threads of a process for which the state is read."""
AT_ONCE = 4
"""Largest number of processes that are read at the same time."""
MAX_TABLE_BYTES = 4 << 20
"""Largest part of a table of connections that is read: 27,000 connections."""
MAX_UNANSWERED = 8
"""Largest number of unanswering peers that are reported."""


class Dump(Protocol):
    """Reads the threads of a process."""

    def __call__(self, pid: int, seconds: float, detail: Detail, *, nonblocking: bool) -> tuple[ThreadStack, ...]:
        """Return the threads within this time. With `nonblocking` the process is not stopped meanwhile.

        Raises TimeoutError, or another OSError with the reason.
        """
        ...


_T = TypeVar("_T")
_Threads = tuple[ThreadStack, ...]
_KERNEL_CALL = re.compile(r"\[<[0-9a-f]+>\] (?P<function>[^+ ]+)\+\S+(?: \[(?P<module>[^] ]+)\])?")
"""A line of /proc/PID/stack."""


class StackReader:
    """Takes stacks of members, and reads their flight recorders."""

    def __init__(self, dump: Dump | None = None, proc: Path = Path("/proc")) -> None:
        self._dump = dump or py_spy.dump
        self._proc = proc
        self._flights: BackgroundCalls[tuple[Flight, ...]] = BackgroundCalls()
        """By UID of the member. In the background, because the files may lie on a file server that hangs."""

    def read(self, members: Sequence[LocalMember], detail: Detail = Detail.PLAIN) -> tuple[MemberStacks, ...]:
        """Return the stacks of these members, and what their flight recorders say, within PATIENCE_SECONDS.

        Native calls are read last, in the time that is left.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        found = [(member, list(member.pids())) for member in members]
        flights = [
            self._flights.start(member.uid, partial(_flight_records, pids[:MAX_PROCESSES], until))
            for member, pids in found
        ]
        # The first processes of all members come first: they run the programs.
        order = [pid for place in range(MAX_PROCESSES) for _, pids in found for pid in pids[place : place + 1]]
        taken = self._read_all(dict.fromkeys(order), until, detail)
        at = time.time()
        return tuple(
            trimmed(
                MemberStacks(
                    member.uid,
                    at,
                    tuple(process for pid in pids[:MAX_PROCESSES] if (process := taken[pid]) is not None),
                    max(0, len(pids) - MAX_PROCESSES),
                    _flights_in_time(flight, until),
                    *_silent_connections(pids[:MAX_PROCESSES], self._proc),
                )
            )
            for (member, pids), flight in zip(found, flights, strict=True)
        )

    def _read_all(self, pids: Iterable[int], until: float, detail: Detail) -> dict[int, ProcessStacks | None]:
        """Return the stacks of these processes. A process that blocks its reader is reported as out of time."""
        first = Detail.VALUES if detail is Detail.VALUES else Detail.PLAIN
        reads = {pid: partial(_read_process, pid, self._dump, first, until, self._proc) for pid in pids}
        out_of_time = {pid: ProcessStacks(pid, "", UNINTERRUPTIBLE, trouble=NO_TIME) for pid in reads}
        found: dict[int, ProcessStacks | None] = {**out_of_time, **_call_in_threads(reads, until)}
        if detail is Detail.NATIVE:
            read = {pid: each for pid, each in found.items() if each is not None and each.threads}
            more = {pid: partial(_with_native, each, self._dump, until, self._proc) for pid, each in read.items()}
            found |= _call_in_threads(more, until)
        return found


def _call_in_threads(calls: Mapping[int, Callable[[], _T]], until: float) -> dict[int, _T]:
    """Make calls in AT_ONCE threads; return the results of those that end in time."""
    outcomes: dict[int, Future[_T]] = {name: Future() for name in calls}
    waiting = iter(list(outcomes.items()))
    lock = threading.Lock()

    def make_calls() -> None:
        while True:
            with lock:
                name, outcome = next(waiting, (0, None))
            if outcome is None:
                return
            try:
                outcome.set_result(calls[name]())
            except Exception as error:  # raised where the result is read
                outcome.set_exception(error)

    for _ in range(min(AT_ONCE, len(outcomes))):
        threading.Thread(target=make_calls, name="stacks", daemon=True).start()
    found = {}
    for name, outcome in outcomes.items():
        with contextlib.suppress(TimeoutError):
            found[name] = outcome.result(max(0.0, until + GRACE_SECONDS - time.monotonic()))
    return found


def _flight_records(pids: Sequence[int], until: float) -> tuple[Flight, ...]:
    return Recorders(pids).read(until)


def _flights_in_time(flight: BackgroundCall[tuple[Flight, ...]] | None, until: float) -> tuple[Flight, ...]:
    """Return what the flight recorders' reader finds in time; nothing if an earlier one still hangs."""
    if flight is not None:
        with contextlib.suppress(TimeoutError):
            return flight.result(until + GRACE_SECONDS - time.monotonic())
    return ()


def _silent_connections(pids: Sequence[int], proc: Path) -> tuple[tuple[str, ...], int]:
    """Return the peers that do not answer these processes, and the number of their connections."""
    if not pids:
        return (), 0
    own = {inode for pid in pids for inode in _socket_inodes(proc / str(pid) / "fd")}
    tables = (_text_of(proc / str(pids[0]) / "net" / name, MAX_TABLE_BYTES) for name in ("tcp", "tcp6"))
    found = [each for table in tables for each in connections(table) if each.inode in own]
    silent = dict.fromkeys(str(each.peer) for each in found if each.is_unanswered)
    return tuple(silent)[:MAX_UNANSWERED], len(found)


def _socket_inodes(folder: Path) -> Iterator[int]:
    """Yield the inodes of a process's sockets."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            kind, _, inode = os.readlink(entry.path).partition(":")  # noqa: PTH115 - twice as fast as a Path
            if kind == "socket":
                yield int(inode.strip("[]"))


def _read_process(pid: int, dump: Dump, detail: Detail, until: float, proc: Path) -> ProcessStacks | None:
    """Return the state and stacks of a process, as far as they can be read; None if it has ended."""
    folder = proc / str(pid)
    state = _state_letter(folder)
    if not state:
        return None
    waits_in = _text_of(folder / "wchan")
    # The kernel may hold a lock on the memory of a blocked process. A reader of its command line would hang as well.
    blocked = [folder] if state == UNINTERRUPTIBLE else _blocked_threads(folder)
    words = ("" if blocked else _text_of(folder / "cmdline").replace("\0", " ").strip()) or _text_of(folder / "comm")
    about = ProcessStacks(pid, words[:MAX_TEXT], state, waits_in=waits_in if waits_in != "0" else "")
    left = until - time.monotonic()
    if state == ZOMBIE or left <= 0:
        return msgspec.structs.replace(about, trouble="it has ended" if state == ZOMBIE else NO_TIME)
    try:
        threads = dump(pid, min(left, PROCESS_SECONDS), detail, nonblocking=bool(blocked) or state in (STOPPED, TRACED))
    except TimeoutError:
        return msgspec.structs.replace(about, trouble=NO_TIME, native=_in_kernel(blocked))
    except OSError as error:
        trouble = str(error)[:MAX_TEXT]
        return msgspec.structs.replace(about, trouble=trouble, native=_in_kernel(_thread_folders(folder)))
    return msgspec.structs.replace(about, threads=threads, native=_in_kernel(blocked))


def _with_native(process: ProcessStacks, dump: Dump, until: float, proc: Path) -> ProcessStacks:
    """Return a Python process with its calls in native code. py-spy has to stop it, which fails if it is blocked
    now."""
    folder, left = proc / str(process.pid), until - time.monotonic()
    if _state_letter(folder) in (STOPPED, TRACED, UNINTERRUPTIBLE) or _blocked_threads(folder):
        trouble = "it cannot be stopped now"
    elif left <= 0:
        trouble = NO_TIME
    else:
        try:
            native = dump(process.pid, min(left, PROCESS_SECONDS), Detail.NATIVE, nonblocking=False)
            return msgspec.structs.replace(process, native=native)
        except TimeoutError:
            trouble = NO_TIME
        except OSError as error:
            trouble = str(error)
    return msgspec.structs.replace(process, native_trouble=trouble[:MAX_TEXT])


def _state_letter(folder: Path) -> str:
    """Return the letter for the state of a process or thread in its file `stat`; empty if it has ended."""
    try:
        return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _thread_folders(folder: Path) -> list[Path]:
    """Return the folders of a process's threads, the main thread's first."""
    try:
        found = sorted((folder / "task").iterdir(), key=lambda task: int(task.name))
    except OSError:
        return []
    return found[:MAX_STATES]


def _blocked_threads(folder: Path) -> list[Path]:
    """Return the threads that wait in the kernel and cannot be stopped. A debugger waits for ever if one of them reads
    from a dead file server."""
    return [task for task in _thread_folders(folder) if _state_letter(task) == UNINTERRUPTIBLE]


def _in_kernel(tasks: Sequence[Path]) -> _Threads:
    """Return the kernel's functions in which threads wait: the whole stack for root, else the innermost one."""
    found = []
    for task in tasks[:MAX_TASKS]:
        calls = [_KERNEL_CALL.match(line) for line in _text_of(task / "stack").splitlines()]
        frames = [
            Frame(call["function"], f"[{call['module']}]" if call["module"] else KERNEL, 0)
            for call in calls
            if call is not None
        ]
        if not frames and (function := _text_of(task / "wchan")) not in ("", "0"):
            frames = [Frame(function, KERNEL, 0)]
        if frames:
            found.append(ThreadStack(_text_of(task / "comm"), tuple(frames), _state_letter(task) == "R"))
    return tuple(found)


def _text_of(path: Path, most_bytes: int = 4096) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(most_bytes).decode(errors="replace").strip()
    return ""
