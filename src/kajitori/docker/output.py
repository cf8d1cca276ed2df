"""Output of containers in the format of Docker's clients: stdout and stderr are separate, and may be followed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kajitori.core.spec.reasons import Phase
from kajitori.docker.hijack import STDERR, STDOUT
from kajitori.docker.platform import Patience, Platform, run_path
from kajitori.docker.translation.container import Container
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unavailable

QUEUED_AFTER_SECONDS = 2.0
"""Time for which a started run may wait before its client is told that it waits."""

SHOWN_STARTS = 10
"""Number of latest starts of a container from which output is shown: Docker shows all of them."""

_PARTS = re.compile(rb"[^\n]*\n|[^\n]+")
"""Lines, and the beginning of one at the end. A carriage return is a byte like others."""
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) ")
"""The time before a line. Lines that the Web API adds may have none."""

STAMP_BYTES = 31
"""Length of such a time and its blank."""

_EXACT_END = "exactEnd"
"""Parameter of the Web API for a log without a line end that the program did not write."""

STREAM_NAMES = {STDOUT: "stdout", STDERR: "stderr"}

LONG_LINE_BYTES = 1 << 20
"""Longest line that is held in memory; a longer one is passed on in parts, each of which counts as a line of a tail."""

Piece = tuple[int, bytes]
"""The number of a stream, and some bytes of it."""
Line = tuple[str, int, bytes]
"""Time, stream and text of a line."""


@dataclass(frozen=True)
class LogQuery:
    """The parameters of `GET /containers/{id}/logs`."""

    streams: tuple[int, ...]
    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: str = ""
    """RFC 3339 time of the earliest line; empty: all lines."""
    until: str = ""
    newest_start: bool = False
    """Only what was printed since the newest start; else since the first of the last few."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> LogQuery:
        """Read the parameters. Raises InvalidInput."""
        streams = tuple(number for number, name in STREAM_NAMES.items() if flag(query, name))
        if not streams:
            raise InvalidInput.one("", "Bad parameters: you must choose at least one stream")
        tail = query.get("tail", "all")
        return cls(
            streams,
            follow=flag(query, "follow"),
            timestamps=flag(query, "timestamps"),
            tail=number(query, "tail") if tail.isascii() and tail.isdigit() else None,
            since=moment(query.get("since", ""), "since"),
            until=moment(query.get("until", ""), "until"),
        )


def number(query: Mapping[str, str], name: str) -> int:
    """Return a parameter that is a whole number; 0 if it is not given. Raises InvalidInput."""
    text = query.get(name) or "0"
    try:
        return int(text)
    except ValueError:  # also for thousands of digits
        raise InvalidInput.one(name, "is no number", value=text[:80]) from None


def flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a parameter is switched on, in any of the ways in which clients write that."""
    return query.get(name, "").lower() not in ("", "0", "no", "false", "none")


def moment(text: str, name: str) -> str:
    """Return the RFC 3339 time that a parameter stands for: seconds since the epoch, or such a time; empty for 0."""
    if not text or text == "0":
        return ""
    try:
        time = datetime.fromtimestamp(float(text), UTC)
    except ValueError:
        try:
            time = datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            raise InvalidInput.one(name, "is neither a number of seconds nor a time", value=text[:80]) from None
    except OverflowError:
        raise InvalidInput.one(name, f"{text!r:.80} is not a time", value=text[:80]) from None
    return f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z"


async def read_output(platform: Platform, container: Container, query: LogQuery) -> AsyncGenerator[Piece]:
    """Yield the log of a container. A container that was never started has none."""
    if container.was_never_started:
        return
    latest: str | None = None
    async with aclosing(_present(platform, container, query)) as lines:
        async for time, stream, text in lines:
            latest = max(latest or "", time)
            yield stream, text
    if not query.follow or not container.is_active:
        return
    after = query.since if latest is None else latest
    pieces = _followed(platform, container, query, after=after, exclusive=latest is not None)
    async with aclosing(pieces) as followed:
        async for piece in followed:
            yield piece


async def follow_start(platform: Platform, container: Container, streams: tuple[int, ...]) -> AsyncGenerator[Piece]:
    """Yield what a container prints from this start on, and a line on stderr while it waits for nodes. A client that
    did not ask for stderr gets none.

    `container` is as its start answered.
    """
    params: dict[str, Any] = {"fromAttempt": container.attempts + 1, "timestamps": "true"}
    await platform.seen_by_controller(container)  # the log of an ended run ends at once
    queue: asyncio.Queue[Piece | None] = asyncio.Queue(256)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_report_waiting(platform, container, queue))
        readers = [tasks.create_task(_feed(platform, container, stream, params, _Lines(), queue)) for stream in streams]
        try:
            left = len(readers)
            while left:
                piece = await queue.get()
                if piece is None:
                    left -= 1
                elif piece[0] in streams:
                    yield piece
        finally:
            for task in (waiting, *readers):
                task.cancel()


async def _present(platform: Platform, container: Container, query: LogQuery) -> AsyncGenerator[Line]:
    """Yield the lines that are there, in order of time. A log may be larger than this machine's memory."""
    if query.tail == 0:
        return
    last: deque[Line] = deque(maxlen=query.tail)
    for attempt in _attempts(container, query):
        async with aclosing(_of_attempt(platform, container, query, attempt)) as lines:
            async for line in lines:
                if query.until and line[0] > query.until:
                    continue
                if query.tail is None:
                    yield line
                else:
                    last.append(line)
    for line in last:
        yield line


