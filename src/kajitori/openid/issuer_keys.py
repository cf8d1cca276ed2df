"""The public keys of an OpenID provider, fetched when a token needs them."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from kajitori.core.backoff import Backoff
from kajitori.openid.answers import AnswerTooLong, read_whole
from kajitori.openid.authentication_config import Issuer

MAX_AGE_SECONDS = 3600.0
"""Keys are fetched again after this time, because a provider may have withdrawn one."""
FETCH_SECONDS = 5.0
"""Time limit of one fetch, which a request with a token may have to wait for."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_MAX_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class NoKeys(Exception):
    """The provider's keys are not known; the text says why."""


async def fetch_keys(issuer: Issuer) -> KeySet:
    """Return the provider's present keys: its description of itself, then the keys that this names.

    Raises:
        NoKeys: it does not answer, or not as a provider does.
    """
    tls = ssl.create_default_context(cadata=issuer.certificate_authority or None)
    limit = aiohttp.ClientTimeout(total=FETCH_SECONDS)
    connector = aiohttp.TCPConnector(ssl=tls)
    try:
        async with aiohttp.ClientSession(timeout=limit, connector=connector, trust_env=True) as session:
            description = await _fetch_document(session, issuer.description_url)
            if description.get("issuer") != issuer.url:
                raise NoKeys(f"{issuer.description_url} describes the issuer {description.get('issuer')!r:.200}")
            url = description.get("jwks_uri")
            if not isinstance(url, str) or not url.startswith("https://"):
                raise NoKeys(f"{issuer.description_url} names no https address of keys")
            return KeySet.import_key_set(await _fetch_document(session, url))  # type: ignore[arg-type]
    except TimeoutError as error:
        raise NoKeys(f"{issuer.url} did not answer within {FETCH_SECONDS:.0f} s") from error
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError, JoseError) as error:
        raise NoKeys(f"{issuer.url}: {type(error).__name__}: {error}") from error


async def _fetch_document(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    async with session.get(url, headers={"Accept": "application/json"}, allow_redirects=False) as answer:
        if answer.status != 200:
            raise NoKeys(f"{url} answered {answer.status}")
        try:
            found = msgspec.json.decode(await read_whole(answer, _MAX_BYTES))
        except AnswerTooLong as error:
            raise NoKeys(f"{url} answered {error}") from error
        if not isinstance(found, dict):
            raise NoKeys(f"{url} did not answer with an object")
        return found


class IssuerKeys:
    """The keys of one provider. Requests that need a fetch share it. After a failure there is a pause before the
    next."""

    def __init__(
        self,
        issuer: Issuer,
        fetch: Callable[[Issuer], Awaitable[KeySet]] = fetch_keys,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched_at = 0.0
        self._fetching: asyncio.Task[None] | None = None
        self._backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._not_before = 0.0
        self._failure = ""

    async def key_set(self, key_id: str | None) -> KeySet:
        """Return keys that include the one with this ID, if the provider has it. Keys of any age are used while the
        provider does not answer.

        Raises:
            NoKeys: no keys were ever fetched, and none can be fetched now.
        """
        if self._keys is None or not self._has_key(key_id) or self._clock() - self._fetched_at > MAX_AGE_SECONDS:
            await self._refresh()
        if self._keys is None:
            raise NoKeys(self._failure)
        return self._keys

    async def close(self) -> None:
        """Cancel a running fetch."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _has_key(self, key_id: str | None) -> bool:
        return self._keys is not None and (key_id is None or any(key.kid == key_id for key in self._keys.keys))

    async def _refresh(self) -> None:
        if self._fetching is None:
            if self._clock() < self._not_before:
                return
            self._fetching = asyncio.create_task(self._fetch_once())
        await asyncio.shield(self._fetching)

    async def _fetch_once(self) -> None:
        try:
            self._keys = await self._fetch(self._issuer)
            self._fetched_at = self._clock()
            # Tokens with invented key IDs must not cause a fetch each.
            self._backoff.reset()
            self._not_before = self._clock() + FIRST_PAUSE_SECONDS
        except NoKeys as error:
            self._failure = str(error)
            self._not_before = self._clock() + self._backoff.next_seconds() * random.uniform(0.8, 1.2)
            _log.warning("cannot fetch the keys of an OpenID provider: %s", error)
        finally:
            self._fetching = None
