"""The part of SPDY/3.1 that kube-apiservers before 1.36 need for exec: the server's side of a few streams.

Newer ones speak WebSocket to a kubelet that declares ExtendWebSocketsToKubelet. The framing is that of the SPDY/3 draft
(https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/); neither side uses its flow control here.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GO_AWAY = 1, 2, 3, 6, 7
FIN = 0x01
_VERSION = 3
_MAX_FRAME_BYTES = 1 << 24
_CHUNK_BYTES = 32 * 1024
_WAITING_BYTES = 1 << 20
"""What may wait to be read before the client is held up."""

_WORDS = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
]
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_WORDS, *_MORE_WORDS)) + _TAIL.encode()
"""What both sides' header compression begins with (section 2.6.10.1 of the draft); its Adler-32 is 0xe3c6a7c2."""


class ProtocolError(Exception):
    """The other side does not speak SPDY/3.1 as it should."""


class Stream:
    """One stream that the client opened."""

    def __init__(self, session: Session, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._session = session

    async def read(self) -> bytes | None:
        """What the client sent next; None once it has nothing more to say."""
        data = await self.incoming.get()
        self._session.taken(len(data or b""))
        return data

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK_BYTES):
            await self._session.send_data(self.number, data[start : start + _CHUNK_BYTES], 0)

    async def close(self) -> None:
        """Nothing more comes from our side."""
        await self._session.send_data(self.number, b"", FIN)


class Session(asyncio.Protocol):
    """Takes over a connection after its upgrade. `opened(stream)` is called for each stream of the client."""

    def __init__(self, opened: Callable[[Stream], None], lost: Callable[[Exception | None], None]) -> None:
        self._opened = opened
        self._lost = lost
        self._buffer = bytearray()
        self._streams: dict[int, Stream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._waiting_bytes = 0
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._transport: asyncio.Transport | None = None
        self.ended = asyncio.Event()

    def take_over(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_protocol(self)
        transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._control(GO_AWAY, 0, struct.pack(">II", max(self._streams, default=0), 0))
            self._transport.close()

    async def send_data(self, number: int, data: bytes, flags: int) -> None:
        """Waits while the connection is full. Raises ConnectionError where it is gone."""
        await self._may_write.wait()
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the SPDY connection is closed")
        self._transport.write(struct.pack(">II", number, flags << 24 | len(data)) + data)

    def taken(self, count: int) -> None:
        """So much of what waited was read; the client may go on where it was held up."""
        before, self._waiting_bytes = self._waiting_bytes, self._waiting_bytes - count
        if before > _WAITING_BYTES >= self._waiting_bytes and self._transport is not None:
            self._transport.resume_reading()

    # asyncio's side

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            while len(self._buffer) >= 8:
                length = int.from_bytes(self._buffer[5:8], "big")
                if len(self._buffer) < 8 + length:
                    return
                frame = bytes(self._buffer[: 8 + length])
                del self._buffer[: 8 + length]
                self._frame(frame)
        except (ProtocolError, zlib.error, struct.error, UnicodeDecodeError, IndexError):
            if self._transport is not None:
                self._transport.abort()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._may_write.set()
        for stream in self._streams.values():
            stream.incoming.put_nowait(None)
        self.ended.set()
        self._lost(error)

    # SPDY's side

    def _frame(self, frame: bytes) -> None:
        first, second = struct.unpack_from(">II", frame)
        flags, body = second >> 24, frame[8:]
        if not first >> 31:
            self._data(first, flags, body)
            return
        kind = first & 0xFFFF
        if first >> 16 & 0x7FFF != _VERSION:
            raise ProtocolError(f"version {first >> 16 & 0x7FFF}")
        if kind == SYN_STREAM:
            (number,) = struct.unpack_from(">I", body)
            stream = Stream(self, number & 0x7FFFFFFF, self._headers(body[10:]))
            self._streams[stream.number] = stream
            reply = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            self._control(SYN_REPLY, 0, struct.pack(">I", stream.number) + reply)
            if flags & FIN:
                stream.incoming.put_nowait(None)
            self._opened(stream)
        elif kind == PING:
            self._control(PING, 0, body)
        elif kind == RST_STREAM:
            (number,) = struct.unpack_from(">I", body)
            if stream_reset := self._streams.get(number & 0x7FFFFFFF):
                stream_reset.incoming.put_nowait(None)
        # SETTINGS, HEADERS, WINDOW_UPDATE and GOAWAY ask nothing of a server that opens no streams of its own.

    def _data(self, number: int, flags: int, data: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            raise ProtocolError(f"data for stream {number}, which was never opened")
        if data:
            stream.incoming.put_nowait(data)
            before, self._waiting_bytes = self._waiting_bytes, self._waiting_bytes + len(data)
            if before <= _WAITING_BYTES < self._waiting_bytes and self._transport is not None:
                self._transport.pause_reading()
        if flags & FIN:
            stream.incoming.put_nowait(None)

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, _MAX_FRAME_BYTES)
        (count,) = struct.unpack_from(">I", plain)
        offset, found = 4, {}
        for _ in range(min(count, 256)):
            pair = []
            for _ in range(2):
                (length,) = struct.unpack_from(">I", plain, offset)
                pair.append(plain[offset + 4 : offset + 4 + length].decode())
                offset += 4 + length
            found[pair[0].lower()] = pair[1]
        return found

    def _control(self, kind: int, flags: int, body: bytes) -> None:
        if self._transport is not None:
            head = struct.pack(">II", 1 << 31 | _VERSION << 16 | kind, flags << 24 | len(body))
            self._transport.write(head + body)
