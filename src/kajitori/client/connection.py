"""HTTP/1.1 to one server with the standard library alone: persistent connections, streams, TLS and proxies.

Importing an HTTP library takes longer than most commands run, and little is needed here: one server, one request at a
time per connection, and bodies that are bytes.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    import ssl

HTTP_PORT, HTTPS_PORT = 80, 443
CONNECT_SECONDS = 5.0
KEEPALIVE_SECONDS = 30
READ_BYTES = 1 << 16


class NotReached(Exception):
    """The request was not sent: the client could not connect to the server or its proxy."""


class ProxyFailed(NotReached):
    """The proxy did not answer, or refused to connect to the server."""


class NotTrusted(NotReached):
    """The server's certificate is not signed by a trusted authority, or belongs to another server."""


class Lost(Exception):
    """The connection broke or timed out after the request may have been sent."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    """Path and query, beginning with a slash."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout_seconds: float | None = None
    """Longest time without data from the server, in seconds; None: no limit."""


class Response:
    """An answer. Its status and headers have arrived; its body is read on demand."""

    def __init__(self, status: int, headers: Mapping[str, str], chunks: Iterator[bytes], url: str = "") -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.url = url
        """The server's URL."""
        self._chunks = chunks
        self._content: bytes | None = None

    @classmethod
    def of(cls, status: int, body: bytes | object = b"", headers: Mapping[str, str] | None = None) -> Self:
        """Return an answer with this body; a body that is not bytes is encoded as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return cls(status, headers or {}, iter([content] if content else []))

    @property
    def content(self) -> bytes:
        """The whole body. Raises Lost if it ends early."""
        if self._content is None:
            self._content = b"".join(self._chunks)
        return self._content

    def json(self) -> Any:
        """Return the body decoded from JSON. Raises ValueError if it is not JSON."""
        return json.loads(self.content)

    def chunks(self) -> Iterator[bytes]:
        """Return the body in chunks of any size, as they arrive. Raises Lost if it ends early."""
        return self._chunks

    def close(self) -> None:
        """Drop the rest of the body."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


class Transport(Protocol):
    """Sends requests. Tests replace it."""

    def send(self, request: Request) -> Response:
        """Send a request and return the answer, before its body is read. Raises NotReached and Lost."""
        ...

    def close(self) -> None: ...


