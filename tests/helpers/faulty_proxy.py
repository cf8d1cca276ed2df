"""A proxy before a Kubernetes API server that fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
from aiohttp import web

from kajitori.kube.config import KubeConfig

_HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"}


class FaultyProxy:
    """Plain HTTP on loopback; `config` leads through it. Everything passes unless it is told otherwise."""

    def __init__(self, upstream: KubeConfig) -> None:
        self._upstream = upstream
        self.config = upstream
        self.status = 0
        """Every request is answered with this; 0 lets them pass. 429 comes with Retry-After: 1, as kube-apiserver's."""
        self.accepts = True
        """False hangs up on every request without an answer."""
        self.answered: Counter[int] = Counter()
        """Answers by status, those of the server behind included."""
        self.writes = 0
        """Requests other than GET that came."""
        self._watches: set[web.StreamResponse] = set()
        self._transports: dict[web.StreamResponse, asyncio.Transport] = {}

    @property
    def open_watches(self) -> int:
        """How many watches pass through now."""
        return len(self._watches)

    def break_watches(self) -> int:
        """Cuts every open watch in the middle of a line; answers how many there were."""
        cut = list(self._watches)
        for response in cut:
            transport = self._transports[response]
            transport.write(b'100\r\n{"type":"MODIFIED","object":{"kind":"Pod",')
            transport.abort()
        return len(cut)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FaultyProxy]:
        """Serves until the end."""
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
        if not self.accepts:
            assert request.transport is not None
            request.transport.close()
            raise asyncio.CancelledError
        if self.status:
            self.answered[self.status] += 1
            return _failure(self.status)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        async with self._session.request(
            request.method,
            f"{self._upstream.server}{request.raw_path}",
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            self.answered[answer.status] += 1
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            if "watch" in request.query:
                self._watches.add(response)
                assert isinstance(request.transport, asyncio.Transport)
                self._transports[response] = request.transport
            try:
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
            except ConnectionError:
                pass  # whoever asked has gone, or was cut off
            finally:
                self._watches.discard(response)
                self._transports.pop(response, None)
            return response


def _failure(status: int) -> web.Response:
    reason = {429: "TooManyRequests", 401: "Unauthorized", 403: "Forbidden"}.get(status, "InternalError")
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "on demand",
        "reason": reason,
        "code": status,
    }
    headers = {"Retry-After": "1"} if status == 429 else {}
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers)
