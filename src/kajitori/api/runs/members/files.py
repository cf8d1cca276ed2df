"""Files inside a running member: list a folder, download, and upload, as `kaji cp` copies them.

A shell in the member does the work, so the image needs sh, find, stat and head, and tar for folders. The API server
decides whether the caller may do so (`create pods/exec`), by the caller's own credentials.
"""

from __future__ import annotations

import posixpath
import re
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from stat import S_ISDIR, S_ISREG
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.runs.members.commands import (
    Output,
    first_line,
    member_container,
    output_of,
    pieces_of,
    program,
    rest_of,
)
from kajitori.api.runs.members.processes import MemberParameters
from kajitori.api.views.storage import FileView, MemberFiles, UploadedFile
from kajitori.core.formats.times import format_time
from kajitori.errors import Forbidden, InvalidInput, KajitoriError, NotFound, Unavailable

router = APIRouter(tags=["runs"])

MOST_ENTRIES = 5000
"""Largest number of entries of a folder that are listed."""
MAX_HEADER_BYTES = 4096
BINARY, TAR = "application/octet-stream", "application/x-tar"

_MISSING, _DENIED, _IS_FOLDER, _INCOMPLETE = 41, 42, 43, 44
_LIST = f"""
p=${{1:-.}}
[ -e "$p" ] || exit {_MISSING}
if [ -d "$p" ]; then
  cd -- "$p" 2>/dev/null && [ -r . ] || exit {_DENIED}
  pwd
  find . -mindepth 1 -maxdepth 1 -exec stat -L -c '%f %s %Y %n' {{}} + 2>/dev/null | head -n {MOST_ENTRIES + 1}
else
  echo; stat -L -c '%f %s %Y %n' -- "$p"
fi
"""
_SEND = f"""
[ -e "$1" ] || exit {_MISSING}
[ -r "$1" ] || exit {_DENIED}
if [ -d "$1" ]; then
  cd -- "$1" || exit {_DENIED}
  here=$(pwd); name=${{here##*/}}
  echo "folder 0"
  cd ..; exec tar -cf - -- "${{name:-.}}"
fi
size=$(stat -L -c %s -- "$1") || exit {_DENIED}
echo "file $size"
exec head -c "$size" -- "$1"
"""
_RECEIVE = f"""
[ -d "$1" ] && exit {_IS_FOLDER}
case $1 in */*) folder=${{1%/*}}/ ;; *) folder=./ ;; esac
[ -d "$folder" ] || exit {_MISSING}
part=$folder.kaji-upload-$$
trap 'rm -f -- "$part"' EXIT
cat 2>/dev/null > "$part" || exit {_DENIED}
[ "$(wc -c < "$part")" -eq "$2" ] || exit {_INCOMPLETE}
mv -f -- "$part" "$1" || exit {_DENIED}
"""
"""An interrupted upload leaves what was there before."""
_ENTRY = re.compile(rb"([0-9a-f]+) (\d+) (-?\d+) (.*)", re.DOTALL)


class FilesParameters(MemberParameters):
    path: str = Field(default="", max_length=4096, pattern=r"^[^\x00]*$")
    """Path in the member. Relative paths begin in the folder in which its programs start, which is also the default."""


@router.get(
    "/v1/runs/{namespace}/{name}/member-files", responses=describes(MemberFiles), summary="List files in a member"
)
async def list_member_files(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[FilesParameters, Query()]
) -> Response:
    """The entries of a folder in a running member, at most the first 5,000. Links are followed; those that lead nowhere
    are left out. Needs the right to run programs in members."""
    container = await member_container(api, user, namespace, name, query.rank)
    output = await output_of(container, ("/bin/sh", "-c", _LIST, "sh", query.path))
    _check(output, query.path)
    where, _, listed = output.text.partition(b"\n")
    entries = _entries_of(listed)
    items = sorted(entries[:MOST_ENTRIES], key=lambda file: (file.kind != "folder", file.name))
    return answer(
        MemberFiles(
            rank=query.rank,
            node=container.pod.spec.node_name,
            path=where.decode(errors="replace") or query.path,
            is_file=not where,
            items=items,
            has_more=len(entries) > MOST_ENTRIES,
        )
    )


