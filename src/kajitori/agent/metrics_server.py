"""The agent's HTTP server for `/metrics` and `/healthz`, in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from kajitori.agent.exposition import CONTENT_TYPE
from kajitori.errors import Unavailable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_REQUEST_TIMEOUT_SECONDS = 10


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_TIMEOUT_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a line for each scrape would be most of the log."""


@contextmanager
def serve_metrics(host: str, port: int, metrics: Callable[[], bytes], healthy: Callable[[], bool]) -> Iterator[int]:
    """Serve until the block is left, and yield the port. Raises Unavailable if it cannot listen."""

    def answer(environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        if environment["PATH_INFO"] == "/metrics":
            status, kind, body = "200 OK", CONTENT_TYPE, metrics()
        elif environment["PATH_INFO"] == "/healthz":
            healthy_now = healthy()
            status, kind = ("200 OK" if healthy_now else "503 Service Unavailable"), "text/plain"
            body = b"ok\n" if healthy_now else b"counters were not read recently: see the log\n"
        else:
            status, kind, body = "404 Not Found", "text/plain", b"use /metrics or /healthz\n"
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    kind = _Ipv6Server if ":" in host else _Server
    try:
        server = make_server(host, port, answer, server_class=kind, handler_class=_Handler)
    except OSError as error:
        hint = "choose another with --host and --port"
        raise Unavailable(f"the agent can't listen at {host}, port {port}: {error.strerror}", hint=hint) from error
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
