"""Authentication and authorisation of callers. The API server decides both, by the caller's own token; with a gateway
(`kajitori.cluster.platform.gateway`), the gateway authenticates callers with ID tokens, and the API server authorises.

Its answers are cached for seconds under a hash of the token; only the client that sends the token holds the token
itself. While a caller has open streams, both are checked again, once per credential and right.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import HTTPConnection

from kajitori.api.requests.limits import Questions
from kajitori.api.requests.middleware import note_caller
from kajitori.api.rights import Question, Rights, User, review_of
from kajitori.cluster.platform.gateway import Admission
from kajitori.configuration.web_limits import WebLimits
from kajitori.core.naming import names
from kajitori.core.protection.connections import network_of
from kajitori.errors import KajitoriError, Unauthenticated
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SELF_REVIEWS

log = logging.getLogger(__name__)

IDENTITY_SECONDS = 60.0
REFUSED_SECONDS = 5.0
MAX_SESSIONS = 1024
MAX_TOKEN_LENGTH = 16_384

RECHECKS_AT_ONCE = 8
"""Largest number of credentials of open streams that are checked again at the same time."""

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)  # RFC 6750, b64token
_HINT = "send `Authorization: Bearer …` with your Kubernetes token; `kaji` finds the token of a local cluster by itself"

Identity = tuple[str, tuple[str, ...]]
"""Name and groups."""


@dataclass(eq=False, slots=True)
class _OpenStream:
    granted: set[Question]
    end: Callable[[KajitoriError], None]


@dataclass(eq=False, slots=True)
class Session:
    """One authenticated credential."""

    client: KubeClient
    identity: Identity
    rights: Rights
    valid_until: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    uses: int = 0
    retired: bool = False
    confirm: Callable[[], Awaitable[float]] | None = None
    """See Admission; None: the API server knows the token itself."""
    streams: set[_OpenStream] = field(default_factory=set)

    def user(self) -> User:
        """Return the caller of another request with this credential."""
        return User(*self.identity, self.client, self.rights)


class Sessions:
    """Recently authenticated credentials, at most MAX_SESSIONS.

    The client of an evicted session is closed when its last request has ended. Of a token that the API server rejects,
    only the hash is kept.
    """

    def __init__(
        self,
        make_client: Callable[[str], KubeClient],
        clock: Callable[[], float] = time.monotonic,
        questions: Questions | None = None,
        admit: Callable[[str], Awaitable[Admission | None]] | None = None,
    ) -> None:
        """`make_client` returns the client for a token. It should reuse open connections, since most unknown tokens are
        invalid. `admit` is the `admit` method of a gateway, which is asked first."""
        self._admit = admit
        self._make_client = make_client
        self._questions = questions or Questions(WebLimits(), clock)
        self._clock = clock
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._unknown: dict[bytes, asyncio.Task[Session]] = {}
        self._streaming: set[Session] = set()

    async def enter(self, authorization: str | None, address: str = "") -> Session:
        """Return the session for an Authorization header from this address; call `leave` afterwards.

        Raises Unauthenticated if the API server rejects the token, Unavailable if it does not answer, and Busy if too
        many unknown tokens wait for a check or this address sent too many wrong ones.
        """
        token = _token_of(authorization)
        key = hashlib.sha256(token.encode()).digest()
        while True:
            if self._refused.get(key, 0.0) > self._clock():
                raise _refused()
            session = self._sessions.get(key) or await self._check_unknown(key, token, address)
            if not session.retired:
                break
        if key in self._sessions:
            self._sessions.move_to_end(key)
        session.uses += 1
        try:
            async with session.lock:
                if session.valid_until <= self._clock():
                    await self._confirm(key, session)
        except BaseException:
            await self.leave(session)
            raise
        return session

    async def leave(self, session: Session) -> None:
        """Note that a request of the session has ended."""
        session.uses -= 1
        if session.retired and session.uses == 0:
            await session.client.close()

    async def close(self) -> None:
        """Drop all sessions and close their clients."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for task in self._unknown.values():
            task.cancel()
        for session in sessions:
            await session.client.close()

    # ------------------------------------------------------------------------------------------ streams

    @contextmanager
    def streaming(self, session: Session, user: User, end: Callable[[KajitoriError], None]) -> Iterator[None]:
        """Register a long answer to this user while the context lasts. `end` is called if the user loses a right that
        the answer needs."""
        stream = _OpenStream(user.granted, end)
        session.streams.add(stream)
        self._streaming.add(session)
        try:
            yield
        finally:
            session.streams.discard(stream)
            if not session.streams:
                self._streaming.discard(session)

    async def recheck_all(self, every_seconds: float) -> None:
        """Call `recheck` periodically until cancelled."""
        while True:
            await asyncio.sleep(every_seconds)
            try:
                await self.recheck()
            except Exception:
                log.exception("cannot check the callers of open streams again; this is a bug")

    async def recheck(self) -> None:
        """Check every credential with open streams again, and end streams whose caller has lost a right.

        While the API server does not answer, streams stay open.
        """
        limit = asyncio.Semaphore(RECHECKS_AT_ONCE)

        async def check(session: Session) -> None:
            async with limit:
                try:
                    await self._recheck(session)
                except KajitoriError as error:
                    log.info("cannot check a caller with open streams again: %s", error.message)

        await asyncio.gather(*(check(session) for session in tuple(self._streaming)))

    async def _recheck(self, session: Session) -> None:
        try:
            async with session.lock:
                await self._confirm(None, session)
        except Unauthenticated as error:
            for stream in tuple(session.streams):
                stream.end(error)
            return
        for question in set[Question]().union(*(stream.granted for stream in session.streams)):
            if await session.rights.may(question, refresh=True):
                continue
            for stream in tuple(session.streams):
                if question in stream.granted:
                    stream.end(question.forbidden(session.identity[0]))

    # ------------------------------------------------------------------------------------------ authentication

    async def _check_unknown(self, key: bytes, token: str, address: str) -> Session:
        """Check an unknown token, and return a new session for it. Simultaneous requests with the same token share one
        check."""
        task = self._unknown.get(key)
        if task is None:
            task = self._unknown[key] = asyncio.create_task(self._authenticate(key, token, address))
            task.add_done_callback(lambda task: self._note_checked(key, task))
        return await asyncio.shield(task)

    def _note_checked(self, key: bytes, task: asyncio.Task[Session]) -> None:
        del self._unknown[key]
        if not task.cancelled():
            task.exception()

    async def _authenticate(self, key: bytes, token: str, address: str) -> Session:
        async with self._questions.one(address):
            admission = await self._admit(token) if self._admit is not None else None
            client = admission.client if admission is not None else self._make_client(token)
            try:
                identity = await self._identify(client)
            except BaseException as error:
                if isinstance(error, Unauthenticated):
                    self._refuse(key)
                await client.close()
                raise
        session = Session(client, identity, Rights(client, self._clock), self._clock() + IDENTITY_SECONDS)
        if admission is not None:
            session.confirm = admission.confirm
            session.valid_until = self._clock() + min(await admission.confirm(), IDENTITY_SECONDS)
        self._sessions[key] = session
        while len(self._sessions) > MAX_SESSIONS:
            _, forgotten = self._sessions.popitem(last=False)
            await self._retire(forgotten)
        return session

    async def _confirm(self, key: bytes | None, session: Session) -> None:
        """Authenticate the session again. Raises Unauthenticated if its token is no longer valid or now belongs to
        another user."""
        try:
            seconds = await session.confirm() if session.confirm is not None else IDENTITY_SECONDS
            identity = await self._identify(session.client)
            if identity[0] != session.identity[0]:
                raise _refused()
        except Unauthenticated:
            key = key or next((session_key for session_key, other in self._sessions.items() if other is session), None)
            if key is not None and self._sessions.get(key) is session:
                del self._sessions[key]
                self._refuse(key)
            session.retired = True
            raise
        session.identity = identity  # the user's groups may have changed
        session.valid_until = self._clock() + min(seconds, IDENTITY_SECONDS)

    async def _identify(self, client: KubeClient) -> Identity:
        answer = await client.create(SELF_REVIEWS, review_of(SELF_REVIEWS, None))
        info: dict[str, Any] = (answer.get("status") or {}).get("userInfo") or {}
        name, groups = str(info.get("username") or ""), tuple(str(group) for group in info.get("groups") or ())
        if not name or name == "system:anonymous":
            raise _refused()
        return name, groups

    def _refuse(self, key: bytes) -> None:
        self._refused[key] = self._clock() + REFUSED_SECONDS
        while len(self._refused) > MAX_SESSIONS:
            self._refused.popitem(last=False)

    async def _retire(self, session: Session) -> None:
        session.retired = True
        if session.uses == 0:
            await session.client.close()


