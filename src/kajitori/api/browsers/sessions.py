"""Sessions of browsers: sign-in at the provider by authorisation code, or by a link that the command line made; the
browser gets an encrypted cookie.

The cookie holds the tokens, and only this server can read it. So scripts of a page never see a token, sessions need no
store, several servers with one key work side by side (`renewals`), and a sign-in survives a restart. What that costs: a
session can be ended early only at the provider, and a long list of groups makes several cookies.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp
from starlette.requests import HTTPConnection

from kajitori.api.browsers.renewals import SharedRenewals
from kajitori.api.browsers.same_origin import is_same_origin
from kajitori.api.browsers.sealing import Seal, TooLong, in_parts, read_parts, set_cookie
from kajitori.blobs.stores.blobs import Blobs
from kajitori.configuration.sign_in import BrowserAccess, SignIn
from kajitori.errors import Forbidden, KajitoriError, NotFound, Unauthenticated, Unavailable
from kajitori.openid import flows
from kajitori.openid.answers import AnswerTooLong, read_whole
from kajitori.openid.flows import Client, Code
from kajitori.openid.provider import Provider, description_url, provider_of
from kajitori.openid.tokens import Tokens

SESSION, SIGNING = "__Host-kaji", "__Host-kaji-signing"
"""Names of the cookies. With `__Host-` browsers take them only from this host, over TLS or loopback."""
SESSION_SECONDS = 12 * 3600
"""After this time a person signs in again, however often the tokens were renewed."""
SIGNING_SECONDS = 600
LINK_SECONDS = 120
"""Time within which a browser has to open a link."""
EARLY_SECONDS = 30.0
KEPT_SECONDS = 300.0
"""A renewal is remembered for this long: requests of other tabs still carry the old cookie."""
MAX_KEPT = 4096
CALLBACK = "/sign-in/callback"
_PROVIDER_SECONDS = 10.0
FAILED_SECONDS = 5.0
"""A provider that did not describe itself is asked again after this time."""
_MAX_ANSWER_BYTES = 1 << 20
_AGAIN = "sign in again: open /sign-in/start"
_OPEN_AGAIN = "sign in again, by a new link: kaji open"

log = logging.getLogger(__name__)

Send = Callable[[str, str | None], Awaitable[bytes]]
"""Sends a form to an address of the provider, or asks it without a form; returns the answer's body."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A browser that is signed in: what its request is authenticated with, and cookies to send back."""

    authorization: str
    cookies: tuple[str, ...] = ()


