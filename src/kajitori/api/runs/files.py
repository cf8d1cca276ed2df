"""List and download the files of a run's checkpoint folder, while it runs and after it has ended.

A Pod of the run mounts the folder (`core.pods.reader`). The Web API asks for it with the caller's right to change the
run, and reads by running `member/files.py` in it with the caller's right to `kaji exec`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.resources import files as package_files
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.file_listings import MAX_LISTING_BYTES, MAX_PAGE, FileListings
from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller, User
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run, no_such_run
from kajitori.api.streams.answers import Chunks
from kajitori.api.views.storage import FileList, FileView
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.pods import reader
from kajitori.core.words import names
from kajitori.core.words.byte_ranges import ByteRange, read_range
from kajitori.core.words.times import format_time, seconds_since
from kajitori.errors import (
    FieldError,
    Forbidden,
    InvalidInput,
    KajitoriError,
    NotFound,
    Unavailable,
    Unsupported,
    WrongState,
)
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import PODS, Resource
from kajitori.kube.streams import Channel, ExecStream

router = APIRouter(tags=["runs"])

RENEW_SECONDS = 60.0
"""Age of the last request from which the next one is written down. The reader lives for `reader.IDLE_SECONDS` more."""
MAX_HEADER_BYTES = 32 << 20
"""Largest first line of the reader's output. A page has at most 10,000 entries."""
BINARY = "application/octet-stream"
TAR = "application/x-tar"


class Opening(Unavailable):
    """The folder is being opened. The same request succeeds a little later."""

    code = "Opening"


class PathParameters(Parameters):
    path: str = Field(default="", max_length=4096)
    """Path in the checkpoint folder, relative to it or as the run's members see it. Default: the folder itself."""
    wait: float = Field(default=20.0, ge=0, le=60)
    """Seconds to wait for a folder that has to be opened first. After that the answer is 503 with the code Opening."""


class ListParameters(PathParameters):
    continue_: str = Field(default="", alias="continue", max_length=4096)
    """The value of `continue` in the previous page's answer."""
    limit: int = Field(default=500, ge=1, le=10_000)
    """Largest number of entries in the answer."""


class ArchiveParameters(PathParameters):
    name: str = Field(default="", max_length=255, pattern=r"^([^./\x00][^/\x00]*|\.[^./\x00][^/\x00]*)?$")
    """First part of all names in the archive. Default: the last part of the path."""


@router.get(
    "/v1/runs/{namespace}/{name}/files", responses=describes(FileList), summary="List files of a run's checkpoint"
)
async def list_files(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[ListParameters, Query()]
) -> Response:
    """One page of a folder in the run's checkpoint folder, whether the run is running or has ended. Pages
    after the second one show the folder as that found it; a page may have fewer entries than `limit`. The first request
    opens the folder, which takes seconds; without further requests it is closed after five minutes. Needs the right to
    change the run and the right to run programs in its members."""
    with api.runs.files.one():
        opened = await _open(api, user, namespace, name, query)
        header, following = await _page(api.runs.listings, opened, query)
        return answer(_list_view(opened, header, following))


