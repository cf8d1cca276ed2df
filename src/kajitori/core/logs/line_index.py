"""An index of a log's lines: the line number and byte offset at some of its times. With it a line is found by number
without reading the log from its beginning."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

STRIDE_BYTES = 1 << 20
"""Least distance between two entries."""
MOST_ENTRIES = 4096
"""If there are more, every second one is dropped and the distance doubles: an index never takes more than 200 kB."""
SECOND = 19
"""Length of a time in whole seconds. Kubelets begin a log at a whole second, so entries do as well."""


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """The first line of a second."""

    line: int
    """Number of lines before it."""
    offset: int
    """Number of bytes before it, as the log is stored."""
    time: str
    """Its time, in RFC 3339, without the digits after the second."""


class LineIndex(msgspec.Struct):
    """Places of lines in the part of a log that was read so far, from its beginning."""

    entries: list[Entry] = []
    stride_bytes: int = STRIDE_BYTES
    lines: int = 0
    """Number of lines that were counted."""
    offset: int = 0
    """Number of bytes that were counted."""
    time: str = ""
    """Time of the last line that was counted."""
    is_whole: bool = False
    """Whether the log was counted to its end."""
    version: str = ""
    """Version of the stored log that this index belongs to."""

    def add(self, block: bytes, stored: bytes) -> None:
        """Count a block of whole lines with uniform stamps; `stored` is the same lines as they are stored."""
        last = self.entries[-1].offset if self.entries else 0
        if self.offset + len(stored) - last >= self.stride_bytes:
            self._add_entry(block, stored)
        self.lines += block.count(b"\n")
        self.offset += len(stored)
        begin = block.rfind(b"\n", 0, -1) + 1
        self.time = block[begin : begin + SECOND].decode(errors="replace")

    def before_line(self, line: int) -> Entry | None:
        """Return the last entry at or before this line, counted from 0; None if there is none."""
        place = bisect_right(self.entries, line, key=lambda entry: entry.line)
        return self.entries[place - 1] if place else None

    def _add_entry(self, block: bytes, stored: bytes) -> None:
        """Add an entry for the first line of this block that begins a second."""
        lines = block.split(b"\n")[:-1]
        place = _first_of_second(lines, self.time.encode())
        if place is None:
            return
        before = sum(len(line) + 1 for line in stored.split(b"\n")[:place])
        time = lines[place][:SECOND].decode(errors="replace")
        self.entries.append(Entry(self.lines + place, self.offset + before, time))
        if len(self.entries) > MOST_ENTRIES:
            self.entries = self.entries[1::2]
            self.stride_bytes *= 2


class RecentIndexes:
    """Indexes of logs of Pods, in memory: those used last."""

    MOST = 256

    def __init__(self) -> None:
        self._indexes: dict[str, LineIndex] = {}

    def get(self, key: str) -> LineIndex:
        """Return the index of a log. The caller keeps it again after use."""
        return self._indexes.pop(key, None) or LineIndex()

    def keep(self, key: str, index: LineIndex) -> None:
        self._indexes[key] = index
        while len(self._indexes) > self.MOST:
            del self._indexes[next(iter(self._indexes))]


def _first_of_second(lines: Sequence[bytes], before: bytes) -> int | None:
    for place, line in enumerate(lines):
        if before and line[:SECOND] != before:
            return place
        before = line[:SECOND]
    return None
