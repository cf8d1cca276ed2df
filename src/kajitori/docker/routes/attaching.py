"""Routes by which a client is connected with a container: attach, and the size of its terminal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from aiohttp import web

from kajitori.client.members.attached_output import Shown
from kajitori.client.members.detach_keys import DETACH_KEYS, detach_keys_of
from kajitori.client.members.streams import attach_url, running
from kajitori.core.spec.reasons import Phase
from kajitori.docker.engine import Engine, Terminal, engine_of
from kajitori.docker.execution import pass_through
from kajitori.docker.hijack import STDERR, STDOUT, Hijacked, answered, hijacked, size_of, until_either
from kajitori.docker.output import QUEUED_AFTER_SECONDS, LogQuery, flag, follow_start, phase_words, read_output
from kajitori.docker.platform import Patience, run_path
from kajitori.docker.routes.containers import container_of
from kajitori.docker.translation.container import Container
from kajitori.errors import KajitoriError, Unavailable

INTERRUPT = b"\x03"
"""Ctrl-C at a terminal."""
TYPED_AHEAD = 64
"""Pieces of input that are kept for a program that does not run yet."""
OUTPUT_SECONDS = 2.0
"""Time that an attached client has to read the rest of the output of a container that is restarted."""
SEARCHED_LINES = 100_000
"""Number of lines at the end of a log that are searched for what a terminal has shown."""
PROMPT_SECONDS = 0.3
"""Time after which a terminal's log has the beginning of a line, such as a prompt."""

routes = web.RouteTableDef()


@routes.post("/containers/{id}/attach")
async def attach(request: web.Request) -> web.StreamResponse:
    """Connect a client with a container. A container that does not run yet is waited for: clients attach first, and
    start it then."""
    engine, container = engine_of(request), await container_of(request)
    query = request.query
    streams = tuple(number for number, name in ((STDOUT, "stdout"), (STDERR, "stderr")) if flag(query, name))
    keys = detach_keys_of(query.get("detachKeys") or DETACH_KEYS)
    with engine.reading(container):
        begun = asyncio.ensure_future(engine.begun(container)) if not container.is_active else None
        try:
            async with hijacked(request, is_raw=container.has_terminal) as client:
                # A client without input closes its half of the connection at once, and reads on.
                showing = _stream_to_client(engine, container, client, streams, query, begun, keys)
                await until_either(showing, client.lost.wait(), _until_started_again(engine, container, begun))
        finally:
            if begun is not None:
                begun.cancel()
    return answered()


async def _until_started_again(engine: Engine, container: Container, begun: asyncio.Future[Container] | None) -> None:
    """Wait until a user has restarted a container and its client has read the rest: as with Docker, it sees one start.

    Its output usually ends by itself then. If the next start follows at once, the log goes on.
    """
    container = await engine.ended(await asyncio.shield(begun) if begun is not None else container)
    if not container.is_active:
        await asyncio.Event().wait()
    await asyncio.sleep(OUTPUT_SECONDS)


async def _stream_to_client(
    engine: Engine,
    container: Container,
    client: Hijacked,
    streams: tuple[int, ...],
    query: Any,
    begun: asyncio.Future[Container] | None,
    keys: bytes,
) -> None:
    """Send the client what it asked for: earlier output, then the output and the input from now on."""
    platform = engine.platform
    if flag(query, "logs") and streams:
        await _write(client, read_output(platform, container, LogQuery(streams)))
    if not flag(query, "stream"):
        return
    has_input = flag(query, "stdin") and container.has_stdin
    if container.has_terminal:
        async with _typing(engine, container, client, keys if has_input else None) as typed:
            container = await begun if begun is not None else container
            await _at_terminal(engine, container, client, typed)
            await _report_end(engine, container, client)
        return
    if begun is not None:
        container = await begun
    now = LogQuery(streams, follow=True, tail=0)
    output = follow_start(platform, container, streams) if begun is not None else read_output(platform, container, now)
    feeding = asyncio.create_task(_feed(engine, container, client)) if has_input else None
    try:
        if streams:
            await _write(client, output)
            if STDERR in streams:
                await _report_end(engine, container, client)
        elif feeding is not None:
            await feeding
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _report_end(engine: Engine, container: Container, client: Hijacked) -> None:
    """Say on stderr why a container ended if neither its program nor its user ended it."""
    if not client.is_detached and (line := await engine.unreported_end(container)):
        await client.write(STDERR, f"{line}\r\n".encode() if client.is_raw else f"{line}\n".encode())


