"""One connection to the log of a member's Pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kajitori.api.logs.lines import Resumption, Text
from kajitori.api.logs.pods import MemberPods
from kajitori.cluster.objects import Pod
from kajitori.errors import Unavailable
from kajitori.kube.streams import ByteStream

if TYPE_CHECKING:
    from kajitori.api.runs.tracking import RunTracker

SILENCE_SECONDS = 5.0
"""Time without data after which the log of a member that has ended or is gone is given up. The connection to a dead
node stays open without data."""
BEGUN_SECONDS = 0.02
"""Time without data after which the beginning of an incomplete line is passed on."""


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
        self._is_open = not chunk.endswith(b"\n")
        return Text(chunk, stamped=False)

    def take_begun(self) -> Text:
        return Text(b"")

    def flush(self) -> Text:
        return Text(b"\n" * self._is_open, stamped=False, is_added_end=True)
