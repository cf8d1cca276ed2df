"""Routes for commands in a container: exec."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiohttp import web

from kajitori.docker.engine import Engine, engine_of, json_answer, json_object
from kajitori.docker.execution import Command
from kajitori.docker.hijack import STDERR, STDOUT, Hijacked, answered, hijacked, size_of, until_either
from kajitori.docker.routes.containers import container_of
from kajitori.docker.translation.bodies import ExecBody, ExecStartBody
from kajitori.errors import KajitoriError, WrongState

routes = web.RouteTableDef()


@routes.post("/containers/{id}/exec")
async def create_exec(request: web.Request) -> web.Response:
    engine, container = engine_of(request), await container_of(request)
    if container.is_active and container.state != "running":
        container = await engine.settled(container)
    if container.state != "running":
        hint = f"docker ps -a tells its state; why it waits: kaji explain {container.run}"
        raise WrongState(f"container {container.name} is not running", hint=hint)
    command = Command.of(container, await json_object(request, ExecBody))
    engine.commands.add(command)
    engine.tell("exec_create: " + " ".join(command.words), container, execID=command.id)
    return json_answer({"Id": command.id}, status=201)


@routes.post("/exec/{id}/start")
async def start_exec(request: web.Request) -> web.StreamResponse:
    engine = engine_of(request)
    command = engine.commands.find(request.match_info["id"])
    body = await json_object(request, ExecStartBody) if request.can_read_body else {}
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
            await until_either(asyncio.shield(running), client.lost.wait())
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
        stdin = client.typed(command.detach_keys) if command.tty else client.input()
    try:
        code = await command.run(engine.platform, write, stdin)
    except KajitoriError as error:
        await write(STDERR, f"kaji: {error.message}\r\n".encode())
        code = command.exit_code or 126
    except ConnectionError:
        return  # the client is gone
    engine.tell("exec_die", command.container, execID=command.id, exitCode=str(code))


@routes.get("/exec/{id}/json")
async def inspect_exec(request: web.Request) -> web.Response:
    return json_answer(engine_of(request).commands.find(request.match_info["id"]).inspection())


@routes.post("/exec/{id}/resize")
async def resize_exec(request: web.Request) -> web.Response:
    command = engine_of(request).commands.find(request.match_info["id"])
    await command.resize(*size_of(request))
    return web.Response(status=200)