async def _of_attempt(
    platform: Platform, container: Container, query: LogQuery, attempt: int | None
) -> AsyncGenerator[Line]:
    """Yield the lines of all wanted streams in one attempt, in order of time."""
    async with AsyncExitStack() as stack:
        sources = [
            await stack.enter_async_context(aclosing(_of_stream(platform, container, query, attempt, stream)))
            for stream in query.streams
        ]
        heads = [await anext(source, None) for source in sources]
        while found := [(head[0], index) for index, head in enumerate(heads) if head is not None]:
            _, index = min(found)
            head = heads[index]
            assert head is not None
            yield head
            heads[index] = await anext(sources[index], None)


async def _of_stream(
    platform: Platform, container: Container, query: LogQuery, attempt: int | None, stream: int
) -> AsyncGenerator[Line]:
    """Yield the lines of one stream in one attempt. Those of more than LONG_LINE_BYTES come in parts."""
    params: dict[str, Any] = {"rank": container.rank, "timestamps": "true", "stream": STREAM_NAMES[stream]}
    params |= {"since": query.since} if query.since else {}
    time, rest, is_inside = "", b"", False
    try:
        async with aclosing(_exact_chunks(platform, container, {**params, "attempt": attempt})) as chunks:
            async for chunk in chunks:
                parts = _PARTS.findall(rest + chunk)
                rest = parts.pop() if not parts[-1].endswith(b"\n") and len(parts[-1]) <= LONG_LINE_BYTES else b""
                for part in parts:
                    stamp = _STAMP.match(part) if not is_inside else None
                    time = stamp[1].decode() if stamp else time
                    is_inside = not part.endswith(b"\n")
                    yield time, stream, part[stamp.end() :] if stamp and not query.timestamps else part
    except NotFound:
        return  # the program has not started, or its log is gone with its Pod
    if rest:
        stamp = _STAMP.match(rest) if not is_inside else None
        time = stamp[1].decode() if stamp else time
        yield time, stream, rest[stamp.end() :] if stamp and not query.timestamps else rest


def _attempts(container: Container, query: LogQuery) -> Sequence[int | None]:
    """Return the attempts to show logs of; None stands for the newest."""
    if query.newest_start or container.attempts <= 1:
        return (None,)
    return range(max(1, container.attempts - SHOWN_STARTS + 1), container.attempts + 1)


async def _followed(
    platform: Platform, container: Container, query: LogQuery, *, after: str, exclusive: bool
) -> AsyncGenerator[Piece]:
    """Yield the lines behind a time, as they come."""
    params: dict[str, Any] = {"timestamps": "true"}
    if query.tail == 0 and not after:
        after = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"
    params |= {"since": after} if after else {}
    queue: asyncio.Queue[Piece | None] = asyncio.Queue(256)
    async with asyncio.TaskGroup() as tasks:
        readers = []
        for stream in query.streams:
            lines = _Lines(after if exclusive else "", timestamps=query.timestamps)
            readers.append(tasks.create_task(_feed(platform, container, stream, params, lines, queue)))
        left = len(readers)
        try:
            while left:
                piece = await queue.get()
                if piece is None:
                    left -= 1
                elif piece[0] in query.streams:  # why a log can't be read is standard error
                    yield piece
        finally:
            for task in readers:
                task.cancel()


