"""Who calls, and what he may do: both says the API server, to the caller's own token.

Answers are remembered for seconds, under a hash of the token. The token itself stays in the client that carries it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import HTTPConnection

from kajitori.core import names
from kajitori.errors import Forbidden, Unauthenticated
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import RUNS, SELF_ACCESS_REVIEWS, SELF_REVIEWS, Resource

IDENTITY_SECONDS = 60.0
ALLOWED_SECONDS = 10.0
DENIED_SECONDS = 3.0
REFUSED_SECONDS = 5.0
MAX_SESSIONS = 1024
MAX_ANSWERS = 256
MAX_TOKEN_LENGTH = 16_384

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)  # RFC 6750, b64token
_HINT = "send `Authorization: Bearer …` with your Kubernetes token; `kaji` finds that of a local cluster by itself"

Question = tuple[str, str, str, str, str]
"""Verb, resource, subresource (empty: the object itself), namespace (empty: all), name (empty: any)."""


@dataclass(slots=True)
class _Answer:
    allowed: bool
    until: float


@dataclass(eq=False, slots=True)
class User:
    """Somebody who was authenticated, and a client that acts in his name. Valid as long as the request."""

    name: str
    groups: tuple[str, ...]
    client: KubeClient
    clock: Callable[[], float] = field(repr=False)
    _answers: OrderedDict[Question, _Answer] = field(default_factory=OrderedDict, repr=False)
    _asking: dict[Question, asyncio.Task[bool]] = field(default_factory=dict, repr=False)

    async def may(
        self, verb: str, namespace: str, name: str = "", *, resource: Resource = RUNS, subresource: str = ""
    ) -> bool:
        """Whether he may do this to Runs (or another kind); without a namespace: in all of them."""
        question = (verb, resource.plural, subresource, namespace, name)
        answer = self._answers.get(question)
        if answer is not None and answer.until > self.clock():
            return answer.allowed
        asking = self._asking.get(question)
        if asking is None:  # a thousand streams that begin at once ask once
            asking = self._asking[question] = asyncio.create_task(self._ask(question, resource))
            asking.add_done_callback(lambda task: self._asked(question, task))
        return await asyncio.shield(asking)

    async def require(
        self, verb: str, namespace: str, name: str = "", *, resource: Resource = RUNS, subresource: str = ""
    ) -> None:
        """Raises Forbidden where he may not."""
        if await self.may(verb, namespace, resource=resource, subresource=subresource):
            return
        if name and await self.may(verb, namespace, name, resource=resource, subresource=subresource):
            return
        what = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        what += f"/{subresource}" if subresource else ""
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise Forbidden(
            f"{self.name} may not {verb} {what} {where}",
            hint=f"ask whoever runs the cluster for a role there; to check: kubectl auth can-i {verb} {what}"
            + (f" -n {namespace}" if namespace else " -A"),
        )

    def _asked(self, question: Question, task: asyncio.Task[bool]) -> None:
        del self._asking[question]
        if not task.cancelled():
            task.exception()  # whoever asked was told, unless he has hung up

    async def _ask(self, question: Question, resource: Resource) -> bool:
        verb, plural, subresource, namespace, name = question
        attributes = {"verb": verb, "group": resource.group, "resource": plural, "subresource": subresource}
        attributes |= {"namespace": namespace, "name": name}
        review = _review(SELF_ACCESS_REVIEWS, {"resourceAttributes": {k: v for k, v in attributes.items() if v}})
        answer = await self.client.create(SELF_ACCESS_REVIEWS, review)
        allowed = bool((answer.get("status") or {}).get("allowed"))
        self._answers[question] = _Answer(allowed, self.clock() + (ALLOWED_SECONDS if allowed else DENIED_SECONDS))
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)
        return allowed


@dataclass(eq=False, slots=True)
class _Session:
    client: KubeClient
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    user: User | None = None
    valid_until: float = 0.0
    uses: int = 0
    retired: bool = False


class Sessions:
    """Callers that were authenticated lately. At most MAX_SESSIONS are remembered; the client of one that was forgotten
    is closed when its last request has ended."""

    def __init__(self, make_client: Callable[[str], KubeClient], clock: Callable[[], float] = time.monotonic) -> None:
        self._make_client = make_client
        self._clock = clock
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()

    async def enter(self, authorization: str | None) -> _Session:
        """The session of who sent this header; `leave` it afterwards.

        Raises Unauthenticated where the API server does not know him, Unavailable where it does not answer.
        """
        token = _token_of(authorization)
        key = hashlib.sha256(token.encode()).digest()
        if self._refused.get(key, 0.0) > self._clock():
            raise _refused()
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(self._make_client(token))
        self._sessions.move_to_end(key)
        session.uses += 1
        try:
            await self._forget_old()
            async with session.lock:
                if session.user is None or session.valid_until <= self._clock():
                    session.user = await self._authenticate(session)
                    session.valid_until = self._clock() + IDENTITY_SECONDS
        except BaseException as error:
            if isinstance(error, Unauthenticated):
                self._refuse(key, session)
            await self.leave(session)
            raise
        return session

    async def leave(self, session: _Session) -> None:
        """A request of that session has ended."""
        session.uses -= 1
        if session.retired and session.uses == 0:
            await session.client.close()

    async def close(self) -> None:
        """Forgets everybody and closes all clients."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.client.close()

    async def _authenticate(self, session: _Session) -> User:
        answer = await session.client.create(SELF_REVIEWS, _review(SELF_REVIEWS, None))
        info: dict[str, Any] = (answer.get("status") or {}).get("userInfo") or {}
        name, groups = str(info.get("username") or ""), tuple(str(each) for each in info.get("groups") or ())
        if not name or name == "system:anonymous":
            raise _refused()
        if session.user is not None and (session.user.name, session.user.groups) == (name, groups):
            return session.user
        return User(name, groups, session.client, self._clock)

    def _refuse(self, key: bytes, session: _Session) -> None:
        self._refused[key] = self._clock() + REFUSED_SECONDS
        while len(self._refused) > MAX_SESSIONS:
            self._refused.popitem(last=False)
        if self._sessions.get(key) is session:
            del self._sessions[key]
        session.retired = True

    async def _forget_old(self) -> None:
        while len(self._sessions) > MAX_SESSIONS:
            _, session = self._sessions.popitem(last=False)
            session.retired = True
            if session.uses == 0:
                await session.client.close()


async def authenticated(connection: HTTPConnection) -> AsyncIterator[User]:
    """For routes: the caller, until the answer is written."""
    sessions: Sessions = connection.app.state.kajitori.sessions
    session = await sessions.enter(connection.headers.get("authorization"))
    assert session.user is not None
    try:
        yield session.user
    finally:
        await sessions.leave(session)


Caller = Annotated[User, Depends(authenticated)]


def submitted_by(user: User, now: datetime) -> dict[str, str]:
    """The annotations that mark an object as submitted by him at that time."""
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


def _review(resource: Resource, spec: dict[str, Any] | None) -> dict[str, Any]:
    review: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    if spec is not None:
        review["spec"] = spec
    return review
