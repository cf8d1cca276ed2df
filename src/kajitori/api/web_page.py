"""The web page: files that were built from `web/`, and one document for all of its addresses.

The files are the same for everybody and hold no data. The page asks the calls of the Web API for data, with the
session of its browser.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.requests import HTTPConnection
from starlette.responses import Response

from kajitori.errors import NotFound

router = APIRouter(include_in_schema=False)

BUILT = Path(__file__).parent.parent / "web_page"
"""Folder with the built files; it is missing in a checkout in which `make web` was never run."""

NONCE = "KAJITORI_STYLE_NONCE"
"""Placeholder in the document for the nonce of its style elements."""
COLOURS_COOKIE = "kaji-colours"
"""Cookie with the colours that a person chose, `light` or `dark`. The page sets it (web/src/app/colours.ts)."""
SYSTEM_COLOURS = b'content="light dark"'
"""The color-scheme of the document if a person chose neither light nor dark."""
PAGES = (
    "/runs",
    "/start",
    "/queue",
    "/cluster",
    "/board",
    "/usage",
    "/history",
    "/audit",
    "/events",
    "/mine",
    "/sweeps",
    "/compare",
    "/networks",
    "/policy",
)
"""Beginnings of the page's addresses, beside `/`."""
DAY_SECONDS = 24 * 3600
LEAST_COMPRESSED_BYTES = 1024

_NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Kajitori</title>
<p>The web page was not built in this installation. In a checkout: <code>make web</code>, then start the server again.
The command line has everything: <code>kaji --help</code>.</html>
"""


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A file of the page, in the forms in which it is sent."""

    plain: bytes
    compressed: bytes | None
    """By gzip; None if that is not worth it."""
    media_type: str
    tag: str


async def page(request: HTTPConnection) -> Response:
    """Answer with the page, which finds in its address what to show."""
    return _document(await _files(), request.cookies.get(COLOURS_COOKIE, ""))


async def missing_page(request: HTTPConnection) -> Response:
    """Answer with the page for an address that it does not have, which it says."""
    answer = await page(request)
    answer.status_code = 404 if answer.status_code == 200 else answer.status_code
    return answer


for _address in ("/", *PAGES, *(f"{_page}/{{rest:path}}" for _page in PAGES)):
    router.add_api_route(_address, page, methods=["GET"])


@router.get("/favicon.svg")
async def icon(request: Request) -> Response:
    """Answer with the icon of the page."""
    return _answer(request, (await _files()).get("favicon.svg"), f"max-age={DAY_SECONDS}")


@router.get("/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    """Answer with a script or style. Its name contains the hash of its content, so a browser may keep it."""
    return _answer(request, (await _files()).get(f"assets/{name}"), f"max-age={365 * DAY_SECONDS}, immutable")


def _document(files: Mapping[str, BuiltFile], colours: str) -> Response:
    """Answer with the page. `colours` is the person's choice; the browser paints with them before the page's scripts
    have arrived."""
    found = files.get("index.html")
    nonce = secrets.token_urlsafe(16)
    text = found.plain.replace(NONCE.encode(), nonce.encode()) if found is not None else _NOT_BUILT
    if colours in ("light", "dark"):
        text = text.replace(SYSTEM_COLOURS, f'content="{colours}"'.encode())
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": content_policy(nonce),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Response(text, 200 if found is not None else 503, headers, "text/html")


def content_policy(nonce: str) -> str:
    """Return the content security policy: the page may load its own files and styles with this nonce, and nothing from
    another server."""
    rules = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": f"'self' 'nonce-{nonce}'",
        "style-src-attr": "'unsafe-inline'",  # positions of rows in long lists; no text of a user becomes one
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _answer(request: Request, found: BuiltFile | None, keeping: str) -> Response:
    """Answer with a file, which browsers keep as `keeping` says."""
    if found is None:
        raise NotFound(
            f"the web page has no {request.url.path:.200}", hint="load it again: it may be of another version"
        )
    headers = {"Cache-Control": f"public, {keeping}", "ETag": found.tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    if found.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.compressed, 200, headers | {"Content-Encoding": "gzip"}, found.media_type)
    return Response(found.plain, 200, headers, found.media_type)


async def _files() -> dict[str, BuiltFile]:
    return await asyncio.to_thread(_read_all)


@cache
def _read_all() -> dict[str, BuiltFile]:
    """Return all files of the page by their paths: a few hundred kB, read when the page is first opened."""
    paths = [path for path in BUILT.rglob("*") if path.is_file()] if BUILT.is_dir() else []
    return {path.relative_to(BUILT).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> BuiltFile:
    plain = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    compressed = gzip.compress(plain, 9, mtime=0) if len(plain) >= LEAST_COMPRESSED_BYTES else None
    return BuiltFile(plain, compressed, media_type, f'"{hashlib.sha256(plain).hexdigest()[:32]}"')
