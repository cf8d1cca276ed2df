"""Routes for members in their first step, which carry a ticket instead of cluster credentials (rules 9 and 13)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.answers.problems import own_failure
from kajitori.api.context import Api, Shared, describes
from kajitori.api.requests.middleware import note_caller
from kajitori.api.start.ssh_keys import AttemptKeys, attempt_keys
from kajitori.api.streams.host_lists import HostList, HostsMissing, require_starting
from kajitori.codepack.parts import ARCHIVE_BYTES, MEDIA_TYPE
from kajitori.core.pods.tickets import Ticket
from kajitori.errors import KajitoriError, NotFound, Unauthenticated

router = APIRouter(tags=["members"])

POLL_SECONDS = 25.0
"""Longest time until a member gets an answer. Proxies close connections that are silent for longer."""

_ARCHIVE = {
    "description": "The archive, a tar file.",
    "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
}
_HINT = "send `Authorization: Bearer …` with the ticket from the member's Pod"


async def ticket_of(api: Shared, request: Request) -> Ticket:
    """Dependency of routes: return the ticket that the request carries. Raises Unauthenticated if it is not valid."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise Unauthenticated("the request carries no ticket", hint=_HINT)
    try:
        ticket = await api.start.tickets.read(text.strip())
    except KajitoriError as error:
        raise own_failure(error) from error
    if ticket is None:
        raise Unauthenticated("this ticket is not signed by the controller of this cluster", hint=_HINT)
    note_caller(request, f"{ticket.namespace}/{ticket.run}")
    return ticket


CallerTicket = Annotated[Ticket, Depends(ticket_of)]


@router.get(
    "/v1/members/hosts",
    responses={**describes(HostList), **describes(HostsMissing, status=202)},
    openapi_extra={"security": [{"ticket": []}]},
    summary="The addresses of all members of a starting attempt",
)
async def hosts(api: Shared, ticket: CallerTicket, request: Request) -> Response:
    """Answers, by rank, as soon as all addresses are known. If that takes too long for a proxy, answers 202 with the
    missing members; the member then asks again.

    403 `AttemptOver` if a later attempt has begun, `NotStarting` if no member of this one is in its first step.
    """
    current = await api.start.host_lists.wait(ticket, POLL_SECONDS)
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    body = current.plain
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = current.zipped
    return Response(body, 200 if current.complete else 202, headers, media_type="application/json")


class MemberParameters(Parameters):
    rank: int = Field(ge=0)
    """The member that asks."""


@router.get(
    "/v1/members/ssh",
    responses=describes(AttemptKeys),
    openapi_extra={"security": [{"ticket": []}]},
    summary="The SSH keys of an attempt, for a member that is starting",
)
async def ssh(api: Shared, ticket: CallerTicket, query: Annotated[MemberParameters, Query()]) -> Response:
    """All members of the attempt get the same keys, and no other attempt gets them. They are derived from the attempt
    and the key that signs tickets, and are stored nowhere."""
    require_starting(api.mirror, ticket, query.rank)
    keys = attempt_keys(api.start.tickets.derive(ticket, "ssh client"), api.start.tickets.derive(ticket, "ssh host"))
    return Response(msgspec.json.encode(keys), headers={"Cache-Control": "no-store"}, media_type="application/json")


class NotebookToken(msgspec.Struct):
    """The token of an attempt of a notebook."""

    token: str


@router.get(
    "/v1/members/notebook",
    responses=describes(NotebookToken),
    openapi_extra={"security": [{"ticket": []}]},
    summary="The token of a notebook, for a member that is starting",
)
async def notebook(api: Shared, ticket: CallerTicket, query: Annotated[MemberParameters, Query()]) -> Response:
    """The notebook's program demands this token, and the proxy adds it to requests. It is derived from the attempt and
    the key that signs tickets, and is stored nowhere."""
    require_starting(api.mirror, ticket, query.rank)
    token = api.start.tickets.notebook_token(ticket.namespace, ticket.run, ticket.run_uid, ticket.attempt)
    body = msgspec.json.encode(NotebookToken(token))
    return Response(body, headers={"Cache-Control": "no-store"}, media_type="application/json")


@router.get(
    "/v1/members/code",
    responses={**describes(None), 200: _ARCHIVE},
    summary="The run's code, for a member that is starting",
)
async def code(api: Shared, ticket: CallerTicket, query: Annotated[MemberParameters, Query()]) -> Response:
    """The archive as a Zstandard stream; the header X-Archive-Bytes has its unpacked size. It is the code that the
    attempt was created with, even if the run was edited since."""
    return await _archive(api, ticket, query.rank, ticket.code, "code")


@router.get(
    "/v1/members/files",
    responses={**describes(None), 200: _ARCHIVE},
    summary="The run's files, for a member that is starting",
)
async def files(api: Shared, ticket: CallerTicket, query: Annotated[MemberParameters, Query()]) -> Response:
    """The archive that `spec.files` names, as a Zstandard stream; the header X-Archive-Bytes has its unpacked size. Its
    entries are those that the attempt was created with, even if files were added to the run since."""
    return await _archive(api, ticket, query.rank, ticket.files, "files")


async def _archive(api: Api, ticket: Ticket, rank: int, digest: str, what: str) -> Response:
    require_starting(api.mirror, ticket, rank)
    if api.stores.code is None or not digest:
        hint = "configure the same store on every server"
        raise NotFound(f"run {ticket.run} has no {what} on this server", hint=hint)
    archive, frames = await api.stores.code.open(ticket.namespace, digest)
    stream = api.streams.stream(frames, kind="code", media_type=MEDIA_TYPE)
    stream.headers[ARCHIVE_BYTES] = str(archive.size_bytes)
    return stream
