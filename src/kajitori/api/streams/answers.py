"""Streams: answers that take long.

A reader can tell whether a stream is complete or broke off, because its source failed or this server shuts down. After
a break, the client should ask again. A source is read no faster than the reader takes the data, so that slow readers
cost no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from prometheus_client import Counter, Gauge
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kajitori.api.auth import Sessions
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

NDJSON = "application/x-ndjson"
SERVER_SENT_EVENTS = "text/event-stream"
TEXT = "text/plain; charset=utf-8"

HEARTBEAT_SECONDS = 30.0
"""Time without data after which a stream of documents sends an empty line, so that proxies do not close it."""

Chunks = AsyncGenerator[bytes, None]


class StreamRegistry:
    """All open streams."""

    def __init__(self, open_streams: Gauge, broken_streams: Counter, sessions: Sessions) -> None:
        self._open_streams = open_streams
        self._broken_streams = broken_streams
        self._sessions = sessions
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closing = False

    def stream(
        self,
        chunks: Chunks,
        *,
        kind: str,
        media_type: str,
        cleanup: Callable[[], Awaitable[None]] | None = None,
        size_bytes: int | None = None,
    ) -> Stream:
        """Return the answer that writes these chunks.

        `kind` is the label in metrics. `cleanup` is always called at the end. `size_bytes` is the size of all chunks,
        if it is known.
        """
        return Stream(self, chunks, kind=kind, media_type=media_type, cleanup=cleanup, size_bytes=size_bytes)

    def break_off(self) -> None:
        """Break off every stream because the server shuts down; readers may reconnect later."""
        self.closing = True
        for task in tuple(self._tasks):
            task.cancel()

    @contextmanager
    def held_open(self, scope: Scope, revoke: Callable[[KajitoriError], None]) -> Iterator[None]:
        """Exempt this answer from deadlines while the context lasts. `revoke` is called if the caller loses its right
        to the answer; the tickets of members are not checked again."""
        state = scope.get("state", {})
        connection = state.get("connection")
        with ExitStack() as closing:
            if connection is not None:
                connection.is_streaming = True
                closing.callback(setattr, connection, "is_streaming", False)
            if "session" in state:
                closing.enter_context(self._sessions.streaming(state["session"], state["user"], revoke))
            yield

    def opened(self, kind: str, task: asyncio.Task[Any]) -> None:
        """Count a stream that begins."""
        self._tasks.add(task)
        self._open_streams.labels(kind).inc()

    def closed(self, kind: str, task: asyncio.Task[Any], *, broken: bool) -> None:
        """Count a stream that has ended."""
        self._tasks.discard(task)
        self._open_streams.labels(kind).dec()
        if broken:
            self._broken_streams.labels(kind).inc()


class Stream(Response):
    """Writes chunks as they arrive, until the source ends or fails, or the reader hangs up."""

    def __init__(
        self,
        registry: StreamRegistry,
        chunks: Chunks,
        *,
        kind: str,
        media_type: str,
        cleanup: Callable[[], Awaitable[None]] | None,
        size_bytes: int | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        if size_bytes is not None:
            self.raw_headers.append((b"content-length", str(size_bytes).encode()))
        self._registry = registry
        self._chunks = chunks
        self._kind = kind
        self._cleanup = cleanup

    def init_headers(self, headers: Any = None) -> None:
        super().init_headers(headers)
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        broken = False
        interruption = _Interruption(task)
        self._registry.opened(self._kind, task)
        listener = asyncio.create_task(interruption.wait_for_hang_up(receive))
        try:
            if not self._registry.closing:
                with self._registry.held_open(scope, interruption.revoke):
                    await self._write(send)
        except asyncio.CancelledError:
            if not interruption.is_requested and not self._registry.closing:
                raise
            while task.cancelling():
                task.uncancel()
            if interruption.revoked_by is not None:
                broken = True
                log.info("stream of %s broke off: %s", self._kind, interruption.revoked_by)
        except KajitoriError as error:
            broken = True
            log.info("stream of %s broke off: %s", self._kind, error)
        except Exception:
            broken = True
            log.exception("stream of %s broke off; this is a bug", self._kind)
        finally:
            listener.cancel()
            self._registry.closed(self._kind, task, broken=broken)
            await self._chunks.aclose()
            if self._cleanup is not None:
                await self._cleanup()

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Interruption:
    """Cancels the task that writes a stream when the reader hangs up or loses its right to it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.revoked_by: KajitoriError | None = None
        self._task = task
        self._has_hung_up = False

    @property
    def is_requested(self) -> bool:
        """Whether this object cancelled the task, and not another part of the server."""
        return self._has_hung_up or self.revoked_by is not None

    async def wait_for_hang_up(self, receive: Receive) -> None:
        """Cancel the task once the reader hangs up."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._has_hung_up = True
        self._task.cancel()

    def revoke(self, error: KajitoriError) -> None:
        """Cancel the task because the reader lost its right, as `error` says."""
        if self.revoked_by is None:
            self.revoked_by = error
            self._task.cancel()
