"""SPDY/3.1 as Kubernetes uses it for exec, attach and port-forward: bytes come in, events go out. No I/O.

The framing is that of https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/.
Kubernetes' clients (moby/spdystream) do without its flow control and report a WINDOW_UPDATE as an error, so this
module never sends one.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GO_AWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 0x01
_VERSION = 3
_HEAD_BYTES = 8
_STREAM_MASK = 0x7FFF_FFFF

MAX_CONTROL_BYTES = 64 * 1024
"""Largest control frame that is accepted. Those of Kubernetes have fewer than 300 bytes."""
MAX_HEADER_BYTES = 64 * 1024
"""Largest header block that is accepted, after decompression."""
MAX_HEADERS = 64
MAX_STREAMS = 1024
"""Largest number of open streams. One forwarded connection uses two."""
MAX_DATA_BYTES = (1 << 24) - 1
"""Largest DATA frame that the format allows."""


_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age "
    "allow authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_WORDS.split(), *_MORE_WORDS)) + _TAIL.encode()
)
"""Dictionary of the header compression (section 2.6.10.1 of the draft). Its Adler-32 is 0xe3c6a7c2."""


class ResetCode(enum.IntEnum):
    """Reasons for resetting a stream (section 2.6.3)."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    CANCEL = 5
    STREAM_ALREADY_CLOSED = 9


