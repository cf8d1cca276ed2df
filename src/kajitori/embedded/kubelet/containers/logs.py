"""Reads a container's log: from any point, through rotated files, and following what is appended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kajitori.core.formats.rotation_notice import dropped_by_rotation
from kajitori.embedded.kubelet.shim.logfile import DROPPED_SUFFIX, read_dropped

POLL_SECONDS = 0.05
CHUNK_BYTES = 256 * 1024
LONGEST_ENTRY_BYTES = 64 * 1024
RENAMED_MEANWHILE = 100
"""Number of times that a folder is listed again while files in it are being renamed."""

STDOUT, STDERR = "stdout", "stderr"
_TIME, _STREAM, _TAG, _CONTENT = slice(0, 30), slice(30, 38), slice(38, 39), slice(40, None)
"""Positions in an entry `2026-11-21T11:00:00.123456789Z stdout F line`."""
_WHOLE_LINES = frozenset({b" stdout F ", b" stderr F "})
_BEFORE_CONTENT = re.compile(rb" std(?:out|err) F (?<=^.{40})", re.MULTILINE)
"""Searches for the fixed text and then looks back, which is three times as fast as matching from the start of each
line."""


@dataclass(frozen=True)
class LogOptions:
    """The options of `kubectl logs`."""

    follow: bool = False
    tail_lines: int | None = None
    since: str = ""
    """RFC 3339 time in UTC; earlier entries are left out."""
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""
    """Only what the program wrote to `stdout`, or to `stderr`; empty: both."""


async def read_log(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncGenerator[bytes]:
    """Yield the log's text in pieces, as the program wrote it. With `follow`, until `ended()` and everything was read.

    Files that are not read yet are locked against rotation. If rotation has dropped output anyway, a separate line says
    so.
    """
    left = options.limit_bytes if options.limit_bytes is not None else float("inf")
    renderer = Renderer(timestamps=options.timestamps)
    reader = LogReader(path, options.since.encode())
    try:
        if options.tail_lines is not None:
            # Counting lines from the end may read all files, so it runs in a thread.
            await asyncio.to_thread(reader.begin_at_tail, options.tail_lines)
        # A program may write as fast as its log is read: without `follow`, stop at the present end.
        unread_bytes = float("inf") if options.follow else reader.total_bytes()
        while left > 0 and unread_bytes > 0:
            over = ended()  # asked before reading, so that what was written before the end is read
            block = reader.read()
            if block is None:
                if over or not options.follow:
                    return
                await asyncio.sleep(POLL_SECONDS)
                continue
            unread_bytes -= len(block)
            dropped = reader.take_dropped()
            if options.stream:
                block = entries_of_stream(block, options.stream)
            text = renderer.notice(*dropped) if options.stream != STDERR else b""
            text += renderer.text(block)
            if text:
                yield text if len(text) <= left else text[: int(left)]
                left -= len(text)
            await asyncio.sleep(0)
    finally:
        reader.close()


def last_text(path: Path, limit_bytes: int) -> str:
    """Return the end of a log, for a termination message: at most `limit_bytes`, from the newest file only."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * limit_bytes))
            block = file.read()
    except OSError:
        return ""
    return Renderer(timestamps=False).text(block)[-limit_bytes:].decode(errors="replace")


def entries_of_stream(block: bytes, stream: str) -> bytes:
    """Return the entries of a block that the program wrote to this stream."""
    mark = b" %s " % stream.encode()
    return b"".join([entry + b"\n" for entry in block.split(b"\n") if entry[_STREAM] == mark])


