"""Routes for the streams of containers: attach, logs, exec, resize, stats, top and events."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

from aiohttp import web

from kajitori.client.attached_output import Shown
from kajitori.client.detach_keys import DETACH_KEYS, DetachKeys, detach_keys_of
from kajitori.client.member_streams import attach_url, running
from kajitori.client.processes import LOOK, read_processes
from kajitori.core.spec.reasons import Phase
from kajitori.core.words.quantities import round_memory
from kajitori.docker.engine import Engine, Terminal, engine_of, json_answer
from kajitori.docker.events import EVENT_FILTERS, passes
from kajitori.docker.execution import Command, output_of, pass_through
from kajitori.docker.hijack import MULTIPLEXED, RAW, STDERR, STDOUT, Hijacked, answered, frame, hijacked
from kajitori.docker.output import (
    QUEUED_AFTER_SECONDS,
    LogQuery,
    flag,
    follow_start,
    moment,
    phase_words,
    read_output,
)
from kajitori.docker.platform import run_path
from kajitori.docker.routes.containers import container_of
from kajitori.docker.translation.container import Container, seconds_of
from kajitori.docker.translation.filters import parse_filters
from kajitori.docker.translation.stats import Meter
from kajitori.errors import InvalidInput, KajitoriError, NotFound, WrongState

CHUNK_BYTES = 64 * 1024
PROMPT_SECONDS = 0.3
"""Time after which a terminal's log has the beginning of a line, such as a prompt."""
STATS_SECONDS = 1.0

routes = web.RouteTableDef()


@routes.get("/containers/{id}/logs")
async def logs(request: web.Request) -> web.StreamResponse:
    container = await container_of(request)
    query = LogQuery.of(request.query)
    engine = engine_of(request)
    is_raw = container.has_terminal
    response = web.StreamResponse(headers={"Content-Type": RAW if is_raw else MULTIPLEXED})
    await response.prepare(request)
    with engine.reading(container):
        async with aclosing(read_output(engine.platform, container, query)) as pieces:
            async for stream, data in pieces:
                await response.write(data if is_raw else frame(stream, data))
    await response.write_eof()
    return response


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
                showing = _show(engine, container, client, streams, query, begun, keys)
                await _until_either(showing, client.lost.wait())
        finally:
            if begun is not None:
                begun.cancel()
    return answered()


async def _show(
    engine: Engine,
    container: Container,
    client: Hijacked,
    streams: tuple[int, ...],
    query: Any,
    begun: asyncio.Future[Container] | None,
    keys: bytes,
) -> None:
    platform = engine.platform
    if flag(query, "logs") and streams:
        await _write(client, read_output(platform, container, LogQuery(streams)))
    if not flag(query, "stream"):
        return
    if begun is not None:
        container = await begun
    has_input = flag(query, "stdin") and container.has_stdin
    if container.has_terminal:
        await _at_terminal(engine, container, client, keys if has_input else None)
        await _tell_end(engine, container, client)
        return
    now = LogQuery(streams, follow=True, tail=0)
    output = follow_start(platform, container, streams) if begun is not None else read_output(platform, container, now)
    feeding = asyncio.create_task(_feed(engine, container, client)) if has_input else None
    try:
        if streams:
            await _write(client, output)
            await _tell_end(engine, container, client)
        elif feeding is not None:
            await feeding
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _tell_end(engine: Engine, container: Container, client: Hijacked) -> None:
    """Say on stderr why a container ended if neither its program nor its user ended it."""
    if not client.is_detached and (line := await engine.untold_end(container)):
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
            await pass_through(stream, drop, _input(client))


async def _at_terminal(engine: Engine, container: Container, client: Hijacked, keys: bytes | None) -> None:
    """Connect the client with the container's terminal, after what was printed there before.

    `keys` are those that detach; None if the client sends no input.
    """
    terminal = engine.terminals.setdefault(container.uid, Terminal())
    if not await _until_running(engine, container, client):
        ended = await engine.platform.refreshed(container)
        await _write(client, read_output(engine.platform, ended, LogQuery((STDOUT,), newest_start=True)))
        return
    container = await engine.platform.refreshed(container)
    target = await engine.platform.signed_in()
    url = attach_url(target, container.view, rank=container.rank, stdin=keys is not None)
    shown = _AfterLog(client)
    try:
        async with running(target, url) as stream:
            terminal.stream = stream
            if terminal.size is not None:
                await terminal.resize(*terminal.size)
            reading = asyncio.create_task(shown.read_log(engine, container))
            try:
                await pass_through(stream, shown.write, _typed(client, keys) if keys is not None else None)
                await reading
            finally:
                reading.cancel()
    finally:
        terminal.stream = None


