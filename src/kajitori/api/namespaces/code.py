"""Upload and download of code. Needs the right to create runs in the code's namespace.

A client asks whether the code is in the store (`GET /v1/code/DIGEST`) and which parts are (`GET …/parts`), sends the
missing parts (`PUT …/parts/NUMBER`), and completes the upload (`POST …/complete`). Each step may be repeated, on any
server.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.requests.bodies import body_of, takes
from kajitori.api.rights import User
from kajitori.api.views.base import View
from kajitori.blobs.code import Code, CodeStore, no_such_code
from kajitori.blobs.code_room import NamespaceFull
from kajitori.cluster.runs.stored_runs import code_digests
from kajitori.codepack.layout import check_digest
from kajitori.codepack.parts import GZIP, MAX_COMPRESSED_BYTES, MEDIA_TYPE, PART_BYTES, from_gzip
from kajitori.core.documents.faults import Document
from kajitori.errors import TooLarge, Unavailable, Unsupported

router = APIRouter(tags=["code"])

PART_SECONDS = 300.0
"""Longest time for the upload of one part; enough for a slow line. A caller that stops sending frees its slot."""

_BINARY: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}


class CodeView(View):
    """Code that is in the store."""

    digest: str
    namespace: str
    size_bytes: int
    """Size of the archive before compression."""
    compressed_bytes: int
    """Size of a download."""
    parts: int


class CodePart(View):
    """A part that is in the store."""

    number: int
    sha256: list[str]
    """Digests of the stored versions: one, unless the code was edited during an upload."""


class CodeParts(View):
    """The parts of an upload that have arrived, and the sizes of parts and archives."""

    items: list[CodePart]
    part_bytes: int
    """Size of every part except the last."""
    max_bytes: int
    """Largest size of a whole archive."""


class CodeParameters(Parameters):
    namespace: str = Field(default="", max_length=253)
    """Namespace of the runs that the code is for. Default: the server's own."""


class PartParameters(CodeParameters):
    sha256: str = Field(max_length=200)
    """SHA-256 of the part before it was compressed."""


class CompleteRequest(Document):
    """The parts of a complete upload."""

    parts: list[str]
    """SHA-256 of each part before it was compressed, in order."""
    size: int
    """Size of the whole archive in bytes."""


CodeQuery = Annotated[CodeParameters, Query()]
Digest = Annotated[str, Path(description="`sha256:` and the SHA-256 of the archive.")]


def bounds_its_own_body(scope: Scope) -> bool:
    """Whether a request uploads a part of an archive, or a file into a member: these routes read the body themselves,
    and have limits of their own or pass it on."""
    path = str(scope["path"])
    return scope["method"] == "PUT" and (path.startswith("/v1/code/") or path.endswith("/member-files/content"))


@router.get("/v1/code/{digest}", responses=describes(CodeView), summary="Show whether code is in the store")
async def get_code(api: Shared, user: Caller, digest: Digest, query: CodeQuery) -> Response:
    """404 if the code is not complete in the store and has to be uploaded. Code that is there is kept long enough for a
    run that is submitted soon."""
    store, namespace = await _allowed(api, user, query)
    code = await store.find(namespace, digest)
    if code is None:
        raise no_such_code(namespace, digest)
    return answer(_view(namespace, code))


@router.head("/v1/code/{digest}", responses=describes(None), summary="Check whether code is in the store")
async def head_code(api: Shared, user: Caller, digest: Digest, query: CodeQuery) -> Response:
    """200 if it is, else 404; no body."""
    return await get_code(api, user, digest, query)


@router.get("/v1/code/{digest}/parts", responses=describes(CodeParts), summary="List the parts of code in the store")
async def get_parts(api: Shared, user: Caller, digest: Digest, query: CodeQuery) -> Response:
    """Lists the parts of an upload that have arrived, and says into which parts an archive has to be cut."""
    store, namespace = await _allowed(api, user, query)
    parts = await store.parts(namespace, digest)
    items = [CodePart(number=number, sha256=sums) for number, sums in sorted(parts.items())]
    return answer(CodeParts(items=items, part_bytes=PART_BYTES, max_bytes=store.limits.size_bytes))


