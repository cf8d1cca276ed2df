"""Read any part of the log of one rank in one attempt: its end, what is before or after a line, or from a time on.

Both kinds of logs are read in blocks of whole lines with uniform stamps. Of a kept log, only the needed range of bytes
is read. A kubelet reads its own log from the end or from a second on; it does not know bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kajitori.api.logs.lines import LINE_LIMIT_BYTES, UNKNOWN_TIME, Normaliser, utc_time
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.stores.blobs import Blob
from kajitori.cluster.objects import Pod
from kajitori.core.logs.line_index import SECOND, LineIndex, RecentIndexes
from kajitori.core.naming import names

if TYPE_CHECKING:
    from kajitori.api.rights import User

PROBE_BYTES = 64 * 1024
"""Bytes that are read of a kept log to learn the time at a place."""
NEAR_BYTES = 256 * 1024
"""A place in a kept log is known well enough if it is within this distance before the line."""
TAIL_BYTES = 256 * 1024
"""Bytes that are read first before a place in a kept log, to find some lines before it."""
FIRST_SPAN = timedelta(seconds=1)
"""Time before a line for which a kubelet's log is read first, to find some lines before it."""
SPAN_FACTOR = 8
"""If that held too few lines, the next span is this many times as long."""
MAX_SPANS = 6
"""After this many spans that held too few lines, the log is read from its beginning."""

Blocks = AsyncGenerator[bytes, None]


class AttemptLog(ABC):
    """The log of one rank in one attempt."""

    def __init__(self, rank: int, attempt: int, *, is_live: bool) -> None:
        self.rank = rank
        self.attempt = attempt
        self.is_live = is_live
        """Whether lines may still be added."""

    @abstractmethod
    def last(self, lines: int) -> Blocks:
        """Yield the log from its last `lines` lines on, or from some before them."""

    @abstractmethod
    def since(self, time: bytes) -> Blocks:
        """Yield the log from the first line of this time on, or from some before it; empty: from the beginning."""

    @abstractmethod
    def before(self, time: bytes, lines: int) -> Blocks:
        """Yield the log from at least `lines` lines before the first line of this time on, or from its beginning."""

    @abstractmethod
    async def index(self) -> LineIndex:
        """Return the index of the log's lines, as far as they were counted."""

    @abstractmethod
    async def keep_index(self, index: LineIndex) -> None:
        """Keep this index of the log's lines."""

    @abstractmethod
    def counted(self, index: LineIndex) -> Blocks:
        """Yield the lines that the index has not counted, and count them."""

    @abstractmethod
    def from_entry(self, index: LineIndex, line: int) -> tuple[int, Blocks]:
        """Return the number of a line at or before `line`, and the log from it on."""


class StoredLog(AttemptLog):
    """A log in the store, which does not change."""

    def __init__(self, kept: KeptLogs, blob: Blob, rank: int, attempt: int) -> None:
        super().__init__(rank, attempt, is_live=False)
        self._kept = kept
        self._blob = blob

    async def last(self, lines: int) -> Blocks:
        place, text = await self._place_before(self._blob.size_bytes, lines)
        async with aclosing(whole_lines(_one_chunk(text)) if text else self._from(place)) as blocks:
            async for block in blocks:
                yield block

    async def since(self, time: bytes) -> Blocks:
        async with aclosing(self._from(await self._place_of(time) if time else 0)) as blocks:
            async for block in blocks:
                yield block

    async def before(self, time: bytes, lines: int) -> Blocks:
        place, _ = await self._place_before(await self._place_of(time), lines)
        async with aclosing(self._from(place)) as blocks:
            async for block in blocks:
                yield block

    async def index(self) -> LineIndex:
        return await self._kept.indexes.read(self._blob)

    async def keep_index(self, index: LineIndex) -> None:
        await self._kept.indexes.keep(self._blob, index)

    async def counted(self, index: LineIndex) -> Blocks:
        async with aclosing(self._from(index.offset, index)) as blocks:
            async for block in blocks:
                yield block
        index.is_whole = True

    def from_entry(self, index: LineIndex, line: int) -> tuple[int, Blocks]:
        entry = index.before_line(line)
        return (entry.line, self._from(entry.offset)) if entry is not None else (0, self._from(0))

    async def _from(self, place: int, index: LineIndex | None = None) -> Blocks:
        """Yield the lines from this byte on, where a line begins, and count them in `index`."""
        async with aclosing(self._kept.read_range(self._blob, place)) as chunks:
            async for block in whole_lines(chunks, index):
                yield block

    async def _place_before(self, end: int, lines: int) -> tuple[int, bytes]:
        """Return the place of a line that is at least `lines` lines before `end`, with the text from there to `end`;
        0 and an empty text if there are fewer."""
        size = TAIL_BYTES
        while size < end:
            text = await self._bytes(end - size, size)
            first = text.find(b"\n") + 1
            if first and text.count(b"\n", first) >= lines:
                return end - size + first, text[first:]
            size *= 4
        return 0, b""

    async def _place_of(self, time: bytes) -> int:
        """Return the place of a line before the first line of this time, near it; 0 if it is near the beginning.

        Lines are in the order of time, so the place is found by halves. In a cloud's store each half costs a request,
        so their times are remembered: windows near each other share nearly all of them.
        """
        times = self._kept.times.of(self._blob)
        low, high = 0, self._blob.size_bytes
        while high - low > NEAR_BYTES:
            middle = (low + high) // 2
            if middle not in times:
                times[middle] = await self._first_time(middle, min(self._blob.size_bytes, middle + PROBE_BYTES))
            line = times[middle]
            if line is None:  # one long line
                high = middle
            elif line[1] < time:
                low = line[0]
                if line[0] >= high:
                    break
            else:
                high = middle
        return low

    async def _first_time(self, place: int, until: int) -> tuple[int, bytes] | None:
        """Return place and time of the first line with a time after this place; None if there is none."""
        text = await self._bytes(place, until - place)
        begin = text.find(b"\n") + 1
        while begin:
            end = text.find(b"\n", begin)
            if end < 0:
                return None
            if time := utc_time(text[begin:end].partition(b" ")[0]).encode():
                return place + begin, time
            begin = end + 1
        return None

    async def _bytes(self, start: int, length: int) -> bytes:
        """Return a part of the stored log."""
        async with aclosing(self._kept.read_range(self._blob, start, length)) as chunks:
            return b"".join([chunk async for chunk in chunks])


