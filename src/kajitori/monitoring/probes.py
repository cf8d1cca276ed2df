"""The HTTP server for `/healthz`, `/readyz` and `/metrics` of a process that serves nothing else."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from types import TracebackType

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kajitori.core.kubernetes.texts import http_url
from kajitori.errors import Unavailable

_STOP_SECONDS = 1.0

Check = Callable[[], str]
"""Returns the reason for which a probe fails; empty if it succeeds."""


class ProbeServer:
    """Serves from the event loop that does the work, so the probes fail if that loop hangs. A context manager."""

    def __init__(
        self, registry: CollectorRegistry, *, host: str, port: int, ready: Check, tls: ssl.SSLContext | None = None
    ) -> None:
        self._registry = registry
        self._host = host
        self._port = port
        self._tls = tls
        self._checks: dict[str, Check] = {"/healthz": lambda: "", "/readyz": ready}
        self._runner: web.AppRunner | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths that it serves."""
        return (*self._checks, "/metrics")

    @property
    def url(self) -> str:
        """Its address, once started."""
        return http_url(self._host, self._port, tls=self._tls is not None)

    async def __aenter__(self) -> ProbeServer:
        """Start listening. Raises Unavailable if it cannot listen at the address."""
        app = web.Application()
        for path in self._checks:
            app.router.add_get(path, self._check)
        app.router.add_get("/metrics", self._answer_metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=self._tls).start()
        except OSError as error:
            await runner.cleanup()
            message = f"metrics and probes can't be served at {self._host}, port {self._port}: {error.strerror}"
            raise Unavailable(message, hint="choose another address with --host and --port") from error
        self._host, self._port = runner.addresses[0][:2]
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _check(self, request: web.Request) -> web.Response:
        wrong = self._checks[request.path]()
        return web.Response(text=f"{wrong or 'ok'}\n", status=503 if wrong else 200)

    async def _answer_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
