"""SPDY/3.1 framing: both sides understand each other, and a hostile peer meets limits."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.kube.spdy.frames import (
    DICTIONARY,
    MAX_CONTROL_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_STREAMS,
    Connection,
    DataReceived,
    Event,
    GoneAway,
    Ponged,
    ProtocolError,
    ResetCode,
    StreamOpened,
    StreamReplied,
    StreamReset,
)

HEADER_NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20).map(str.lower)
HEADERS = st.dictionaries(HEADER_NAMES, st.text(max_size=50), max_size=10)


def cut(data: bytes, lengths: Iterable[int]) -> list[bytes]:
    """Return `data` in pieces of these lengths, the rest in one."""
    pieces = []
    for length in lengths:
        pieces.append(data[:length])
        data = data[length:]
    return [*pieces, data]


def take(connection: Connection, data: bytes, lengths: Iterable[int] = ()) -> list[Event]:
    return [event for piece in cut(data, lengths) for event in connection.receive(piece)]


def frame(kind: int, body: bytes, flags: int = 0, version: int = 3) -> bytes:
    return struct.pack(">II", 1 << 31 | version << 16 | kind, flags << 24 | len(body)) + body


def block(plain: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=DICTIONARY)
    return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)


def syn_stream(number: int, plain: bytes) -> bytes:
    return frame(1, struct.pack(">IIH", number, 0, 0) + block(plain))


def test_the_compression_dictionary_is_that_of_the_specification() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(
    st.lists(st.tuples(HEADERS, st.lists(st.binary(max_size=300), max_size=4)), max_size=5),
    st.lists(st.integers(1, 50), max_size=40),
)
def test_streams_arrive_for_any_segmentation_of_the_bytes(
    streams: list[tuple[dict[str, str], list[bytes]]], lengths: list[int]
) -> None:
    """Headers, bytes and ends of each stream, in order; the replies come back."""
    client, server = Connection(is_client=True), Connection()
    sent = b""
    for headers, pieces in streams:
        number, opening = client.open(headers)
        sent += opening + b"".join(part for piece in pieces for part in client.data(number, piece))
        sent += b"".join(client.data(number, b"", end=True))
    opened, got, ended = [], dict.fromkeys(range(1, 2 * len(streams), 2), b""), set()
    for event in take(server, sent, lengths):
        if isinstance(event, StreamOpened):
            opened.append((event.stream, dict(event.headers)))
            server.queue(server.reply(event.stream))
        elif isinstance(event, DataReceived):
            got[event.stream] += event.data
            ended |= {event.stream} if event.ended else set()
    numbers = list(got)
    assert opened == [(number, headers) for number, (headers, _) in zip(numbers, streams, strict=True)]
    assert list(got.values()) == [b"".join(pieces) for _, pieces in streams]
    assert ended == set(numbers)
    replies = take(client, server.take_queued(), lengths)
    assert replies == [StreamReplied(number, {}, False) for number in numbers]
    for number in numbers:
        assert take(client, b"".join(server.data(number, b"bye", end=True))) == [DataReceived(number, b"bye", True)]
    assert (client.streams, server.streams) == (0, 0)


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_random_bytes_end_in_events_or_a_protocol_error(pieces: list[bytes]) -> None:
    server = Connection()
    with contextlib.suppress(ProtocolError):
        for piece in pieces:
            server.receive(piece)
    assert server.streams <= MAX_STREAMS


@given(st.data())
def test_damaged_frames_end_in_events_or_a_protocol_error(data: st.DataObject) -> None:
    """A real conversation with some bytes replaced."""
    client = Connection(is_client=True)
    sent = bytearray()
    for _ in range(3):
        number, opening = client.open({"streamtype": "data", "port": "80"})
        sent += opening + b"".join(client.data(number, b"abc")) + client.ping()[1]
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        Connection().receive(bytes(sent))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (struct.pack(">II", 1 << 31 | 3 << 16 | 1, MAX_CONTROL_BYTES + 1), "control frame of"),
        (frame(1, b"\0" * 9), "control frame of 9 bytes"),
        (frame(6, b"\0\0\0\1", version=2), "SPDY/2"),
        (syn_stream(2, b"\0\0\0\0"), "stream of number 2"),
        (syn_stream(0, b"\0\0\0\0"), "stream of number 0"),
        (syn_stream(1, b""), "without their number"),
        (syn_stream(1, struct.pack(">I", MAX_HEADERS + 1)), "65 headers"),
        (syn_stream(1, struct.pack(">II", 1, 0xFFFF_FFFF)), "longer than their block"),
        (syn_stream(1, b"\0\0\0\0 "), "after the last header"),
        (syn_stream(1, struct.pack(">II", 1, 1) + b"\xff" + b"\0\0\0\0"), "not UTF-8"),
        (syn_stream(1, struct.pack(">II", 1, 0) + b"\0\0\0\0"), "without a name"),
        (syn_stream(1, b"\0\0\0\2" + 2 * (b"\0\0\0\1a" + b"\0\0\0\0")), "header twice"),
        (syn_stream(1, bytes(MAX_HEADER_BYTES + 1)), "headers of more than"),
        (frame(1, struct.pack(">IIH", 1, 0, 0) + b"not zlib"), "can't be decompressed"),
        (frame(2, struct.pack(">I", 2) + block(b"\0\0\0\0")), "never opened"),
        (struct.pack(">II", 7, 1) + b"x", "data for stream 7"),
    ],
)
def test_broken_frames_are_refused(sent: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        Connection().receive(sent)


def test_a_header_bomb_costs_no_more_than_the_limit() -> None:
    """60 KB that would become 60 MB."""
    bomb = block(bytes(60 << 20))
    assert len(bomb) < MAX_CONTROL_BYTES
    with pytest.raises(ProtocolError, match="headers of more than"):
        Connection().receive(frame(1, struct.pack(">IIH", 1, 0, 0) + bomb))


def test_streams_beyond_the_limit_are_refused_one_by_one() -> None:
    """The open ones stay open."""
    client, server = Connection(is_client=True), Connection()
    sent = b"".join(client.open({})[1] for _ in range(MAX_STREAMS + 2))
    assert len(take(server, sent)) == MAX_STREAMS == server.streams
    refused = take(client, server.take_queued())
    code = ResetCode.REFUSED_STREAM
    assert refused == [StreamReset(2 * MAX_STREAMS + 1, code), StreamReset(2 * MAX_STREAMS + 3, code)]


def test_a_stream_number_is_not_used_twice() -> None:
    client, server = Connection(is_client=True), Connection()
    server.receive(client.open({})[1])
    with pytest.raises(ProtocolError, match="number 1 after 1"):
        server.receive(client.open({})[1].replace(struct.pack(">I", 3), struct.pack(">I", 1)))


def test_a_reset_ends_both_directions() -> None:
    """Data that is still on its way is ignored, and this side sends nothing more."""
    client, server = Connection(is_client=True), Connection()
    number, opening = client.open({})
    late = b"".join(client.data(number, b"late"))
    server.receive(opening)
    reset = server.reset(number)
    assert server.receive(late) == []
    assert (server.data(number, b"x"), server.reset(number), server.take_queued()) == ((), b"", b"")
    assert client.receive(reset) == [StreamReset(number, ResetCode.CANCEL)]
    assert client.data(number, b"x", end=True) == ()


def test_data_after_the_end_of_a_direction_resets_the_stream() -> None:
    client, server = Connection(is_client=True), Connection()
    number, opening = client.open({})
    server.receive(opening + b"".join(client.data(number, b"", end=True)))
    more = struct.pack(">II", number, 1) + b"x"
    assert server.receive(more) == [StreamReset(number, ResetCode.STREAM_ALREADY_CLOSED)]
    assert take(client, server.take_queued()) == [StreamReset(number, ResetCode.STREAM_ALREADY_CLOSED)]


def test_pings_are_answered_and_their_answers_are_events() -> None:
    client, server = Connection(is_client=True), Connection()
    number, ping = client.ping()
    assert server.receive(ping) == []
    assert client.receive(server.take_queued()) == [Ponged(number)]
    assert server.receive(client.go_away()) == [GoneAway(0)]


def test_frames_about_flow_control_and_of_unknown_kinds_are_ignored() -> None:
    """SETTINGS, WINDOW_UPDATE and an unknown kind. HEADERS is ignored, too, but keeps the compression in step."""
    server = Connection()
    ignored = frame(4, struct.pack(">I", 0)) + frame(9, bytes(8)) + frame(99, b"?")
    assert server.receive(ignored) == []
    deflate = zlib.compressobj(zdict=DICTIONARY)

    def compressed(plain: bytes) -> bytes:
        return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)

    one = struct.pack(">III", 1, 1, 1).replace(b"\0\0\0\1\0\0\0\1\0\0\0\1", b"\0\0\0\1\0\0\0\1a\0\0\0\1b")
    sent = frame(1, struct.pack(">IIH", 1, 0, 0) + compressed(one))
    sent += frame(8, struct.pack(">I", 1) + compressed(one))
    sent += frame(1, struct.pack(">IIH", 3, 0, 0) + compressed(one), flags=1)
    assert server.receive(sent) == [StreamOpened(1, {"a": "b"}, False), StreamOpened(3, {"a": "b"}, True)]
