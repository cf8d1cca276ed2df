"""Requests to a container engine over its Unix socket, with as little as the shim needs of HTTP/1.1."""

from __future__ import annotations

import json
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

STREAMS = {0: "stdout", 1: "stdout", 2: "stderr"}
HEADER_BYTES = 8


class EngineFailure(Exception):
    """The engine refused a request, with an HTTP status and its own words; status 0 if it did not answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class Frames:
    """Splits the engine's stream, which has standard output and standard error in frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield (stream, what was printed) for each whole frame."""
        buffer, at = self._rest + data, 0
        while len(buffer) - at >= HEADER_BYTES:
            end = at + HEADER_BYTES + int.from_bytes(buffer[at + 4 : at + HEADER_BYTES], "big")
            if len(buffer) < end:
                break
            yield STREAMS.get(buffer[at], "stderr"), buffer[at + HEADER_BYTES : end]
            at = end
        self._rest = buffer[at:]


def call(path: str, method: str, target: str, body: dict[str, Any] | None, seconds: float) -> bytes:
    """Send a request and return the body of the answer. Raises EngineFailure."""
    return read_answer(path, send_request(path, method, target, seconds, body))


def read_answer(path: str, connection: socket.socket) -> bytes:
    """Return the body of the answer to a request, and close its connection. Raises EngineFailure."""
    try:
        answer = b""
        while data := connection.recv(65536):
            answer += data
    except OSError as error:
        raise EngineFailure(f"the container engine at {path} does not answer: {error}") from error
    finally:
        connection.close()
    head, _, content = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        content = _joined_chunks(content)
    _check(path, head, content)
    return content


def upgrade(path: str, target: str, seconds: float) -> socket.socket:
    """Send a request that the engine answers with a stream in both directions, and return the connection. Raises
    EngineFailure."""
    connection = send_request(path, "POST", target, seconds, None, "Connection: Upgrade\r\nUpgrade: tcp\r\n")
    head = b""
    try:
        # Byte by byte, since the stream begins right behind the head.
        while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
            head += byte
        status = _status_code(head)
        content = connection.recv(65536) if status >= 300 else b""
        _check(path, head, content)
    except OSError as error:
        connection.close()
        raise EngineFailure(f"the container engine at {path} does not answer: {error}") from error
    except EngineFailure:
        connection.close()
        raise
    connection.settimeout(None)
    return connection


def send_request(
    path: str,
    method: str,
    target: str,
    seconds: float,
    body: dict[str, Any] | None = None,
    headers: str = "Connection: close\r\n",
) -> socket.socket:
    """Send a request and return its connection, from which the answer can be read. Raises EngineFailure."""
    content = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {target} HTTP/1.1\r\nHost: engine\r\n{headers}Content-Length: {len(content)}\r\n"
    if body is not None:
        head += "Content-Type: application/json\r\n"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(path)
        connection.sendall(head.encode() + b"\r\n" + content)
    except OSError as error:
        connection.close()
        raise EngineFailure(f"the container engine at {path} does not answer: {error}") from error
    return connection


def _status_code(head: bytes) -> int:
    words = head.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _check(path: str, head: bytes, content: bytes) -> None:
    status = _status_code(head)
    if 100 < status < 400:
        return
    if not status:
        raise EngineFailure(f"the container engine at {path} gave no answer")
    try:
        message = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        message = content.decode(errors="replace").strip() or f"HTTP status {status}"
    raise EngineFailure(message, status)


def _joined_chunks(chunks: bytes) -> bytes:
    content = b""
    while chunks:
        size, _, rest = chunks.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if not length:
            break
        content += rest[:length]
        chunks = rest[length + 2 :]
    return content