async def _feed(engine: Engine, container: Container, client: Hijacked) -> None:
    """Pass the client's input on to the container's program. Its output comes from the log, which has all of it."""
    if not await _until_running(engine, container):
        return

    async def drop(stream: int, data: bytes) -> None:
        return None

    target = await engine.platform.signed_in()
    with contextlib.suppress(KajitoriError):  # the program may end before its input
        async with running(target, attach_url(target, container.view, rank=container.rank, stdin=True)) as stream:
            await pass_through(stream, drop, client.input())


class _Typed:
    """The input that a client types at a terminal.

    It is read from the beginning, since two keys work while the container waits for nodes: those that detach, and
    Ctrl-C, which stops a container that does not run yet. The rest is for its program.
    """

    def __init__(self, engine: Engine, container: Container) -> None:
        self._engine = engine
        self._container = container
        self._waits = True
        self._kept: asyncio.Queue[bytes] = asyncio.Queue(TYPED_AHEAD)

    async def read(self, client: Hijacked, keys: bytes) -> None:
        async for data in client.typed(keys):
            if self._waits and INTERRUPT in data:
                await self._interrupt()
            else:
                await self._kept.put(data)

    async def for_program(self) -> AsyncIterator[bytes]:
        """Yield what was typed, and what is typed from now on."""
        self._waits = False
        while True:
            yield await self._kept.get()

    async def _interrupt(self) -> None:
        with contextlib.suppress(KajitoriError):  # it has ended meanwhile
            await self._engine.platform.post(run_path(self._container, "/stop"))
            self._engine.tell("kill", self._container, signal="2")


@asynccontextmanager
async def _typing(
    engine: Engine, container: Container, client: Hijacked, keys: bytes | None
) -> AsyncIterator[_Typed | None]:
    """Read what the client types. `keys` are those that detach; None if it sends no input."""
    if keys is None:
        yield None
        return
    typed = _Typed(engine, container)
    reading = asyncio.create_task(typed.read(client, keys))
    try:
        yield typed
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _at_terminal(engine: Engine, container: Container, client: Hijacked, typed: _Typed | None) -> None:
    """Connect the client with the container's terminal, after what was printed there before."""
    terminal = engine.terminals.setdefault(container.uid, Terminal())
    if not await _until_running(engine, container, client):
        ended = await engine.platform.refreshed(container)
        await _write(client, read_output(engine.platform, ended, LogQuery((STDOUT,), newest_start=True)))
        return
    container = await engine.platform.refreshed(container)
    shown, patience = _AfterLog(client), Patience()
    while True:
        try:
            await _converse(engine, container, terminal, shown, typed, patience)
            return
        except Unavailable as error:  # the connection broke, or the server is away
            try:
                await patience.failed(error)
                latest = await engine.platform.refreshed(container)
            except Unavailable:
                if not patience.is_over:
                    continue
                await client.write(STDERR, f"kaji: {error.message}\r\n".encode())
                return
            except KajitoriError:
                return  # it was removed meanwhile
            if latest.is_active and latest.attempts == container.attempts:
                continue
        except KajitoriError:  # the program has ended meanwhile
            pass
        await shown.read_log(engine, container)
        return


async def _converse(
    engine: Engine,
    container: Container,
    terminal: Terminal,
    shown: _AfterLog,
    typed: _Typed | None,
    patience: Patience,
) -> None:
    """Connect the client with the program until it ends: with the earlier session at the server, if it has that still.

    Raises Unavailable if the connection breaks, and KajitoriError if there is no program to connect with.
    """
    target, session = await engine.platform.signed_in(), shown.session
    has_input = typed is not None
    url = attach_url(
        target, container.view, rank=container.rank, stdin=has_input, session=session, position=shown.position
    )
    async with running(target, url) as stream:
        patience.worked()
        terminal.stream = stream
        try:
            if terminal.size is not None:
                await terminal.resize(*terminal.size)
            reading = None
            if not session or stream.session != session:
                shown.begin(stream.session)
                reading = asyncio.create_task(shown.read_log(engine, container))
            try:
                await pass_through(stream, shown.write, typed.for_program() if typed is not None else None)
                if reading is not None:
                    await reading
            finally:
                if reading is not None:
                    reading.cancel()
        finally:
            terminal.stream = None


