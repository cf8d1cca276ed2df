"""Reads the figures that a program writes: `$KAJI_METRICS`, its log, and TensorBoard's event files.

A program's files are opened below the program's own root, and never through a symbolic link: an agent has more rights
than the program. Only regular files that belong to the program's user are read.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from kajitori.agent.telemetry.errands import Errand
from kajitori.agent.telemetry.members import LocalMember
from kajitori.core.telemetry.training import (
    LOG_PREFIX,
    MAX_LOOK_BYTES,
    METRICS_ENV,
    TENSORBOARD_ENV,
    EventFile,
    Lines,
    Training,
    take_lines,
)

MAX_EVENT_FILES = 16
"""Most event files of a member that are read: the newest ones."""
EVENTS_SECONDS = 2.0
"""Longest wait for event files."""
_EVENT_FILE = "tfevents"
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY


class Figures:
    """The figures of one member."""

    def __init__(self) -> None:
        self.training = Training()
        self._path: str | None = None
        """Value of $KAJI_METRICS; None while it is not known."""
        self._tensorboard = ""
        self._since: float | None = None
        """Start of the program, in seconds since 1970; None while it is not known."""
        self._file: _Tail | None = None
        self._log: _Tail | None = None
        self._log_inode = 0
        self._log_lines = Lines()
        self._lines = Lines()
        self._events: dict[str, tuple[_Tail, EventFile]] = {}
        self._errand: Errand[list[Mapping[str, float]]] | None = None
        """Reads event files. They may lie on a file server that hangs, which must not keep other members unmeasured."""

    def read(self, member: LocalMember) -> None:
        """Read what was written since the last call. A file that cannot be read is tried again in the next call."""
        if member.log is not None:
            self._read_log(member.log)
        pids = list(member.pids())
        if self._path is None:
            pid, self._path = next(((pid, path) for pid in pids if (path := variable(pid, METRICS_ENV))), (0, None))
            self._tensorboard = variable(pid, TENSORBOARD_ENV) if pid else ""
        if self._file is None and self._path:
            self._file = _first(pids, self._path)
        self._take_file()
        if folder := member.tensorboard or self._tensorboard:
            self._read_events(pids, folder)

    def close(self) -> None:
        """Read what a program that has ended left in its file and its log, and close all files."""
        if self._log is not None:
            self._take_log(self._log)
        self._take_file()
        # A thread that hangs in an event file has these files open: closing one would hang as well.
        events = [] if self._errand is not None else [tail for tail, _ in self._events.values()]
        for tail in (self._file, self._log, *events):
            if tail is not None:
                tail.close()
        self._file = self._log = None
        self._events = {}

    def _take_file(self) -> None:
        for piece in self._file.pieces() if self._file is not None else ():
            take_lines(self.training, self._lines.feed(piece))

    def _read_log(self, path: Path) -> None:
        try:
            inode = path.stat().st_ino
            if self._log is None or inode != self._log_inode:  # rotated: the rest of the old file comes first
                if self._log is not None:
                    self._take_log(self._log)
                    self._log.close()
                fresh = self._log is None
                self._log = _Tail(os.open(path, _FLAGS))
                self._log_inode = inode
                if fresh:
                    self._log.skip_to_last(MAX_LOOK_BYTES)
        except OSError:
            return
        self._take_log(self._log)

    def _take_log(self, tail: _Tail) -> None:
        for piece in tail.pieces():
            for line in self._log_lines.feed(piece):
                place = line.find(LOG_PREFIX)
                # An entry of the log is `TIME STREAM F text`; the prefix must begin the text.
                if place >= 0 and line.count(b" ", 0, place) == 3:
                    take_lines(self.training, (line[place + len(LOG_PREFIX) :],))

    def _read_events(self, pids: list[int], folder: str) -> None:
        """Take what event files have. A file server that hangs is waited for once; later looks do without it until it
        answers."""
        if self._since is None:  # events of earlier attempts in the same folder are older
            self._since = min(filter(None, map(started_at, pids)), default=None)
        if self._since is None:
            return
        seconds = 0.0
        if self._errand is None:
            self._errand, seconds = Errand(partial(self._new_events, pids, folder, self._since)), EVENTS_SECONDS
        try:
            found = self._errand.result(seconds)
        except TimeoutError:
            return
        self._errand = None
        for figures in found:
            self.training.take(figures)

    def _new_events(self, pids: list[int], folder: str, since: float) -> list[Mapping[str, float]]:
        newest = _event_files(pids, folder)[-MAX_EVENT_FILES:]
        for name in newest:
            if name not in self._events and (tail := _first(pids, f"{folder}/{name}", whole=True)) is not None:
                self._events[name] = tail, EventFile(since)
        for name in [name for name in self._events if newest and name not in newest]:
            self._events.pop(name)[0].close()
        return [
            figures
            for tail, events in self._events.values()
            for piece in tail.pieces()
            for figures in events.feed(piece)
        ]


class _Tail:
    """An open file that grows."""

    def __init__(self, fd: int, *, whole: bool = False) -> None:
        """`whole`: nothing may be left out, since what follows could not be understood."""
        self._fd = fd
        self._whole = whole

    def skip_to_last(self, size_bytes: int) -> None:
        """Continue with the last `size_bytes`, if there are more."""
        with contextlib.suppress(OSError):
            os.lseek(self._fd, max(0, os.fstat(self._fd).st_size - size_bytes), os.SEEK_SET)

    def pieces(self) -> Iterator[bytes]:
        """Yield what was added, at most MAX_LOOK_BYTES; if there is more, the oldest is left out, or with
        `whole` the rest comes next time. A file that became shorter is read from its beginning."""
        try:
            place, size = os.lseek(self._fd, 0, os.SEEK_CUR), os.fstat(self._fd).st_size
            if size < place:
                os.lseek(self._fd, 0, os.SEEK_SET)
            elif size - place > MAX_LOOK_BYTES and not self._whole:
                os.lseek(self._fd, size - MAX_LOOK_BYTES, os.SEEK_SET)
            left = MAX_LOOK_BYTES
            while left > 0 and (piece := os.read(self._fd, min(left, 1 << 16))):
                left -= len(piece)
                yield piece
        except OSError:
            return

    def close(self) -> None:
        os.close(self._fd)


def variable(pid: int, name: str) -> str:
    """Return a variable of a process as it was started; empty if it has none."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            key, _, value = entry.partition(b"=")
            if key.decode(errors="replace") == name:
                return os.fsdecode(value)
    return ""


