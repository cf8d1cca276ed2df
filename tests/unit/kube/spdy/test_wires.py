"""Upgraded connections that read into one buffer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kajitori.kube.spdy.wires import READ_BYTES, TransportWire


class Transport:
    """A transport with a peer that sends when it is told to."""

    def __init__(self, wire: TransportWire) -> None:
        self.wire = wire
        self.asked = ["read"]
        """What the wire asked for."""
        wire.connection_made(cast(Any, self))

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("read")

    def receive(self, data: bytes) -> None:
        buffer = self.wire.get_buffer(-1)
        assert buffer
        buffer[: len(data)] = data
        self.wire.buffer_updated(len(data))


async def test_bytes_that_were_not_read_are_kept_and_those_that_were_read_make_room() -> None:
    """The socket is not read while the buffer is full. A piece that the session works on is not overwritten."""
    wire = TransportWire()
    transport = Transport(wire)
    sent: list[bytes] = []
    while transport.asked[-1] == "read":
        sent.append(bytes([len(sent)]) * (READ_BYTES // 3))
        transport.receive(sent[-1])
    assert sum(map(len, sent)) <= 2 * READ_BYTES
    pieces = wire.pieces()
    first = await anext(pieces)
    while len(wire.get_buffer(-1)) == READ_BYTES:  # what a transport had read before it was paused
        sent.append(bytes([len(sent)]) * READ_BYTES)
        transport.receive(sent[-1])
    transport.receive(b"more")
    assert first == sent[0]
    assert [bytes(await anext(pieces)) for _ in sent[1:]] == sent[1:]
    assert bytes(await anext(pieces)) == b"more"
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    assert transport.asked == ["read", "pause", "read"]
    transport.receive(b"last")
    assert bytes(await waiting) == b"last"
    await pieces.aclose()


async def test_the_end_comes_after_the_bytes_before_it() -> None:
    """A connection that is lost has no more pieces than those that had arrived."""
    wire = TransportWire()
    Transport(wire).receive(b"words")
    wire.connection_lost(None)
    assert [bytes(piece) async for piece in wire.pieces()] == [b"words"]
