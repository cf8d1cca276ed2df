"""A proxy before a Kubernetes API server that fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import NoReturn

import aiohttp
from aiohttp import web

from kajitori.kube.connection.config import KubeConfig

_HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"}


class FaultyProxy:
    """A plain HTTP proxy on loopback for clients with `config`. It forwards everything until it is told to fail."""

    def __init__(self, upstream: KubeConfig) -> None:
        self._upstream = upstream
        self.config = upstream
        self.status = 0
        """Status of all answers; 0 forwards requests. 429 comes with Retry-After: 1, as from kube-apiserver."""
        self.accepts = True
        """If false, connections are closed without an answer."""
        self.loses_answers = False
        """If true, requests are forwarded but connections are closed without the answer."""
        self.shows_pods = True
        """If false, watches of Pods, and nothing else, are answered with 500."""
        self.answered: Counter[int] = Counter()
        """Number of answers by status, including those of the server."""
        self.writes = 0
        """Number of requests other than GET."""
        self._fuse: tuple[str, str, int, Callable[[], None]] | None = None
        self._watches: dict[web.StreamResponse, str] = {}
        """The paths of the open watches."""
        self._transports: dict[web.StreamResponse, asyncio.Transport] = {}
        self._forgotten: set[str] = set()
        """Paths with a lost history: watches are answered with 410 until a client lists again."""

    @property
    def open_watches(self) -> int:
        """Return the number of watches that are open now."""
        return len(self._watches)

    def break_watches(self) -> int:
        """Cut every open watch in the middle of a line. Return their number."""
        cut = list(self._watches)
        for response in cut:
            transport = self._transports[response]
            transport.write(b'100\r\n{"type":"MODIFIED","object":{"kind":"Pod",')
            transport.abort()
        return len(cut)

    def forget(self) -> None:
        """End every open watch with 410, like a server that has dropped the old events.

        Clients must list again before they can watch.
        """
        line = json.dumps({"type": "ERROR", "object": _status(410)}).encode() + b"\n"
        for response, path in list(self._watches.items()):
            self._forgotten.add(path)
            self.answered[410] += 1
            transport = self._transports[response]
            transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line))
            transport.close()

    def fail(self, kind: str) -> None:
        """Let requests fail from now on: `500`, `429`, …, `hangs up`, `loses answers`, `shows no Pods`, or `no`.

        With `forgets`, open watches lose their history, and everything else is forwarded.
        """
        self.status = int(kind) if kind.isdigit() else 0
        self.accepts = kind != "hangs up"
        self.loses_answers = kind == "loses answers"
        self.shows_pods = kind != "shows no Pods"

    def fail_at(self, method: str, path_end: str, count: int, kind: str) -> asyncio.Event:
        """Call `fail(kind)` at the `count`-th request with this method and end of the path. Return the event of that.

        Dry runs do not count.
        """
        begun = asyncio.Event()

        def begin() -> None:
            self.fail(kind)
            if kind == "forgets":
                self.forget()
            else:
                self.break_watches()
            begun.set()

        self._fuse = method, path_end, count, begin
        return begun

    def _burn(self, request: web.Request) -> None:
        if self._fuse is None:
            return
        method, path_end, left, begin = self._fuse
        if request.method != method or not request.path.endswith(path_end) or "dryRun" in request.query:
            return
        self._fuse = (method, path_end, left - 1, begin) if left > 1 else None
        if left == 1:
            begin()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FaultyProxy]:
        """Run the proxy until the end of the context."""
        trust = ssl.create_default_context(
            cafile=self._upstream.ca_file, cadata=(self._upstream.ca_pem or b"").decode() or None
        )
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0), auto_decompress=False, read_bufsize=1 << 21
        ) as self._session:
            app = web.Application(client_max_size=1 << 24)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                port = runner.addresses[0][1]
                self.config = replace(self._upstream, server=f"http://127.0.0.1:{port}", ca_file=None, ca_pem=b"")
                yield self
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            self.writes += 1
        self._burn(request)
        if not self.accepts or (self.loses_answers and "watch" in request.query):
            _hang_up(request)
        status = self.status
        if not self.shows_pods and "watch" in request.query and request.path.endswith("/pods"):
            status = 500
        if "watch" in request.query and request.path in self._forgotten:
            status = 410
        elif request.method == "GET":
            self._forgotten.discard(request.path)
        if status:
            self.answered[status] += 1
            return _failure(status)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        async with self._session.request(
            request.method,
            f"{self._upstream.server}{request.raw_path}",
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            self.answered[answer.status] += 1
            if self.loses_answers:
                await answer.read()
                _hang_up(request)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            if "watch" in request.query:
                self._watches[response] = request.path
                assert isinstance(request.transport, asyncio.Transport)
                self._transports[response] = request.transport
            try:
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
            except ConnectionError:
                pass  # the client has gone, or was cut off
            finally:
                self._watches.pop(response, None)
                self._transports.pop(response, None)
            return response


def _hang_up(request: web.Request) -> NoReturn:
    if request.transport is not None:  # else the client has gone already
        request.transport.close()
    raise asyncio.CancelledError


_REASONS = {401: "Unauthorized", 403: "Forbidden", 410: "Expired", 429: "TooManyRequests"}


def _status(status: int) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "on demand",
        "reason": _REASONS.get(status, "InternalError"),
        "code": status,
    }


def _failure(status: int) -> web.Response:
    headers = {"Retry-After": "1"} if status == 429 else {}
    return web.Response(
        status=status, body=json.dumps(_status(status)).encode(), content_type="application/json", headers=headers
    )
