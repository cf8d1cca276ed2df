"""The relay's HTTP server: one stream for each client that follows a node."""

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

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.agents import AgentTokens
from kajitori.core.kubernetes.texts import http_url
from kajitori.core.traffic.node_feed import ALIVE_SECONDS, PATH, SINCE, encode_line
from kajitori.errors import KajitoriError, Unauthenticated, Unavailable
from kajitori.relay.feed import Follower, NodeFeed

log = logging.getLogger(__name__)

BACKLOG = 2048
"""Length of the accept queue: all agents of a cluster may connect at once."""

_STOP_SECONDS = 3.0

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RelayServer:
    """Serves from `start` to `stop`.

    With `agents`, a client must show the token of the followed node's own agent. Otherwise `token` is required from
    all clients; if it is empty, none is required.
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
            ("kajitori_relay_age_seconds", "Age of the state that is reported.", self._feed.age_seconds),
        )
        for name, text, value in gauges:
            Gauge(name, text, registry=self._metrics).set_function(value)

    @property
    def url(self) -> str:
        """Its address, once started."""
        return http_url(self._host, self._port, tls=self._tls is not None)

    async def start(self) -> None:
        """Start accepting connections. Raises Unavailable if it cannot listen at the address."""
        app = web.Application()
        app.router.add_get(PATH, self._stream_pods)
        app.router.add_get("/healthz", self._answer_health)
        app.router.add_get("/metrics", self._answer_metrics)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port, ssl_context=self._tls, backlog=BACKLOG)
            await site.start()
        except OSError as error:
            await runner.cleanup()
            message = f"the relay can't listen at {self._host}, port {self._port}: {error.strerror}"
            raise Unavailable(message, hint="choose another with --host and --port") from error
        self._host, self._port = runner.addresses[0][:2]
        self._runner = runner

    async def stop(self) -> None:
        """End all streams; the clients connect to another relay."""
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

    # ------------------------------------------------------------------------------------------ routes

    async def _stream_pods(self, request: web.Request) -> web.StreamResponse:
        node = unquote(request.match_info["node"])
        try:
            await self._require_access(request, node)
        except KajitoriError as error:
            headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else {}
            body = {"code": error.code, "message": error.message}
            return web.json_response(body, status=error.http_status, headers=headers)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        await response.prepare(request)
        with self._feed.follow(node, request.query.get(SINCE, "")) as follower:
            stream = asyncio.create_task(self._send_lines(follower, response, _bearer_token(request)))
            self._streams.add(stream)
            try:
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await stream
            finally:
                stream.cancel()
                self._streams.discard(stream)
        return response

    async def _send_lines(self, follower: Follower, response: web.StreamResponse, token: str) -> None:
        """Send lines one at a time. While the client has not read a line, later changes are collected for the next one.

        Returns when the token is no longer valid. The client then connects again with its newest token, and gets the
        changes that it missed.
        """
        loop = asyncio.get_running_loop()
        quiet_until = loop.time()
        while self._agents is None or self._agents.still_good(token):
            line = follower.line()
            if line.whole or line.pods or line.gone or loop.time() >= quiet_until:
                await response.write(encode_line(line) + b"\n")
                quiet_until = loop.time() + self._alive_seconds * random.uniform(0.5, 1.0)  # spread the streams
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(quiet_until):
                    await follower.changed.wait()

    async def _require_access(self, request: web.Request, node: str) -> None:
        """Check that the client may follow this node. Raises Unauthenticated, Forbidden or Unavailable."""
        shown = _bearer_token(request)
        if self._agents is not None:
            await self._agents.require(shown, node)
        elif self._token and not hmac.compare_digest(shown.encode(), self._token):
            raise Unauthenticated("the bearer token is not the one that this relay was given")

    async def _answer_health(self, _request: web.Request) -> web.Response:
        """Report healthy once the mirror is complete, even if the API server cannot be reached later."""
        healthy = self._mirror.synced
        text = "ok\n" if healthy else "the cluster's state was not read completely yet\n"
        return web.Response(text=text, status=200 if healthy else 503)

    async def _answer_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._metrics), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _bearer_token(request: web.Request) -> str:
    """Return the token in the Authorization header; empty if there is none."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ")
