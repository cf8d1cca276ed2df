"""What happens to every request on its way in and out: a limit on its body, a measurement, and a net under all bugs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kajitori.api.problems import bug_response, error_response
from kajitori.errors import TooLarge

BODY_LIMIT_BYTES = 1 << 20

NOTICE = "Kajitori-Notice"
"""A header of every answer while there is something that all callers should know; `kaji` prints it."""

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
"""A program's output is text, whatever it looks like to a browser."""


class Guard:
    """Measures requests, refuses bodies over the limit before anybody parses them, and answers bugs as problems.

    `unread` says whose body is left to its route, with a limit of its own; `notice` what all callers should know now.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        request_seconds: Histogram,
        limit_bytes: int = BODY_LIMIT_BYTES,
        unread: Callable[[Scope], bool] = lambda scope: False,
        notice: Callable[[], str] = lambda: "",
    ) -> None:
        self._app = app
        self._notice = notice
        self._unread = unread
        self._request_seconds = request_seconds
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        started = False

        async def measured(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                seconds = time.perf_counter() - began
                self._request_seconds.labels(scope["method"], _route(scope), message["status"]).observe(seconds)
                message["headers"] = [*message.get("headers", ()), _NO_SNIFFING]
                if said := self._notice():
                    message["headers"].append((NOTICE.lower().encode(), said.encode("ascii", "replace")))
            await send(message)

        try:
            if _has_body(scope) and not self._unread(scope):
                receive = _replayed(await _body(scope, receive, self._limit_bytes), receive)
            await self._app(scope, receive, measured)
        except TooLarge as error:
            await error_response(error)(scope, receive, measured)
        except Exception as error:
            response = bug_response(error)
            if not started:
                await response(scope, receive, measured)


def _route(scope: Scope) -> str:
    """The path with its variables unfilled, so that there are as many series as routes."""
    return str(getattr(scope.get("route"), "path", "")) or "unknown"


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


async def _body(scope: Scope, receive: Receive, limit_bytes: int) -> list[Message]:
    """All of the request's body. Raises TooLarge as soon as it is clear that it is over the limit."""
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(int(announced), limit_bytes)
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if size > limit_bytes:
            raise _too_large(size, limit_bytes)
        if message["type"] != "http.request" or not message.get("more_body", False):
            return messages


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Any:
        message = next(waiting, None)
        return message if message is not None else await receive()

    return replay


def _too_large(size: int, limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"the request's body has {size} bytes or more; {limit_bytes} are allowed",
        hint="put large texts into a file on a volume",
    )
