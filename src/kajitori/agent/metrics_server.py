"""The agent's HTTP or HTTPS server for `/metrics` and `/healthz`, in a thread of its own."""

from __future__ import annotations

import hmac
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from kajitori.agent.exposition import CONTENT_TYPE
from kajitori.configuration.tls_files import FileText, ServingCertificate
from kajitori.errors import Unavailable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_REQUEST_TIMEOUT_SECONDS = 10

log = logging.getLogger(__name__)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    tls: ServingCertificate | None = None

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. Its TLS handshake is part of the request's thread, so a slow client delays no other."""
        connection, address = super().get_request()
        if self.tls is not None:
            self.tls.refresh()
            connection = self.tls.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a connection that failed, such as one that speaks no TLS, at debug level instead of printing it."""
        log.debug("a request for metrics from %s failed", client_address, exc_info=True)


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_TIMEOUT_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a line for each scrape would be most of the log."""


@contextmanager
def serve_metrics(
    host: str,
    port: int,
    metrics: Callable[[], bytes],
    healthy: Callable[[], bool],
    *,
    tls: ServingCertificate | None = None,
    token: FileText | None = None,
) -> Iterator[int]:
    """Serve until the block is left, and yield the port. Raises Unavailable if it cannot listen.

    Without `tls` it serves plain HTTP. With `token`, `/metrics` needs it as a bearer token. The files of both are read
    again when they change.
    """

    def answer(environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        if environment["PATH_INFO"] == "/metrics" and not _may_read(environment, token):
            status, kind, body = "401 Unauthorized", "text/plain", b"send the token of --metrics-token\n"
        elif environment["PATH_INFO"] == "/metrics":
            status, kind, body = "200 OK", CONTENT_TYPE, metrics()
        elif environment["PATH_INFO"] == "/healthz":
            healthy_now = healthy()
            status, kind = ("200 OK" if healthy_now else "503 Service Unavailable"), "text/plain"
            body = b"ok\n" if healthy_now else b"counters were not read recently: see the log\n"
        else:
            status, kind, body = "404 Not Found", "text/plain", b"use /metrics or /healthz\n"
        headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
        start(status, [*headers, ("WWW-Authenticate", "Bearer")] if status.startswith("401") else headers)
        return [body]

    kind = _Ipv6Server if ":" in host else _Server
    try:
        server = make_server(host, port, answer, server_class=kind, handler_class=_Handler)
    except OSError as error:
        hint = "choose another with --host and --port"
        raise Unavailable(f"the agent can't listen at {host}, port {port}: {error.strerror}", hint=hint) from error
    server.tls = tls
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _may_read(environment: WSGIEnvironment, token: FileText | None) -> bool:
    """Whether the request has the token. An empty file opens nothing."""
    if token is None:
        return True
    token.refresh()
    wanted = token.text.strip()
    given = str(environment.get("HTTP_AUTHORIZATION", ""))
    return bool(wanted) and hmac.compare_digest(given.encode("latin-1", "replace"), f"Bearer {wanted}".encode())
