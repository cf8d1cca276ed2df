"""Serves the Web API with uvicorn inside a running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from kajitori.api.context import Api
from kajitori.api.proxy.gate import is_for_programs
from kajitori.api.runs.members.port_forward import tunnel_scope
from kajitori.api.serving.listener import Connection, Listener
from kajitori.api.serving.protocols import HEADER_BYTES, HttpProtocol, WebSocketProtocol
from kajitori.configuration.tls_files import ServingCertificate, followed
from kajitori.configuration.web_limits import WebLimits
from kajitori.core.kubernetes.texts import http_url
from kajitori.core.protection.connections import Bounds, ConnectionTable
from kajitori.errors import Unavailable
from kajitori.kube.connection.joined import PING_SECONDS

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 3
BACKLOG = 2048
FILES_KEPT_FREE = 1024
"""File descriptors that callers' connections may not use: they are for the API server, kept logs and code."""
MESSAGE_BYTES = 1 << 20
"""Largest message of a WebSocket; `kaji exec` sends keyboard input."""

_EXPECTED_ERRORS = frozenset(
    {
        "ASGI callable returned without completing response.",
        "ASGI callable returned without completing handshake.",
        "Invalid HTTP request received.",
        "Unsupported upgrade request.",
    }
)


class ApiServer:
    """Listening sockets at one port. `start` binds the first, `stop` breaks off streams and lets short requests finish.

    It handles no signals; that is up to the owner of the event loop.
    """

    def __init__(
        self,
        app: FastAPI,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """Serve TLS if certificate and key (PEM files) are given, else plain HTTP. Raise InvalidInput if they are
        faulty. Renewed files are used without a restart."""
        self._app = app
        self._tls = ServingCertificate.of(certificate, key)
        self._host = host
        self._port = port
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.host = ""
        self.port = 0

    @property
    def url(self) -> str:
        """The URL that the server listens on."""
        return http_url(self.host, self.port, tls=self._tls is not None)

    @property
    def registry(self) -> CollectorRegistry:
        """The registry of the metrics that /metrics shows."""
        api: Api = self._app.state.kajitori
        return api.process.registry

    async def start(self) -> None:
        """Start and return once connections are accepted. Raises Unavailable if the address can't be bound."""
        listener = _bind(self._host, self._port)
        self.host, self.port = listener.getsockname()[:2]
        logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
        config = uvicorn.Config(
            self._app,
            http=HttpProtocol,
            h11_max_incomplete_event_size=HEADER_BYTES,
            ws=WebSocketProtocol,
            ws_max_size=MESSAGE_BYTES,
            proxy_headers=False,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="on",
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            timeout_keep_alive=30,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
        )
        self._server = _Server(config, self._api, self._tls.context if self._tls is not None else None)
        self._task = asyncio.create_task(self._serve(self._server, listener), name="web-api")
        while not self._server.started:
            if self._task.done():
                await self._task
                raise Unavailable("the Web API did not start", hint="its log says why")
            await asyncio.sleep(0.005)

    def listen_at(self, host: str, interface: str) -> None:
        """Accept connections at a further address, those that arrive on this interface of the machine. Raises
        Unavailable if the address can't be bound; needs root."""
        assert self._server is not None
        self._server.listen(_bind(host, self.port, interface))

    async def stop(self) -> None:
        """Stop and return once every connection is closed."""
        if self._server is None or self._task is None:
            return
        self._server.should_exit = True
        self._api.break_off()
        await asyncio.gather(self._task, return_exceptions=True)
        self._server = self._task = None

    async def _serve(self, server: _Server, listener: socket.socket) -> None:
        async with followed(self._tls):
            await server.serve([listener])

    @property
    def _api(self) -> Api:
        api: Api = self._app.state.kajitori
        return api

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class _Server(uvicorn.Server):
    """A uvicorn server whose connections are accepted by our Listener."""

    def __init__(self, config: uvicorn.Config, api: Api, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._api = api
        self._tls = tls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise Unavailable("the Web API did not start", hint="its log says why")
        assert sockets is not None
        limits, metrics = self._api.callers.limits, self._api.process.metrics
        self._table = table = ConnectionTable[Connection](_bounds(limits))
        metrics.connections.set_function(lambda: len(table))
        metrics.unauthenticated.set_function(lambda: table.unauthenticated)
        self.servers = []
        self.listen(sockets[0])
        self.started = True

    def listen(self, listening: socket.socket) -> None:
        """Accept the connections of a socket until the server stops."""
        limits = self._api.callers.limits
        listener = Listener(
            listening,
            partial(self._protocol, limits.header_seconds),
            self._table,
            self._api.process.metrics,
            tls=self._tls,
            tls_seconds=limits.header_seconds,
        )
        self.servers.append(listener)  # type: ignore[arg-type]  # has all methods that uvicorn calls

    def _protocol(self, header_seconds: float, connection: Connection) -> asyncio.Protocol:
        return HttpProtocol(
            connection,
            header_seconds,
            self._tunnelled,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    def _tunnelled(self, scope: Any) -> Any:
        """Return the scope of a WebSocket that is passed on in bytes, and None for any other."""
        if is_for_programs(scope, self._api.programs.origins):
            return scope
        return tunnel_scope(scope)


def _bounds(limits: WebLimits) -> Bounds:
    """Return the limits on connections, after raising the process's limit on open files as far as possible.

    The number of connections is reduced if that limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + FILES_KEPT_FREE
    if soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    connections = min(limits.connections, max(soft // 2, soft - FILES_KEPT_FREE))
    if connections < limits.connections:
        log.warning("at most %d connections, since this process may open %d files (ulimit -n)", connections, soft)
    return Bounds(
        in_all=connections,
        per_address=limits.connections_per_address,
        unauthenticated=min(limits.unauthenticated, connections),
        unauthenticated_per_address=limits.unauthenticated_per_address,
    )


def _bind(host: str, port: int, interface: str = "") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if interface:
            listener = _listener_on(interface, family, (host, port))
        else:
            listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "the port is in use" if taken else getattr(error, "strerror", None) or str(error)
        hint = "choose another port with --port; 0 takes any that is free"
        if not taken:
            hint = "name an address of this machine with --host, and a free port with --port"
        raise Unavailable(f"the Web API cannot listen on {host}:{port}: {why}", hint=hint) from error
    listener.setblocking(False)
    # Without TCP_NODELAY the end of an answer may wait 40 ms, except with uvloop.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _listener_on(interface: str, family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    """Return a socket that listens only to what arrives on this interface."""
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Whether a log record of uvicorn is a real error.

    These are none: streams that were broken off on purpose, refused execs, and callers that do not send HTTP.
    """
    return record.getMessage() not in _EXPECTED_ERRORS
