"""The relay's streams over HTTP: one for each node that asks, for as long as it listens."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from urllib.parse import unquote

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kajitori.core.traffic.node_feed import ALIVE_SECONDS, PATH, SINCE, encode_line
from kajitori.errors import KajitoriError, Unauthenticated, Unavailable
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.platform.agents import AgentTokens
from kajitori.relay.feed import Follower, NodeFeed

log = logging.getLogger(__name__)

BACKLOG = 2048
"""All agents of a cluster may come at once."""

_STOP_SECONDS = 3.0

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RelayServer:
    """Listens from `start` to `stop`.

    agents: who follows a node has to show the token of that node's own agent. Without: `token`, one for all; where that
    is empty, nothing.
    """

    def __init__(
        self,
        mirror: Mirror,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        agents: AgentTokens | None = None,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        alive_seconds: float = ALIVE_SECONDS,
    ) -> None:
        self._mirror = mirror
        self._feed = NodeFeed(mirror)
        self._host = host
        self._port = port
        self._agents = agents
        self._token = token.encode()
        self._tls = tls
        self._alive_seconds = alive_seconds
        self._streams: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._metrics = CollectorRegistry()
        gauges: tuple[tuple[str, str, Callable[[], float]], ...] = (
            ("kajitori_relay_streams", "Nodes that are followed now.", lambda: self._feed.follower_count),
            ("kajitori_relay_age_seconds", "How long ago what is told was known.", self._feed.age_seconds),
        )
        for name, words, value in gauges:
            Gauge(name, words, registry=self._metrics).set_function(value)

    @property
    def url(self) -> str:
        """Where it listens, once started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self._port}"

    async def start(self) -> None:
        """Returns when it accepts connections. Raises Unavailable where the address can't be had."""
        app = web.Application()
        app.router.add_get(PATH, self._pods)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._figures)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port, ssl_context=self._tls, backlog=BACKLOG)
            await site.start()
        except OSError as error:
            await runner.cleanup()
            said = f"the relay can't listen at {self._host}, port {self._port}: {error.strerror}"
            raise Unavailable(said, hint="choose another with --host and --port") from error
        self._host, self._port = runner.addresses[0][:2]
        self._runner = runner

    async def stop(self) -> None:
        """Breaks off all streams: whoever followed asks another relay."""
        self._feed.close()
        for stream in self._streams:
            stream.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> RelayServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ------------------------------------------------------------------------------------------ what is answered

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        node = unquote(request.match_info["node"])
        try:
            await self._require(request, node)
        except KajitoriError as error:
            headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else {}
            said = {"code": error.code, "message": error.message}
            return web.json_response(said, status=error.http_status, headers=headers)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        await response.prepare(request)
        with self._feed.follow(node, request.query.get(SINCE, "")) as follower:
            stream = asyncio.create_task(self._tell(follower, response, _shown(request)))
            self._streams.add(stream)
            try:
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await stream
            finally:
                stream.cancel()
                self._streams.discard(stream)
        return response

    async def _tell(self, follower: Follower, response: web.StreamResponse, token: str) -> None:
        """Lines, one at a time: while he does not read the last one, the next waits and sums up. Returns when the token
        that he showed is good no more: he comes back with his newest one, and is told what he missed."""
        loop = asyncio.get_running_loop()
        quiet_until = loop.time()
        while self._agents is None or self._agents.still_good(token):
            line = follower.line()
            if line.whole or line.pods or line.gone or loop.time() >= quiet_until:
                await response.write(encode_line(line) + b"\n")
                quiet_until = loop.time() + self._alive_seconds * random.uniform(0.5, 1.0)  # not all at once
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(quiet_until):
                    await follower.changed.wait()

    async def _require(self, request: web.Request, node: str) -> None:
        """Returns where he may follow that node. Raises Unauthenticated, Forbidden, Unavailable."""
        shown = _shown(request)
        if self._agents is not None:
            await self._agents.require(shown, node)
        elif self._token and not hmac.compare_digest(shown.encode(), self._token):
            raise Unauthenticated("the bearer token is not the one that this relay was given")

    async def _health(self, _request: web.Request) -> web.Response:
        """Well as soon as it has something to tell, and while the API server is away, too: that is what it is for."""
        well = self._mirror.synced
        return web.Response(text="ok\n" if well else "not everything was read yet\n", status=200 if well else 503)

    async def _figures(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._metrics), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _shown(request: web.Request) -> str:
    """The token that somebody shows."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ")