class _AfterLog:
    """Shows what a terminal printed before the client was attached, and then what comes, nothing twice."""

    def __init__(self, client: Hijacked) -> None:
        self._client = client
        self._shown = Shown()
        self._held: bytes | None = b""
        """Output that came while the log was read; None once it was shown."""

    async def write(self, stream: int, data: bytes) -> None:
        if self._held is None:
            await self._client.write(stream, self._shown.new(data))
        else:
            self._held += data

    async def read_log(self, engine: Engine, container: Container) -> None:
        """Show the log, and what came meanwhile and is not in it."""
        await asyncio.sleep(PROMPT_SECONDS)
        log = b""
        with contextlib.suppress(KajitoriError):
            async with aclosing(
                read_output(engine.platform, container, LogQuery((STDOUT,), newest_start=True))
            ) as pieces:
                log = b"".join([data async for _, data in pieces])
        if log.endswith(b"\n") and not log.endswith(b"\r\n"):  # the log's, since a terminal ends lines with both
            log = log[:-1]
        held, self._held = self._held or b"", None
        await self._client.write(STDOUT, self._shown.begin(log, held) + self._shown.new(held))


async def _typed(client: Hijacked, keys: bytes) -> AsyncIterator[bytes]:
    """Yield what is typed until `keys` are, which close the connection: the program goes on."""
    detaching = DetachKeys(keys)
    async for data in _input(client):
        passed, is_detached = detaching.feed(data)
        if passed:
            yield passed
        if is_detached:
            client.is_detached = True
            client.writer.close()
            break
    await asyncio.Event().wait()  # the end of a client's input does not end that of a terminal


async def _until_running(engine: Engine, container: Container, client: Hijacked | None = None) -> bool:
    """Wait until a container runs. Return False if it ends without. `client` is told that it waits, and why."""
    told, until = "", engine.now() + QUEUED_AFTER_SECONDS
    async with aclosing(engine.platform.changes(await engine.platform.refreshed(container))) as changes:
        async for seen in changes:
            if seen.phase is Phase.RUNNING:
                return True
            text = phase_words(seen)
            if client is not None and seen.is_active and text != told and engine.now() >= until:
                told = text
                await client.write(STDERR, f"{text}\r\n".encode())
    return False


async def _write(client: Hijacked, pieces: Any) -> None:
    async with aclosing(pieces) as found:
        async for stream, data in found:
            await client.write(stream, data)


