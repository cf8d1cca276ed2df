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

from kajitori.agent.telemetry.process_files import environment, open_beneath, open_own, started_at
from kajitori.core.telemetry.hangs.flight import MAX_BYTES, Flight, read_dump

PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Variables with the beginning of the file's path. Without them the file is in a folder for caches, or in /tmp in older
versions."""
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_WANTED = frozenset((*PREFIXES, PIPE, "RANK", "KAJI_RANK", "XDG_CACHE_HOME", "HOME"))
FRESH_SECONDS = 10.0
"""A new file is requested only if the present one is older than this."""
ANSWER_SECONDS = 2.5
"""Longest wait for a requested file. PyTorch looks at its pipe every second."""
_LOOK_SECONDS = 0.05
"""Time between two looks for a requested file."""
_CLOCK_SECONDS = 0.1
"""Times of files lag behind the clock by up to a tick of the kernel."""
MAX_DIGITS = 6
"""Largest number of digits of a rank."""


class Recorders:
    """The flight recorders of one member's processes. The constructor asks them for new files."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._requested_at = time.time() - _CLOCK_SECONDS
        self._files: dict[int, tuple[int, list[str]]] = {}
        """Process and possible paths of its file, by PyTorch's rank. Helpers of a program have the same rank, since
        they inherit its variables; the first process counts."""
        self._requested: set[int] = set()
        for pid in pids:
            about = {name: value for name, value in environment(pid) if name in _WANTED}
            rank = about.get("RANK") or about.get("KAJI_RANK", "")
            if rank.isdecimal() and len(rank) <= MAX_DIGITS and int(rank) not in self._files:
                self._files[int(rank)] = pid, [f"{prefix}{rank}" for prefix in _file_prefixes(about)]
                if (
                    about.get(PIPE)
                    and self._age_seconds(int(rank)) > FRESH_SECONDS
                    and _request_file(pid, f"{about[PIPE]}{rank}.pipe")
                ):
                    self._requested.add(int(rank))

    def read(self, until: float) -> tuple[Flight, ...]:
        """Return the contents of the files. Wait for the requested ones, at most until this time of the monotonic
        clock."""
        patience = min(until, time.monotonic() + ANSWER_SECONDS)
        found = []
        for rank in self._files:
            flight = self._read(rank) if time.monotonic() < until else None
            while (
                rank in self._requested
                and (flight is None or flight.at < self._requested_at)
                and time.monotonic() < patience
            ):
                time.sleep(_LOOK_SECONDS)  # it is not there yet, or half written
                flight = self._read(rank)
            if flight is not None:
                found.append(flight)
        return tuple(found)

    def _read(self, rank: int) -> Flight | None:
        """Return the content of the file that a process has written since its start; None without such a file."""
        pid, paths = self._files[rank]
        for path in paths:
            with contextlib.suppress(OSError, ValueError), open(open_own(pid, path), "rb") as file:
                at = os.fstat(file.fileno()).st_mtime
                if at >= started_at(pid):  # otherwise another attempt wrote it
                    return read_dump(file.read(MAX_BYTES + 1), rank, at)
        return None

    def _age_seconds(self, rank: int) -> float:
        """Return the age of a process' file in seconds; infinity without one."""
        pid, paths = self._files[rank]
        for path in paths:
            with contextlib.suppress(OSError), open(open_own(pid, path), "rb") as file:
                return time.time() - os.fstat(file.fileno()).st_mtime
        return math.inf


def _file_prefixes(about: Mapping[str, str]) -> list[str]:
    named = [about[name] for name in PREFIXES if about.get(name)]
    if named:
        return named
    cache = about.get("XDG_CACHE_HOME") or f"{about.get('HOME', '')}/.cache"
    return [f"{cache}/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_"]


def _request_file(pid: int, path: str) -> bool:
    """Ask for a new file by writing to the program's own named pipe. Return whether there was a reader."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    with contextlib.suppress(OSError):
        fd = open_beneath(pid, path, lambda name, folder: os.open(name, flags, dir_fd=folder))
        try:
            about = os.fstat(fd)
            if stat.S_ISFIFO(about.st_mode) and about.st_uid == Path(f"/proc/{pid}").stat().st_uid:
                return os.write(fd, b"1\n") > 0
        finally:
            os.close(fd)
    return False
