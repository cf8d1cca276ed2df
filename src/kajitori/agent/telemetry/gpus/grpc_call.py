"""One gRPC call with one message each way, on a Unix socket of the node.

The library `h2` speaks HTTP/2. gRPC adds five bytes before a message and a status in the trailers
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). The library `grpcio` would take 10 MiB of
the 64 MiB that an agent may use; `h2` takes 1. It is imported only on nodes that have the socket.
"""

from __future__ import annotations

import socket
import time
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

from kajitori.errors import Unavailable, Unsupported

MAX_BYTES = 16 << 20
"""Largest answer, which is also the limit of Kubernetes' own clients of the kubelet."""
_PREFIX_BYTES = 5
"""One byte: whether the message is compressed. Four bytes: its length."""
_UNIMPLEMENTED = "12"
"""The status of a server without this method."""


def call(path: Path, method: str, message: bytes, seconds: float) -> bytes:
    """Return the answer to a message; `method` is `/PACKAGE.SERVICE/METHOD`.

    Raises FileNotFoundError if there is no socket, Unsupported if the server does not have the method, and Unavailable
    if it does not answer within `seconds`, or not with a message.
    """
    from h2.exceptions import H2Error

    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(seconds)
            connection.connect(str(path))
            return _exchange(connection, method, message, deadline)
        except FileNotFoundError:
            raise
        except TimeoutError:
            raise Unavailable(f"{path} did not answer within {seconds:g} s") from None
        except (OSError, H2Error, ValueError) as error:
            raise Unavailable(f"{path} did not answer: {error}") from error


def _exchange(connection: socket.socket, method: str, message: bytes, deadline: float) -> bytes:
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import (
        ConnectionTerminated,
        DataReceived,
        ResponseReceived,
        StreamEnded,
        StreamReset,
        TrailersReceived,
    )

    http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    http.initiate_connection()
    stream = http.get_next_available_stream_id()
    http.send_headers(stream, _request_headers(method, deadline))
    http.send_data(stream, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
    body, headers = bytearray(), dict[str, str]()
    while True:
        connection.settimeout(_seconds_left(deadline))
        connection.sendall(http.data_to_send())
        received = connection.recv(1 << 16)
        if not received:
            raise ValueError("the server closed the connection")
        for event in http.receive_data(received):
            match event:
                case ResponseReceived() | TrailersReceived():
                    headers |= _as_text(event.headers)
                case DataReceived():
                    body += event.data
                    if len(body) > MAX_BYTES + _PREFIX_BYTES:
                        raise ValueError(f"the answer is larger than {MAX_BYTES} bytes")
                    http.acknowledge_received_data(event.flow_controlled_length, stream)
                case StreamEnded():
                    return _answer_message(bytes(body), headers)
                case StreamReset() | ConnectionTerminated():
                    raise ValueError(f"the server ended the call: {event.error_code}")
                case _:
                    pass


def _request_headers(method: str, deadline: float) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", f"{max(1, int(_seconds_left(deadline) * 1000))}m"),
        ("user-agent", "kajitori"),
    ]


def _seconds_left(deadline: float) -> float:
    """Return the seconds until the deadline. Raises TimeoutError after it, even if the server sends byte by byte."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _as_text(headers: Iterable[tuple[str | bytes, str | bytes]] | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in headers or ()}


def _answer_message(body: bytes, headers: dict[str, str]) -> bytes:
    """Return the one message of an answer. Raises Unsupported, and ValueError if there is none."""
    status = headers.get("grpc-status", f"none, HTTP {headers.get(':status', '')}")
    if status != "0":
        said = urllib.parse.unquote(headers.get("grpc-message", ""))[:300]
        if status == _UNIMPLEMENTED:
            raise Unsupported(f"the server does not have this call: {said}")
        raise ValueError(f"status {status}: {said}")
    if len(body) < _PREFIX_BYTES or body[0] != 0 or int.from_bytes(body[1:_PREFIX_BYTES], "big") != len(body) - 5:
        raise ValueError("the answer is not one message")
    return body[_PREFIX_BYTES:]