def address_of(connection: HTTPConnection) -> str:
    """Return the caller's address for limits: its network, empty if unknown."""
    return network_of(connection.client.host) if connection.client is not None else ""


async def authenticated(connection: HTTPConnection) -> AsyncIterator[User]:
    """Dependency of routes: yield the caller until the answer is written."""
    async with entered(connection, await _authorization(connection)) as user:
        yield user


@asynccontextmanager
async def entered(connection: HTTPConnection, authorization: str | None) -> AsyncIterator[User]:
    """Yield the caller with this Authorization header until the answer is written."""
    sessions: Sessions = connection.app.state.kajitori.callers.sessions
    session = await sessions.enter(authorization, address_of(connection))
    try:
        user = session.user()
        note_caller(connection, user.name)
        connection.state.user, connection.state.session = user, session
        yield user
    finally:
        await sessions.leave(session)


async def _authorization(connection: HTTPConnection) -> str | None:
    """Return the caller's Authorization header, or what the cookie of a browser's session stands for."""
    given = connection.headers.get("authorization")
    if given is not None:
        return given
    entered = await connection.app.state.kajitori.callers.browsers.enter(connection)
    if entered is None:
        return None
    connection.state.cookies = entered.cookies
    return str(entered.authorization)


Caller = Annotated[User, Depends(authenticated)]


def submitted_by(user: User, now: datetime) -> dict[str, str]:
    """Return the annotations that mark an object as submitted by this user at that time."""
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {names.ANNOTATION_OWNER: user.name, names.ANNOTATION_SUBMITTED_AT: moment}


def _token_of(authorization: str | None) -> str:
    if not authorization:
        raise Unauthenticated("the request carries no credentials", hint=_HINT)
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or len(token) > MAX_TOKEN_LENGTH or not _TOKEN.fullmatch(token):
        raise Unauthenticated("the Authorization header holds no bearer token", hint=_HINT)
    return token


def _refused() -> Unauthenticated:
    return Unauthenticated(
        "the API server does not accept these credentials",
        hint="they are wrong or expired: log in to the cluster again",
    )