class ProtocolError(Exception):
    """The peer broke a rule of SPDY/3.1 or exceeded a limit. The connection has to end."""


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The peer opened a stream. With `ended` it will send nothing on it."""

    stream: int
    headers: Mapping[str, str]
    ended: bool


@dataclass(frozen=True, slots=True)
class StreamReplied:
    """The peer accepted a stream that this side opened."""

    stream: int
    headers: Mapping[str, str]
    ended: bool


@dataclass(frozen=True, slots=True)
class DataReceived:
    """The peer sent data on a stream: a frame, or the part of it that has arrived. With `ended` it was the last.

    The data are a view of the bytes that `receive` was given, not a copy.
    """

    stream: int
    data: bytes | memoryview
    ended: bool


@dataclass(frozen=True, slots=True)
class StreamReset:
    """A stream was reset: both directions are closed."""

    stream: int
    code: int


@dataclass(frozen=True, slots=True)
class Ponged:
    """The peer answered a ping of this side."""

    number: int


@dataclass(frozen=True, slots=True)
class GoneAway:
    """The peer opens no more streams."""

    last_stream: int


Event = StreamOpened | StreamReplied | DataReceived | StreamReset | Ponged | GoneAway


@dataclass(slots=True)
class _Stream:
    """The open directions of a stream."""

    receives: bool = True
    sends: bool = True


class Connection:
    """One side of a connection.

    The methods that send return the bytes to write; the caller writes them in the order of the calls. `receive` queues
    frames that answer the peer (pongs, refusals); `take_queued` returns them.
    """

    def __init__(self, *, is_client: bool = False) -> None:
        self._streams: dict[int, _Stream] = {}
        self._next_stream = 1 if is_client else 2
        self._next_ping = 1 if is_client else 2
        self._last_peer_stream = 0
        self._partial = bytearray()
        """An incomplete head of a frame, or an incomplete control frame."""
        self._data_stream = 0
        self._data_left = 0
        """Bytes of the current DATA frame that have not arrived."""
        self._data_ends = False
        self._queued: list[bytes] = []
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    @property
    def streams(self) -> int:
        """Number of open streams."""
        return len(self._streams)

    # --- sending -----------------------------------------------------------------------------------------------------

    def open(self, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Open a stream; return its number and its SYN_STREAM frame."""
        number, self._next_stream = self._next_stream, self._next_stream + 2
        self._streams[number] = _Stream()
        return number, _control_frame(SYN_STREAM, 0, struct.pack(">IIH", number, 0, 0) + self._header_block(headers))

    def reply(self, stream: int) -> bytes:
        """Accept a stream that the peer opened."""
        return _control_frame(SYN_REPLY, 0, struct.pack(">I", stream) + self._header_block({}))

    def data(
        self, stream: int, data: bytes | memoryview, *, end: bool = False
    ) -> tuple[()] | tuple[bytes, bytes | memoryview]:
        """Return head and body of a DATA frame, or nothing if this direction of the stream is closed. The body is the
        given `data`, not a copy.

        Raises ValueError if there are more than MAX_DATA_BYTES.
        """
        if len(data) > MAX_DATA_BYTES:
            raise ValueError(f"a DATA frame holds at most {MAX_DATA_BYTES} bytes, not {len(data)}")
        found = self._streams.get(stream)
        if found is None or not found.sends:
            return ()
        if end:
            found.sends = False
            self._forget_closed(stream, found)
        return struct.pack(">II", stream, (FIN if end else 0) << 24 | len(data)), data

    def reset(self, stream: int, code: ResetCode = ResetCode.CANCEL) -> bytes:
        """Close both directions of a stream. Return no bytes if it is closed already."""
        if self._streams.pop(stream, None) is None:
            return b""
        return _reset_frame(stream, code)

    def ping(self) -> tuple[int, bytes]:
        """Return a ping's number and its frame. The peer's answer comes as `Ponged`."""
        number, self._next_ping = self._next_ping, (self._next_ping + 2) & 0xFFFF_FFFF
        return number, _control_frame(PING, 0, struct.pack(">I", number))

    def go_away(self) -> bytes:
        """Announce that this side accepts no more streams."""
        return _control_frame(GO_AWAY, 0, struct.pack(">II", self._last_peer_stream, 0))

    def is_open(self, stream: int) -> bool:
        """Return whether a direction of the stream is open."""
        return stream in self._streams

    def queue(self, frame: bytes) -> None:
        """Add a frame to those that `take_queued` returns."""
        self._queued.append(frame)

    def take_queued(self) -> bytes:
        """Return the queued frames, and empty the queue."""
        owed, self._queued = b"".join(self._queued), []
        return owed

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> list[Event]:
        """Read bytes from the peer, split anywhere; return their events.

        Raises ProtocolError. Keeps at most MAX_CONTROL_BYTES between two calls.
        """
        events: list[Event] = []
        position = 0
        while position < len(data):
            if self._data_left:
                piece = data[position : position + self._data_left]
                position += len(piece)
                self._data_left -= len(piece)
                self._take_data(piece, events)
                continue
            wanted = self._missing_bytes()
            piece = data[position : position + wanted]
            position += len(piece)
            self._partial += piece
            if len(piece) == wanted:
                self._take_partial(events)
        return events

    def _missing_bytes(self) -> int:
        """Return the number of bytes that complete the head of a frame, or the control frame after its head."""
        if len(self._partial) < _HEAD_BYTES:
            return _HEAD_BYTES - len(self._partial)
        return _HEAD_BYTES + int.from_bytes(self._partial[5:8], "big") - len(self._partial)

    def _take_partial(self, events: list[Event]) -> None:
        """Handle a complete head of a frame, or a complete control frame."""
        first, second = struct.unpack_from(">II", self._partial)
        flags, length = second >> 24, second & 0xFF_FFFF
        if not first >> 31:
            self._partial.clear()
            self._data_stream, self._data_left, self._data_ends = first, length, bool(flags & FIN)
            if not length:
                self._take_data(b"", events)
            return
        if length > MAX_CONTROL_BYTES:
            raise ProtocolError(f"a control frame of {length} bytes; at most {MAX_CONTROL_BYTES} are taken")
        if len(self._partial) < _HEAD_BYTES + length:
            return
        body = bytes(self._partial[_HEAD_BYTES:])
        self._partial.clear()
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise ProtocolError(f"a frame of SPDY/{version}; this side speaks SPDY/{_VERSION}")
        self._take_control(kind, flags, body, events)

    def _take_data(self, piece: bytes | memoryview, events: list[Event]) -> None:
        number = self._data_stream
        ends = self._data_ends and not self._data_left
        found = self._streams.get(number)
        if found is None:
            if not self._was_opened(number):
                raise ProtocolError(f"data for stream {number}, which was never opened")
            return  # this side reset it while the peer was sending
        if not found.receives:
            self._queued.append(self.reset(number, ResetCode.STREAM_ALREADY_CLOSED))
            events.append(StreamReset(number, ResetCode.STREAM_ALREADY_CLOSED))
            return
        if ends:
            found.receives = False
            self._forget_closed(number, found)
        if piece or ends:
            events.append(DataReceived(number, piece, ends))

    def _take_control(self, kind: int, flags: int, body: bytes, events: list[Event]) -> None:
        ends = bool(flags & FIN)
        if kind == SYN_STREAM:
            number = _leading_number(body, 10)
            headers = self._parsed_headers(body[10:])
            self._take_opened(number, headers, ends, events)
        elif kind == SYN_REPLY:
            number = _leading_number(body, 4)
            headers = self._parsed_headers(body[4:])
            self._take_reply(number, headers, ends, events)
        elif kind == HEADERS:  # ignored, but decompressed: all header blocks share one compression
            _leading_number(body, 4)
            self._parsed_headers(body[4:])
        elif kind == RST_STREAM:
            number = _leading_number(body, 8)
            if self._streams.pop(number, None) is not None:
                events.append(StreamReset(number, int.from_bytes(body[4:8], "big")))
        elif kind == PING:
            number = _leading_number(body, 4, mask=0xFFFF_FFFF)
            if number % 2 == self._next_ping % 2:
                events.append(Ponged(number))
            else:
                self._queued.append(_control_frame(PING, 0, body[:4]))
        elif kind == GO_AWAY:
            events.append(GoneAway(_leading_number(body, 8)))
        # SETTINGS and WINDOW_UPDATE concern flow control. Unknown kinds must be ignored.

    def _take_opened(self, number: int, headers: Mapping[str, str], ends: bool, events: list[Event]) -> None:
        if number % 2 == self._next_stream % 2 or number <= self._last_peer_stream:
            raise ProtocolError(f"a stream of number {number} after {self._last_peer_stream}")
        self._last_peer_stream = number
        if len(self._streams) >= MAX_STREAMS:
            self._queued.append(_reset_frame(number, ResetCode.REFUSED_STREAM))
            return
        self._streams[number] = _Stream(receives=not ends)
        events.append(StreamOpened(number, headers, ends))

    def _take_reply(self, number: int, headers: Mapping[str, str], ends: bool, events: list[Event]) -> None:
        if number % 2 != self._next_stream % 2 or not self._was_opened(number):
            raise ProtocolError(f"a reply to stream {number}, which this side never opened")
        found = self._streams.get(number)
        if found is None:
            return
        if ends:
            found.receives = False
            self._forget_closed(number, found)
        events.append(StreamReplied(number, headers, ends))

    def _was_opened(self, number: int) -> bool:
        if number % 2 == self._next_stream % 2:
            return 0 < number < self._next_stream
        return 0 < number <= self._last_peer_stream

    def _forget_closed(self, number: int, stream: _Stream) -> None:
        if not stream.receives and not stream.sends:
            self._streams.pop(number, None)

    # --- headers -----------------------------------------------------------------------------------------------------

    def _header_block(self, headers: Mapping[str, str]) -> bytes:
        plain = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                plain += [struct.pack(">I", len(text)), text]
        return self._deflate.compress(b"".join(plain)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def _parsed_headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, MAX_HEADER_BYTES + 1)
        except zlib.error as error:
            raise ProtocolError(f"headers that can't be decompressed: {error}") from error
        if len(plain) > MAX_HEADER_BYTES or self._inflate.unconsumed_tail or self._inflate.eof:
            raise ProtocolError(f"headers of more than {MAX_HEADER_BYTES} bytes, or after the end of their stream")
        return _parse_headers(plain)


