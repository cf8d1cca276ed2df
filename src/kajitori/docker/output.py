"""Output of containers in the format of Docker's clients: stdout and stderr are separate, and may be followed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

from kajitori.core.spec.reasons import Phase
from kajitori.docker.hijack import STDERR, STDOUT
from kajitori.docker.platform import Platform, run_path
from kajitori.docker.translation.container import Container
from kajitori.errors import InvalidInput, KajitoriError, NotFound

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

Piece = tuple[int, bytes]
"""The number of a stream, and some bytes of it."""


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
            tail=int(tail) if tail.isascii() and tail.isdigit() else None,
            since=moment(query.get("since", ""), "since"),
            until=moment(query.get("until", ""), "until"),
        )


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
        except ValueError:
            raise InvalidInput.one(name, "is neither a number of seconds nor a time", value=text[:80]) from None
    except OverflowError:
        raise InvalidInput.one(name, f"{text!r:.80} is not a time", value=text[:80]) from None
    return f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z"


async def read_output(platform: Platform, container: Container, query: LogQuery) -> AsyncGenerator[Piece]:
    """Yield the log of a container. A container that was never started has none."""
    if container.was_never_started:
        return
    lines = await _present(platform, container, query)
    for _, stream, text in lines:
        yield stream, text
    if not query.follow or not container.is_active:
        return
    after = max((stamp for stamp, _, _ in lines), default=query.since)
    pieces = _followed(platform, container, query, after=after, exclusive=bool(lines))
    async with aclosing(pieces) as followed:
        async for piece in followed:
            yield piece


async def follow_start(platform: Platform, container: Container, streams: tuple[int, ...]) -> AsyncGenerator[Piece]:
    """Yield what a container prints from this start on, and a line on stderr while it waits for nodes. A client that
    did not ask for stderr gets none.

    `container` is as its start answered.
    """
    params = {"fromAttempt": container.attempts + 1}
    await platform.seen_by_controller(container)  # the log of an ended run ends at once
    queue: asyncio.Queue[Piece | None] = asyncio.Queue(256)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_report_waiting(platform, container, queue))
        readers = [tasks.create_task(_feed(platform, container, stream, params, queue)) for stream in streams]
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


async def _present(platform: Platform, container: Container, query: LogQuery) -> list[tuple[str, int, bytes]]:
    """Return time, stream and text of the lines that are there, in order of time."""
    if query.tail == 0:
        return []
    params: dict[str, Any] = {"rank": container.rank, "timestamps": "true"}
    params |= {"since": query.since} if query.since else {}
    lines: list[tuple[str, int, bytes]] = []
    for attempt, stream in product(_attempts(container, query), query.streams):
        text = b""
        try:
            parameters = params | {"stream": STREAM_NAMES[stream], "attempt": attempt}
            async with aclosing(_exact_chunks(platform, container, parameters)) as chunks:
                text = b"".join([chunk async for chunk in chunks])
        except NotFound:
            continue  # the program has not started, or its log is gone with its Pod
        time = ""
        for line in _PARTS.findall(text):
            stamp = _STAMP.match(line)
            time = stamp[1].decode() if stamp else time
            lines.append((time, stream, line[stamp.end() :] if stamp and not query.timestamps else line))
    lines.sort(key=lambda line: line[0])
    if query.until:
        lines = [line for line in lines if line[0] <= query.until]
    return lines[-query.tail :] if query.tail is not None else lines


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
        readers = [tasks.create_task(_feed(platform, container, one, params, queue)) for one in query.streams]
        lines = {one: _Lines(after if exclusive else "", timestamps=query.timestamps) for one in query.streams}
        left = len(readers)
        try:
            while left:
                piece = await queue.get()
                if piece is None:
                    left -= 1
                    continue
                stream, data = piece
                if stream not in lines:
                    continue  # why a log can't be read is standard error, which this client did not ask for
                if shown := lines[stream].new(data):
                    yield stream, shown
        finally:
            for task in readers:
                task.cancel()


class _Lines:
    """Passes on the lines of one stream that were written after a time, also the beginning of a line at once."""

    def __init__(self, after: str, *, timestamps: bool) -> None:
        self._after = after.encode()
        self._timestamps = timestamps
        self._begun = b""
        """The beginning of a line whose time is not complete yet."""
        self._is_inside = self._is_shown = False

    def new(self, data: bytes) -> bytes:
        """Return what to show of the next bytes, which may begin and end inside a line."""
        return b"".join(self._part(part) for part in _PARTS.findall(data))

    def _part(self, part: bytes) -> bytes:
        """Return what to show of one line or of a part of it."""
        if not self._is_inside:
            part = self._begun + part
            stamp = _STAMP.match(part)
            if stamp is None and len(part) < STAMP_BYTES and not part.endswith(b"\n"):
                self._begun = part
                return b""
            self._begun = b""
            self._is_shown = stamp is None or stamp[1] > self._after
            part = part[stamp.end() :] if stamp is not None and not self._timestamps else part
        self._is_inside = not part.endswith(b"\n")
        return part if self._is_shown else b""


async def _feed(
    platform: Platform,
    container: Container,
    stream: int,
    params: Mapping[str, Any],
    queue: asyncio.Queue[Piece | None],
) -> None:
    """Put what one stream prints into the queue until the run has ended; then None."""
    parameters = {"follow": "true", "rank": container.rank, "stream": STREAM_NAMES[stream], **params}
    try:
        async with aclosing(_exact_chunks(platform, container, parameters)) as chunks:
            async for chunk in chunks:
                await queue.put((stream, chunk))
    except KajitoriError as error:
        if not isinstance(error, NotFound):
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