class _AfterLog:
    """Shows what a terminal printed before the client was attached, and then what comes. Nothing comes twice or is left
    out if connections to the server break."""

    def __init__(self, client: Hijacked) -> None:
        self._client = client
        self._shown = Shown()
        self._is_first = True
        """Whether nothing was shown."""
        self._held: bytes | None = b""
        """Output that came while the log was read; None once it was shown."""
        self._session = ""
        self.position = 0
        """Number of bytes that the session has brought."""

    @property
    def session(self) -> str:
        """The server's name of the connection to the program, to which the next one may return; empty while the log is
        read, so that the next one reads it again."""
        return self._session if self._held is None else ""

    def begin(self, session: str) -> None:
        """Begin a session, before which the log is read."""
        self._session, self.position, self._held = session, 0, b""

    async def write(self, stream: int, data: bytes) -> None:
        if stream == STDERR:  # the server's own words: a terminal has no standard error
            await self._client.write(stream, data)
            return
        self.position += len(data)
        if self._held is None:
            await self._client.write(stream, self._shown.new(data))
        else:
            self._held += data

    async def read_log(self, engine: Engine, container: Container) -> None:
        """Show what of the log was not shown yet, then the output that arrived while it was read and that is not in it.
        The log is that of the attempt to which the client is attached."""
        await asyncio.sleep(PROMPT_SECONDS)
        log, lines = b"", None if self._is_first else SEARCHED_LINES
        with contextlib.suppress(KajitoriError):
            async with aclosing(
                read_output(engine.platform, container, LogQuery((STDOUT,), tail=lines, newest_start=True))
            ) as pieces:
                log = b"".join([data async for _, data in pieces])
        held, self._held = self._held or b"", None
        if self._is_first:
            before: bytes | None = self._shown.begin(log, held)
        else:
            before = self._shown.go_on(log, held)
        self._is_first = False
        if before is None:
            text = f"kaji: what it printed meanwhile is not shown here; all of it: docker logs {container.name}\r\n"
            await self._client.write(STDERR, text.encode())
        await self._client.write(STDOUT, (before or b"") + self._shown.new(held))


async def _until_running(engine: Engine, container: Container, client: Hijacked | None = None) -> bool:
    """Wait until a container runs. Return False if it ends without. `client` is told that it waits, and why."""
    reported, until = set[str](), engine.now() + QUEUED_AFTER_SECONDS
    latest: Container | None = None

    async def report() -> None:
        if client is None or latest is None or not latest.is_active:
            return
        text = phase_words(latest)
        if text not in reported:
            reported.add(text)
            await client.write(STDERR, f"{text}\r\n".encode())

    async def report_after_a_moment() -> None:
        """A run that waits for nodes may not change for hours."""
        await asyncio.sleep(QUEUED_AFTER_SECONDS)
        await report()

    reporting = asyncio.create_task(report_after_a_moment())
    try:
        async with aclosing(engine.platform.changes(await engine.platform.refreshed(container))) as changes:
            async for seen in changes:
                if seen.phase is Phase.RUNNING:
                    return True
                latest = seen
                if engine.now() >= until:
                    await report()
    finally:
        reporting.cancel()
    return False


async def _write(client: Hijacked, pieces: Any) -> None:
    """Write all pieces of an output to the client."""
    async with aclosing(pieces) as each_piece:
        async for stream, data in each_piece:
            await client.write(stream, data)


@routes.post("/containers/{id}/resize")
async def resize(request: web.Request) -> web.Response:
    container = await container_of(request)
    terminal = engine_of(request).terminals.setdefault(container.uid, Terminal())
    await terminal.resize(*size_of(request))
    return web.Response(status=200)
