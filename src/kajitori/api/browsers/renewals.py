"""One renewal of a browser's tokens for several servers.

Providers that rotate refresh tokens accept each of them once. Some end the whole sign-in if one comes a second time. A
page sends several requests at once, and a proxy may spread them over servers that all find the tokens in the cookie
expired. So a server claims a refresh token in the store of blobs before it uses it. The others wait for the answer,
which is there for some minutes, encrypted with the key of the cookies.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from kajitori.api.browsers.sealing import Seal
from kajitori.blobs.stores.blobs import Blobs
from kajitori.core.backoff import Backoff
from kajitori.errors import KajitoriError, NotFound, Unauthenticated
from kajitori.openid.tokens import Tokens

log = logging.getLogger(__name__)

T = TypeVar("T")

PREFIX = "sessions"
"""Beginning of the keys of these blobs."""
WAIT_SECONDS = 25.0
"""Longest wait for the answer to another server: longer than the two requests to the provider that it may make."""
POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 0.5
_POLL_GROWTH = 1.5
TURNS = 5
"""Most servers that try one after the other, if those before died or did not reach the provider."""
KEPT = timedelta(minutes=15)
"""Age from which blobs are removed: requests of other tabs carry the old cookie for a while."""
SWEPT_SECONDS = 600.0
_MAX_ANSWER_BYTES = 1 << 16


class _NoStore(Exception):
    """The store does not work."""


class SharedRenewals:
    """Claims of refresh tokens and of links, and the answers to renewals, in the store that all servers share."""

    def __init__(self, blobs: Blobs, secret: bytes) -> None:
        """`secret` is the key of the cookies."""
        self._blobs = blobs
        self._secret = secret
        self._seal = Seal(secret, "renewal")
        self._swept_at: float | None = None

    async def renew(self, refresh_token: str, ask: Callable[[], Awaitable[Tokens]]) -> Tokens:
        """Return the provider's answer to this refresh token. `ask` is called by one server at a time.

        If the store does not work, this server asks by itself.

        Raises:
            Unauthenticated: the provider refused, here or at another server.
            Unavailable: the provider does not answer.
        """
        folder = f"{PREFIX}/{self._digest('refresh', refresh_token)}"
        try:
            for turn in range(TURNS):
                if await self._claim(f"{folder}/claim-{turn}"):
                    return await self._ask(f"{folder}/answer-{turn}", ask)
                answer = await self._answer(f"{folder}/answer-{turn}")
                if answer is not None:
                    return answer
        except _NoStore as error:
            log.warning("a browser's tokens are renewed without telling the other servers: %s", error)
        return await ask()

    async def is_first(self, link: str) -> bool:
        """Whether no server has opened this link before. True as well if the store does not work."""
        key = f"{PREFIX}/{self._digest('link', link)}"
        try:
            is_first = await self._claim(key)
        except _NoStore as error:
            log.warning("the other servers are not told that a link was opened: %s", error)
            return True
        await self._sweep(key)
        return is_first

    async def _claim(self, key: str) -> bool:
        """Whether this server is the first to claim a key. Raises _NoStore. A store's client may repeat a request after
        it lost the answer, and then finds its own claim. The content of the claim names the server that made it."""
        mine = secrets.token_hex(16).encode()
        return await _stored(self._blobs.create(key, mine)) or await _stored(self._read(key)) == mine

    async def _ask(self, key: str, ask: Callable[[], Awaitable[Tokens]]) -> Tokens:
        document: dict[str, Any] = {"of": key}  # without an answer the next server tries
        try:
            tokens = await ask()
            document |= {"token": tokens.id_token, "refresh": tokens.refresh_token}
        except Unauthenticated as error:
            document |= {"refused": error.message, "hint": error.hint}
            raise
        finally:
            try:
                await self._blobs.put(key, self._seal.close(document).encode())
            except KajitoriError as error:
                log.warning("the other servers are not told of a renewal: %s", error.message)
            await self._sweep(key)
        return tokens

    async def _answer(self, key: str) -> Tokens | None:
        """Wait for the answer to another server. None if it got none, or does not say."""
        polls = Backoff(POLL_SECONDS, LONGEST_POLL_SECONDS, _POLL_GROWTH)
        until = asyncio.get_running_loop().time() + WAIT_SECONDS
        while True:
            content = await _stored(self._read(key))
            if content is not None:
                document = self._seal.open(content.decode("ascii", "replace")) or {}
                if document.get("of") != key:  # written with access to the store, but without the key of the cookies
                    return None
                if "refused" in document:
                    raise Unauthenticated(str(document["refused"]), hint=str(document["hint"]))
                return Tokens(str(document["token"]), str(document["refresh"])) if "token" in document else None
            if asyncio.get_running_loop().time() >= until:
                return None
            await asyncio.sleep(polls.next_seconds())

    async def _read(self, key: str) -> bytes | None:
        try:
            return await self._blobs.read(key, limit_bytes=_MAX_ANSWER_BYTES)
        except NotFound:
            return None

    async def _sweep(self, newest: str) -> None:
        """Remove old blobs from time to time, if the store allows it. The newest blob shows the store's clock."""
        now = asyncio.get_running_loop().time()
        if self._swept_at is not None and now < self._swept_at + SWEPT_SECONDS:
            return
        self._swept_at = now
        try:
            limit = (await self._blobs.head(newest)).modified_at - KEPT
            old = [blob.key async for blob in self._blobs.under(PREFIX) if blob.modified_at < limit]
            await self._blobs.delete(*old)
        except KajitoriError as error:
            log.warning("old claims and answers of browsers' sessions stay in the store: %s", error.message)

    def _digest(self, kind: str, text: str) -> str:
        return hmac.digest(self._secret, f"{kind} {text}".encode(), hashlib.sha256).hex()


async def _stored(request: Awaitable[T]) -> T:
    """Return the store's answer. Raises _NoStore."""
    try:
        return await request
    except KajitoriError as error:
        raise _NoStore(error.message) from error