class BrowserSessions:
    """Signs browsers in and out, and reads their cookies."""

    def __init__(
        self,
        place: SignIn | None,
        access: BrowserAccess,
        *,
        blobs: Blobs | None = None,
        send: Send | None = None,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """`place` is None if there is no provider: people then sign in by links only. `blobs` is the store that this
        server shares with others; None: a browser has to stay at its server. `clock` returns Unix time, and `ticks`
        seconds of a clock that is never set."""
        secret = access.cookie_secret
        self._place, self._access = place, access
        self._session_seal, self._signing_seal = Seal(secret, SESSION), Seal(secret, SIGNING)
        self._link_seal = Seal(secret, "link")
        self._shared = SharedRenewals(blobs, secret) if blobs is not None else None
        self._used_links: dict[str, float] = {}
        """Links that were opened here, with the time at which they would have expired."""
        self._send = send or self._ask
        self._clock, self._ticks = clock, ticks
        self._provider: Provider | None = None
        self._discovering = asyncio.Lock()
        self._failure: Unavailable | None = None
        self._failed_at = 0.0
        self._renewals: OrderedDict[str, tuple[float, asyncio.Task[Tokens]]] = OrderedDict()

    async def begin(self, connection: HTTPConnection, to: str) -> tuple[str, str]:
        """Return the provider's address for a sign-in that ends at the path `to`, and the cookie for its way back."""
        client = await self._client()
        url, code = flows.begin_code(client, f"{self._origin(connection)}{CALLBACK}")
        document: dict[str, Any] = {
            "state": code.state,
            "nonce": code.nonce,
            "verifier": code.verifier,
            "redirect": code.redirect,
        }
        document |= {"to": own_path(to), "until": self._clock() + SIGNING_SECONDS}
        return url, set_cookie(SIGNING, self._signing_seal.close(document), SIGNING_SECONDS)

    async def finish(self, connection: HTTPConnection) -> tuple[str, str, list[str]]:
        """Return the `Authorization` header of the sign-in that ends now, the path to go on to, and cookies.

        Raises:
            Unauthenticated: the provider refused, or this browser did not begin the sign-in.
        """
        begun = self._signing_seal.open(connection.cookies.get(SIGNING, ""))
        if begun is None or begun["until"] < self._clock():
            raise Unauthenticated("this browser did not begin a sign-in here, or took too long", hint=_AGAIN)
        client = await self._client()
        code = Code(begun["state"], begun["nonce"], begun["redirect"], begun["verifier"])
        form = flows.code_form(client, code, connection.url.query)
        tokens = flows.tokens_of_code(client, code, await self._send(client.provider.token_endpoint, form))
        cookies = [*self._session(tokens, self._clock() + SESSION_SECONDS), set_cookie(SIGNING, "", 0)]
        return f"Bearer {tokens.id_token}", str(begun["to"]), cookies

    def make_link(self, token: str) -> str:
        """Return the code of a link that signs a browser in with this token, once and within LINK_SECONDS."""
        document = {"token": token, "id": secrets.token_hex(8), "until": self._clock() + LINK_SECONDS}
        return self._link_seal.close(document)

    async def open_link(self, connection: HTTPConnection, code: str) -> tuple[str, list[str]]:
        """Return the `Authorization` header of a browser that opened a link, and the cookies of its session.

        Servers that share a store accept a link once. Without one, a link is remembered by the server where it was
        opened: another server with the same key would accept it again until it expires.

        Raises:
            Forbidden: another site's page sent the request.
            Unauthenticated: the link was opened before, has expired, or was not made here.
        """
        self.check_origin(connection)
        now = self._clock()
        link = self._link_seal.open(code)
        if link is None or link["until"] < now or link["id"] in self._used_links:
            raise Unauthenticated("this link was used before or has expired", hint="make a new one: kaji open")
        self._used_links = {used: until for used, until in self._used_links.items() if until >= now}
        self._used_links[link["id"]] = link["until"]
        if self._shared is not None and not await self._shared.is_first(link["id"]):
            raise Unauthenticated("this link was used before or has expired", hint="make a new one: kaji open")
        tokens = Tokens(str(link["token"]))
        expires = min(tokens.expires or math.inf, now + SESSION_SECONDS)
        return f"Bearer {tokens.id_token}", list(self._session(tokens, expires))

    async def enter(self, connection: HTTPConnection, *, from_anywhere: bool = False) -> Entered | None:
        """Return how a request with a session's cookie is authenticated; None without one. With `from_anywhere`, the
        caller has checked which page sent it.

        Raises:
            Forbidden: another site's page sent the request.
            Unauthenticated: the session has ended.
        """
        text = read_parts(connection.cookies, SESSION)
        if not text:
            return None
        if not from_anywhere:
            self.check_origin(connection)
        session = self._session_seal.open(text)
        if session is None or session["until"] < self._clock():
            raise Unauthenticated("your session has ended", hint=self._again)
        tokens = Tokens(str(session["token"]), str(session["refresh"]))
        if not tokens.expires or tokens.expires > self._clock() + EARLY_SECONDS:
            return Entered(f"Bearer {tokens.id_token}")
        renewed = await self._renewed(tokens)
        return Entered(f"Bearer {renewed.id_token}", tuple(self._session(renewed, float(session["until"]))))

    async def leave(self, connection: HTTPConnection) -> list[str]:
        """Revoke the session's refresh token if possible, and return cookies that end the session in any case."""
        self.check_origin(connection)
        session = self._session_seal.open(read_parts(connection.cookies, SESSION))
        if session is not None and session["refresh"]:
            try:
                await self._revoke(str(session["refresh"]))
            except KajitoriError as error:
                log.warning("the refresh token of a browser that signed out is not revoked: %s", error.message)
        return list(in_parts(SESSION, "", 0))

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raise Forbidden if a page of another site sent the request: its browser adds the cookie by itself."""
        host = self._origin(connection).partition("://")[2]
        method = str(connection.scope.get("method", "GET"))
        socket = connection.scope["type"] == "websocket"
        if not is_same_origin(connection.headers, method, host=host, is_websocket=socket):
            message = "a page of another site sent this request with your session"
            raise Forbidden(message, hint="use this server's own pages; programs send a token instead of a cookie")

    # ------------------------------------------------------------------------------------------ inside

    @property
    def _again(self) -> str:
        return _AGAIN if self._place is not None else _OPEN_AGAIN

    def _session(self, tokens: Tokens, until: float) -> Iterable[str]:
        document = {"token": tokens.id_token, "refresh": tokens.refresh_token, "until": until}
        try:
            return list(in_parts(SESSION, self._session_seal.close(document), max(int(until - self._clock()), 0)))
        except TooLong:
            hint = "ask your cluster's operators: the provider should put fewer groups into the ID token"
            raise Unauthenticated("your ID token is too large for a browser's cookies", hint=hint) from None

    async def _renewed(self, tokens: Tokens) -> Tokens:
        """Return new tokens. Requests with the same refresh token share one renewal: the provider accepts it once."""
        if not tokens.refresh_token:
            raise Unauthenticated("your session has ended", hint=self._again)
        key = hashlib.sha256(tokens.refresh_token.encode()).hexdigest()
        now = self._ticks()
        while self._renewals and (
            len(self._renewals) > MAX_KEPT or next(iter(self._renewals.values()))[0] < now - KEPT_SECONDS
        ):
            self._renewals.popitem(last=False)
        if key not in self._renewals:
            self._renewals[key] = (now, asyncio.create_task(self._renew(tokens)))
            self._renewals[key][1].add_done_callback(lambda task: self._forget_failure(key, task))
        return await asyncio.shield(self._renewals[key][1])

    def _forget_failure(self, key: str, task: asyncio.Task[Tokens]) -> None:
        if task.cancelled() or isinstance(task.exception(), Unavailable):
            self._renewals.pop(key, None)  # the provider was away: the next request tries again

    async def _revoke(self, refresh_token: str) -> None:
        client = await self._client()
        if client.provider.revocation_endpoint:
            await self._send(client.provider.revocation_endpoint, flows.revocation_form(client, refresh_token))

    async def _renew(self, tokens: Tokens) -> Tokens:
        if self._shared is None:
            return await self._ask_to_renew(tokens)
        return await self._shared.renew(tokens.refresh_token, lambda: self._ask_to_renew(tokens))

    async def _ask_to_renew(self, tokens: Tokens) -> Tokens:
        client = await self._client()
        answer = await self._send(client.provider.token_endpoint, flows.refresh_form(client, tokens))
        return flows.refreshed(client, tokens, answer)

    async def _client(self) -> Client:
        place = self._place
        if place is None:
            hint = "open the page by a link: kaji open; operators can set --sign-in-issuer"
            raise NotFound("this server offers no sign-in at a provider", hint=hint)
        # sign-ins need no credentials, so only one request at a time reaches the provider
        async with self._discovering:
            if self._provider is None:
                self._provider = await self._discover(place)
        return Client(self._provider, place.client_id, place.scopes, place.client_secret)

    async def _discover(self, place: SignIn) -> Provider:
        """Return the provider's description of itself. After a failure the provider is not asked for some seconds."""
        if self._failure is not None and self._ticks() < self._failed_at + FAILED_SECONDS:
            raise self._failure
        try:
            description = flows.read_answer(await self._send(description_url(place.issuer), None))
            return provider_of(description, place.issuer)
        except Unavailable as error:
            self._failure, self._failed_at = error, self._ticks()
            raise

    def _origin(self, connection: HTTPConnection) -> str:
        """This server's address as the browser sees it."""
        if self._access.public_url:
            return self._access.public_url.rstrip("/")
        scheme = {"ws": "http", "wss": "https"}.get(connection.url.scheme, connection.url.scheme)
        return f"{scheme}://{connection.headers.get('host', '')}"

    async def _ask(self, url: str, form: str | None) -> bytes:
        assert self._place is not None  # `_client` was called before
        tls = ssl.create_default_context(cadata=self._place.ca or None)
        limit = aiohttp.ClientTimeout(total=_PROVIDER_SECONDS)
        headers: dict[str, Any] = {"Accept": "application/json"}
        try:
            async with aiohttp.ClientSession(
                timeout=limit, connector=aiohttp.TCPConnector(ssl=tls), trust_env=True
            ) as session:
                if form is None:
                    sent = session.get(url, headers=headers, allow_redirects=False)
                else:
                    headers["Content-Type"] = flows.FORM
                    sent = session.post(url, data=form, headers=headers, allow_redirects=False)
                async with sent as answer:
                    return await read_whole(answer, _MAX_ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError, AnswerTooLong) as error:
            message = f"the OpenID provider {self._place.issuer} does not answer: {type(error).__name__}"
            raise Unavailable(message, hint="try again") from error


def own_path(to: str) -> str:
    """Return a path of this server, and `/` for anything that could lead to another one."""
    is_own = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if is_own else "/"
