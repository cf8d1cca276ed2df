"""Ask the reader: run its program (`member/files.py`) in its Pod, and read the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files as package_files
from typing import Any

import msgspec

from kajitori.api.runs.files.opening import OpenFolder
from kajitori.api.runs.members.commands import Container, first_line, pieces_of, program
from kajitori.core.pods import reader
from kajitori.errors import (
    Forbidden,
    InvalidInput,
    KajitoriError,
    NotFound,
    Unavailable,
)

MAX_HEADER_BYTES = 32 << 20
"""Largest first line of the reader's output. A page has at most 10,000 entries."""


@asynccontextmanager
async def ask_reader(
    opened: OpenFolder, request: Mapping[str, Any]
) -> AsyncGenerator[tuple[dict[str, Any], AsyncGenerator[bytes, None]]]:
    """Run the reader's program for one request. Yields its header and the bytes after it. Raises the error that the
    header names."""
    document = {"root": opened.folder, "path": opened.path, **request}
    command = ["python3", "-I", "-S", "-", msgspec.json.encode(document).decode()]
    container = Container(opened.client, opened.pod, reader.CONTAINER)
    async with program(container, command, stdin=True) as running:
        await running.write(_source())
        await running.close_stdin()
        output = pieces_of(running, "the folder can't be read")
        try:
            head, rest = await first_line(output, MAX_HEADER_BYTES)
            header: dict[str, Any] = msgspec.json.decode(head)
            if "error" in header:
                raise _error_of(opened, header)
            yield header, rest
        finally:
            await output.aclose()


def _source() -> bytes:
    return package_files("kajitori.member").joinpath("files.py").read_bytes()


def _error_of(opened: OpenFolder, header: Mapping[str, Any]) -> KajitoriError:
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