async def _until_either(*works: Any) -> None:
    """Run until one of them has ended; a client that is gone is no error."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, ConnectionError):
                raise result


@routes.post("/containers/{id}/resize")
async def resize(request: web.Request) -> web.Response:
    container = await container_of(request)
    terminal = engine_of(request).terminals.setdefault(container.uid, Terminal())
    await terminal.resize(*_size(request))
    return web.Response(status=200)


def _size(request: web.Request) -> tuple[int, int]:
    """Return columns and lines. Raises InvalidInput."""
    try:
        return int(request.query["w"]), int(request.query["h"])
    except (KeyError, ValueError):
        raise InvalidInput.one("", "h and w must be numbers") from None


@routes.post("/containers/{id}/exec")
async def create_exec(request: web.Request) -> web.Response:
    engine, container = engine_of(request), await container_of(request)
    if container.is_active and container.state != "running":
        container = await engine.settled(container)
    if container.state != "running":
        hint = f"docker ps -a tells its state; why it waits: kaji explain {container.run}"
        raise WrongState(f"container {container.name} is not running", hint=hint)
    command = Command.of(container, await request.json())
    engine.commands.add(command)
    engine.tell("exec_create: " + " ".join(command.words), container, execID=command.id)
    return json_answer({"Id": command.id}, status=201)


@routes.post("/exec/{id}/start")
async def start_exec(request: web.Request) -> web.StreamResponse:
    engine = engine_of(request)
    command = engine.commands.find(request.match_info["id"])
    body = await request.json() if request.can_read_body else {}
    if command.is_running or command.exit_code is not None:
        raise WrongState(f"exec command {command.id} has already been started")
    if (await engine.platform.refreshed(command.container)).state != "running":
        raise WrongState(f"container {command.container.name} is not running")
    command.is_running = True
    engine.tell("exec_start: " + " ".join(command.words), command.container, execID=command.id)
    if body.get("Detach"):
        _in_background(_run(engine, command, None))
        return web.Response(status=200)
    # As in Docker's daemon, the start says whether streams are told apart, and not the terminal of the command.
    async with hijacked(request, is_raw=bool(body.get("Tty"))) as client:
        running = _in_background(_run(engine, command, client))
        try:
            await _until_either(asyncio.shield(running), client.lost.wait())
        finally:
            if not client.is_detached:
                running.cancel()
    return answered()


_background: set[asyncio.Task[None]] = set()


def _in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


async def _run(engine: Engine, command: Command, client: Hijacked | None) -> None:
    """Run a command to its end. Its output is dropped if there is no client, or once the client has detached."""

    async def write(stream: int, data: bytes) -> None:
        if client is not None and not client.is_detached and (command.stdout if stream == STDOUT else command.stderr):
            await client.write(stream, data)

    stdin = None
    if client is not None and command.stdin:
        stdin = _typed(client, command.detach_keys) if command.tty else _input(client)
    try:
        code = await command.run(engine.platform, write, stdin)
    except KajitoriError as error:
        await write(STDERR, f"kaji: {error.message}\r\n".encode())
        code = command.exit_code or 126
    except ConnectionError:
        return  # the client is gone
    engine.tell("exec_die", command.container, execID=command.id, exitCode=str(code))


async def _input(client: Hijacked) -> AsyncIterator[bytes]:
    while data := await client.reader.read(CHUNK_BYTES):
        yield data


@routes.get("/exec/{id}/json")
async def inspect_exec(request: web.Request) -> web.Response:
    return json_answer(engine_of(request).commands.find(request.match_info["id"]).inspection())


@routes.post("/exec/{id}/resize")
async def resize_exec(request: web.Request) -> web.Response:
    command = engine_of(request).commands.find(request.match_info["id"])
    await command.resize(*_size(request))
    return web.Response(status=200)


@routes.get("/containers/{id}/top")
async def top(request: web.Request) -> web.Response:
    engine, container = engine_of(request), await container_of(request)
    if container.state != "running":
        raise WrongState(f"container {container.name} is not running")
    code, told, complaint = await output_of(engine.platform, container, ("/bin/sh", "-c", LOOK))
    processes = read_processes(told.decode("utf-8", "replace"))
    if not processes:
        why = complaint.decode("utf-8", "replace").strip() or f"exit code {code}"
        hint = "docker top needs /bin/sh and head in the image"
        raise InvalidInput.one("", f"the processes of {container.name} can't be read: {why}", hint=hint)
    rows = [
        [str(one.pid), str(one.parent), one.cpu_words, round_memory(one.memory_bytes), one.command] for one in processes
    ]
    return json_answer({"Titles": ["PID", "PPID", "TIME", "RSS", "CMD"], "Processes": rows})


@routes.get("/containers/{id}/stats")
async def stats(request: web.Request) -> web.StreamResponse:
    engine, container = engine_of(request), await container_of(request)
    meter = Meter(container)
    if not flag({"stream": request.query.get("stream", "true")}, "stream"):
        meter.add(await _sample(engine, container), engine.now())
        return json_answer(meter.document())
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        try:
            meter.add(await _sample(engine, container), engine.now())
        except NotFound:
            break
        await response.write(json.dumps(meter.document()).encode() + b"\n")
        await asyncio.sleep(STATS_SECONDS)
    return response


async def _sample(engine: Engine, container: Container) -> list[dict[str, Any]]:
    """Return the latest values of the container's ranks; of one rank if it is one."""
    answer = await engine.platform.get(run_path(container, "/stats"), {"limit": 1000})
    ranks: list[dict[str, Any]] = answer["ranks"]
    return ranks


@routes.get("/events")
async def events(request: web.Request) -> web.StreamResponse:
    engine = engine_of(request)
    filters = parse_filters(request.query.get("filters", ""), EVENT_FILTERS)
    since, until = moment(request.query.get("since", ""), "since"), moment(request.query.get("until", ""), "until")
    begin = seconds_of(since[:26] + "Z") if since else engine.now()
    end = seconds_of(until[:26] + "Z") if until else None
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b"")
    async with aclosing(engine.events.follow(begin, end)) as found:
        async for event in found:
            if passes(event, filters):
                await response.write(json.dumps(event).encode() + b"\n")
    await response.write_eof()
    return response
