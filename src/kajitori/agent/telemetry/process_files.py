"""Reads what /proc tells of a member's process, and opens the files of its program.

An agent has more rights than the program, and the program chooses the paths. So a file is opened below the root of the
program's process, and never through a symbolic link. Only regular files that belong to the program's user are opened.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator

READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY
"""Flags for opening a file to read that a program may have made: it may be a link, a pipe or a terminal."""


def environment(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the variables with which a process was started; none if they cannot be read."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            name, _, value = entry.partition(b"=")
            yield name.decode(errors="replace"), os.fsdecode(value)


def variable(pid: int, name: str) -> str:
    """Return a variable with which a process was started; empty if it has none."""
    return next((value for known, value in environment(pid) if known == name), "")


def started_at(pid: int) -> float:
    """Return the time at which a process was started, in seconds since 1970, at most a second too early; 0 if it has
    ended."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # The command's name may hold anything, so fields begin after the last bracket.
        ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - since_boot - 1.0
    return 0.0


def open_own(pid: int, path: str) -> int:
    """Open a regular file that belongs to the user of the process, at its path in the process. Raises OSError."""
    owner = os.stat(f"/proc/{pid}").st_uid
    fd = open_beneath(pid, path, lambda name, folder: os.open(name, READ_FLAGS, dir_fd=folder))
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
        os.close(fd)
        raise PermissionError(f"{path} is no file of the program's own")
    return fd


def open_beneath(pid: int, path: str, last: Callable[[str, int], int]) -> int:
    """Open a path below the root of a process without following a link, so that it cannot lead out of the root.

    If the process has the same root as this one, links in the path are resolved first. `last` opens the last part of
    the path, given its name and the descriptor of its folder. Raises OSError.
    """
    if os.path.samefile(f"/proc/{pid}/root", "/"):
        path = os.path.realpath(path)
    *parents, name = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    if ".." in (*parents, name):
        raise PermissionError(f"{path} leads upwards")
    folder = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parents:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        return last(name, folder)
    finally:
        os.close(folder)
