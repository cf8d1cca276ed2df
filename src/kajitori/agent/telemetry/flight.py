"""Finds and reads the files that PyTorch's flight recorder writes, and asks for new ones.

Names are those of PyTorch 2.1 to 2.13: a process writes the file `PREFIX` + its rank when an operation times out. If it
has made a named pipe (`TORCH_NCCL_DEBUG_INFO_PIPE_FILE`), anything written to it has the same effect at once.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kajitori.agent.telemetry.figures import beneath, open_own
from kajitori.core.telemetry.hangs.flight import MAX_BYTES, Flight, read_dump

PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Variables with the beginning of the file's path; without them, a folder for caches, or /tmp in older versions."""
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_WANTED = frozenset((*PREFIXES, PIPE, "RANK", "KAJI_RANK", "XDG_CACHE_HOME", "HOME"))
FRESH_SECONDS = 10.0
"""A file of this age is not asked for again."""
ANSWER_SECONDS = 2.5
"""Longest wait for a file that was asked for. PyTorch looks at its pipe every second."""
_LOOK_SECONDS = 0.05
_CLOCK_SECONDS = 0.1
"""Times of files lag behind the clock by up to a tick of the kernel."""
MAX_DIGITS = 6
"""Longest rank."""


class Recorders:
    """The flight recorders of one member's processes. New files are asked for at once."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._asked_at = time.time() - _CLOCK_SECONDS
        self._found: dict[int, tuple[int, list[str]]] = {}
        """Process and possible paths by PyTorch's rank: a program's helpers inherit its variables."""
        self._asked: set[int] = set()
        for pid in pids:
            about = _variables(pid)
            rank = about.get("RANK") or about.get("KAJI_RANK", "")
            if rank.isdecimal() and len(rank) <= MAX_DIGITS and int(rank) not in self._found:
                self._found[int(rank)] = pid, [f"{prefix}{rank}" for prefix in _prefixes(about)]
                if about.get(PIPE) and self._age(int(rank)) > FRESH_SECONDS and _ask(pid, f"{about[PIPE]}{rank}.pipe"):
                    self._asked.add(int(rank))

    def read(self, until: float) -> tuple[Flight, ...]:
        """Return the contents of the files. Wait for files that were asked for until `until`, on the monotonic
        clock."""
        patience = min(until, time.monotonic() + ANSWER_SECONDS)
        found = []
        for rank in self._found:
            flight = self._read(rank) if time.monotonic() < until else None
            while (
                rank in self._asked and (flight is None or flight.at < self._asked_at) and time.monotonic() < patience
            ):
                time.sleep(_LOOK_SECONDS)  # it is not there yet, or half written
                flight = self._read(rank)
            if flight is not None:
                found.append(flight)
        return tuple(found)

    def _read(self, rank: int) -> Flight | None:
        """Return the content of the file that a process has written since its start; None without such a file."""
        pid, paths = self._found[rank]
        for path in paths:
            with contextlib.suppress(OSError, ValueError), open(open_own(pid, path), "rb") as file:
                at = os.fstat(file.fileno()).st_mtime
                if at >= _started_at(pid):  # else another attempt wrote it
                    return read_dump(file.read(MAX_BYTES + 1), rank, at)
        return None

    def _age(self, rank: int) -> float:
        """Return the age of a process' file in seconds; infinity without one."""
        pid, paths = self._found[rank]
        for path in paths:
            with contextlib.suppress(OSError), open(open_own(pid, path), "rb") as file:
                return time.time() - os.fstat(file.fileno()).st_mtime
        return math.inf


def _prefixes(about: Mapping[str, str]) -> list[str]:
    named = [about[name] for name in PREFIXES if about.get(name)]
    if named:
        return named
    cache = about.get("XDG_CACHE_HOME") or f"{about.get('HOME', '')}/.cache"
    return [f"{cache}/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_"]


def _variables(pid: int) -> dict[str, str]:
    found = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            key, _, value = entry.partition(b"=")
            if (name := key.decode(errors="replace")) in _WANTED:
                found[name] = os.fsdecode(value)
    return found


def _started_at(pid: int) -> float:
    """Return the time at which a process started, to about a second. Raises OSError."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK") - 1.0


def _ask(pid: int, path: str) -> bool:
    """Write to a program's own named pipe. Return whether a reader took it."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    with contextlib.suppress(OSError):
        fd = beneath(pid, path, lambda name, folder: os.open(name, flags, dir_fd=folder))
        try:
            about = os.fstat(fd)
            if stat.S_ISFIFO(about.st_mode) and about.st_uid == Path(f"/proc/{pid}").stat().st_uid:
                return os.write(fd, b"1\n") > 0
        finally:
            os.close(fd)
    return False
