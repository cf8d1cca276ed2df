"""Reads the figures that a program writes: `$KAJI_METRICS`, its log, and TensorBoard's event files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from kajitori.agent.telemetry.background import BackgroundCall
from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.process_files import READ_FLAGS, open_beneath, open_own, started_at, variable
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
"""Largest number of a member's event files that are read; the newest ones."""
EVENTS_SECONDS = 2.0
"""Longest wait for event files."""
_EVENT_FILE = "tfevents"


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
        self._reading_events: BackgroundCall[list[Mapping[str, float]]] | None = None
        """Reads event files in the background: if their file server hangs, other members are still measured."""

    def read(self, member: LocalMember) -> None:
        """Read what was written since the last call. A file that cannot be read is tried again in the next call."""
        if member.log is not None:
            self._read_log(member.log)
        pids = list(member.pids())
        if self._path is None:
            pid, self._path = next(((pid, path) for pid in pids if (path := variable(pid, METRICS_ENV))), (0, None))
            self._tensorboard = variable(pid, TENSORBOARD_ENV) if pid else ""
        if self._file is None and self._path:
            self._file = _open_first(pids, self._path)
        self._take_file()
        if folder := member.tensorboard or self._tensorboard:
            self._read_events(pids, folder)

    def close(self) -> None:
        """Read the last figures of a program that has ended, and close all files."""
        if self._log is not None:
            self._take_log(self._log)
        self._take_file()
        # While a thread hangs in an event file, closing one of them would hang as well.
        events = [] if self._reading_events is not None else [tail for tail, _ in self._events.values()]
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
                self._log = _Tail(os.open(path, READ_FLAGS))
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
        """Take the new figures of event files. If their file server hangs, only the first call waits for it."""
        if self._since is None:  # events of earlier attempts in the same folder are older
            self._since = min(filter(None, map(started_at, pids)), default=None)
        if self._since is None:
            return
        seconds = 0.0
        if self._reading_events is None:
            self._reading_events, seconds = (
                BackgroundCall(partial(self._new_events, pids, folder, self._since)),
                EVENTS_SECONDS,
            )
        try:
            found = self._reading_events.result(seconds)
        except TimeoutError:
            return
        self._reading_events = None
        for figures in found:
            self.training.take(figures)

    def _new_events(self, pids: list[int], folder: str, since: float) -> list[Mapping[str, float]]:
        newest = _event_files(pids, folder)[-MAX_EVENT_FILES:]
        for name in newest:
            if name not in self._events and (tail := _open_first(pids, f"{folder}/{name}", whole=True)) is not None:
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
        """`whole` says that no byte may be left out, since the bytes after it could not be understood."""
        self._fd = fd
        self._whole = whole

    def skip_to_last(self, size_bytes: int) -> None:
        """Continue with the last `size_bytes`, if there are more."""
        with contextlib.suppress(OSError):
            os.lseek(self._fd, max(0, os.fstat(self._fd).st_size - size_bytes), os.SEEK_SET)

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes that were added, at most MAX_LOOK_BYTES. If there are more, the oldest are left out; with
        `whole` the newest are left for the next call. A file that became shorter is read from its beginning."""
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


def _open_first(pids: list[int], path: str, *, whole: bool = False) -> _Tail | None:
    """Open the file in the first of these processes that has it; return None if none has."""
    for pid in pids:
        with contextlib.suppress(OSError):
            return _Tail(open_own(pid, path), whole=whole)
    return None


def _event_files(pids: list[int], folder: str) -> list[str]:
    """Return the names of the event files in a folder of the processes, the newest last: names contain the time."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    for pid in pids:
        with contextlib.suppress(OSError):
            fd = open_beneath(pid, folder, lambda name, parent: os.open(name, flags, dir_fd=parent))
            try:
                return sorted(name for name in os.listdir(fd) if _EVENT_FILE in name)
            finally:
                os.close(fd)
    return []
