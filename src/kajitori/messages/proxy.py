"""The HTTP proxy of a site. It connects to the receivers, so their addresses are in no connection of this process.

What a request asks of the proxy is seen instead: `CONNECT hooks.slack.com:443`, or `POST http://host/path`.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

_REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r\n")
_PORTS = {"http": 80, "https": 443}
_CONNECTING: ContextVar[http.client.HTTPConnection | None] = ContextVar("connecting", default=None)
"""The HTTP client's connection that this thread is making."""


def announce_connections() -> None:
    """Have all HTTP connections of urllib3, which requests and so services use, tell when they are being made.

    A socket's audit event has an address only, and urllib3 raises `http.client.connect` when the socket is connected.
    """
    from urllib3 import connection, connectionpool

    class Plain(connection.HTTPConnection):
        def connect(self) -> None:
            with announced(self):
                super().connect()

    class Encrypted(connection.HTTPSConnection):
        def connect(self) -> None:
            with announced(self):
                super().connect()

    connectionpool.HTTPConnectionPool.ConnectionCls = Plain
    connectionpool.HTTPSConnectionPool.ConnectionCls = Encrypted


@contextlib.contextmanager
def announced(connection: http.client.HTTPConnection) -> Iterator[None]:
    """Mark what this thread connects to as the peer of this HTTP client's connection."""
    token = _CONNECTING.set(connection)
    try:
        yield
    finally:
        _CONNECTING.reset(token)


class Proxy:
    """The proxy at a URL, and the connections to it by which the policy allowed a request."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._allowed: weakref.WeakSet[http.client.HTTPConnection] = weakref.WeakSet()

    def is_peer_of(self, connection: object) -> bool:
        """Whether this is an HTTP client's connection to the proxy."""
        if not isinstance(connection, http.client.HTTPConnection):
            return False
        return (connection.host.strip("[]").lower(), connection.port) == (self.host, self._port)

    def is_connecting(self) -> bool:
        """Whether an HTTP client connects to the proxy in this thread now. Other protocols have no business there."""
        return self.is_peer_of(_CONNECTING.get())

    def asked(self, connection: http.client.HTTPConnection, data: Any) -> tuple[str, int] | None:
        """Return host and port that these bytes ask the proxy for; None if they belong to a request that was allowed.

        Raises ValueError for bytes that name no host.
        """
        is_tunnel = getattr(connection, "_tunnel_host", None) is not None
        request = _REQUEST.match(data) if isinstance(data, bytes) else None
        if connection in self._allowed and (is_tunnel or request is None):
            return None
        if request is None:
            raise ValueError("no request came before these bytes")
        method, target = request[1], request[2].decode("ascii", "replace")
        parts = urlsplit(f"//{target}" if method == b"CONNECT" else target)
        if not parts.hostname:
            raise ValueError("the request names no host")
        return parts.hostname, parts.port or _PORTS.get(parts.scheme, 443)

    def allow(self, connection: http.client.HTTPConnection) -> None:
        """Let this connection send the rest of its request."""
        self._allowed.add(connection)
