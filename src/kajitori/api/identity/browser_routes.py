"""Sign browsers in and out. The answers are redirects and cookies, so the OpenAPI document leaves these routes out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from kajitori.api.auth import address_of
from kajitori.api.browsers.sessions import BrowserSessions
from kajitori.api.context import Api, Shared
from kajitori.errors import NotFound

router = APIRouter(include_in_schema=False)

_NO_STORE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@router.get("/sign-in/start")
async def start(api: Shared, request: Request, to: str = "/") -> Response:
    """Send the browser to the provider; it comes back to the path `to`."""
    url, cookie = await _browser(api).begin(request, to)
    return _with_cookies(RedirectResponse(url, 302, _NO_STORE), [cookie])


@router.get("/sign-in/callback")
async def callback(api: Shared, request: Request) -> Response:
    """Exchange the provider's code for tokens, which go into the cookie once the API server has accepted them."""
    authorization, to, cookies = await _browser(api).finish(request)
    session = await api.callers.sessions.enter(authorization, address_of(request))
    await api.callers.sessions.leave(session)
    return _with_cookies(RedirectResponse(to, 303, _NO_STORE), cookies)


@router.post("/sign-out")
async def sign_out(api: Shared, request: Request) -> Response:
    """End the browser's session."""
    return _with_cookies(Response(status_code=204, headers=_NO_STORE), await _browser(api).leave(request))


def _browser(api: Api) -> BrowserSessions:
    if api.callers.browsers is None:
        raise NotFound("this server offers no sign-in", hint="its operators can set --sign-in-issuer")
    return api.callers.browsers


def _with_cookies(response: Response, cookies: list[str]) -> Response:
    for cookie in cookies:
        response.raw_headers.append((b"set-cookie", cookie.encode("latin-1")))
    return response
