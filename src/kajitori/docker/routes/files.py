"""Files of containers: `docker cp` in both directions, by the member's own tar."""

from __future__ import annotations

import asyncio
import json
import posixpath
import tarfile
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from aiohttp import web

from kajitori.docker.engine import Engine, engine_of
from kajitori.docker.execution import Command, output_of
from kajitori.docker.hijack import CHUNK_BYTES, STDOUT
from kajitori.docker.placed_files import SYSTEM_FOLDERS
from kajitori.docker.platform import run_path
from kajitori.docker.routes.containers import container_of
from kajitori.docker.translation.container import Container, seconds_of
from kajitori.errors import InvalidInput, KajitoriError, NotFound, WrongState

_DIRECTORY, _SYMLINK, _DEVICE, _PIPE, _SOCKET = 1 << 31, 1 << 27, 1 << 26, 1 << 25, 1 << 24
"""Bits of Go's file modes, by which the client tells kinds of files."""
_GO_KINDS = {0o040000: _DIRECTORY, 0o120000: _SYMLINK, 0o060000: _DEVICE, 0o010000: _PIPE, 0o140000: _SOCKET}

_STAT = 'stat -c "%f %s %Y" "$1" && readlink "$1"; test -e "$1" -o -L "$1"'

OPENING_SECONDS = 60
"""Longest time for which the checkpoint of an ended run may be opened: a Pod is started for that."""
FIRST_BYTES = 16 * 1024
"""At least the first entry of an archive, also with a long name."""

routes = web.RouteTableDef()


@routes.head("/containers/{id}/archive")
async def stat(request: web.Request) -> web.Response:
    container, path = await _container_and_path(request)
    if container.state != "running":
        return web.Response(headers=_stat_header(await _stat_at_rest(engine_of(request), container, path)))
    return web.Response(headers=_stat_header(await _stat(engine_of(request), container, _full(path))))


@routes.get("/containers/{id}/archive", allow_head=False)
async def read(request: web.Request) -> web.StreamResponse:
    engine = engine_of(request)
    container, path = await _container_and_path(request)
    if container.state != "running":
        return await _read_at_rest(request, engine, container, path)
    path = _full(path)
    properties = await _stat(engine, container, path)
    folder, name = posixpath.split(path.rstrip("/") or "/")
    words = ["tar", "-cf", "-", "-C", folder or "/", "--", name or "."]
    response = web.StreamResponse(headers={"Content-Type": "application/x-tar", **_stat_header(properties)})
    await response.prepare(request)

    async def write(stream: int, data: bytes) -> None:
        if stream == STDOUT:
            await response.write(data)

    if await Command(container, words, words).run(engine.platform, write, None):
        raise ConnectionResetError("tar failed in the container")  # the broken answer tells the client
    await response.write_eof()
    return response


@routes.put("/containers/{id}/archive")
async def write(request: web.Request) -> web.Response:
    engine = engine_of(request)
    container, path = await _container_and_path(request)
    if not container.is_active:
        await engine.files_before_start.add(container, _full(path), _body(request))
        return web.Response(status=200)
    if container.state != "running":
        raise _not_running(container, "files can be copied into it before its start, and while it runs")
    path = _full(path)
    properties = await _stat(engine, container, path)
    if not properties["mode"] & (_DIRECTORY | _SYMLINK):
        raise InvalidInput.one("", f"{path} is not a directory")
    words = ["tar", "-xf", "-", "-C", path]
    complaints: list[bytes] = []

    async def note(stream: int, data: bytes) -> None:
        complaints.append(data)

    code = await Command(container, words, words, stdin=True).run(engine.platform, note, _body(request))
    if code:
        text = b"".join(complaints).decode("utf-8", "replace").strip()
        raise InvalidInput.one("", f"the files could not be unpacked in the container: {text or f'tar: {code}'}")
    return web.Response(status=200)


async def _container_and_path(request: web.Request) -> tuple[Container, str]:
    """Return the container, and the path as the client wrote it."""
    container, path = await container_of(request), request.query.get("path", "")
    if not path:
        raise InvalidInput.one("path", "bad parameter: path is empty")
    return container, path


def _full(path: str) -> str:
    """Return the absolute path: those of `docker cp` begin at the root."""
    return posixpath.normpath(posixpath.join("/", path))


def _not_running(container: Container, when: str) -> WrongState:
    folder = container.checkpoint_path
    later = f"those in its checkpoint {folder} also later" if folder else "to keep some: --label kaji.checkpoint=/PATH"
    message = f"container {container.name} is {container.state}, not running"
    return WrongState(message, hint=f"{when}; {later}")


def _is_in_checkpoint(container: Container, full: str) -> bool:
    """Whether a path of an ended container is in its checkpoint, which outlives its program."""
    folder = container.checkpoint_path
    return container.has_ended and bool(folder) and (full == folder or full.startswith(f"{folder}/"))


async def _checkpoint_archive(engine: Engine, container: Container, full: str) -> AsyncGenerator[bytes]:
    """Yield a tar archive of a file or folder in the checkpoint, as the Web API makes it from its own Pod."""
    params = {"path": full, "name": posixpath.basename(full), "wait": OPENING_SECONDS}
    async with aclosing(engine.platform.chunks(run_path(container, "/files/archive"), params)) as chunks:
        async for chunk in chunks:
            yield chunk


async def _beginning(chunks: AsyncIterator[bytes]) -> bytes:
    data = b""
    async for chunk in chunks:
        data += chunk
        if len(data) >= FIRST_BYTES:
            break
    return data


