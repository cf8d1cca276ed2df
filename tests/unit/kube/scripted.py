"""A server that gives prepared answers."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.unit.kube.fake_api import serving, status_of

POD = {"metadata": {"name": "x", "namespace": "a", "uid": "u"}, "status": {"phase": "Running"}}


Answer = web.Response | Callable[[web.Request], Any]


class Script:
    """A server that gives the prepared answers, the last one for ever, and records the requests."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: deque[Answer] = deque()
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        body = await request.read()
        self.asked.append((request.method, request.raw_path, json.loads(body) if body else None))
        self.headers.append(dict(request.headers))
        answer = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.Response):
            return web.Response(body=answer.body, status=answer.status, headers=answer.headers)
        made: web.StreamResponse = await answer(request)
        return made


def ok(document: Any = POD) -> web.Response:
    """Return a successful answer."""
    return web.json_response(document)


def no(code: int, reason: str = "", message: str = "", retry_after: str = "") -> web.Response:
    """Return a refusal."""
    headers = {"Retry-After": retry_after} if retry_after else {}
    return web.json_response(status_of(code, message, reason), status=code, headers=headers)


async def hang_up(request: web.Request) -> web.Response:
    """Break the connection after the request was read."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@asynccontextmanager
async def scripted(*answers: Answer) -> AsyncIterator[Script]:
    """Run a Script."""
    script = Script()
    script.answers.extend(answers)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    async with serving(app) as script.url:
        yield script
