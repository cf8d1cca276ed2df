"""What members ask for in their first step, with a ticket instead of credentials of the cluster (rules 9 and 13)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from kajitori.api.context import Api, Shared, describes
from kajitori.api.host_lists import HostList, HostsMissing
from kajitori.api.problems import of_this_server
from kajitori.core.tickets import Ticket
from kajitori.errors import KajitoriError, Unauthenticated

router = APIRouter(tags=["members"])

POLL_SECONDS = 25.0
"""A member is answered after so long in any case: proxies cut what is silent for longer."""

_HINT = "send `Authorization: Bearer …` with the ticket that stands in the member's Pod"


async def shown_ticket(api: Api, request: Request) -> Ticket:
    """The ticket that the request carries. Raises Unauthenticated where it is none."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise Unauthenticated("the request carries no ticket", hint=_HINT)
    try:
        ticket = await api.tickets.read(text.strip())
    except KajitoriError as error:
        raise of_this_server(error) from error
    if ticket is None:
        raise Unauthenticated("this ticket is not signed by the controller of this cluster", hint=_HINT)
    return ticket


@router.get(
    "/v1/members/hosts",
    responses={**describes(HostList), **describes(HostsMissing, status=202)},
    openapi_extra={"security": [{"ticket": []}]},
    summary="The addresses of all members of a starting attempt",
)
async def hosts(api: Shared, request: Request) -> Response:
    """By rank, as soon as all are known. 202 with what is missing where that takes too long for a proxy: ask again.

    403 `AttemptOver` where a later attempt has begun, `NotStarting` where no member of this one is in its first step.
    """
    ticket = await shown_ticket(api, request)
    found = await api.host_lists.wait(ticket, POLL_SECONDS)
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    body = found.plain
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = found.zipped
    return Response(body, 200 if found.complete else 202, headers, media_type="application/json")