def first_entry(data: bytes) -> tuple[int, int, int, str]:
    """Return mode, size, time and link of the first entry of a tar archive that begins with this data."""
    with tarfile.open(fileobj=BytesIO(data), mode="r|") as archive:
        entry = archive.next()
    if entry is None:
        raise NotFound("the archive is empty")
    kind = 0o040000 if entry.isdir() else 0o120000 if entry.issym() else 0o100000
    return kind | entry.mode, entry.size, int(entry.mtime), entry.linkname


async def _answer_with(request: web.Request, chunks: AsyncGenerator[bytes], full: str) -> web.StreamResponse:
    """Answer with a tar archive, whose first entry is what the client asked for."""
    data = await _beginning(chunks)
    properties = file_stat(full, *first_entry(data))
    response = web.StreamResponse(headers={"Content-Type": "application/x-tar", **_stat_header(properties)})
    await response.prepare(request)
    await response.write(data)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response


async def _stat_at_rest(engine: Engine, container: Container, path: str) -> dict[str, Any]:
    """Return the known properties of a file in a container that does not run: a file that was copied into it, or a
    folder that the client names as one or that every image has. Raises NotFound and WrongState."""
    if container.is_active:
        raise _not_running(container, "files can be copied while it runs")
    full = _full(path)
    if _is_in_checkpoint(container, full):
        async with aclosing(_checkpoint_archive(engine, container, full)) as chunks:
            return file_stat(full, *first_entry(await _beginning(chunks)))
    async with engine.files_before_start.opened(container) as placed:
        mode_and_size = placed.stat(full)
    if mode_and_size is None and (path.endswith(("/", "/.")) or full in SYSTEM_FOLDERS or full in _folders(container)):
        mode_and_size = 0o040755, 4096
    if mode_and_size is None and container.was_never_started:
        hint = "before the start, only files that were copied into a container can be read"
        raise NotFound(f"Could not find the file {full} in container {container.name}", hint=hint)
    if mode_and_size is None:
        raise _not_running(container, "files can be copied out of it while it runs")
    return file_stat(full, *mode_and_size, _created(container), "")


async def _read_at_rest(request: web.Request, engine: Engine, container: Container, path: str) -> web.StreamResponse:
    """Answer with files of an ended container's checkpoint, or files that were copied into one that was never
    started."""
    if _is_in_checkpoint(container, _full(path)):
        async with aclosing(_checkpoint_archive(engine, container, _full(path))) as chunks:
            return await _answer_with(request, chunks, _full(path))
    if not container.was_never_started:
        raise _not_running(container, "files can be copied out of it while it runs")
    properties = await _stat_at_rest(engine, container, path)
    async with engine.files_before_start.opened(container) as placed:
        body = await asyncio.to_thread(placed.tar, _full(path), _created(container))
    return web.Response(body=body, content_type="application/x-tar", headers=_stat_header(properties))


def _created(container: Container) -> int:
    return int(seconds_of(str(container.view["createdAt"])))


def _folders(container: Container) -> set[str]:
    """Return the folders that a container surely has: those of its volumes, and its working folder."""
    folders = {posixpath.normpath(use["path"]) for use in container.spec.get("volumes") or ()}
    return folders | {posixpath.normpath(str(container.spec.get("workingDir") or "/"))}


async def _stat(engine: Engine, container: Container, path: str) -> dict[str, Any]:
    """Return the properties of a file that Docker's client asks for. Raises NotFound if there is none."""
    words = ["/bin/sh", "-c", _STAT, "sh", path]
    try:
        code, output, errors = await output_of(engine.platform, container, words)
    except KajitoriError as error:
        error.hint = "docker cp needs /bin/sh, stat and tar in the image"
        raise
    lines = output.decode("utf-8", "replace").splitlines()
    if code or not lines:
        why = errors.decode("utf-8", "replace").strip()
        raise NotFound(f"Could not find the file {path} in container {container.name}: {why}")
    try:
        mode_text, size, modified = lines[0].split()
        mode, size_bytes, seconds = int(mode_text, 16), int(size), int(modified)
    except ValueError:  # the image's own stat is another program
        raise InvalidInput.one("", f"stat in the container answered {lines[0][:80]!r}") from None
    return file_stat(path, mode, size_bytes, seconds, lines[1] if len(lines) > 1 else "")


def file_stat(path: str, mode: int, size: int, modified: int, link: str) -> dict[str, Any]:
    """Return a file's description with Go's bits for its kind."""
    return {
        "name": posixpath.basename(path) or "/",
        "size": size,
        "mode": _GO_KINDS.get(mode & 0o170000, 0) | mode & 0o777,
        "mtime": _time(modified),
        "linkTarget": posixpath.join(posixpath.dirname(path), link) if link else "",
    }


def _time(seconds: int) -> str:
    """Return a file's time; the beginning of 1970 for one that Go's clients can't read: it may be any number."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return "1970-01-01T00:00:00Z"


def _stat_header(properties: dict[str, Any]) -> dict[str, str]:
    return {"X-Docker-Container-Path-Stat": b64encode(json.dumps(properties).encode()).decode()}


async def _body(request: web.Request) -> AsyncIterator[bytes]:
    while data := await request.content.read(CHUNK_BYTES):
        yield data


@routes.get("/containers/{id}/changes")
async def changes(request: web.Request) -> web.Response:
    container = await container_of(request)
    hint = container.what_is_kept or f"to look into it: docker exec {container.name} ls -l /PATH"
    raise InvalidInput.one("diff", "only nodes know what a program changed in its image", hint=hint)


@routes.get("/containers/{id}/export")
async def export(request: web.Request) -> web.Response:
    container = await container_of(request)
    hint = container.what_is_kept or f"docker cp {container.name}:/PATH ."
    raise InvalidInput.one("export", "images stay on the nodes", hint=hint)
