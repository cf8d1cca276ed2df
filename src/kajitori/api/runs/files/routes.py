"""List and download the files of a run's checkpoint folder, while it runs and after it has ended.

A Pod of the run mounts the folder (`core.pods.reader`). The Web API asks for it with the caller's right to change the
run, and reads by running `member/files.py` in it with the caller's right to `kaji exec`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.file_listings import MAX_LISTING_BYTES, MAX_PAGE, FileListings
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.runs.files.byte_ranges import ByteRange, read_range
from kajitori.api.runs.files.opening import RENEW_SECONDS, OpenFolder, PathParameters, open_folder, renew
from kajitori.api.runs.files.reading import ask_reader
from kajitori.api.streams.answers import Chunks
from kajitori.api.views.storage import FileList, FileView
from kajitori.core.formats.times import format_time

router = APIRouter(tags=["runs"])

BINARY = "application/octet-stream"
TAR = "application/x-tar"


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
        opened = await open_folder(api, user, namespace, name, query)
        header, following = await _page_of(api.runs.listings, opened, query)
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
    opened = await open_folder(api, user, namespace, name, query)
    if wanted is not None and if_range is not None:
        async with ask_reader(opened, {"op": "content", "length": 0}) as (header, _):
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
    opened = await open_folder(api, user, namespace, name, query)
    return await _stream(api, opened, {"op": "archive", "name": query.name or opened.base_name}, None)


async def _page_of(listings: FileListings, opened: OpenFolder, query: ListParameters) -> tuple[dict[str, Any], str]:
    """Return the reader's header with one page of entries, and the `continue` of the next page.

    `continue` is a position in kept names, if there are some, and the cursor of the reader's program: with the cursor
    alone, the page reads the folder again."""
    position, _, cursor = query.continue_.rpartition(".")
    folder = opened.run.metadata.uid, opened.path
    is_brief = query.limit <= MAX_PAGE
    page = listings.page(position, folder, query.limit) if position and is_brief else None
    if page is not None:
        async with ask_reader(opened, {"op": "entries", "keys": page.keys}) as (header, _):
            following = f"{page.position}.{listings.cursor(page.keys[-1])}" if page.position else ""
            return {**header, "count": page.count}, following
    # Most people look at one page only, so the names are read with the second one.
    keep_bytes = MAX_LISTING_BYTES if cursor and is_brief else 0
    request = {"op": "list", "after": cursor, "limit": query.limit, "keep_bytes": keep_bytes}
    async with ask_reader(opened, request) as (header, _):
        rest = header.get("rest", "")
        kept = listings.keep(folder, rest.split("/"), header["count"]) if rest else ""
        following = header.get("next", "")
        return header, f"{kept}@0.{following}" if kept else following


def _list_view(opened: OpenFolder, header: Mapping[str, Any], following: str) -> FileList:
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


async def _stream(api: Api, opened: OpenFolder, request: Mapping[str, Any], wanted: ByteRange | None) -> Response:
    """Return the answer that passes on the reader's output. The reader's header is read first, so that its errors
    become errors of the API."""
    slot = api.runs.files.one()
    slot.__enter__()
    asked = ask_reader(opened, request)
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
        _chunks_of(api, opened, data),
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


async def _chunks_of(api: Api, opened: OpenFolder, data: AsyncGenerator[bytes, None]) -> Chunks:
    """Pass the bytes on, and keep the folder open for as long as that takes."""
    renew_at = time.monotonic() + RENEW_SECONDS
    async for chunk in data:
        yield chunk
        if time.monotonic() >= renew_at:
            renew_at = time.monotonic() + RENEW_SECONDS
            await renew(api, opened.client, opened.run)