@router.get(
    "/v1/runs/{namespace}/{name}/member-files/content",
    responses=describes(None, media_type=BINARY),
    summary="Download a file or folder of a member",
)
async def read_member_file(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[FilesParameters, Query()]
) -> Response:
    """The bytes of one file as it is now, or a folder as a tar archive. A file that becomes shorter while it is read
    breaks the download off."""
    _require_path(query)
    async with AsyncExitStack() as opening:
        container = await member_container(api, user, namespace, name, query.rank)
        opening.enter_context(api.runs.files.one())
        running = await opening.enter_async_context(program(container, ("/bin/sh", "-c", _SEND, "sh", query.path)))
        output = pieces_of(running, f"{query.path} can't be read")
        try:
            head, data = await first_line(output, MAX_HEADER_BYTES)
        except Unavailable:
            _check(Output(b"", "", running.exit_code), query.path)
            raise
        kind, size = head.decode(errors="replace").split()
        is_file = kind == "file"
        stream = api.streams.stream(
            data,
            kind="files",
            media_type=BINARY if is_file else TAR,
            cleanup=opening.pop_all().aclose,
            size_bytes=int(size) if is_file else None,
        )
    base = posixpath.basename(query.path.rstrip("/")).lstrip(".") or name
    file_name = base if is_file else f"{base}.tar"
    stream.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"
    stream.headers["X-Content-Type-Options"] = "nosniff"
    return stream


@router.put(
    "/v1/runs/{namespace}/{name}/member-files/content",
    responses=describes(UploadedFile),
    openapi_extra={
        "requestBody": {"required": True, "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
    },
    summary="Upload a file into a member",
)
async def write_member_file(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, query: Annotated[FilesParameters, Query()]
) -> Response:
    """The body is the file's content; the request needs a Content-Length. The file replaces one of its name once all
    of it has arrived. It goes with the member, unless the path is in a checkpoint folder or a volume."""
    _require_path(query)
    size = request.headers.get("content-length", "")
    if not size.isdigit():
        raise InvalidInput.one("Content-Length", "is missing", hint="send the size of the file")
    request.state.reason = f"{query.path} of rank {query.rank}"  # for the audit trail
    container = await member_container(api, user, namespace, name, query.rank)
    async with program(container, ("/bin/sh", "-c", _RECEIVE, "sh", query.path, size), stdin=True) as running:
        try:
            async for piece in request.stream():
                if piece:
                    await running.write(piece)
        except ClientDisconnect:
            raise Unavailable("the connection broke before the file was complete", hint="send it again") from None
        await running.close_stdin()
        output = await rest_of(running)
    _check(output, query.path)
    return answer(UploadedFile(rank=query.rank, path=query.path, size_bytes=int(size)))


def _require_path(query: FilesParameters) -> None:
    if not query.path:
        raise InvalidInput.one("path", "is missing", hint="name a file or a folder of the member")


def _check(output: Output, path: str) -> None:
    """Raise the error for the exit code of one of the scripts."""
    if output.exit_code == 0:
        return
    errors: dict[int, KajitoriError] = {
        _MISSING: NotFound(
            f"the member has no {path or '.'}", hint="a folder has to exist before a file is put into it"
        ),
        _DENIED: Forbidden(f"{path or '.'} can't be opened: the member's user lacks the permission"),
        _IS_FOLDER: InvalidInput.one("path", "is a folder", value=path, hint="name the file: FOLDER/NAME"),
        _INCOMPLETE: Unavailable("the file did not arrive whole", hint="send it again"),
    }
    hint = "this needs sh, find, stat and head in the image, and tar for folders; else use kaji cp"
    raise errors.get(output.exit_code or 0) or Unavailable(f"{path or '.'} can't be opened: {output.why}", hint=hint)


def _entries_of(listed: bytes) -> list[FileView]:
    """Return the entries that `stat` told. A line without numbers is the rest of a name with a line feed."""
    found: list[tuple[int, int, int, bytes]] = []
    for line in listed.split(b"\n"):
        if match := _ENTRY.fullmatch(line):
            found.append((int(match[1], 16), int(match[2]), int(match[3]), match[4]))
        elif found and line:
            mode, size, modified, name = found.pop()
            found.append((mode, size, modified, name + b"\n" + line))
    return [
        FileView(
            name=name.removeprefix(b"./").decode(errors="replace"),
            kind=_kind_of(mode),
            size_bytes=size if S_ISREG(mode) else 0,
            modified_at=format_time(datetime.fromtimestamp(max(0, min(modified, 2**37)), UTC)),
            readable=S_ISREG(mode) or S_ISDIR(mode),
        )
        for mode, size, modified, name in found
    ]


def _kind_of(mode: int) -> Literal["folder", "file", "other"]:
    return "folder" if S_ISDIR(mode) else "file" if S_ISREG(mode) else "other"