class HttpTransport:
    """Connections to one server, kept open between requests; may be used from several threads."""

    def __init__(
        self,
        url: str,
        *,
        environment: Mapping[str, str] | None = None,
        use_proxies: bool = True,
        tls: Callable[[], ssl.SSLContext] | None = None,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        """Prepare connections to `url`, `http://host:port`. A path in `url` is put before the paths of requests.

        `environment` holds the variables that name proxies; None: this process's. `tls` makes the context of TLS
        connections once it is needed; None: a context with this machine's trusted authorities.
        """
        self._url = urlsplit(url)
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._connect_seconds = connect_seconds
        self._proxy = proxy_for(self._url, os.environ if environment is None else environment) if use_proxies else None
        self._keeps_alive = use_proxies
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()

    def send(self, request: Request) -> Response:
        """Send the request on an idle or a new connection. Raises NotReached and Lost."""
        connection = self._take_idle() or self._connect()
        try:
            assert connection.sock is not None
            connection.sock.settimeout(request.timeout_seconds)
            target, headers = self._request_target(request.path), self._headers(request)
            connection.request(request.method, target, body=request.body, headers=headers)
            answer = connection.getresponse()
        except (OSError, HTTPException) as error:
            connection.close()
            raise Lost(_error_text(error)) from error
        body = self._read_body(connection, answer)
        return Response(answer.status, dict(answer.getheaders()), body, self._url.geturl())

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _read_body(self, connection: HTTPConnection, answer: HTTPResponse) -> Iterator[bytes]:
        whole = False
        try:
            while piece := answer.read1(READ_BYTES):
                yield piece
            if answer.length:  # shorter than its Content-Length
                raise Lost("the answer ended early")
            whole = not answer.will_close
        except (OSError, HTTPException, ValueError) as error:
            raise Lost(_error_text(error)) from error
        finally:
            answer.close()
            if whole:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _take_idle(self) -> HTTPConnection | None:
        """Return an idle connection that the server has not closed; None if there is none."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _connect(self) -> HTTPConnection:
        server, proxy, seconds = self._url, self._proxy, self._connect_seconds
        if proxy is not None and proxy.scheme not in ("http", "https"):
            raise ProxyFailed(
                f"the proxy {_without_secret(proxy)} can't be used: its address has to begin with http:// or https://"
            )
        if server.scheme == "https" and self._tls is None:
            self._tls = self._make_tls() if self._make_tls is not None else _default_tls()
        try:
            connection = (
                _opened(server.hostname or "", server.port, self._tls, seconds)
                if proxy is None
                else self._connected_through(proxy)
            )
        except (OSError, HTTPException) as error:
            not_trusted = getattr(error, "verify_message", "")  # set by ssl.SSLCertVerificationError
            if not_trusted:
                raise NotTrusted(not_trusted) from error
            if proxy is not None:
                raise ProxyFailed(f"the proxy {_without_secret(proxy)} failed: {_error_text(error)}") from error
            raise NotReached(_error_text(error)) from error
        if self._keeps_alive and connection.sock is not None:
            _enable_keepalive(connection.sock)
        return connection

    def _connected_through(self, proxy: SplitResult) -> HTTPConnection:
        """Return a connection to the server through a proxy: a tunnel by CONNECT if the server has TLS, else one to the
        proxy, which gets whole URLs. Raises OSError, HTTPException and ProxyFailed."""
        server, seconds = self._url, self._connect_seconds
        host, port = proxy.hostname or "", proxy.port
        target = server.hostname or "", server.port or HTTPS_PORT
        if proxy.scheme == "https":
            connection = _opened_tls_proxy(proxy, seconds)
            if self._tls is None:
                return connection
            from kajitori.client.nested_tls import tunnelled

            return tunnelled(connection, self._tls, *target, _proxy_headers(proxy))
        if self._tls is None:
            return _opened(host, port, None, seconds)
        tunnel = HTTPSConnection(host, port or HTTP_PORT, timeout=seconds, context=self._tls)
        tunnel.set_tunnel(*target, headers=_proxy_headers(proxy))
        _begin(tunnel)
        return tunnel

    def _request_target(self, path: str) -> str:
        """Return the request's target: the path below the server's URL, or the whole URL for a proxy of plain HTTP."""
        path = self._url.path.rstrip("/") + path
        is_for_proxy = self._proxy is not None and self._url.scheme == "http"
        return f"{self._url.scheme}://{self._url.netloc}{path}" if is_for_proxy else path

    def _headers(self, request: Request) -> dict[str, str]:
        headers = dict(request.headers)
        if self._proxy is not None and self._url.scheme == "http":
            headers |= {"Host": self._url.netloc} | _proxy_headers(self._proxy)
        return headers


def with_query(path: str, params: Mapping[str, Any] | None) -> str:
    """Return path and query; a parameter with a list value is repeated for each element."""
    query = urlencode(params, doseq=True) if params else ""
    return f"{path}?{query}" if query else path


def _opened(host: str, port: int | None, tls: ssl.SSLContext | None, seconds: float) -> HTTPConnection:
    """Return an open connection to this host; with TLS if there are settings for it."""
    connection = (
        HTTPConnection(host, port or HTTP_PORT, timeout=seconds)
        if tls is None
        else HTTPSConnection(host, port or HTTPS_PORT, timeout=seconds, context=tls)
    )
    _begin(connection)
    return connection


def _opened_tls_proxy(proxy: SplitResult, seconds: float) -> HTTPSConnection:
    """Return an open connection to a proxy that is spoken to by TLS. Its certificate is verified by the authorities of
    this machine, not by that of the server."""
    connection = HTTPSConnection(
        proxy.hostname or "", proxy.port or HTTPS_PORT, timeout=seconds, context=_default_tls()
    )
    try:
        _begin(connection)
    except OSError as error:
        if verify_message := getattr(error, "verify_message", ""):
            raise ProxyFailed(
                f"the proxy {_without_secret(proxy)} can't be trusted: {verify_message}; a PEM file in $SSL_CERT_FILE "
                "names the authorities of this machine"
            ) from error
        raise
    return connection


def _begin(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except (OSError, HTTPException):
        connection.close()
        raise


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _default_tls() -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context()


def _enable_keepalive(connection: socket.socket) -> None:
    """Enable TCP keepalive, so that a dead server is noticed although a stream may be silent for hours."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = (("TCP_KEEPIDLE", KEEPALIVE_SECONDS), ("TCP_KEEPINTVL", KEEPALIVE_SECONDS // 3), ("TCP_KEEPCNT", 3))
    for name, value in settings:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def proxy_for(server: SplitResult, environment: Mapping[str, str]) -> SplitResult | None:
    """Return the proxy to this server from the environment (on macOS and Windows also from the system's settings)."""
    if environment is os.environ and sys.platform in ("darwin", "win32"):
        from urllib.request import getproxies, proxy_bypass

        if proxy_bypass(server.netloc):
            return None
        named = getproxies()
    else:
        if _bypasses_proxy(server, environment.get("no_proxy") or environment.get("NO_PROXY") or ""):
            return None
        # In a CGI script, HTTP_PROXY may come from the header of a client; curl ignores it, too.
        named = {
            "http": environment.get("http_proxy", ""),
            "https": environment.get("https_proxy") or environment.get("HTTPS_PROXY") or "",
            "all": environment.get("all_proxy") or environment.get("ALL_PROXY") or "",
        }
        if "REQUEST_METHOD" not in environment:
            named["http"] = named["http"] or environment.get("HTTP_PROXY", "")
    url = named.get(server.scheme) or named.get("all") or ""
    if not url:
        return None
    return urlsplit(url if "://" in url else f"http://{url}")


def _bypasses_proxy(server: SplitResult, names: str) -> bool:
    """Whether $NO_PROXY names this host, a domain or a network that contains it, or everything."""
    host = (server.hostname or "").lower()
    if "/" in names and _is_in_network(host, names):
        return True
    for name in (entry.strip().lower().lstrip(".") for entry in names.split(",")):
        if name == "*" or (name and name in (host, f"{host}:{server.port}")) or (name and host.endswith(f".{name}")):
            return True
    return False


def _is_in_network(host: str, names: str) -> bool:
    """Whether the host is an address in one of these networks, such as 10.0.0.0/8."""
    import ipaddress

    for name in names.split(","):
        with suppress(ValueError):
            if "/" in name and ipaddress.ip_address(host) in ipaddress.ip_network(name.strip(), strict=False):
                return True
    return False


def _without_secret(proxy: SplitResult) -> str:
    return proxy._replace(netloc=proxy.netloc.rpartition("@")[2]).geturl()


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}
