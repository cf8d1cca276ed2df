"""TLS to a server through a proxy that is itself spoken to by TLS: one TLS connection inside another.

`ssl` wraps sockets of the system only, so the inner connection works on buffers in memory.
"""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable
from http.client import HTTPSConnection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_PIECE_BYTES = 1 << 16
_HEAD_BYTES = 1 << 16


class NestedTls:
    """The inner connection, with what `http.client` needs of a socket; for one thread at a time."""

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, server: str) -> None:
        """Shake hands with `server` through `outer`. Raises OSError, for example if its certificate is not trusted."""
        self._outer = outer
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=server)
        self._readers = 0
        self._closed = False
        self._exchange(self._tls.do_handshake)

    def sendall(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[self._exchange(self._tls.write, view) :]

    def recv_into(self, buffer: Any) -> int:
        """Return the number of bytes that were read into `buffer`; 0 at the end."""
        try:
            return int(self._exchange(self._tls.read, len(buffer), buffer))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader, which keeps the connection open until it is closed as well."""
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def reader_closed(self) -> None:
        self._readers -= 1
        self._end_if_unused()

    def close(self) -> None:
        self._closed = True
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._closed and self._readers == 0:
            self._outer.close()

    def settimeout(self, seconds: float | None) -> None:
        self._outer.settimeout(seconds)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self._outer.setsockopt(level, name, value)

    def fileno(self) -> int:
        return self._outer.fileno()

    def _exchange(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Do one step of the inner TLS, and pass its bytes on in both directions until it is done."""
        while True:
            try:
                done = step(*arguments)
            except ssl.SSLWantReadError:
                self._flush()
                if data := self._outer.recv(_PIECE_BYTES):
                    self._received.write(data)
                else:
                    self._received.write_eof()
            except ssl.SSLError:
                self._flush()  # an alert for the server
                raise
            else:
                self._flush()
                return done

    def _flush(self) -> None:
        if data := self._to_send.read():
            self._outer.sendall(data)


class _Reader(io.RawIOBase):
    def __init__(self, connection: NestedTls) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._connection.reader_closed()


def tunnelled(
    proxy: HTTPSConnection, context: ssl.SSLContext, host: str, port: int, headers: Mapping[str, str]
) -> HTTPSConnection:
    """Return a connection to an https server through this open connection to a proxy, which is asked with CONNECT.
    Raises OSError."""
    connection = HTTPSConnection(host, port, context=context)
    outer = proxy.sock
    try:
        _ask(outer, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", headers)
        connection.sock = NestedTls(outer, context, host)
    except BaseException:
        outer.close()
        raise
    return connection


def _ask(outer: ssl.SSLSocket, target: str, headers: Mapping[str, str]) -> None:
    """Let the proxy connect to `target`. Raises OSError if it refuses."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{name}: {value}" for name, value in headers.items())]
    outer.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # byte by byte: what follows belongs to the tunnel
        if not (byte := outer.recv(1)) or len(head) > _HEAD_BYTES:
            raise OSError("it did not answer CONNECT as a proxy does")
        head += byte
    version, _, status = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    if not version.startswith("HTTP/1.") or not status.startswith("2"):
        raise OSError(f"Tunnel connection failed: {status}")
