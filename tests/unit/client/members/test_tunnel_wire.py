"""The WebSocket of a tunnel, read where its bytes arrive."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.protocol import SERVER, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from kajitori.client.members.tunnel_wire import ServerFrames, TunnelConnection, _make_frame

SIZES = st.sampled_from([0, 1, 125, 126, 127, 65_535, 65_536, 70_000])


def message(size: int, *, fin: bool = True, opcode: Opcode = Opcode.BINARY) -> bytes:
    """Return a frame of a server with `size` bytes that differ from their neighbours."""
    return Frame(opcode, bytes(number % 251 for number in range(size)), fin=fin).serialize(mask=False)


@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=4), st.lists(st.integers(0, 140_000), max_size=5))
def test_messages_are_read_however_their_bytes_are_split(messages: list[tuple[int, bool]], cuts: list[int]) -> None:
    """Messages, in fragments or not, are one stream of bytes; pings between them are answered once each."""
    sent, expected, pings = b"", b"", []
    for number, (size, is_whole) in enumerate(messages):
        sent += message(size, fin=is_whole)
        ping = b"ping %d" % number
        sent += Frame(Opcode.PING, ping).serialize(mask=False)
        sent += b"" if is_whole else message(3, opcode=Opcode.CONT)
        sent += Frame(Opcode.PONG, b"").serialize(mask=False)
        expected += bytes(each % 251 for each in range(size)) + (b"" if is_whole else bytes(range(3)))
        pings.append(ping)
    frames, read = ServerFrames(), b""
    ends = sorted({min(cut, len(sent)) for cut in cuts} | {len(sent)})
    for begin, end in zip([0, *ends], ends, strict=False):
        read += b"".join(frames.receive(memoryview(sent)[begin:end]))
    assert read == expected
    assert (frames.take_pings(), frames.take_pings()) == (pings, [])


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=False), id="close"),
        pytest.param(b"\x83\x00", id="unknown type"),
        pytest.param(b"\xc2\x01x", id="compressed"),
        pytest.param(b"\x82\x81abcdx", id="masked"),
        pytest.param(b"\x89\x7e\x00\x7e" + bytes(126), id="long ping"),
    ],
)
def test_a_server_that_ends_the_websocket_or_breaks_its_rules_ends_the_connection(sent: bytes) -> None:
    """What arrived before is read."""
    frames, read = ServerFrames(), b""
    with pytest.raises(ConnectionResetError):
        for part in frames.receive(memoryview(message(5) + sent)):
            read += part
    assert read == bytes(range(5))


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), SIZES)
def test_a_frame_is_what_servers_expect_of_clients(parts: list[bytes], size: int) -> None:
    """The parts of a frame are masked as one payload, whatever their lengths."""
    server = ServerProtocol(state=State.OPEN, max_size=None)
    assert server.side is SERVER
    payload = [*parts, bytes(size)]
    server.receive_data(b"".join(_make_frame(Opcode.BINARY, payload)))
    (received,) = server.events_received()
    assert isinstance(received, Frame)
    assert (received.opcode, bytes(received.data)) == (Opcode.BINARY, b"".join(payload))


@pytest.mark.parametrize("split", [0, 1, 40, 120, 126])
async def test_a_refusal_is_read_however_its_bytes_are_split(split: int) -> None:
    """The body says why, and may arrive after the head."""
    body = b'{"title": "no"}'
    head = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n" % len(body)
    connection = TunnelConnection(ClientProtocol(parse_uri("ws://127.0.0.1/")))
    connection.connection_made(create_autospec(asyncio.Transport, instance=True))
    handshake = asyncio.create_task(connection.handshake())
    await asyncio.sleep(0)
    for piece in ((head + body)[:split], (head + body)[split : len(head)], (head + body)[max(split, len(head)) :]):
        connection.data_received(piece)
    with pytest.raises(InvalidStatus) as caught:
        await handshake
    assert (caught.value.response.status_code, caught.value.response.body) == (403, body)
