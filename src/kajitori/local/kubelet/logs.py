"""Reading a container's log back: from any point, through rotated files, and following what comes."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.1
CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class LogOptions:
    """What `kubectl logs` can ask for."""

    follow: bool = False
    tail_lines: int | None = None
    since: str = ""
    """RFC 3339 in UTC; what was written before is left out."""
    timestamps: bool = False
    limit_bytes: int | None = None


@dataclass(frozen=True)
class Entry:
    """One entry of the file: a whole line, or a piece of one."""

    time: str
    stream: str
    partial: bool
    content: bytes

    @classmethod
    def parse(cls, line: bytes) -> Entry | None:
        """None for a line that a crash cut off."""
        parts = line.split(b" ", 3)
        if len(parts) != 4:
            return None
        return cls(parts[0].decode(), parts[1].decode(), parts[2] == b"P", parts[3])


async def read_log(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log's text in pieces, as the program wrote it. With `follow` it goes on until `ended()` and all was read.

    A file that is rotated away meanwhile is read to its end before the next one; what rotation threw away is not there.
    """
    left = options.limit_bytes if options.limit_bytes is not None else float("inf")
    render = Renderer(options)
    reader = _Reader(path)
    try:
        for block in await _there_already(reader, options):
            for piece in _cut(render.text(block), left):
                left -= len(piece)
                yield piece
            if left <= 0:
                return
            await asyncio.sleep(0)
        while options.follow:
            over = ended()  # asked before reading: what is written before the end is read
            lines = reader.more()
            if not lines:
                if over:
                    return
                await asyncio.sleep(POLL_SECONDS)
                continue
            for piece in _cut(render.text(entry for line in lines if (entry := Entry.parse(line))), left):
                left -= len(piece)
                yield piece
            if left <= 0:
                return
    finally:
        reader.close()


async def _there_already(reader: _Reader, options: LogOptions) -> Iterable[list[Entry]]:
    if options.tail_lines is None:
        return _beginning(reader, options)
    # Only the end is wanted, but all files are read for it: not while everybody else waits.
    return await asyncio.to_thread(lambda: list(_beginning(reader, options)))


def last_text(path: Path, limit_bytes: int) -> str:
    """The end of a log, for a termination message: at most `limit_bytes`, from the newest file alone."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * limit_bytes))
            lines = file.read().split(b"\n")
    except OSError:
        return ""
    entries = [entry for line in lines if (entry := Entry.parse(line)) is not None]
    return Renderer(LogOptions()).text(entries)[-limit_bytes:].decode(errors="replace")


class Renderer:
    """Turns entries back into text: pieces are joined, and only the first of a line shows its time."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._inside: set[str] = set()

    def text(self, entries: Iterable[Entry]) -> bytes:
        out: list[bytes] = []
        for entry in entries:
            if self._options.since and entry.time < self._options.since:
                continue
            if self._options.timestamps and entry.stream not in self._inside:
                out.append(entry.time.encode() + b" ")
            out.append(entry.content)
            if entry.partial:
                self._inside.add(entry.stream)
            else:
                self._inside.discard(entry.stream)
                out.append(b"\n")
        return b"".join(out)


class _Reader:
    """Reads the files of one log oldest first and then what is appended, whatever is renamed meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._rest = b""

    def files(self) -> list[Path]:
        """Oldest first."""
        rotated = [
            entry
            for entry in self._path.parent.glob(f"{self._path.name}.*")
            if entry.suffix.removeprefix(".").isdigit()
        ]
        rotated.sort(key=lambda entry: -int(entry.suffix.removeprefix(".")))
        return [*rotated, self._path]

    def more(self) -> list[bytes]:
        """Whole lines that came since the last call."""
        if self._fd < 0 and not self.begin(self._path):
            return []
        lines = self._read()
        while not lines and (following := self._next_file()) is not None:
            # Ours is not written to any more: what came between the last look and the rotation is read first.
            if lines := self._read():
                return lines
            os.close(self._fd)
            self._fd = -1
            if not self.begin(following):
                return []
            lines = self._read()
        return lines

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def begin(self, path: Path) -> bool:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        return True

    def _read(self) -> list[bytes]:
        data = os.read(self._fd, CHUNK_BYTES)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if data and not lines:
            return self._read()  # a line longer than what was read at once
        return lines

    def _next_file(self) -> Path | None:
        """The file written after ours, once ours was rotated away; the oldest that is left where ours is gone."""
        ours = os.fstat(self._fd)
        files = self.files()
        for position, file in enumerate(files):
            try:
                inode = file.stat().st_ino
            except OSError:
                continue
            if inode == ours.st_ino:
                return files[position + 1] if position + 1 < len(files) else None
        if ours.st_nlink:
            return None  # renamed while we looked
        self._rest = b""
        return files[0] if files[0].exists() else None


def _beginning(reader: _Reader, options: LogOptions) -> Iterator[list[Entry]]:
    """What is there already, in blocks, and leaves the reader where the following begins."""
    blocks = _blocks(reader)
    if options.tail_lines is None:
        yield from blocks
        return
    kept: deque[Entry] = deque()
    lines = 0
    for block in blocks:
        for entry in block:
            if options.tail_lines == 0 or (options.since and entry.time < options.since):
                continue
            kept.append(entry)
            lines += not entry.partial
            while lines > options.tail_lines or (lines == options.tail_lines and kept and kept[-1].partial):
                lines -= not kept.popleft().partial
    yield list(kept)


def _blocks(reader: _Reader) -> Iterator[list[Entry]]:
    oldest = next((file for file in reader.files() if file.exists()), None)
    if oldest is None or not reader.begin(oldest):
        return
    while lines := reader.more():
        yield [entry for line in lines if (entry := Entry.parse(line)) is not None]


def _cut(text: bytes, left: float) -> Iterator[bytes]:
    if text and left > 0:
        yield text if len(text) <= left else text[: int(left)]