class _Lines:
    """Passes on the lines of one stream that were written after a time, also the beginning of a line at once. After a
    broken connection it passes on what comes behind the last byte."""

    def __init__(self, after: str = "", *, timestamps: bool = False) -> None:
        self._after = after.encode()
        self._timestamps = timestamps
        self._begun = b""
        """The beginning of a line whose time is not complete yet."""
        self._is_inside = self._is_shown = False
        self._line = b"", 0
        """The time of the last line with one, and its number among the lines of this time in a row."""
        self._length = 0
        """Number of bytes of this line, without its time."""
        self._read: tuple[bytes, int] | None = None
        """The last line before the connection broke, until it has come again."""
        self._read_length = self._known = 0
        """Numbers of bytes of that line, and of the present one, that came before the connection broke."""

    def new(self, data: bytes) -> bytes:
        """Return what to show of the next bytes, which may begin and end inside a line."""
        return b"".join(self._part(part) for part in _PARTS.findall(data))

    def resume(self) -> dict[str, str]:
        """Prepare for a new connection, and return the parameter that says where it has to begin."""
        if self._read is None and self._line[0]:
            self._read, self._read_length = self._line, self._length
        self._begun, self._is_inside, self._line = b"", False, (b"", 0)
        return {"since": self._read[0].decode()} if self._read is not None else {}

    def _part(self, part: bytes) -> bytes:
        """Return what to show of one line or of a part of it."""
        stamp = None
        if not self._is_inside:
            part = self._begun + part
            stamp = _STAMP.match(part)
            if stamp is None and len(part) < STAMP_BYTES and not part.endswith(b"\n"):
                self._begun = part
                return b""
            self._begun, self._is_shown, self._known = b"", True, 0
        is_rest = False
        if stamp is not None:
            is_rest = self._begin(stamp[1])
            part = part[stamp.end() :]
        self._is_inside = not part.endswith(b"\n")
        self._length += len(part)
        known = min(self._known, len(part))
        self._known -= known
        head = stamp[0] if stamp is not None and self._timestamps and not is_rest else b""
        return head + part[known:] if self._is_shown else b""

    def _begin(self, time: bytes) -> bool:
        """Note the beginning of a line. Return whether some of it was shown before the connection broke."""
        self._line = time, self._line[1] + 1 if time == self._line[0] else 1
        self._length, self._is_shown = 0, time > self._after
        if self._read is None:
            return False
        if self._line < self._read:
            self._is_shown = False
            return False
        is_rest, self._read = self._line == self._read, None
        self._known = self._read_length if is_rest else 0
        return is_rest


async def _feed(
    platform: Platform,
    container: Container,
    stream: int,
    params: Mapping[str, Any],
    lines: _Lines,
    queue: asyncio.Queue[Piece | None],
) -> None:
    """Put what one stream prints into the queue until the run has ended; then None. A server that is away for less than
    two minutes does not matter."""
    parameters = {"follow": "true", "rank": container.rank, "stream": STREAM_NAMES[stream], **params}
    patience = Patience()
    try:
        while True:
            try:
                async with aclosing(_exact_chunks(platform, container, parameters)) as chunks:
                    async for chunk in chunks:
                        patience.worked()
                        if shown := lines.new(chunk):
                            await queue.put((stream, shown))
                return
            except Unavailable as error:
                await patience.failed(error)
            # the run may have been restarted meanwhile
            parameters |= {"fromAttempt": params.get("fromAttempt", container.attempts or None), **lines.resume()}
    except NotFound:
        return
    except KajitoriError as error:
        await queue.put((STDERR, f"kaji: the log can't be read: {error.message}\n".encode()))
    finally:
        await queue.put(None)


async def _exact_chunks(platform: Platform, container: Container, params: Mapping[str, Any]) -> AsyncGenerator[bytes]:
    """Yield a log without a line end that the program did not write. A server that is older than this bridge may refuse
    the parameter for that; its log then ends with a line end."""
    path = run_path(container, "/logs")
    try:
        async with aclosing(platform.chunks(path, {**params, _EXACT_END: "true"})) as chunks:
            async for chunk in chunks:
                yield chunk
            return
    except InvalidInput as error:
        if all(fault.field != _EXACT_END for fault in error.faults):
            raise
    async with aclosing(platform.chunks(path, params)) as chunks:
        async for chunk in chunks:
            yield chunk


async def _report_waiting(platform: Platform, container: Container, queue: asyncio.Queue[Piece | None]) -> None:
    """Say on stderr that a started run waits, and each reason once, until it runs."""
    loop = asyncio.get_running_loop()
    until = loop.time() + QUEUED_AFTER_SECONDS
    with contextlib.suppress(KajitoriError):
        await _report_changes(platform, container, queue, until)


async def _report_changes(
    platform: Platform, container: Container, queue: asyncio.Queue[Piece | None], until: float
) -> None:
    """Say on stderr, from the time `until` of the event loop on, each new reason for which a run waits."""
    reported, loop = set[str](), asyncio.get_running_loop()
    async with aclosing(platform.changes(container)) as changes:
        pending: asyncio.Future[Container | None] | None = None
        latest = container
        try:
            while True:
                pending = pending or asyncio.ensure_future(anext(changes, None))
                left = max(0.0, until - loop.time()) if not reported else None
                await asyncio.wait({pending}, timeout=left)
                if pending.done():
                    change, pending = pending.result(), None
                    if change is None:
                        return
                    latest = change
                if latest.phase not in (Phase.QUEUED, Phase.STARTING):
                    return
                text = phase_words(latest)
                if (
                    loop.time() >= until and text not in reported
                ):  # while an image can't be pulled, two reasons alternate
                    reported.add(text)
                    await queue.put((STDERR, f"{text}\n".encode()))
        finally:
            if pending is not None:  # a generator can't be closed while it works
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)


def phase_words(container: Container) -> str:
    """Return the line that tells a client why its container has not started yet, or why it was ended."""
    why = container.message or container.reason.value or "it is new"
    return f"kaji: {container.name} is {container.phase.value}: {why} (for details: kaji explain {container.run})"
