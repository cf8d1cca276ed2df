"""Takes the stacks of a member's processes from outside: py-spy for Python, /proc for the rest and for connections.

py-spy reads the memory of a process, so it needs nothing of the program or its image. It stops the process for
milliseconds meanwhile; a process that is stopped already is read without that.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from kajitori.agent.telemetry.flight import Recorders
from kajitori.agent.telemetry.members import LocalMember
from kajitori.core.telemetry.connections import connections
from kajitori.core.telemetry.stacks import (
    MAX_PROCESSES,
    MAX_TEXT,
    NO_TIME,
    STOPPED,
    TRACED,
    ZOMBIE,
    Frame,
    MemberStacks,
    ProcessStacks,
    ThreadStack,
    trimmed,
)

PATIENCE_SECONDS = 5.0
"""Time in which all stacks of one question are taken. Processes that are left have no stacks."""
PROCESS_SECONDS = 3.0
"""Longest time for one process."""
MAX_OUTPUT_BYTES = 4 << 20
"""Most output of py-spy that is read. A program cannot make the agent read more."""
AT_ONCE = 4
"""Most processes that are looked into at the same time."""
MAX_TABLE_BYTES = 4 << 20
"""Most bytes of a table of connections that are read: 27,000 connections."""
MAX_UNANSWERED = 8
"""Most peers without an answer that are told."""


class _SpyFrame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    line: int = 0


class _SpyThread(msgspec.Struct):
    thread_name: str | None = None
    active: bool = False
    frames: list[_SpyFrame] = []


_decode = msgspec.json.Decoder(list[_SpyThread]).decode
Dump = Callable[[int, bool, float], tuple[ThreadStack, ...]]
"""Returns the threads of a process, without stopping it if the flag is set, within seconds. Raises TimeoutError, or
another OSError with the reason."""


def stacks_of(
    members: Sequence[LocalMember], dump: Dump | None = None, proc: Path = Path("/proc")
) -> tuple[MemberStacks, ...]:
    """Return the stacks of these members' processes, and what their flight recorders say, within PATIENCE_SECONDS."""
    dump = dump or py_spy
    until = time.monotonic() + PATIENCE_SECONDS
    found = [(member, list(member.pids())) for member in members]
    recorders = [Recorders(pids[:MAX_PROCESSES]) for _, pids in found]
    with ThreadPoolExecutor(AT_ONCE, "stacks") as pool:
        # The first processes of all members come first: they run the programs.
        order = [(place, pid) for place in range(MAX_PROCESSES) for _, pids in found for pid in pids[place : place + 1]]
        looks = {pid: pool.submit(_look, pid, dump, until, proc) for _, pid in order}
        taken = {pid: look.result() for pid, look in looks.items()}
    at = time.time()
    return tuple(
        trimmed(
            MemberStacks(
                member.uid,
                at,
                tuple(process for pid in pids[:MAX_PROCESSES] if (process := taken[pid]) is not None),
                max(0, len(pids) - MAX_PROCESSES),
                recorder.read(until),
                *_connections(pids[:MAX_PROCESSES], proc),
            )
        )
        for (member, pids), recorder in zip(found, recorders, strict=True)
    )


def _connections(pids: Sequence[int], proc: Path) -> tuple[tuple[str, ...], int]:
    """Return the peers that do not answer these processes, and the number of their connections."""
    if not pids:
        return (), 0
    own = {inode for pid in pids for inode in _sockets(proc / str(pid) / "fd")}
    tables = (_text(proc / str(pids[0]) / "net" / name, MAX_TABLE_BYTES) for name in ("tcp", "tcp6"))
    found = [each for table in tables for each in connections(table) if each.inode in own]
    silent = dict.fromkeys(str(each.peer) for each in found if each.is_unanswered)
    return tuple(silent)[:MAX_UNANSWERED], len(found)


def _sockets(folder: Path) -> Iterator[int]:
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


def _look(pid: int, dump: Dump, until: float, proc: Path) -> ProcessStacks | None:
    """Return what is known of a process; None if it has ended."""
    folder = proc / str(pid)
    try:
        state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
    waits_in = _text(folder / "wchan")
    words = _text(folder / "cmdline").replace("\0", " ").strip() or _text(folder / "comm")
    about = ProcessStacks(pid, words[:MAX_TEXT], state, waits_in=waits_in if waits_in != "0" else "")
    left = until - time.monotonic()
    if state == ZOMBIE or left <= 0:
        return msgspec.structs.replace(about, trouble="it has ended" if state == ZOMBIE else NO_TIME)
    try:
        threads = dump(pid, state in (STOPPED, TRACED), min(left, PROCESS_SECONDS))
    except TimeoutError:
        return msgspec.structs.replace(about, trouble=NO_TIME)
    except OSError as error:
        return msgspec.structs.replace(about, trouble=str(error)[:MAX_TEXT])
    return msgspec.structs.replace(about, threads=threads)


def _text(path: Path, most_bytes: int = 4096) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(most_bytes).decode(errors="replace").strip()
    return ""


def py_spy(pid: int, nonblocking: bool, seconds: float) -> tuple[ThreadStack, ...]:
    """Return the threads of a Python process. Raises OSError if it is none, or cannot be read."""
    until = time.monotonic() + seconds
    try:
        return _py_spy(pid, nonblocking, seconds)
    except OSError:
        left = until - time.monotonic()
        if nonblocking or left <= 0:
            raise
        return _py_spy(pid, True, left)  # it is traced by a debugger, or was stopped just now


def _py_spy(pid: int, nonblocking: bool, seconds: float) -> tuple[ThreadStack, ...]:
    command = [_program(), "dump", "--json", "--pid", str(pid), *(["--nonblocking"] if nonblocking else [])]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"RUST_BACKTRACE": "0"}
    ) as spy:
        assert spy.stdout is not None and spy.stderr is not None
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            spy.kill()

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            told = spy.stdout.read(MAX_OUTPUT_BYTES)
            complaint = spy.stderr.read(MAX_TEXT)
        finally:
            timer.cancel()
            spy.kill()
    if spy.returncode == 0:
        with contextlib.suppress(msgspec.MsgspecError):
            return tuple(_thread(each) for each in _decode(told))
    if is_late.is_set():
        raise TimeoutError(f"py-spy took longer than {seconds:.0f} s")
    lines = complaint.decode(errors="replace").splitlines()
    raise OSError(lines[0] if lines else f"py-spy ended with {spy.returncode}")


def _thread(each: _SpyThread) -> ThreadStack:
    frames = tuple(Frame(frame.name, frame.filename, frame.line) for frame in each.frames)
    return ThreadStack(each.thread_name or "", frames, each.active)


def _program() -> str:
    """Return py-spy's path. Raises FileNotFoundError without it."""
    found = shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy")
    if found is None:
        raise FileNotFoundError("py-spy is not installed on the node")
    return found