@router.put(
    "/v1/code/{digest}/parts/{number}",
    responses=describes(CodePart),
    openapi_extra={"requestBody": {"required": True, "content": _BINARY | {GZIP: _BINARY[MEDIA_TYPE]}}},
    summary="Upload a part of code",
)
async def put_part(
    api: Shared,
    user: Caller,
    request: Request,
    digest: Digest,
    number: Annotated[int, Path(description="Counted from 0.")],
    query: Annotated[PartParameters, Query()],
) -> Response:
    """The body is gzip data, or one Zstandard frame with the content's size in its header. Each part except the last
    has `partBytes` bytes."""
    store, namespace = await _allowed(api, user, query)
    check_digest(digest)
    store.check_part(number, query.sha256)
    async with api.callers.uploads.turn(user.name):
        try:
            frame = await _body(request)
            if request.headers.get("content-type", "").partition(";")[0].strip() == GZIP:
                frame = await asyncio.to_thread(from_gzip, frame)
            await store.put_part(namespace, digest, number, query.sha256, frame)
        except NamespaceFull as full:
            raise full.with_runs(_runs_by_code(api, namespace)) from None
    return answer(CodePart(number=number, sha256=[query.sha256]))


@router.post(
    "/v1/code/{digest}/complete",
    responses=describes(CodeView),
    openapi_extra=takes(CompleteRequest),
    summary="Complete an upload of code",
)
async def complete(api: Shared, user: Caller, request: Request, digest: Digest, query: CodeQuery) -> Response:
    """The code can be read from then on. 409 (`PartsMissing`) if parts are missing; 422 if the parts together do not
    match the digest."""
    wanted = await body_of(request, CompleteRequest)
    store, namespace = await _allowed(api, user, query)
    return answer(_view(namespace, await store.complete(namespace, digest, wanted.parts, wanted.size)))


@router.get(
    "/v1/code/{digest}/bytes",
    responses={**describes(None), 200: {"description": "The archive, a tar file.", "content": _BINARY}},
    summary="Download code",
)
async def get_bytes(api: Shared, user: Caller, digest: Digest, query: CodeQuery) -> Response:
    """The archive as a Zstandard stream, to be unpacked with `zstd -d | tar -x`."""
    store, namespace = await _allowed(api, user, query)
    code, frames = await store.open(namespace, digest)
    return api.streams.stream(frames, kind="code", media_type=MEDIA_TYPE, size_bytes=code.compressed_bytes)


async def _allowed(api: Api, user: User, query: CodeParameters) -> tuple[CodeStore, str]:
    """Return the store and the namespace. Raises Forbidden unless the caller may create runs there, even if it knows
    the digest."""
    if api.stores.code is None:
        hint = "put the code into the image or on a volume, or ask the operators of this server to set up a store"
        raise Unsupported("this server keeps no code", hint=hint)
    namespace = query.namespace or api.namespace
    await user.require("create", namespace)
    return api.stores.code, namespace


def _runs_by_code(api: Api, namespace: str) -> dict[str, set[str]]:
    """Return the names of a namespace's runs, by the digest of their code."""
    runs: dict[str, set[str]] = {}
    for (run_namespace, name), run in api.mirror.runs.items():
        if run_namespace == namespace:
            for digest in code_digests(run):
                runs.setdefault(digest, set()).add(name)
    return runs


async def _body(request: Request) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_COMPRESSED_BYTES:
        raise _too_large(int(announced))
    body = bytearray()
    try:
        async with asyncio.timeout(PART_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_COMPRESSED_BYTES:
                    raise _too_large(len(body))
    except ClientDisconnect:
        raise Unavailable("the connection broke before the part was complete", hint="send it again") from None
    except TimeoutError:
        raise Unavailable(f"the part did not arrive in {PART_SECONDS:.0f} s", hint="send it again") from None
    return bytes(body)


def _too_large(size_bytes: int) -> TooLarge:
    return TooLarge(
        f"the part has {size_bytes} bytes or more; {MAX_COMPRESSED_BYTES} are allowed",
        hint=f"cut the archive into parts of {PART_BYTES} bytes, and compress each",
    )


def _view(namespace: str, code: Code) -> CodeView:
    return CodeView(
        digest=code.digest,
        namespace=namespace,
        size_bytes=code.size_bytes,
        compressed_bytes=code.compressed_bytes,
        parts=len(code.parts),
    )
