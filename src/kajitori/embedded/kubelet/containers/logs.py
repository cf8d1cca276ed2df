"""Reading a container's log back: from any point, through rotated files, and following what comes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kajitori.core.words.rotation_notice import dropped_by_rotation
from kajitori.embedded.kubelet.shim.logfile import DROPPED_SUFFIX, read_dropped

POLL_SECONDS = 0.05
CHUNK_BYTES = 256 * 1024
RENAMED_MEANWHILE = 100
"""Looks at most in a row at a folder in which files are being renamed."""

_TIME, _TAG, _CONTENT = slice(0, 30), slice(38, 39), slice(40, None)
"""Where these stand in an entry `2026-11-21T11:00:00.123456789Z stdout F line`."""
_WHOLE_LINES = frozenset({b" stdout F ", b" stderr F "})
_BEFORE_CONTENT = re.compile(rb" std(?:out|err) F (?<=^.{40})", re.MULTILINE)
"""Searched from its fixed text and then looked back at: three times as fast as from the beginning of each line."""


@dataclass(frozen=True)
class LogOptions:
    """What `kubectl logs` can ask for."""

    follow: bool = False
    tail_lines: int | None = None
    since: str = ""
    """RFC 3339 in UTC; what was written before is left out."""
    timestamps: bool = False
    limit_bytes: int | None = None


async def read_log(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncGenerator[bytes]:
    """The log's text in pieces, as the program wrote it. With `follow` it goes on until `ended()` and all was read.

    While it is read the files from where it is on are locked against rotation. What rotation dropped nevertheless, or
    before, is said in a line of its own where it is missing.
    """
    left = options.limit_bytes if options.limit_bytes is not None else float("inf")
    renderer = Renderer(timestamps=options.timestamps)
    reader = LogReader(path, options.since.encode())
    try:
        if options.tail_lines is not None:
            # Counting lines from the end may take all files: not while everybody else waits.
            await asyncio.to_thread(reader.begin_at_tail, options.tail_lines)
        # A program may write as fast as its log is read: without `follow`, what is there now is enough.
        unread_bytes = float("inf") if options.follow else reader.total_bytes()
        while left > 0 and unread_bytes > 0:
            over = ended()  # asked before reading: what is written before the end is read
            block = reader.read()
            if block is None:
                if over or not options.follow:
                    return
                await asyncio.sleep(POLL_SECONDS)
                continue
            unread_bytes -= len(block)
            text = renderer.notice(*reader.take_dropped()) + renderer.text(block)
            if text:
                yield text if len(text) <= left else text[: int(left)]
                left -= len(text)
            await asyncio.sleep(0)
    finally:
        reader.close()


def last_text(path: Path, limit_bytes: int) -> str:
    """The end of a log, for a termination message: at most `limit_bytes`, from the newest file alone."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * limit_bytes))
            block = file.read()
    except OSError:
        return ""
    return Renderer(timestamps=False).text(block)[-limit_bytes:].decode(errors="replace")


