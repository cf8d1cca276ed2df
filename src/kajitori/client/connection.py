"""HTTP/1.1 to one server: kept-alive connections, streams, TLS and proxies, with nothing beyond the standard library.

An HTTP library takes longer to import than most commands take to run. What is needed here is little: one server, one
request at a time on each connection, bodies that are bytes.
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
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    import ssl

CONNECT_SECONDS = 5.0
KEEPALIVE_SECONDS = 30
READ_BYTES = 1 << 16


class NotReached(Exception):
    """The request was not sent: no connection to the server, or to the proxy before it, could be made."""


class NotTrusted(NotReached):
    """Nobody whom this client trusts vouches for the server's certificate, or it is another server's."""


class Lost(Exception):
    """The connection broke, or the server fell silent, after the request may have been sent."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    """Path and query, from the first slash on."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout_seconds: float | None = None
    """How long the server may be silent; None for ever."""


class Response:
    """An answer: its status and headers are there, its body is read when it is asked for."""

    def __init__(self, status: int, headers: Mapping[str, str], chunks: Iterator[bytes], url: str = "") -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.url = url
        """The server's."""
        self._chunks = chunks
        self._content: bytes | None = None

    @classmethod
    def of(cls, status: int, body: bytes | object = b"", headers: Mapping[str, str] | None = None) -> Self:
        """An answer that is already there; what is not bytes becomes JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return cls(status, headers or {}, iter([content] if content else []))

    @property
    def content(self) -> bytes:
        """The whole body. Raises Lost where it ends early."""
        if self._content is None:
            self._content = b"".join(self._chunks)
        return self._content

    def json(self) -> Any:
        """The body as JSON. Raises ValueError where it is none."""
        return json.loads(self.content)

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes, in pieces of any size. Raises Lost where it ends early."""
        return self._chunks

    def close(self) -> None:
        """Gives up the rest of the body."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


class Transport(Protocol):
    """What carries requests. Tests put their own in."""

    def send(self, request: Request) -> Response:
        """The answer's head; its body is still to be read. Raises NotReached and Lost."""
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
        """Prepare connections to `url`: `http://host:port`, with a path before those of requests if it has one.

        environment: the variables that name proxies, those of this process if None. tls: makes the context of TLS
        connections once it is needed; what this machine trusts if None.
        """
        self._url = urlsplit(url)
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._connect_seconds = connect_seconds
        self._proxy = _proxy_for(self._url, os.environ if environment is None else environment) if use_proxies else None
        self._keeps_alive = use_proxies
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()

    def send(self, request: Request) -> Response:
        """Sends the request on a connection that is idle, or on a new one. Raises NotReached and Lost."""
        connection = self._take() or self._connect()
        try:
            assert connection.sock is not None
            connection.sock.settimeout(request.timeout_seconds)
            target, headers = self._absolute(request.path), self._headers(request)
            connection.request(request.method, target, body=request.body, headers=headers)
            answer = connection.getresponse()
        except (OSError, HTTPException) as error:
            connection.close()
            raise Lost(_words(error)) from error
        body = self._body(connection, answer)
        return Response(answer.status, dict(answer.getheaders()), body, self._url.geturl())

    def close(self) -> None:
        """Closes the connections that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _body(self, connection: HTTPConnection, answer: HTTPResponse) -> Iterator[bytes]:
        whole = False
        try:
            while piece := answer.read1(READ_BYTES):
                yield piece
            if answer.length:  # it promised more than came
                raise Lost("the answer ended early")
            whole = not answer.will_close
        except (OSError, HTTPException, ValueError) as error:
            raise Lost(_words(error)) from error
        finally:
            answer.close()
            if whole:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _take(self) -> HTTPConnection | None:
        """A connection that is idle and that the server has not closed."""
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
        host, port = server.hostname or "", server.port
        is_tls = server.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = self._make_tls() if self._make_tls is not None else _machines_trust()
        connection: HTTPConnection
        if proxy is None:
            connection = (
                HTTPSConnection(host, port, timeout=seconds, context=self._tls)
                if is_tls
                else HTTPConnection(host, port, timeout=seconds)
            )
        elif is_tls:
            connection = HTTPSConnection(proxy.hostname or "", proxy.port or 80, timeout=seconds, context=self._tls)
            connection.set_tunnel(host, port or 443, headers=_proxy_headers(proxy))
        else:
            connection = HTTPConnection(proxy.hostname or "", proxy.port or 80, timeout=seconds)
        try:
            connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            refused = getattr(error, "verify_message", "")  # of ssl.SSLCertVerificationError
            raise NotTrusted(refused) if refused else NotReached(_words(error)) from error
        if self._keeps_alive and connection.sock is not None:
            _notice_dead_peers(connection.sock)
        return connection

    def _absolute(self, path: str) -> str:
        """The request's target: with the path of the server's URL, for a proxy of plain HTTP with all of it."""
        path = self._url.path.rstrip("/") + path
        is_told = self._proxy is not None and self._url.scheme == "http"
        return f"{self._url.scheme}://{self._url.netloc}{path}" if is_told else path

    def _headers(self, request: Request) -> dict[str, str]:
        headers = dict(request.headers)
        if self._proxy is not None and self._url.scheme == "http":
            headers |= {"Host": self._url.netloc} | _proxy_headers(self._proxy)
        return headers


def with_query(path: str, params: Mapping[str, Any] | None) -> str:
    """Path and query; a list stands for a parameter that is given several times."""
    query = urlencode(params, doseq=True) if params else ""
    return f"{path}?{query}" if query else path


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _machines_trust() -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context()


def _notice_dead_peers(connection: socket.socket) -> None:
    """A stream may be silent for hours; a peer that is gone must not be waited for as long."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = (("TCP_KEEPIDLE", KEEPALIVE_SECONDS), ("TCP_KEEPINTVL", KEEPALIVE_SECONDS // 3), ("TCP_KEEPCNT", 3))
    for name, value in wanted:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _proxy_for(server: SplitResult, environment: Mapping[str, str]) -> SplitResult | None:
    """The proxy to this server as the environment names it (on macOS and Windows also as the system does)."""
    if environment is os.environ and sys.platform in ("darwin", "win32"):
        from urllib.request import getproxies, proxy_bypass

        if proxy_bypass(server.netloc):
            return None
        named = getproxies()
    else:
        if _bypasses(server, environment.get("no_proxy") or environment.get("NO_PROXY") or ""):
            return None
        # Upper-case HTTP_PROXY may come from a client's header where a CGI script runs; curl ignores it, too.
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


def _bypasses(server: SplitResult, names: str) -> bool:
    """Whether $NO_PROXY names this host: itself, a domain that it is in, or everything."""
    host = (server.hostname or "").lower()
    for name in (each.strip().lower().lstrip(".") for each in names.split(",")):
        if name == "*" or (name and name in (host, f"{host}:{server.port}")) or (name and host.endswith(f".{name}")):
            return True
    return False


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    person = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(person.encode()).decode()}"}
