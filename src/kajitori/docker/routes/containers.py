"""The life of containers: create, list, inspect, start, stop, kill, wait, remove."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from signal import Signals
from typing import Any

from aiohttp import web

from kajitori.docker.engine import Engine, engine_of, json_answer, json_object, sentence
from kajitori.docker.output import flag, number
from kajitori.docker.platform import run_path
from kajitori.docker.routes.absent import BUILDER_NAME, no_builds
from kajitori.docker.routes.networks import network_of
from kajitori.docker.translation.bodies import ContainerBody, Limits
from kajitori.docker.translation.container import Container, seconds_of
from kajitori.docker.translation.creation import EmptyFolders, put_networks, read_creation
from kajitori.docker.translation.faults import in_dockers_words
from kajitori.docker.translation.filters import (
    CONTAINER_FILTERS,
    check_container_filters,
    matching,
    parse_filters,
)
from kajitori.docker.translation.inspection import inspection, summary
from kajitori.docker.translation.update import read_update
from kajitori.errors import AlreadyExists, InvalidInput, KajitoriError, NotFound, WrongState

PRUNE_FILTERS = frozenset({"until", "label", "label!"})
CONDITIONS = ("not-running", "next-exit", "removed")
OUTPUT_SECONDS = 2.0
"""Time that attached clients have to read the rest of the output before the answer to a wait."""
PLATFORM_FAILED = 125
"""Exit code that stands for an unknown one, because the platform failed."""
STOP_GRACE = "10s"
"""Time after which Docker kills a program that was told to stop."""
KILLS = frozenset({"KILL", "SIGKILL", "9", ""})
TERMINATES = frozenset({"TERM", "SIGTERM", "15", "INT", "SIGINT", "2", "QUIT", "SIGQUIT", "3"})

routes = web.RouteTableDef()


async def container_of(request: web.Request) -> Container:
    """Return the container that the path names. Raises NotFound."""
    return await engine_of(request).platform.find(request.match_info["id"])


async def _whole(request: web.Request) -> Container:
    """Return the container that the path names. Raises WrongState for one of its ranks."""
    container = await container_of(request)
    if container.is_member:
        message = f"{container.shown_name} is one member of {container.name}, and members start and end together"
        raise WrongState(message, hint=f"to act on all of them, name {container.name}")
    return container


@routes.post("/containers/create")
async def create(request: web.Request) -> web.Response:
    engine = engine_of(request)
    body = await json_object(request, ContainerBody)
    platform = request.query.get("platform", "")
    name = request.query.get("name", "").removeprefix("/")
    if name.startswith(BUILDER_NAME):
        raise no_builds()
    creation = read_creation(body, name, await _empty_folders(engine, body))
    if platform:
        _, _, architecture = platform.partition("/")
        creation.spec["nodeSelector"] = {"kubernetes.io/arch": architecture.partition("/")[0] or platform}
    try:
        named_networks = [(await network_of(engine, key), names) for key, names in creation.notes["Networks"].items()]
    except NotFound as error:  # Docker's client would take a NotFound for one of the image, and pull it
        raise InvalidInput.one("", error.message, hint="docker network create NAME") from error
    creation.notes["Networks"] = networks = {str(network["Name"]): names for network, names in named_networks}
    if labels := {str(network["Name"]): network["Labels"] for network, _ in named_networks if network["Labels"]}:
        creation.notes["NetworkLabels"] = labels
    put_networks(creation, networks, [str(network["Name"]) for network, _ in named_networks if network["Internal"]])
    try:
        container = await engine.create(creation)
    except AlreadyExists as error:
        message = f'Conflict. The container name "/{creation.name}" is already in use: {error.message}'
        raise AlreadyExists(message, hint=error.hint) from error
    except InvalidInput as error:
        raise in_dockers_words(error) from error
    unenforced = [f"--network: {one['message']}" for one in container.findings if one["code"] == "NetworkNotEnforced"]
    return json_answer({"Id": container.id, "Warnings": creation.warnings + unenforced}, status=201)


async def _empty_folders(engine: Engine, body: Mapping[str, Any]) -> EmptyFolders:
    """Return the empty folders that policy offers, if the container may need one."""
    host = body.get("HostConfig") or {}
    if not (body.get("Volumes") or host.get("Binds") or host.get("Mounts") or host.get("Tmpfs")):
        return EmptyFolders()
    namespace = engine.platform.namespace
    answer = await engine.platform.get("/v1/volumes", {"namespace": namespace} if namespace else None)
    return EmptyFolders.offered(answer["items"])


@routes.get("/containers/json")
async def list_containers(request: web.Request) -> web.Response:
    engine = engine_of(request)
    filters = parse_filters(request.query.get("filters", ""), CONTAINER_FILTERS)
    check_container_filters(filters)
    limit = number(request.query, "limit")
    everything = flag(request.query, "all") or limit > 0 or bool(filters.keys() & {"status", "exited"})
    containers = matching(await engine.platform.containers(), filters)
    shown = [one for one in containers if everything or one.is_active]
    now = engine.now()
    shown = shown[:limit] if limit > 0 else shown
    return json_answer([summary(one, now, engine.ports.of(one), engine.networks_of(one)) for one in shown])


@routes.get("/containers/{id}/json")
async def inspect(request: web.Request) -> web.Response:
    engine, container = engine_of(request), await container_of(request)
    members = await engine.platform.members(container)
    events = await engine.platform.events(container) if container.has_health_check else []
    shown = inspection(container, members, engine.ports.of(container), engine.networks_of(container), events)
    if flag(request.query, "size"):
        shown |= {"SizeRw": 0, "SizeRootFs": 0}
    return json_answer(shown)


@routes.post("/containers/{id}/start")
async def start(request: web.Request) -> web.Response:
    container = await _whole(request)
    if container.is_active:
        return web.Response(status=304)
    await engine_of(request).start(container)
    return web.Response(status=204)


@routes.post("/containers/{id}/stop")
async def stop(request: web.Request) -> web.Response:
    container = await _whole(request)
    if not container.is_active:
        return web.Response(status=304)
    await _stop(engine_of(request), container, _grace(request, container))
    return web.Response(status=204)


@routes.post("/containers/{id}/restart")
async def restart(request: web.Request) -> web.Response:
    container = await _whole(request)
    engine = engine_of(request)
    if container.is_active:
        await engine.restart(container, _grace(request, container))
    else:
        await engine.start(container)
        engine.tell("restart", container)
    return web.Response(status=204)


@routes.post("/containers/{id}/kill")
async def kill(request: web.Request) -> web.Response:
    signal = request.query.get("signal", "").upper()
    is_end = signal in KILLS | TERMINATES
    container = await _whole(request) if is_end else await container_of(request)
    if not container.is_active:
        raise WrongState(f"container {container.shown_name} is not running")
    if not is_end:
        await _send_signal(engine_of(request), container, signal)
        return web.Response(status=204)
    grace = None if signal in TERMINATES else "0s"
    await engine_of(request).platform.stop(container, grace)
    engine_of(request).tell("kill", container, signal="15" if grace is None else "9")
    if grace is not None:  # a container that was killed can be removed at once
        await engine_of(request).stopped(await engine_of(request).platform.refreshed(container))
    return web.Response(status=204)


async def _send_signal(engine: Engine, container: Container, signal: str) -> None:
    """Send the programs of all members a signal, or that of one. Raises WrongState if one of them did not get it."""
    try:
        number = Signals(int(signal)) if signal.isdecimal() else Signals[f"SIG{signal.removeprefix('SIG')}"]
    except (ValueError, KeyError):
        raise InvalidInput.one("--signal", f"invalid signal: {signal}", hint="write a name, such as USR1") from None
    ranks = {"ranks": str(container.rank)} if container.is_member else {}
    body = {"signal": number.name.removeprefix("SIG")} | ranks
    answer = await engine.platform.post(run_path(container, "/signal-programs"), body)
    for item in answer["items"]:
        if error := item.get("error"):
            raise WrongState(f"cannot kill container: {container.shown_name}: {error}")
    engine.tell("kill", container, signal=str(number.value))


@routes.post("/containers/{id}/wait")
async def wait(request: web.Request) -> web.StreamResponse:
    """Answer at the end. The head is sent at once, because clients start the container only after they have seen it."""
    condition = request.query.get("condition") or "not-running"
    if condition not in CONDITIONS:
        raise InvalidInput.one("condition", f"invalid condition: {condition!r}", hint=f"use {', '.join(CONDITIONS)}")
    container = await container_of(request)
    engine = engine_of(request)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    container = await engine.as_started(container)
    begun = asyncio.ensure_future(engine.begun(container)) if not container.is_active else None
    await response.prepare(request)
    await response.write(b"")
    exit_code: int | None = None
    answer: dict[str, object] = {}
    try:
        if condition == "removed":
            container = await engine.removed(container, begun)
        else:
            if begun is not None and condition == "next-exit":
                container = await begun
            if container.is_active:
                exit_code = await engine.exited(container, condition)
                await engine.read_to_its_end(container, OUTPUT_SECONDS)
        answer["StatusCode"] = container.exit_code if exit_code is None else exit_code
    except KajitoriError as error:  # the head of the answer was sent
        answer |= {"StatusCode": PLATFORM_FAILED, "Error": {"Message": sentence(error)}}
    finally:
        if begun is not None:
            begun.cancel()
    await response.write(json.dumps(answer).encode())
    await response.write_eof()
    return response


@routes.delete("/containers/{id}")
async def remove(request: web.Request) -> web.Response:
    container = await _whole(request)
    force = flag(request.query, "force")
    if flag(request.query, "link"):
        raise InvalidInput.one("--link", "there are no links between containers", hint="leave it out")
    if container.is_active and not force:
        message = f'cannot remove container "/{container.name}": container is running'
        raise WrongState(f"{message}: stop the container before removing or force remove")
    await engine_of(request).platform.delete(container, at_once=force, checkpoint=flag(request.query, "v"))
    return web.Response(status=204)


@routes.post("/containers/prune")
async def prune(request: web.Request) -> web.Response:
    """Remove containers that have ended, and those that were never started."""
    engine = engine_of(request)
    filters = parse_filters(request.query.get("filters", ""), PRUNE_FILTERS)
    labels = {key: value for key, value in filters.items() if key == "label"}
    unused = [one for one in matching(await engine.platform.containers(), labels) if not one.is_active]
    for limit in filters.get("until", ()):
        before = _until(limit, engine.now())
        unused = [one for one in unused if seconds_of(str(one.view["createdAt"])) < before]
    unwanted = filters.get("label!", frozenset())
    unused = [one for one in unused if not unwanted & {*one.labels, *(f"{k}={v}" for k, v in one.labels.items())}]
    deleted = []
    for container in unused:
        try:
            await engine.platform.delete(container, at_once=False)
        except NotFound:
            continue
        deleted.append(container.id)
    return json_answer({"ContainersDeleted": deleted, "SpaceReclaimed": 0})


@routes.post("/containers/{id}/rename")
async def rename(request: web.Request) -> web.Response:
    engine, container = engine_of(request), await container_of(request)
    if container.was_never_started:
        await engine.rename(container, request.query.get("name", "").removeprefix("/"))
        return web.Response(status=204)
    hint = f"docker run --name {request.query.get('name', 'NEW')}, and docker rm {container.name}"
    message = "a run that was started keeps its name, because its Pods, its address and its checkpoint have it"
    raise InvalidInput.one("rename", message, hint=hint)


@routes.post("/containers/{id}/update")
async def update(request: web.Request) -> web.Response:
    """Change the restart policy of a container. It needs no new start, as everything that can be changed."""
    container, body = await _whole(request), await json_object(request, Limits)
    patch, warnings = read_update(container, body)
    if patch:
        await engine_of(request).platform.call("PATCH", run_path(container), body=patch)
    return json_answer({"Warnings": warnings})


@routes.post("/containers/{id}/pause")
@routes.post("/containers/{id}/unpause")
async def pause(request: web.Request) -> web.Response:
    container = await container_of(request)
    hint = f"to free them: docker stop {container.name}, and docker start {container.name} to begin again"
    message = "a frozen container would keep its cores, memory and GPUs without using them"
    raise InvalidInput.one("pause", message, hint=hint)


async def _stop(engine: Engine, container: Container, grace: str | None) -> Container:
    """Stop a run and wait for its end."""
    await engine.platform.stop(container, grace)
    container = await engine.stopped(await engine.platform.refreshed(container))
    engine.tell("stop", container)
    return container


def _grace(request: web.Request, container: Container) -> str | None:
    """Return the time that a program has to end: the client's, or Docker's own if the container has no other; None is
    that of the run. A run that saves checkpoints, and one that `kaji` made, keep the time that policy gives them."""
    text = request.query.get("t", "")
    if text:
        return f"{number(request.query, 't')}s" if text.isascii() and text.isdigit() else None
    spec = container.spec
    return None if spec.get("grace") or spec.get("checkpoint") or not container.notes else STOP_GRACE


def _until(text: str, now: float) -> float:
    from kajitori.core.formats.quantities import QuantityError, parse_duration_seconds

    try:
        return now - parse_duration_seconds(text)
    except QuantityError:
        pass
    try:
        return float(text)
    except ValueError:
        try:
            return seconds_of(text)
        except (ValueError, OverflowError):
            hint = "write a duration such as 24h, or a time"
            raise InvalidInput.one("until", "is neither a duration nor a time", value=text, hint=hint) from None
