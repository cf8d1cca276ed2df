"""Middleware of every request: limits its body, measures its duration, and answers bugs with a problem."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

from prometheus_client import Histogram
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kajitori.api.answers.problems import bug_response
from kajitori.api.requests.limits import Budget
from kajitori.errors import TooLarge, TooSlow

log = logging.getLogger(__name__)

BODY_LIMIT_BYTES = 1 << 20

NOTICE = "Kajitori-Notice"
"""Header of every answer while there is a notice for all callers; `kaji` prints it."""

OWN_NOTICE = "Kajitori-Own-Notice"
"""Header of answers to a user with an open question, such as what is to become of idle GPUs; `kaji` prints it."""

HUNG_UP = 499
"""Status in metrics of a request if the caller hung up before the answer. It is never sent."""

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
"""Header that keeps browsers from treating a program's output as anything but text."""


def note_caller(connection: HTTPConnection, name: str) -> None:
    """Mark a request as authenticated: its body may be read, and its connection counts as authenticated."""
    connection.state.caller = name
    accepted = getattr(connection.state, "connection", None)
    if accepted is not None:
        accepted.authenticated()


class Guard:
    """Measures requests, limits their bodies, and answers bugs with a problem.

    A body is not read before `note_caller` was called for its request. `unbounded` tells for which requests the route
    limits the body itself, and `larger` returns the limit in bytes of those that may be larger. `note` is told the
    status of each answer. `notice` returns the current notice for all callers, or an empty text. `own_notice` returns
    that for the caller with this name.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        request_seconds: Histogram,
        bodies: Budget,
        body_seconds: float,
        limit_bytes: int = BODY_LIMIT_BYTES,
        unbounded: Callable[[Scope], bool] = lambda scope: False,
        larger: Callable[[Scope], int] = lambda scope: 0,
        note: Callable[[Scope, int], None] = lambda scope, status: None,
        notice: Callable[[], str] = lambda: "",
        own_notice: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._app = app
        self._note = note
        self._notice = notice
        self._own_notice = own_notice
        self._unbounded = unbounded
        self._larger = larger
        self._request_seconds = request_seconds
        self._bodies = bodies
        self._body_seconds = body_seconds
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        started = False

        def measure(status: int) -> None:
            self._note(scope, status)
            self._request_seconds.labels(scope["method"], _route(scope), status).observe(time.perf_counter() - began)

        async def measured(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                measure(message["status"])
                message["headers"] = [*message.get("headers", ()), *self._headers(scope)]
            await send(message)

        limit_bytes = max(self._limit_bytes, self._larger(scope))
        body = _Body(scope, receive, self._bodies, self._body_seconds, limit_bytes)
        body.is_bounded = not self._unbounded(scope)
        try:
            await self._app(scope, body.receive if _has_body(scope) else receive, measured)
        except ClientDisconnect:
            measure(HUNG_UP)
            log.debug("a caller hung up while it sent a body to %s", _route(scope))
        except Exception as error:
            response = bug_response(error)
            if not started:
                await response(scope, receive, measured)
        finally:
            body.release()

    def _headers(self, scope: Scope) -> Iterator[tuple[bytes, bytes]]:
        """Yield the headers that every answer gets: cookies of the session, and notices for the caller."""
        yield _NO_SNIFFING
        state = scope.get("state", {})
        for cookie in state.get("cookies", ()):
            yield b"set-cookie", cookie.encode("latin-1")
        user = state.get("user")
        if user is not None and (own := self._own_notice(user.name)):
            yield OWN_NOTICE.lower().encode(), own.encode("ascii", "replace")
        if notice := self._notice():
            yield NOTICE.lower().encode(), notice.encode("ascii", "replace")


class _Body:
    """The body of one request, read when its route asks for it.

    Raises TooLarge, TooSlow, and Busy if all bodies together would take too much memory.
    """

    def __init__(self, scope: Scope, receive: Receive, budget: Budget, seconds: float, limit_bytes: int) -> None:
        self.is_bounded = True
        self._scope = scope
        self._receive = receive
        self._budget = budget
        self._seconds = seconds
        self._limit_bytes = limit_bytes
        self._deadline: float | None = None
        self._caller = ""
        self._held_bytes = 0
        self._has_ended = False

    async def receive(self) -> Message:
        """Return the next part of the body; after its end, the message that the caller hung up."""
        if self._has_ended:
            return await self._receive()
        if self._scope["method"] in ("GET", "HEAD"):  # no route takes a body with these
            self._has_ended = True
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._deadline is None:
            self._begin()
        if not self.is_bounded:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(f"the request's body did not arrive in {self._seconds:.0f} s", hint="send it again") from None
        size_bytes = len(message.get("body", b""))
        if self._held_bytes + size_bytes > self._limit_bytes:
            raise _too_large(self._held_bytes + size_bytes, self._limit_bytes)
        self._budget.take(self._caller, size_bytes)
        self._held_bytes += size_bytes
        self._has_ended = not message.get("more_body", False)
        return message

    def release(self) -> None:
        """Release the memory of the body after the request."""
        self._budget.give_back(self._caller, self._held_bytes)
        self._held_bytes = 0

    def _begin(self) -> None:
        caller = self._scope.get("state", {}).get("caller")
        if caller is None:
            raise RuntimeError("a route reads a body before its caller is authenticated")
        self._caller = caller
        self._deadline = asyncio.get_running_loop().time() + self._seconds
        announced = next((value for name, value in self._scope["headers"] if name == b"content-length"), b"0")
        if self.is_bounded and announced.isdigit() and int(announced) > self._limit_bytes:
            raise _too_large(int(announced), self._limit_bytes)


def _route(scope: Scope) -> str:
    """Return the path template, so that metrics have one series per route."""
    return str(getattr(scope.get("route"), "path", "")) or "unknown"


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _too_large(size: int, limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"the request's body has {size} bytes or more; {limit_bytes} are allowed",
        hint="put large texts into a file on a volume",
    )
