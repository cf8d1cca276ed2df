"""The WebSocket of a tunnel, read without copies.

The library for WebSockets copies each byte several times, and a tunnel carries gigabytes. So the library opens the
connection; after that, frames are read where the socket's bytes arrive. The messages are pieces of one connection, so
their boundaries do not matter.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.frames import Opcode
from websockets.protocol import State

from kajitori.kube.spdy.wires import TransportWire

try:
    from websockets.speedups import apply_mask
except ImportError:  # the library was built without it
    from websockets.utils import apply_mask

_HEAD_BYTES = {126: 4, 127: 10}
"""Size of a frame's head by the length in its second byte; 2 for all others."""
_MOST_CONTROL_BYTES = 125
_HEAD_END = b"\r\n\r\n"


class TunnelConnection(ClientConnection):
    """A WebSocket of the library that gives its connection to a `TunnelWire` once the server has accepted it."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.wire = TunnelWire()
        self._head = b""
        self._has_head = False

    def data_received(self, data: bytes) -> None:
        if self._has_head:  # the body of a refusal
            super().data_received(data)
            return
        self._head += data
        head, end, rest = self._head.partition(_HEAD_END)
        if not end:
            return
        self._has_head = True
        super().data_received(head + end)
        if self.protocol.state is State.OPEN:
            self.wire.take_over(self, rest)
        elif rest:
            super().data_received(rest)


class TunnelWire(TransportWire):
    """Carries the bytes of a session in the binary messages of a WebSocket, as its client."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = ServerFrames()
        self._connection: ClientConnection

    def take_over(self, connection: ClientConnection, first: bytes) -> None:
        """Read and write a connection from now on; `first` arrived already."""
        self._connection = connection
        self.connection_made(connection.transport)
        connection.transport.set_protocol(self)
        if first:
            self._unread.append(memoryview(first))

    async def close(self) -> None:
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._connection.connection_lost(error)

    def _write(self, parts: Sequence[bytes | memoryview]) -> None:
        self._transport.writelines(_make_frame(Opcode.BINARY, parts))

    def _parts_of(self, piece: memoryview) -> Iterable[memoryview]:
        yield from self._frames.receive(piece)
        for question in self._frames.take_pings():
            if not self._transport.is_closing():
                self._transport.writelines(_make_frame(Opcode.PONG, (question,)))


def _make_frame(opcode: Opcode, parts: Sequence[bytes | memoryview]) -> list[bytes]:
    """Return a frame of a client, in parts. Each part of the payload is masked by itself, so that they are not joined
    before."""
    size, key = sum(map(len, parts)), secrets.token_bytes(4)
    first = 0x80 | opcode
    if size < 126:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size)
    frame = [head, key]
    for part in parts:
        frame.append(apply_mask(part, key))
        turn = len(part) % 4
        key = key[turn:] + key[:turn]
    return frame


class ServerFrames:
    """Reads the frames that a server sends on a WebSocket without extensions."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._opcode = Opcode.BINARY
        self._left = 0
        """Bytes of the current frame's payload that have not arrived."""
        self._control = bytearray()
        """The received part of the payload of a ping, pong or close."""
        self._pings: list[bytes] = []

    def receive(self, data: memoryview) -> Iterator[memoryview]:
        """Yield the parts of messages in these bytes, which are split anywhere.

        Raises ConnectionResetError if the server closes the WebSocket or breaks its protocol.
        """
        position = 0
        while position < len(data):
            if self._left:
                part = data[position : position + self._left]
                position += len(part)
                self._left -= len(part)
                if self._opcode < Opcode.CLOSE:
                    yield part
                else:
                    self._control += part
                    self._end_control()
                continue
            missing = self._head_bytes() - len(self._head)
            self._head += data[position : position + missing]
            position += missing
            if len(self._head) >= 2 and len(self._head) == self._head_bytes():
                self._take_head()

    def take_pings(self) -> list[bytes]:
        """Return the payloads of pings that need an answer, each once."""
        pings, self._pings = self._pings, []
        return pings

    def _head_bytes(self) -> int:
        return _HEAD_BYTES.get(self._head[1] & 0x7F, 2) if len(self._head) > 1 else 2

    def _take_head(self) -> None:
        first, second = self._head[:2]
        self._left = int.from_bytes(self._head[2:], "big") if len(self._head) > 2 else second
        self._head.clear()
        try:
            self._opcode = Opcode(first & 0x0F)
        except ValueError:
            raise ConnectionResetError(f"the server sent a frame of type {first & 0x0F}") from None
        is_control = self._opcode >= Opcode.CLOSE
        if first & 0x70 or second & 0x80 or (is_control and self._left > _MOST_CONTROL_BYTES):
            raise ConnectionResetError("the server broke the protocol of WebSockets")
        if is_control:
            self._end_control()

    def _end_control(self) -> None:
        """Handle a ping, pong or close if it is complete."""
        if self._left:
            return
        payload = bytes(self._control)
        self._control.clear()
        if self._opcode is Opcode.PING:
            self._pings.append(payload)
        elif self._opcode is Opcode.CLOSE:
            raise ConnectionResetError("the server closed the connection")
