"""Code on its way into the store, and out of it, for whoever may create runs in its namespace.

An upload asks whether the code is there (`GET /v1/code/DIGEST`), which parts are (`GET …/parts`), sends those that are
not (`PUT …/parts/NUMBER`), and says that this is all (`POST …/complete`). Each step may be repeated, on any server.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from kajitori.api.auth import Caller, User
from kajitori.api.bodies import json_body
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.paging import Parameters
from kajitori.api.runs.views import View
from kajitori.blobs.code import Code, CodeStore, no_such_code
from kajitori.blobs.code_room import NamespaceFull
from kajitori.cluster.runs.stored_runs import code_digests
from kajitori.codepack.layout import check_digest
from kajitori.codepack.parts import MAX_COMPRESSED_BYTES, MEDIA_TYPE, PART_BYTES
from kajitori.core.documents.faults import Document, read
from kajitori.errors import InvalidInput, TooLarge, Unavailable, Unsupported

router = APIRouter(tags=["code"])

PART_SECONDS = 300.0
"""Longer than a part takes on a slow line; who does not send makes room for others."""

_BINARY: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}


class CodeView(View):
    """Code that is there."""

    digest: str
    namespace: str
    size_bytes: int
    """Of the archive, before compression."""
    compressed_bytes: int
    """What is sent of it to who reads it."""
    parts: int


class CodePart(View):
    """A part that is there."""

    number: int
    sha256: list[str]
    """One, unless the code was edited during an upload."""


class CodeParts(View):
    """What of an upload has arrived, and how an archive is cut."""

    items: list[CodePart]
    part_bytes: int
    """Of every part but the last."""
    max_bytes: int
    """Of a whole archive."""


class CodeParameters(Parameters):
    namespace: str = Field(default="", max_length=253)
    """Namespace of the runs that the code is for. Default: the server's own."""


class PartParameters(CodeParameters):
    sha256: str = Field(max_length=200)
    """Of the part before it was compressed."""


class CompleteRequest(Document):
    """All of an upload."""

    parts: list[str]
    """The SHA-256 of each part in their order, before it was compressed."""
    size: int
    """Bytes of the whole archive."""


Asked = Annotated[CodeParameters, Query()]
Digest = Annotated[str, Path(description="`sha256:` and the SHA-256 of the archive.")]


def bounds_its_own_body(scope: Scope) -> bool:
    """Whether a request is for a route here that takes more than others may send, and reads it when it is its turn."""
    return scope["method"] == "PUT" and str(scope["path"]).startswith("/v1/code/")


@router.get("/v1/code/{digest}", responses=describes(CodeView), summary="Whether code is there")
async def get_code(api: Shared, user: Caller, digest: Digest, query: Asked) -> Response:
    """404 where it is not, or not all of it: then it has to be uploaded. Where it is, it stays for a run that is
    submitted soon."""
    store, namespace = await _allowed(api, user, query)
    code = await store.find(namespace, digest)
    if code is None:
        raise no_such_code(namespace, digest)
    return answer(_view(namespace, code))


@router.head("/v1/code/{digest}", responses=describes(None), summary="Whether code is there, in a word")
async def head_code(api: Shared, user: Caller, digest: Digest, query: Asked) -> Response:
    """200 or 404."""
    return await get_code(api, user, digest, query)


@router.get("/v1/code/{digest}/parts", responses=describes(CodeParts), summary="Which parts of code are there")
async def get_parts(api: Shared, user: Caller, digest: Digest, query: Asked) -> Response:
    """What of an upload has arrived, and how an archive is to be cut."""
    store, namespace = await _allowed(api, user, query)
    found = await store.parts(namespace, digest)
    items = [CodePart(number=number, sha256=sums) for number, sums in sorted(found.items())]
    return answer(CodeParts(items=items, part_bytes=PART_BYTES, max_bytes=store.limits.size_bytes))


@router.put(
    "/v1/code/{digest}/parts/{number}",
    responses=describes(CodePart),
    openapi_extra={"requestBody": {"required": True, "content": _BINARY}},
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
    """One Zstandard frame that says its content's size. All parts but the last hold `partBytes` bytes."""
    store, namespace = await _allowed(api, user, query)
    check_digest(digest)
    store.check_part(number, query.sha256)
    async with api.uploads.turn(user.name):
        try:
            await store.put_part(namespace, digest, number, query.sha256, await _body(request))
        except NamespaceFull as full:
            raise full.with_runs(_runs_by_code(api, namespace)) from None
    return answer(CodePart(number=number, sha256=[query.sha256]))


@router.post(
    "/v1/code/{digest}/complete",
    responses=describes(CodeView),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CompleteRequest"}}},
        }
    },
    summary="Say that all of code is uploaded",
)
async def complete(api: Shared, user: Caller, request: Request, digest: Digest, query: Asked) -> Response:
    """It is readable from then on. 409 (`PartsMissing`) where parts are still to come; 422 where the parts together are
    not what the digest says."""
    wanted, faults, _ = read(CompleteRequest, await json_body(request), "")
    if faults or wanted is None:
        raise InvalidInput(faults)
    store, namespace = await _allowed(api, user, query)
    return answer(_view(namespace, await store.complete(namespace, digest, wanted.parts, wanted.size)))


@router.get(
    "/v1/code/{digest}/bytes",
    responses={**describes(None), 200: {"description": "The archive, a tar file.", "content": _BINARY}},
    summary="Read code",
)
async def get_bytes(api: Shared, user: Caller, digest: Digest, query: Asked) -> Response:
    """As a Zstandard stream: `zstd -d | tar -x`."""
    store, namespace = await _allowed(api, user, query)
    code, frames = await store.open(namespace, digest)
    return api.streams.stream(frames, kind="code", media_type=MEDIA_TYPE, size_bytes=code.compressed_bytes)


async def _allowed(api: Api, user: User, query: CodeParameters) -> tuple[CodeStore, str]:
    """The store, and the namespace that he may create runs in. Knowing a digest is no right."""
    if api.code is None:
        hint = "code can be part of the image, or lie on a volume; whoever runs this server may give it a store"
        raise Unsupported("this server keeps no code", hint=hint)
    namespace = query.namespace or api.namespace
    await user.require("create", namespace)
    return api.code, namespace


def _runs_by_code(api: Api, namespace: str) -> dict[str, set[str]]:
    """The names of a namespace's runs, by the digest of their code."""
    found: dict[str, set[str]] = {}
    for (where, name), run in api.mirror.runs.items():
        if where == namespace:
            for digest in code_digests(run):
                found.setdefault(digest, set()).add(name)
    return found


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
        raise Unavailable("the part broke off", hint="send it again") from None
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
