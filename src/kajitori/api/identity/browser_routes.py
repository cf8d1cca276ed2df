"""Sign browsers in and out. The answers are redirects and cookies, so the OpenAPI document leaves these routes out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from kajitori.api.auth import address_of
from kajitori.api.context import Shared

router = APIRouter(include_in_schema=False)

LINK_HEADER = "Kajitori-Link"
"""Header with the code of a link."""

_NO_STORE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@router.get("/sign-in/start")
async def start(api: Shared, request: Request, to: str = "/") -> Response:
    """Send the browser to the provider; it comes back to the path `to`."""
    url, cookie = await api.callers.browsers.begin(request, to)
    return _with_cookies(RedirectResponse(url, 302, _NO_STORE), [cookie])


@router.get("/sign-in/callback")
async def callback(api: Shared, request: Request) -> Response:
    """Exchange the provider's code for tokens, which go into the cookie once the API server has accepted them."""
    authorization, to, cookies = await api.callers.browsers.finish(request)
    session = await api.callers.sessions.enter(authorization, address_of(request))
    await api.callers.sessions.leave(session)
    return _with_cookies(RedirectResponse(to, 303, _NO_STORE), cookies)


@router.post("/sign-in/link")
async def open_link(api: Shared, request: Request) -> Response:
    """Begin the session of a browser that opened a link of `kaji open`. The link's code comes in a header: bodies are
    read of authenticated callers only, and a code in the address would be in the logs of proxies."""
    authorization, cookies = await api.callers.browsers.open_link(request, request.headers.get(LINK_HEADER, ""))
    session = await api.callers.sessions.enter(authorization, address_of(request))
    await api.callers.sessions.leave(session)
    return _with_cookies(Response(status_code=204, headers=_NO_STORE), cookies)


@router.post("/sign-out")
async def sign_out(api: Shared, request: Request) -> Response:
    """End the browser's session."""
    return _with_cookies(Response(status_code=204, headers=_NO_STORE), await api.callers.browsers.leave(request))


def _with_cookies(response: Response, cookies: list[str]) -> Response:
    for cookie in cookies:
        response.raw_headers.append((b"set-cookie", cookie.encode("latin-1")))
    return response
