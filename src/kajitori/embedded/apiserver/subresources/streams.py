"""Exec, attach and port-forward: joins a client's upgraded connection to a connection to the kubelet.

Bytes are copied unchanged, so client and kubelet agree on a protocol themselves: WebSocket, SPDY/3.1, or SPDY/3.1 in a
WebSocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import ssl
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from aiohttp import web

from kajitori.embedded.upgrades import TakenOver, taken_over
from kajitori.kube.connection.joined import RECEIVED_BYTES, JoinedEnd, until_either_ends

HEAD_BYTES = RECEIVED_BYTES
"""Largest head of a response that is accepted."""
REFUSAL_BYTES = 4096
REFUSAL_SECONDS = 5.0
"""Limits for reading the text of a refusal."""
_ASKED = (
    "Upgrade",
    "X-Stream-Protocol-Version",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Version",
    "Sec-WebSocket-Protocol",
)
"""Headers of the client that are sent to the kubelet. Credentials are not, and neither are WebSocket extensions:
compression is slow."""
_ANSWERED = ("Upgrade", "X-Stream-Protocol-Version", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol")


class Refused(Exception):
    """The kubelet did not upgrade the connection."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class _Head(NamedTuple):
    code: int
    headers: http.client.HTTPMessage


class _End(JoinedEnd):
    """One end of the joined connection, which can read the answer to an upgrade before it is joined."""

    async def read_head(self) -> _Head:
        """Read the head of a response. Raises ConnectionError."""
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if self.ended.is_set() or len(self._received) > HEAD_BYTES:
                raise ConnectionResetError("the kubelet hung up without an answer")
            await self.arrived()
        head = bytes(self._received[: end + 4])
        del self._received[: end + 4]
        first, _, rest = head.partition(b"\r\n")
        parts = first.split(b" ", 2)
        if len(parts) < 2 or not parts[1].isdigit():
            raise ConnectionResetError("the kubelet's answer is not HTTP")
        try:
            return _Head(int(parts[1]), http.client.parse_headers(io.BytesIO(rest)))
        except http.client.HTTPException as error:
            raise ConnectionResetError("the kubelet's answer is not HTTP") from error

    async def read_text(self, length: int) -> str:
        """Read the beginning of a body, for at most REFUSAL_SECONDS."""
        wanted = min(length, REFUSAL_BYTES)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REFUSAL_SECONDS):
                while len(self._received) < wanted and not self.ended.is_set():
                    await self.arrived()
        return self._received[:wanted].decode(errors="replace").strip()


async def pass_on(
    request: web.BaseRequest, url: str, query: Sequence[tuple[str, str]], tls: ssl.SSLContext, connect_seconds: float
) -> web.StreamResponse:
    """Upgrade a connection to the kubelet as the client asks, then copy bytes both ways until either side ends.

    Raises Refused if the kubelet does not upgrade, OSError or TimeoutError if it can't be reached.
    """
    upstream = await _connect(url, tls, connect_seconds)
    try:
        async with asyncio.timeout(connect_seconds):
            upstream.transport.write(_request_head(request, url, query))
            head = await upstream.read_head()
        if head.code != 101:
            length = head.headers.get("Content-Length", "")
            raise Refused(head.code, await upstream.read_text(int(length) if length.isdecimal() else REFUSAL_BYTES))
        downstream = _End()
        async with taken_over(request, _answer(head.headers), downstream):
            downstream.join(upstream)
            upstream.join(downstream)
            await until_either_ends(upstream, downstream)
    finally:
        upstream.transport.close()
    return TakenOver()


async def _connect(url: str, tls: ssl.SSLContext, seconds: float) -> _End:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    async with asyncio.timeout(seconds):
        _, upstream = await asyncio.get_running_loop().create_connection(_End, parts.hostname, parts.port, ssl=tls)
    return upstream


def _request_head(request: web.BaseRequest, url: str, query: Sequence[tuple[str, str]]) -> bytes:
    parts = urlsplit(url)
    lines = [f"{request.method} {parts.path}?{urlencode(query)} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += ["Connection: Upgrade", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name in _ASKED for value in request.headers.getall(name, [])]
    return "\r\n".join((*lines, "", "")).encode(errors="replace")


def _answer(headers: http.client.HTTPMessage) -> Mapping[str, str]:
    found = {name: " ".join(str(headers[name]).split()) for name in _ANSWERED if headers[name]}
    return {"Connection": "Upgrade", **found}