class Renderer:
    """Turns entries back into text. Pieces of a line are joined, and each line begins with its time if asked for.

    A piece that an entry of the other stream interrupts is joined with that, as on a terminal and in other kubelets.
    """

    def __init__(self, *, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._inside = False

    def text(self, block: bytes) -> bytes:
        """Return the text of these entries; half an entry, which a crash interrupted, has none."""
        if not self._inside:
            if self._timestamps:
                text, count = _BEFORE_CONTENT.subn(b" ", block)
                if count == block.count(b"\n") and block.endswith(b"\n"):
                    return text
            else:
                lines = block.split(b"\n")
                if not lines.pop() and {line[30:40] for line in lines} <= _WHOLE_LINES:
                    lines.append(b" " * 40)
                    return b"\n".join([line[40:] for line in lines])
        out: list[bytes] = []
        for line in block.split(b"\n"):
            if line[30:31] != b" " or line[39:40] != b" ":
                continue
            if self._timestamps and not self._inside:
                out.append(line[_TIME] + b" ")
            out.append(line[_CONTENT])
            self._inside = line[_TAG] == b"P"
            if not self._inside:
                out.append(b"\n")
        return b"".join(out)

    def notice(self, time: bytes, dropped_bytes: int) -> bytes:
        """Return a line that says how much output up to `time` is missing; empty if none is."""
        if not dropped_bytes:
            return b""
        before = b"\n" if self._inside else b""
        self._inside = False
        stamp = time + b" " if self._timestamps else b""
        return before + stamp + dropped_by_rotation(dropped_bytes).encode() + b"\n"


class LogReader:
    """Reads the files of one log, oldest first, and then what is appended, even while files are renamed.

    Locks the file that it reads, so that rotation keeps that file and the later ones. Entries before `since` are left
    out.
    """

    def __init__(self, path: Path, since: bytes = b"") -> None:
        self._path = path
        self._since = since
        self._fd = -1
        self._is_locked = False
        self._rest = b""
        self._time = b""
        """Time of the last entry that was read or left out."""
        self._dropped = b"", 0

    def read(self) -> bytes | None:
        """Return the next entries, each with its line end; None if there are none now."""
        while True:
            data = self._read_file()
            if not data and self._is_rotated_away():
                data = self._read_file()  # lines written between the last read and the rotation
                if not data and not self._open_next():
                    return None
            elif not data:
                return None
            if data and (data := self._entries_since(data)):
                return data

    def total_bytes(self) -> int:
        """Return the size of all files that exist."""
        sizes = []
        for file in (*self._rotated_files(), self._path):
            with contextlib.suppress(OSError):
                sizes.append(file.stat().st_size)
        return sum(sizes)

    def take_dropped(self) -> tuple[bytes, int]:
        """Return the time and the number of bytes of output that rotation dropped before the entries that were read
        last. Each loss is returned once."""
        dropped, self._dropped = self._dropped, (b"", 0)
        return dropped

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)  # also unlocks it
            self._fd, self._is_locked, self._rest = -1, False, b""

    def begin_at_tail(self, lines: int) -> None:
        """Move to the beginning of the last `lines` lines, or of the whole log if it has fewer.

        A last line without an end counts as a line.
        """
        ends_left: int | None = None
        for fd in self._newest_first():
            self._take(fd)
            for base, entries in _blocks_from_end(fd):
                if ends_left is None and entries:
                    ends_left = lines + (entries[-1][_TAG] != b"P")
                ends = [index for index, entry in enumerate(entries) if entry[_TAG] != b"P"]
                if ends_left is None or len(ends) < ends_left:
                    ends_left = None if ends_left is None else ends_left - len(ends)
                    continue
                begin = ends[-ends_left] + 1 if ends_left else len(entries)
                os.lseek(fd, base + sum(len(entry) + 1 for entry in entries[:begin]), os.SEEK_SET)
                return
        if self._fd >= 0:
            self._note_dropped()

    def _newest_first(self) -> Iterator[int]:
        """Yield open files, newest first, even while files are renamed."""
        seen: set[int] = set()
        for file in (self._path, *reversed(self._rotated_files())):
            try:
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            inode = os.fstat(fd).st_ino
            if inode in seen:
                os.close(fd)
                continue
            seen.add(inode)
            yield fd

    def _rotated_files(self) -> list[Path]:
        """Return the rotated files, oldest first."""
        suffixes = (entry.suffix.removeprefix(".") for entry in self._path.parent.glob(f"{self._path.name}.*"))
        numbers = sorted((int(suffix) for suffix in suffixes if suffix.isdigit()), reverse=True)
        return [self._path.with_name(f"{self._path.name}.{number}") for number in numbers]

    def _take(self, fd: int) -> None:
        """Continue with this open file."""
        self.close()
        self._fd = fd
        self._lock_file()

    def _lock_file(self) -> None:
        """Lock the file. If the writer checks the lock in this moment, the next read tries again."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self._is_locked = True

    def _read_file(self) -> bytes:
        """Return the next whole entries of this file."""
        if self._fd < 0:
            return b""
        if not self._is_locked:
            self._lock_file()
        while data := os.read(self._fd, CHUNK_BYTES):
            block, newline, rest = data.rpartition(b"\n")
            if newline:
                block, self._rest = self._rest + block + newline, rest
                return block
            self._rest += data  # half an entry
        return b""

    def _is_rotated_away(self) -> bool:
        """Return whether no more is written to the open file, or none is open yet."""
        try:
            return self._fd < 0 or self._path.stat().st_ino != os.fstat(self._fd).st_ino
        except FileNotFoundError:
            return False  # in the middle of a rotation

    def _open_next(self) -> bool:
        """Open the next file, at first the oldest one. Return whether there is one."""
        while (following := self._next_file()) is not None:
            try:
                fd = os.open(following, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue  # renamed or dropped meanwhile
            except OSError:
                return False
            self._take(fd)
            if os.fstat(fd).st_nlink:
                self._note_dropped()
                self._skip_to_since()
                return True
            self.close()  # dropped before it was locked
        return False

    def _next_file(self) -> Path | None:
        """Return the file after the open one, or the oldest file if the open one was dropped."""
        for _ in range(RENAMED_MEANWHILE):
            files = [file for file in (*self._rotated_files(), self._path) if file.exists()]
            if not files:
                return None
            if self._fd < 0 or not os.fstat(self._fd).st_nlink:
                return files[0]
            ours = os.fstat(self._fd).st_ino
            inodes = [_inode_of(file) for file in files]
            if ours in inodes[:-1]:
                return files[inodes.index(ours) + 1]
            if ours == inodes[-1]:
                return None
        return None

    def _skip_to_since(self) -> None:
        """Move near the first entry of the wanted time, which is found by halves: entries are in the order of time."""
        low, high = 0, os.fstat(self._fd).st_size if self._since else 0
        while high - low > CHUNK_BYTES:
            middle = (low + high) // 2
            data = os.pread(self._fd, LONGEST_ENTRY_BYTES, middle)
            begin = data.find(b"\n") + 1
            time = data[begin : begin + 30]
            if begin and len(time) == 30 and time < self._since:
                low = middle + begin
            else:
                high = middle
        os.lseek(self._fd, low, os.SEEK_SET)

    def _note_dropped(self) -> None:
        """Count the output that rotation dropped between the last entry and the file that is read from now on."""
        first = os.pread(self._fd, 30, 0) or b"~"
        after = self._time or self._since
        for time, size in read_dropped(f"{self._path}{DROPPED_SUFFIX}"):
            stamp = time.encode()
            if (stamp > after or stamp == self._since) and stamp < first:
                self._dropped = stamp, self._dropped[1] + size

    def _entries_since(self, block: bytes) -> bytes:
        """Return the entries that are not before `since`."""
        last = block[block.rfind(b"\n", 0, -1) + 1 :][_TIME]
        self._time = last
        if not self._since or last < self._since:
            return b"" if self._since else block
        entries = block.split(b"\n")
        first = next(index for index, entry in enumerate(entries) if entry[_TIME] >= self._since)
        self._since = b""
        return b"\n".join(entries[first:])


def _blocks_from_end(fd: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield a file's entries in blocks, last block first, each with its position in the file."""
    end, carry = os.fstat(fd).st_size, b""
    while end > 0:
        begin = max(0, end - CHUNK_BYTES)
        data = os.pread(fd, end - begin, begin) + carry
        first = data.find(b"\n") + 1 if begin else 0
        carry, entries = data[:first], data[first:].split(b"\n")
        entries.pop()  # empty, or half an entry that is being written
        yield begin + first, entries
        end = begin


def _inode_of(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