def started_at(pid: int) -> float:
    """Return when a process was started, in seconds since 1970, at most a second too early; 0 if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # The command's name may hold anything, so fields begin after the last bracket.
        ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - since_boot - 1.0
    return 0.0


def _first(pids: list[int], path: str, *, whole: bool = False) -> _Tail | None:
    """Return the file as the first of these processes that can see it does."""
    for pid in pids:
        with contextlib.suppress(OSError):
            return _Tail(open_own(pid, path), whole=whole)
    return None


def open_own(pid: int, path: str) -> int:
    """Open a regular file that belongs to the process' user. Raises OSError."""
    owner = os.stat(f"/proc/{pid}").st_uid
    fd = beneath(pid, path, lambda name, folder: os.open(name, _FLAGS, dir_fd=folder))
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
        os.close(fd)
        raise PermissionError(f"{path} is no file of the program's own")
    return fd


def _event_files(pids: list[int], folder: str) -> list[str]:
    """Return the names of the event files in a folder of a process, the newest last: names contain the time."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    for pid in pids:
        with contextlib.suppress(OSError):
            fd = beneath(pid, folder, lambda name, parent: os.open(name, flags, dir_fd=parent))
            try:
                return sorted(name for name in os.listdir(fd) if _EVENT_FILE in name)
            finally:
                os.close(fd)
    return []


def beneath(pid: int, path: str, last: Callable[[str, int], int]) -> int:
    """Open a path below the root of a process without following a link, so that it cannot lead out of the root.

    A program with this process' own root may use links: its paths are resolved before. Raises OSError.
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
