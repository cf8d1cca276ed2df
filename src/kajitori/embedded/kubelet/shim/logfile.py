"""A container's log on disk, as Kubernetes' runtimes write it: `2026-11-21T11:00:00.123456789Z stdout F line`.

`F` ends a line. `P` is a piece of one: longer than 16 KiB, not finished within `PARTIAL_AFTER_SECONDS` (a progress
bar), or cut off by the program's end. Readers join pieces, so that no byte is added or lost. Lines that are written
together have the same time. Later entries have a later time, even if the machine's clock was set back. The last piece
of a line is written alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

PIECE_BYTES = 16 * 1024
LINES_AT_ONCE = 512
"""Largest number of lines that are written at once. With time and stream, short lines take many times their size, and a
file must not exceed its limit by much."""
PARTIAL_AFTER_SECONDS = 0.05
"""Age at which an unfinished line is written, and so becomes visible to readers. Programs often write a line's end in a
second system call, which should not cost an entry of its own."""

HELD_AFTER_READER_SECONDS = 120.0
"""Time for which files are kept for a reader after its connection broke or its kubelet ended. Clients try again for
this time."""
FREE_SHARE, FREE_BYTES = 0.1, 5 * 1024**3
"""Files that a reader still needs are kept beyond the limit while the disk has this much free space (the
smaller one)."""

DROPPED_SUFFIX = ".dropped"
"""Suffix of the file beside the log that has a row for each file that rotation dropped: the time of its last entry, and
the number of the program's bytes in it."""
DROPPED_ROWS = 256

