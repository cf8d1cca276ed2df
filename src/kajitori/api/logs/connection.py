"""One connection to the log of a member's Pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from kajitori.api.logs.lines import Resumption, Text
from kajitori.api.logs.pods import MemberPods
from kajitori.api.logs.request import LogRequest
from kajitori.cluster.objects import Pod
from kajitori.cluster.runs.members import started_at_of
from kajitori.core.logs import notices
from kajitori.core.naming import names
from kajitori.errors import KajitoriError, Unavailable
from kajitori.kube.errors import InvalidError
from kajitori.kube.streams import ByteStream

if TYPE_CHECKING:
    from kajitori.api.rights import User
    from kajitori.api.runs.tracking import RunTracker

SILENCE_SECONDS = 5.0
"""Time without data after which the log of a member that has ended or is gone is given up. The connection to a dead
node stays open without data."""
BEGUN_SECONDS = 0.02
"""Time without data after which the beginning of an incomplete line is passed on."""
FIRST_LINE_BYTES = 256
"""Bytes of a log's first line that are read to learn its time."""


@dataclass(slots=True)
class LogConnection:
    """An open log of one attempt."""

    pod: Pod
    attempt: int
    stream: ByteStream
    unread: Resumption
    """Skips lines that were read before or are older than requested."""
    finished: bool
    """Whether the member had ended before its log was opened, so that the log is complete."""
    is_at_top: bool
    """Whether the log is read from its beginning, and nothing of it has arrived yet."""
    first_line: bytes
    """The beginning of its first line, with its time, if the log itself is read without times."""
    whole: bool = False
    """Whether the log was read to the end that its kubelet sent."""

    async def chunks(self, tracker: RunTracker, pods: MemberPods, *, follow: bool) -> AsyncGenerator[bytes | None]:
        """Yield chunks as they arrive; None after a moment without data, and empty (b"") at the log's end."""
        may_fall_silent = follow and not self.finished
        pending: asyncio.Future[bytes] | None = None
        chunks = aiter(self.stream)
        has_paused = True
        try:
            while True:
                pending = pending or asyncio.ensure_future(anext(chunks))
                await asyncio.wait({pending}, timeout=SILENCE_SECONDS if has_paused else BEGUN_SECONDS)
                if not pending.done():
                    if not has_paused and may_fall_silent:
                        yield None
                    elif may_fall_silent:
                        tracker.look()
                        if tracker.is_over or pods.is_gone(self.pod) or pods.is_finished(self.pod):
                            return
                    has_paused = True
                    continue
                try:
                    chunk = pending.result()
                except StopAsyncIteration:
                    self.whole = True
                    yield b""
                    return
                except Unavailable:
                    if not follow:
                        raise
                    return  # the connection broke; the incomplete rest is read again
                pending, has_paused = None, False
                yield chunk
                await asyncio.sleep(0)  # lets other tasks run during a long log
        finally:
            if pending is not None:
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)


class Unstamped:
    """Passes on a log without stamps unchanged, and ends its last line."""

    def __init__(self) -> None:
        self._is_open = False

    def feed(self, chunk: bytes) -> Text:
        """Return the chunk."""
        self._is_open = not chunk.endswith(b"\n")
        return Text(chunk, stamped=False)

    def take_begun(self) -> Text:
        """Return an empty text: nothing is buffered."""
        return Text(b"")

    def flush(self) -> Text:
        """Return the line end that the last line lacks, or an empty text."""
        return Text(b"\n" * self._is_open, stamped=False, is_added_end=True)


async def open_stream(user: User, pod: Pod, request: LogRequest, *, tail: int | None, since_time: str) -> ByteStream:
    """Open the log of a Pod, or that of the requested output stream.

    If the API server does not tell streams apart, the whole log counts as stdout. Raises its errors.
    """
    read = partial(
        user.client.open_log,
        pod.metadata.namespace,
        pod.metadata.name,
        container=names.MEMBER_CONTAINER,
        follow=request.follow and not pod.is_finished,
        tail_lines=tail,
        since_time=since_time,
        timestamps=request.timestamps,
    )
    if request.stream is None:
        return await read()
    try:
        return await read(stream=request.stream.capitalize())
    except InvalidError as error:
        if error.status != 422 or request.stream == "stderr":
            raise
        return await read()


async def read_first_line(user: User, pod: Pod, now: datetime) -> bytes:
    """Return the beginning of a log's first line, with its time; empty if the program has not run for long, so that
    its log cannot have lost its beginning.

    Also empty if the log cannot be read: reading the whole log then says why.
    """
    started_at = started_at_of(pod)
    if not started_at or (now - datetime.fromisoformat(started_at)).total_seconds() < notices.LATE_SECONDS:
        return b""
    try:
        stream = await user.client.open_log(
            pod.metadata.namespace,
            pod.metadata.name,
            container=names.MEMBER_CONTAINER,
            timestamps=True,
            limit_bytes=FIRST_LINE_BYTES,
        )
        async with stream, aclosing(aiter(stream)) as chunks:
            return await anext(chunks, b"")
    except KajitoriError:
        return b""