class Renderer:
    """Turns entries back into text: pieces are joined, and each line of the text begins with its time if asked for.

    A piece that another stream's entry interrupts is joined with it, as on a terminal, and as other kubelets do it.
    """

    def __init__(self, *, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._inside = False

    def text(self, block: bytes) -> bytes:
        """The text of these entries; of half an entry, which a crash cut off, nothing."""
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
        """A line that says that so much is missing, up to that time; nothing if nothing is."""
        if not dropped_bytes:
            return b""
        before = b"\n" if self._inside else b""
        self._inside = False
        stamp = time + b" " if self._timestamps else b""
        return before + stamp + dropped_by_rotation(dropped_bytes).encode() + b"\n"


class LogReader:
    """Reads the files of one log oldest first and then what is appended, whatever is renamed meanwhile.

    Locks the file that it is at, so that rotation keeps it and what follows. Entries before `since` are left out.
    """

    def __init__(self, path: Path, since: bytes = b"") -> None:
        self._path = path
        self._since = since
        self._fd = -1
        self._is_locked = False
        self._rest = b""
        self._time = b""
        """Of the last entry that was read or left out."""
        self._dropped = b"", 0

    def read(self) -> bytes | None:
        """Entries that come next, each with its line's end; None if there are none now."""
        while True:
            data = self._read_file()
            if not data and self._is_rotated_away():
                data = self._read_file()  # what was written between the last look and the rotation
                if not data and not self._open_next():
                    return None
            elif not data:
                return None
            if data and (data := self._wanted(data)):
                return data

    def total_bytes(self) -> int:
        """The size of all files that are there."""
        sizes = []
        for file in (*self._rotated(), self._path):
            with contextlib.suppress(OSError):
                sizes.append(file.stat().st_size)
        return sum(sizes)

    def take_dropped(self) -> tuple[bytes, int]:
        """How much of what the program printed rotation dropped before what was read last, and when its end was
        printed; each loss once."""
        dropped, self._dropped = self._dropped, (b"", 0)
        return dropped

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)  # which unlocks it
            self._fd, self._is_locked, self._rest = -1, False, b""

    def begin_at_tail(self, lines: int) -> None:
        """Moves to the beginning of the last `lines` lines of what is there; to the beginning of all if there are less.

        A last line without an end counts as one.
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
        """Open files, from the one that is written to the oldest one, whatever is renamed meanwhile."""
        seen: set[int] = set()
        for file in (self._path, *reversed(self._rotated())):
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

    def _rotated(self) -> list[Path]:
        """Oldest first."""
        suffixes = (entry.suffix.removeprefix(".") for entry in self._path.parent.glob(f"{self._path.name}.*"))
        numbers = sorted((int(suffix) for suffix in suffixes if suffix.isdigit()), reverse=True)
        return [self._path.with_name(f"{self._path.name}.{number}") for number in numbers]

    def _take(self, fd: int) -> None:
        """Reads this open file from now on."""
        self.close()
        self._fd = fd
        self._lock()

    def _lock(self) -> None:
        """Locks the file; if the writer looks at it in this very moment, the next read tries again."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self._is_locked = True

    def _read_file(self) -> bytes:
        """What comes next in this file, in whole entries."""
        if self._fd < 0:
            return b""
        if not self._is_locked:
            self._lock()
        while data := os.read(self._fd, CHUNK_BYTES):
            block, newline, rest = data.rpartition(b"\n")
            if newline:
                block, self._rest = self._rest + block + newline, rest
                return block
            self._rest += data  # half a write
        return b""

    def _is_rotated_away(self) -> bool:
        """Whether nothing is written to our file any more, or none was opened yet."""
        try:
            return self._fd < 0 or self._path.stat().st_ino != os.fstat(self._fd).st_ino
        except FileNotFoundError:
            return False  # in the middle of a rotation

    def _open_next(self) -> bool:
        """Whether there is a file after ours, which is read from now on; at first it is the oldest one."""
        while (following := self._following()) is not None:
            try:
                fd = os.open(following, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue  # renamed or dropped while we looked
            except OSError:
                return False
            self._take(fd)
            if os.fstat(fd).st_nlink:
                self._note_dropped()
                return True
            self.close()  # dropped before it was locked
        return False

    def _following(self) -> Path | None:
        """The file that was written after ours; the oldest that is left if ours was dropped."""
        for _ in range(RENAMED_MEANWHILE):
            files = [file for file in (*self._rotated(), self._path) if file.exists()]
            if not files:
                return None
            if self._fd < 0 or not os.fstat(self._fd).st_nlink:
                return files[0]
            ours = os.fstat(self._fd).st_ino
            inodes = [_inode(file) for file in files]
            if ours in inodes[:-1]:
                return files[inodes.index(ours) + 1]
            if ours == inodes[-1]:
                return None
        return None

    def _note_dropped(self) -> None:
        """Counts what rotation dropped between what was read before and the file that is read from now on."""
        first = os.pread(self._fd, 30, 0) or b"~"
        after = self._time or self._since
        for time, size in read_dropped(f"{self._path}{DROPPED_SUFFIX}"):
            stamp = time.encode()
            if (stamp > after or stamp == self._since) and stamp < first:
                self._dropped = stamp, self._dropped[1] + size

    def _wanted(self, block: bytes) -> bytes:
        """The entries that are not before `since`."""
        last = block[block.rfind(b"\n", 0, -1) + 1 :][_TIME]
        self._time = last
        if not self._since or last < self._since:
            return b"" if self._since else block
        entries = block.split(b"\n")
        first = next(index for index, entry in enumerate(entries) if entry[_TIME] >= self._since)
        self._since = b""
        return b"\n".join(entries[first:])


def _blocks_from_end(fd: int) -> Iterator[tuple[int, list[bytes]]]:
    """A file's entries, the last ones first, and where in the file each of these blocks begins."""
    end, carry = os.fstat(fd).st_size, b""
    while end > 0:
        begin = max(0, end - CHUNK_BYTES)
        data = os.pread(fd, end - begin, begin) + carry
        first = data.find(b"\n") + 1 if begin else 0
        carry, entries = data[:first], data[first:].split(b"\n")
        entries.pop()  # nothing, or half an entry that is being written
        yield begin + first, entries
        end = begin


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