_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def timestamp(nanoseconds: int) -> str:
    """Return a time in RFC 3339, in UTC and with nine digits, so that texts sort by time."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


class LogWriter:
    """Writes one log with rotation: `0.log` is being written, `0.log.1` is the file before it, and so on.

    Readers lock the file that they read (`flock`, shared): that file and later ones are kept beyond the limit while the
    disk has room. If the disk is full, lines are lost, but the program goes on. Every loss is recorded: output that
    rotation dropped is recorded beside the log, and output that did not fit on the disk in the log itself.
    """

    def __init__(self, path: str, max_bytes: int, max_files: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.max_files = max(1, max_files)
        self.partial_since: float | None = None
        self._pending: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self._last_time = 0
        self._entry_time = ""
        self._inside_line = False
        self._unwritten_bytes = 0
        self._content_bytes = 0
        self._rotated: list[tuple[str, int]] = []
        """For each rotated file, newest first: the time of its last entry, and the number of the program's
        bytes in it."""
        self._held: tuple[int, float] | None = None
        """Inode of the oldest file that a reader had locked, and when that was last seen."""
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self.path, _APPENDING, 0o640)
        self._size = os.fstat(self._fd).st_size

    def write(self, stream: str, data: bytes) -> None:
        """Take what the program wrote to `stream`. Whole lines go to disk, the rest waits for its line end."""
        lines = (self._pending[stream] + data).split(b"\n")
        rest = lines.pop()
        for first in range(0, len(lines), LINES_AT_ONCE):
            self._write_lines(stream, lines[first : first + LINES_AT_ONCE])
        while len(rest) > PIECE_BYTES:
            self._write_piece(stream, rest[:PIECE_BYTES])
            rest = rest[PIECE_BYTES:]
        self._pending[stream] = rest
        if not any(self._pending.values()):
            self.partial_since = None
        elif self.partial_since is None or lines:
            self.partial_since = time.monotonic()

    def flush_partial(self) -> None:
        """Write unfinished lines as pieces."""
        for stream, rest in self._pending.items():
            if rest:
                self._pending[stream] = b""
                self._write_piece(stream, rest)
        self.partial_since = None

    def close(self) -> None:
        self.flush_partial()
        self._log_unwritten()
        os.close(self._fd)

    # Entries

    def _write_lines(self, stream: str, lines: list[bytes]) -> None:
        if max(map(len, lines)) > PIECE_BYTES:
            for line in lines:
                while len(line) > PIECE_BYTES:
                    self._write_piece(stream, line[:PIECE_BYTES])
                    line = line[PIECE_BYTES:]
                self._append(stream, b"F", [line])
            return
        if self._inside_line:  # else a reader that begins between two pieces takes the rest for a line of this time
            self._append(stream, b"F", lines[:1])
            lines = lines[1:]
        if lines:
            self._append(stream, b"F", lines)

    def _write_piece(self, stream: str, piece: bytes) -> None:
        self._append(stream, b"P", [piece])

    def _append(self, stream: str, tag: bytes, contents: list[bytes]) -> None:
        """Write entries, or count them as lost if the disk has no room for them."""
        self._log_unwritten()
        size = sum(map(len, contents)) + (len(contents) if tag == b"F" else 0)
        if self._unwritten_bytes or not self._put(stream, tag, contents, size):
            self._unwritten_bytes += size
        else:
            self._inside_line = tag == b"P"

    def _log_unwritten(self) -> None:
        """Write into the log how much did not fit on the disk, once there is room again."""
        if not self._unwritten_bytes:
            return
        lost = self._unwritten_bytes
        lines = [b"kaji: %d bytes that were printed here are lost: the disk of this node was full" % lost]
        if self._inside_line:
            lines.insert(0, b"")
        if self._put("stderr", b"F", lines, 0):
            self._unwritten_bytes, self._inside_line = 0, False

    def _put(self, stream: str, tag: bytes, contents: list[bytes], content_bytes: int) -> bool:
        """Write these entries. Return whether all of them are on disk; otherwise none is."""
        self._last_time = max(time.time_ns(), self._last_time + 1)
        now = timestamp(self._last_time)
        head = f"{now} {stream} ".encode() + tag + b" "
        data = head + (b"\n" + head).join(contents) + b"\n"
        if self._size and self._size + len(data) > self.max_bytes:
            self._rotate()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)  # half an entry would spoil the next one
            return False
        self._size += len(data)
        self._content_bytes += content_bytes
        self._entry_time = now
        return True

    # Rotation

    def _rotate(self) -> None:
        """Begin a new file. If that fails, the old file grows further, and the next entry tries again."""
        fresh = f"{self.path}.new"
        try:
            fd = os.open(fresh, _APPENDING | os.O_TRUNC, 0o640)
        except OSError:
            return
        try:
            count = self._count_rotated() + 1
            for number in range(count, 0, -1):
                os.replace(self._file_name(number - 1), self._file_name(number))
            os.replace(fresh, self.path)
        except OSError:
            os.close(fd)
            return
        os.close(self._fd)
        self._fd, self._size = fd, 0
        self._rotated.insert(0, (self._entry_time, self._content_bytes))
        self._content_bytes = 0
        with contextlib.suppress(OSError):
            self._drop_oldest(count)

    def _file_name(self, number: int) -> str:
        return f"{self.path}.{number}" if number else self.path

    def _count_rotated(self) -> int:
        count = 0
        while os.path.lexists(self._file_name(count + 1)):
            count += 1
        return count

    def _drop_oldest(self, count: int) -> None:
        """Remove rotated files beyond the limit that no reader needs any more."""
        limit = self.max_files - 1
        needed = self._oldest_needed(count) if count > limit else 0
        while count > limit and (count > needed or not self._has_room()):
            time_of_last, content_bytes = self._rotated.pop() if len(self._rotated) >= count else ("", 0)
            if content_bytes:
                note_dropped(self.path + DROPPED_SUFFIX, time_of_last, content_bytes)
            os.unlink(self._file_name(count))
            count -= 1

    def _oldest_needed(self, count: int) -> int:
        """Return the number of the oldest file that a reader locks, or locked a moment ago; 0 if there is none."""
        now = time.monotonic()
        if self._held is not None and now - self._held[1] > HELD_AFTER_READER_SECONDS:
            self._held = None
        for number in range(count, -1, -1):
            try:
                fd = os.open(self._file_name(number), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                inode = os.fstat(fd).st_ino
                if _is_locked(fd):
                    self._held = inode, now
                    return number
                if self._held is not None and self._held[0] == inode:
                    return number
            finally:
                os.close(fd)
        return 0

    def _has_room(self) -> bool:
        found = os.statvfs(os.path.dirname(self.path) or ".")
        wanted = min(FREE_SHARE * found.f_blocks * found.f_frsize, FREE_BYTES)
        return found.f_bavail * found.f_frsize > wanted


def note_dropped(path: str, time_of_last: str, content_bytes: int) -> None:
    """Add a row for a dropped file; of too many rows, the oldest are merged into one."""
    rows = read_dropped(path)
    rows.append((time_of_last, content_bytes))
    while len(rows) > DROPPED_ROWS:
        rows[:2] = [(rows[1][0], rows[0][1] + rows[1][1])]
    with contextlib.suppress(OSError):
        with open(f"{path}.new", "w") as file:
            file.write("".join(f"{row[0]} {row[1]}\n" for row in rows))
        os.replace(f"{path}.new", path)


def read_dropped(path: str) -> list[tuple[str, int]]:
    """Return the time of the last entry and the number of the program's bytes of each dropped file, oldest first."""
    try:
        with open(path) as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    return [(row[0], int(row[1])) for row in rows if len(row) == 2 and row[1].isdigit()]


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    return False