@router.get(
    "/v1/runs/{namespace}/{name}/files/content",
    responses=describes(None, media_type=BINARY) | {206: {"description": "The part of the file that `Range` names."}},
    summary="Download a file of a run's checkpoint",
)
async def read_file(
    api: Shared,
    user: Caller,
    namespace: str,
    name: str,
    query: Annotated[PathParameters, Query()],
    range: Annotated[str | None, Header(max_length=200)] = None,
    if_range: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """The bytes of one file. `Range` with one range of bytes is honoured; with `If-Range` only if the file has not
    changed since. A file that becomes shorter while it is read breaks the download off."""
    wanted = read_range(range or "")
    opened = await _open(api, user, namespace, name, query)
    if wanted is not None and if_range is not None:
        async with _ask(opened, {"op": "content", "length": 0}) as (header, _):
            wanted = wanted if if_range == _tag(header) else None
    part = {"offset": wanted.offset, "length": wanted.length} if wanted is not None else {}
    return await _stream(api, opened, {"op": "content", **part}, wanted)


@router.get(
    "/v1/runs/{namespace}/{name}/files/archive",
    responses=describes(None, media_type=TAR),
    summary="Download a folder of a run's checkpoint",
)
async def read_archive(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[ArchiveParameters, Query()]
) -> Response:
    """A tar archive of one folder or file. Its names begin with the last part of the path; for the checkpoint folder
    itself, with the run's name. Links that lead out of the folder are left out, and so are files that are deleted
    meanwhile."""
    opened = await _open(api, user, namespace, name, query)
    return await _stream(api, opened, {"op": "archive", "name": query.name or opened.base_name}, None)


# ------------------------------------------------------------------------------------------ opening


class Opened(msgspec.Struct, frozen=True):
    """A folder that can be read."""

    client: KubeClient
    """The caller's own."""
    run: RunObject
    pod: Pod
    folder: str
    path: str

    @property
    def base_name(self) -> str:
        """The last part of the path, or the run's name for the folder itself."""
        return self.path.rpartition("/")[2] or self.run.metadata.name


async def _open(api: Api, user: User, namespace: str, name: str, query: PathParameters) -> Opened:
    """Return the folder once it can be read. Raises Opening if that takes longer than the caller waits."""
    run = await find_run(api, user, namespace, name)
    await user.require("create", namespace, resource=PODS, subresource="exec")
    folder = _folder_of(api, run)
    try:
        path = reader.inner_path(query.path, (folder, *_written_path(run)))
    except FieldError as error:
        raise InvalidInput.one("path", error.message, value=query.path, hint=error.hint) from None
    until = time.monotonic() + query.wait
    changed = asyncio.Event()
    pod_key = (namespace, reader.reader_name(run.metadata.name))

    def note(resource: Resource, where: str, which: str) -> None:
        if resource == PODS and (where, which) == pod_key:
            changed.set()

    end = api.mirror.on_change(note)
    try:
        await renew(api, user.client, run)
        while True:
            changed.clear()
            pod = api.mirror.pods.get(pod_key)
            if pod is not None and _is_open(pod, run):
                return Opened(user.client, run, pod, folder, path)
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await changed.wait()
            except TimeoutError:
                raise Opening(
                    f"the checkpoint folder of {run.metadata.name} is being opened: {_progress(pod)}",
                    hint=f"try again in a few seconds; if it never opens, see kaji events {run.metadata.name}",
                ) from None
    finally:
        end()


def _folder_of(api: Api, run: RunObject) -> str:
    """Return the path of the checkpoint folder in members. Raises WrongState or Unsupported if nothing can be read."""
    name = run.metadata.name
    if run.metadata.deletion_timestamp:
        raise WrongState(f"{name} is being deleted", hint="its checkpoint is kept, unless that was asked for")
    attempt = run.current_status.attempt
    if attempt is None:
        raise WrongState(f"{name} has not started yet: it has no files", hint=f"see why: kaji explain {name}")
    folder = reader.mounted_at(attempt)
    if not folder:
        raise WrongState(
            f"{name} has no checkpoint folder: only such folders outlive a run's members",
            hint=f"copy from a running member: kaji cp {name}:PATH . ; next time: kaji run --checkpoint /ckpt …",
        )
    if api.cluster.policy.start.image is None:
        raise Unsupported(
            "checkpoint folders can't be opened here, because the policy names no image of Kajitori (start.image)",
            hint=f"copy from a running member: kaji cp {name}:{folder} .",
        )
    return folder


def _written_path(run: RunObject) -> tuple[str, ...]:
    """Return the path of the checkpoint in the spec, which a node that mounts nothing replaces by the folder's own."""
    spec = msgspec.json.decode(run.spec)
    checkpoint = spec.get("checkpoint") if isinstance(spec, dict) else None
    path = checkpoint.get("path") if isinstance(checkpoint, dict) else checkpoint
    return (path,) if isinstance(path, str) and path.startswith("/") else ()


async def renew(api: Api, client: KubeClient, run: RunObject) -> None:
    """Note in the run that its files are being read, unless that was done within the last minute.

    Raises Forbidden with a hint if the caller may not change the run."""
    current = api.mirror.runs.get((run.metadata.namespace, run.metadata.name), run)
    age_seconds = seconds_since(current.metadata.annotations.get(names.ANNOTATION_FILES_READ, ""), api.now())
    if age_seconds is not None and age_seconds < RENEW_SECONDS:
        return
    meta = run.metadata
    mark = {"uid": meta.uid, "annotations": {names.ANNOTATION_FILES_READ: format_time(api.now())}}
    try:
        await client.patch(RUNS, meta.name, {"metadata": mark}, meta.namespace)
    except Forbidden as error:
        hint = "a user who may change the run can open its folder for five minutes; you can read it then"
        raise Forbidden(error.message, hint=hint) from None
    except NotFound as error:
        raise no_such_run(api, meta.namespace, meta.name, error) from None


def _is_open(pod: Pod, run: RunObject) -> bool:
    owner = pod.metadata.controller
    return (
        owner is not None
        and owner.uid == run.metadata.uid
        and pod.status.phase == "Running"
        and not pod.metadata.deletion_timestamp
        and any(status.state.running is not None for status in pod.status.container_statuses)
    )


def _progress(pod: Pod | None) -> str:
    """Return a text that says what the reader waits for."""
    if pod is None:
        return "its reader has not been created yet"
    if pod.is_finished or pod.metadata.deletion_timestamp:
        return "an earlier reader is being removed"
    if not pod.spec.node_name:
        why = next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")
        return f"its reader has no node yet{': ' + why if why else ''}"
    waiting = next((s.state.waiting for s in pod.status.container_statuses if s.state.waiting is not None), None)
    reason = f"{waiting.reason} {waiting.message}".strip() if waiting is not None else ""
    return f"its reader starts on {pod.spec.node_name}{' (' + reason + ')' if reason else ''}"


# ------------------------------------------------------------------------------------------ reading


@asynccontextmanager
async def _ask(
    opened: Opened, request: Mapping[str, Any]
) -> AsyncGenerator[tuple[dict[str, Any], AsyncGenerator[bytes, None]]]:
    """Run the reader's program for one request. Yields its header and the bytes after it. Raises the error that the
    header names."""
    document = {"root": opened.folder, "path": opened.path, **request}
    command = ["python3", "-I", "-S", "-", msgspec.json.encode(document).decode()]
    meta = opened.pod.metadata
    program = await opened.client.open_exec(
        meta.namespace, meta.name, command=command, container=reader.CONTAINER, stdin=True
    )
    async with program:
        await program.write(_source())
        await program.close_stdin()
        output = _output(program)
        try:
            head, rest = b"", b""
            async for chunk in output:
                head, newline, rest = (head + chunk).partition(b"\n")
                if newline:
                    break
                if len(head) > MAX_HEADER_BYTES:
                    raise Unavailable("the reader's answer is too long")
            else:
                raise Unavailable("the reader gave no answer", hint="try again")
            header: dict[str, Any] = msgspec.json.decode(head)
            if "error" in header:
                raise _error_of(opened, header)
            yield header, _joined(rest, output)
        finally:
            await output.aclose()


def _source() -> bytes:
    return package_files("kajitori.member").joinpath("files.py").read_bytes()


async def _joined(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    if first:
        yield first
    async for chunk in rest:
        yield chunk


async def _output(program: ExecStream) -> AsyncGenerator[bytes, None]:
    """Yield the program's output. Raises Unavailable with its last words if it fails."""
    complaints = b""
    async for channel, payload in program:
        if channel == Channel.STDOUT:
            yield payload
        else:
            complaints = (complaints + payload)[-2000:]
    if program.exit_code != 0:
        words = complaints.decode(errors="replace").strip().rpartition("\n")[2] or program.message
        raise Unavailable(f"the folder can't be read: {words}", hint="try again")


def _error_of(opened: Opened, header: Mapping[str, Any]) -> KajitoriError:
    shown = opened.path or opened.folder
    match header["error"]:
        case "NotFound":
            hint = f"see what is there: kaji files {opened.run.metadata.name}"
            return NotFound(f"the checkpoint folder has no {shown!r}", hint=hint)
        case "Unreadable":
            hint = "its permissions keep the reader out: the run's program has to make it readable"
            return Forbidden(f"{shown} can't be read: {header['message']}", hint=hint)
        case "Outside":
            return InvalidInput.one(
                "path",
                str(header["message"]),
                value=opened.path,
                hint="links are followed only inside the checkpoint folder",
            )
        case "NotAFile":
            return InvalidInput.one("path", str(header["message"]), value=opened.path)
        case "IsFolder":
            hint = "download it as an archive: …/files/archive"
            return InvalidInput.one("path", str(header["message"]), value=opened.path, hint=hint)
        case "Cursor":
            return InvalidInput.one("continue", "is not from an earlier answer", hint="start again without it")
    return Unavailable(f"{shown} can't be read: {header['message']}", hint="try again")


async def _page(listings: FileListings, opened: Opened, query: ListParameters) -> tuple[dict[str, Any], str]:
    """Return the reader's header with one page of entries, and the `continue` of the next page.

    `continue` is a position in kept names, if there are some, and the cursor of the reader's program: with the cursor
    alone, the page reads the folder again."""
    position, _, cursor = query.continue_.rpartition(".")
    folder = opened.run.metadata.uid, opened.path
    is_brief = query.limit <= MAX_PAGE
    page = listings.page(position, folder, query.limit) if position and is_brief else None
    if page is not None:
        async with _ask(opened, {"op": "entries", "keys": page.keys}) as (header, _):
            following = f"{page.position}.{listings.cursor(page.keys[-1])}" if page.position else ""
            return {**header, "count": page.count}, following
    # Most people look at one page only, so the names are read with the second one.
    keep_bytes = MAX_LISTING_BYTES if cursor and is_brief else 0
    request = {"op": "list", "after": cursor, "limit": query.limit, "keep_bytes": keep_bytes}
    async with _ask(opened, request) as (header, _):
        rest = header.get("rest", "")
        kept = listings.keep(folder, rest.split("/"), header["count"]) if rest else ""
        following = header.get("next", "")
        return header, f"{kept}@0.{following}" if kept else following


def _list_view(opened: Opened, header: Mapping[str, Any], following: str) -> FileList:
    one = header.get("file")
    entries = [one] if one is not None else header["entries"]
    return FileList(
        folder=opened.folder,
        path=opened.path,
        node=opened.pod.spec.node_name,
        items=[_file_view(entry) for entry in entries],
        count=1 if one is not None else header["count"],
        is_file=one is not None,
        continue_=following or None,
    )


def _file_view(entry: Mapping[str, Any]) -> FileView:
    return FileView(
        name=entry["name"],
        kind=entry["kind"],
        size_bytes=entry["size"],
        modified_at=_time(entry["modified"]),
        readable=entry["readable"],
        leads_to=entry.get("leadsTo", ""),
    )


def _time(seconds: float) -> str:
    try:
        return format_time(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):  # a file's time can be set to any number
        return format_time(datetime.fromtimestamp(0, UTC))


async def _stream(api: Api, opened: Opened, request: Mapping[str, Any], wanted: ByteRange | None) -> Response:
    """Return the answer that passes on the reader's output. The reader's header is read first, so that its errors
    become errors of the API."""
    slot = api.runs.files.one()
    slot.__enter__()
    asked = _ask(opened, request)
    try:
        header, data = await asked.__aenter__()
    except BaseException:
        slot.__exit__(None, None, None)
        raise

    async def cleanup() -> None:
        slot.__exit__(None, None, None)
        await data.aclose()
        await asked.__aexit__(None, None, None)

    is_file = "size" in header
    size = header["end"] - header["start"] if is_file else None
    if is_file and wanted is not None and header["start"] >= header["size"]:
        await cleanup()
        return Response(status_code=416, headers={"Content-Range": f"bytes */{header['size']}"})
    stream = api.streams.stream(
        _kept_open(api, opened, data),
        kind="files",
        media_type=BINARY if is_file else TAR,
        cleanup=cleanup,
        size_bytes=size,
    )
    file_name = opened.base_name if is_file else f"{opened.base_name}.tar"
    stream.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"
    stream.headers["X-Content-Type-Options"] = "nosniff"
    if is_file:
        stream.headers["Accept-Ranges"] = "bytes"
        stream.headers["ETag"] = _tag(header)
        if wanted is not None:
            stream.status_code = 206
            stream.headers["Content-Range"] = f"bytes {header['start']}-{header['end'] - 1}/{header['size']}"
    return stream


def _tag(header: Mapping[str, Any]) -> str:
    return f'"{header["modified"]:x}-{header["size"]:x}"'


async def _kept_open(api: Api, opened: Opened, data: AsyncGenerator[bytes, None]) -> Chunks:
    """Pass the bytes on, and keep the folder open for as long as that takes."""
    renew_at = time.monotonic() + RENEW_SECONDS
    async for chunk in data:
        yield chunk
        if time.monotonic() >= renew_at:
            renew_at = time.monotonic() + RENEW_SECONDS
            await renew(api, opened.client, opened.run)
