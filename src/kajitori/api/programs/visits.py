"""Sessions of browsers at the origins of programs.

A browser that is signed in at the server's own page gets a session at another origin in three steps. The program's
origin gives the browser a random state in a cookie; the server's page, at which the browser is signed in, hands out a
code for this state; the program's origin exchanges both for a cookie of its own. A code works once, for one minute, at
one origin, and in the browser that began.

The cookie ends with the token that is in it. Refresh tokens stay in the session of the page, so the browser comes back
for a new code.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import HTTPConnection

from kajitori.api.browsers.sealing import Seal, TooLong, in_parts, read_parts, set_cookie
from kajitori.errors import Unauthenticated
from kajitori.openid.tokens import Tokens

VISIT, BEGUN = "__Host-kaji-visit", "__Host-kaji-begun"
CODE_SECONDS = 60
BEGUN_SECONDS = 600
"""Time for a sign-in at the server's page before the browser returns."""
VISIT_SECONDS = 12 * 3600


class Visits:
    """Makes and reads what a browser carries between the origins."""

    def __init__(
        self,
        secret: bytes,
        *,
        is_first: Callable[[str], Awaitable[bool]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`is_first` tells whether this use of a code is the first on any of the servers that share a store."""
        self._visits, self._begun, self._codes = Seal(secret, VISIT), Seal(secret, BEGUN), Seal(secret, "visit code")
        self._is_first = is_first
        self._clock = clock
        self._used: dict[str, float] = {}

    def begin(self, origin: str, to: str) -> tuple[str, str]:
        """Return a new state for a browser that wants to go to the path `to` of an origin, and its cookie."""
        state = secrets.token_urlsafe(24)
        document = {"state": state, "origin": origin, "to": to, "until": self._clock() + BEGUN_SECONDS}
        return state, set_cookie(BEGUN, self._begun.close(document), BEGUN_SECONDS)

    def code(self, authorization: str, origin: str, state: str) -> str:
        """Return a code for the caller with this `Authorization` header."""
        token = authorization.partition(" ")[2]
        document: dict[str, Any] = {"token": token, "origin": origin, "id": secrets.token_hex(8)}
        document |= {"state": _digest(state), "until": self._clock() + CODE_SECONDS}
        return self._codes.close(document)

    async def enter(self, connection: HTTPConnection, origin: str, code: str) -> tuple[str, list[str]]:
        """Return the path to go on to, and the cookies of the session. Raises Unauthenticated."""
        now = self._clock()
        content, begun = self._codes.open(code), self._begun.open(connection.cookies.get(BEGUN, ""))
        self._used = {used: until for used, until in self._used.items() if until >= now}
        if (
            content is None
            or begun is None
            or content["until"] < now
            or begun["until"] < now
            or content["origin"] != origin
            or begun["origin"] != origin
            or not hmac.compare_digest(content["state"], _digest(begun["state"]))
            or content["id"] in self._used
        ):
            raise _not_entered()
        self._used[content["id"]] = content["until"]
        if self._is_first is not None and not await self._is_first(content["id"]):
            raise _not_entered()
        tokens = Tokens(str(content["token"]))
        until = min(tokens.expires or math.inf, now + VISIT_SECONDS)
        sealed = self._visits.close({"token": tokens.id_token, "origin": origin, "until": until})
        try:
            cookies = list(in_parts(VISIT, sealed, max(int(until - now), 0)))
        except TooLong:
            raise Unauthenticated("your token is too large for a browser's cookies") from None
        return str(begun["to"]), [*cookies, set_cookie(BEGUN, "", 0)]

    def authorization(self, connection: HTTPConnection, origin: str) -> str | None:
        """Return the `Authorization` header of a browser's session at this origin; None without a valid one."""
        session = self._visits.open(read_parts(connection.cookies, VISIT))
        if session is None or session["until"] < self._clock() or session["origin"] != origin:
            return None
        return f"Bearer {session['token']}"


def _digest(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()


def _not_entered() -> Unauthenticated:
    return Unauthenticated("this link was used before or has expired", hint="open the address of the run again")