class PodLog(AttemptLog):
    """A log that a kubelet holds."""

    def __init__(self, user: User, pod: Pod, indexes: RecentIndexes, began: bytes) -> None:
        """`began`: when the program started, in the format of a line's time; empty if that is not known."""
        member = pod.member
        assert member is not None
        super().__init__(member.rank, member.attempt, is_live=not pod.is_finished)
        self._user = user
        self._pod = pod
        self._indexes = indexes
        self._began = began

    def last(self, lines: int) -> Blocks:
        return self._read(tail=lines)

    def since(self, time: bytes) -> Blocks:
        return self._read(since=time)

    async def before(self, time: bytes, lines: int) -> Blocks:
        span = FIRST_SPAN
        for _ in range(MAX_SPANS):
            start = _earlier(time, span)
            if start <= self._began:
                break
            held: deque[bytes] = deque()
            count = 0
            async with aclosing(self._read(since=start)) as blocks:
                async for block in blocks:
                    held.append(block)
                    count += _lines_before(block, time)
                    while held and count - held[0].count(b"\n") > lines:
                        count -= held.popleft().count(b"\n")
                    if _last_time(block) > time:
                        break
            if count > lines:
                for block in held:
                    yield block
                return
            span *= SPAN_FACTOR
        async with aclosing(self._read()) as blocks:
            async for block in blocks:
                yield block

    async def index(self) -> LineIndex:
        return self._indexes.get(self._pod.metadata.uid)

    async def keep_index(self, index: LineIndex) -> None:
        self._indexes.keep(self._pod.metadata.uid, index)

    async def counted(self, index: LineIndex) -> Blocks:
        """Continue at the last entry, since the kubelet finds only times; lines after it are counted again."""
        last = index.entries[-1] if index.entries else None
        index.lines, index.offset = (last.line, last.offset) if last is not None else (0, 0)
        index.time = last.time if last is not None else ""
        async with aclosing(self._read(since=last.time.encode() if last is not None else b"")) as blocks:
            async for block in blocks:
                index.add(block, block)
                yield block

    def from_entry(self, index: LineIndex, line: int) -> tuple[int, Blocks]:
        entry = index.before_line(line)
        return (entry.line, self._read(since=entry.time.encode())) if entry is not None else (0, self._read())

    async def _read(self, *, tail: int | None = None, since: bytes = b"") -> Blocks:
        """Yield the kubelet's log: its last `tail` lines, from the second of `since` on, or all of it."""
        meta = self._pod.metadata
        stream = await self._user.client.open_log(
            meta.namespace,
            meta.name,
            container=names.MEMBER_CONTAINER,
            tail_lines=tail,
            since_time=since[:SECOND].decode() + "Z" if since > UNKNOWN_TIME else "",
            timestamps=True,
        )
        async with stream, aclosing(aiter(stream)) as chunks:
            async for block in whole_lines(chunks, with_open=not self.is_live):
                yield block


async def _one_chunk(text: bytes) -> Blocks:
    yield text


async def whole_lines(
    chunks: AsyncIterable[bytes], index: LineIndex | None = None, *, with_open: bool = True
) -> Blocks:
    """Yield a log in blocks of whole lines with uniform stamps, and count them in `index`.

    A last line without an end gets one, or is left out without `with_open`. Every 256 KiB of a longer line count as a
    line, so that a program without line ends costs no memory.
    """
    normaliser = Normaliser()
    rest = b""
    async for chunk in chunks:
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        stored = [whole + newline] if newline else []
        while len(rest) > LINE_LIMIT_BYTES:
            stored.append(rest[:LINE_LIMIT_BYTES])
            rest = rest[LINE_LIMIT_BYTES:]
        for part in stored:
            yield _normalised(normaliser, index, part)
    if rest and with_open:
        yield _normalised(normaliser, index, rest)


def _normalised(normaliser: Normaliser, index: LineIndex | None, stored: bytes) -> bytes:
    """Return a block of whole lines with uniform stamps, and count them in `index`."""
    block = normaliser.feed(stored if stored.endswith(b"\n") else stored + b"\n").text
    if index is not None:
        index.add(block, stored)
    return block


def _lines_before(block: bytes, time: bytes) -> int:
    """Return the number of a block's lines before this time."""
    if _last_time(block) < time:
        return block.count(b"\n")
    return sum(line[:30] < time for line in block.split(b"\n")[:-1])


def _last_time(block: bytes) -> bytes:
    """Return the time of a block's last line."""
    begin = block.rfind(b"\n", 0, -1) + 1
    return block[begin : begin + 30]


def _earlier(time: bytes, span: timedelta) -> bytes:
    """Return the second that is `span` before a line's time; empty if there is none."""
    try:
        return f"{(datetime.fromisoformat(time[:SECOND].decode()) - span).isoformat()}.000000000Z".encode()
    except (ValueError, OverflowError):
        return b""