def _parse_headers(plain: bytes) -> dict[str, str]:
    """Return the headers of a decompressed block. Raises ProtocolError."""
    if len(plain) < 4:
        raise ProtocolError("headers without their number")
    (count,) = struct.unpack_from(">I", plain)
    if count > MAX_HEADERS:
        raise ProtocolError(f"{count} headers; at most {MAX_HEADERS} are taken")
    texts: list[str] = []
    offset = 4
    for _ in range(2 * count):
        length = int.from_bytes(plain[offset : offset + 4], "big")
        offset += 4
        if offset + length > len(plain):
            raise ProtocolError("headers that are longer than their block")
        try:
            texts.append(plain[offset : offset + length].decode())
        except UnicodeDecodeError as error:
            raise ProtocolError("headers that are not UTF-8") from error
        offset += length
    if offset != len(plain):
        raise ProtocolError("bytes after the last header")
    found = dict(zip((name.lower() for name in texts[::2]), texts[1::2], strict=True))
    if len(found) != count or "" in found:
        raise ProtocolError("a header twice, or without a name")
    return found


def _leading_number(body: bytes, at_least: int, *, mask: int = _STREAM_MASK) -> int:
    """Return the number at the start of a control frame. Raises ProtocolError if the frame is too short."""
    if len(body) < at_least:
        raise ProtocolError(f"a control frame of {len(body)} bytes; its kind has {at_least}")
    return int.from_bytes(body[:4], "big") & mask


def _control_frame(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack(">II", 1 << 31 | _VERSION << 16 | kind, flags << 24 | len(body)) + body


def _reset_frame(stream: int, code: ResetCode) -> bytes:
    return _control_frame(RST_STREAM, 0, struct.pack(">II", stream, code))
