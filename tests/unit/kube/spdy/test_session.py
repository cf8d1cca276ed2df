"""Streams of a SPDY connection, and how a peer that vanished is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from kajitori.kube.spdy.session import PeerLiveness, Session, Stream


def test_an_idle_peer_that_answers_no_ping_is_gone() -> None:
    liveness = PeerLiveness(gone_seconds=20)
    liveness.asked(1, now=10)
    assert not liveness.is_gone(29)
    assert liveness.is_gone(30)


def test_anything_that_arrives_shows_that_the_peer_is_there() -> None:
    liveness = PeerLiveness(gone_seconds=20)
    liveness.asked(1, now=10)
    liveness.heard(29)
    assert not liveness.is_gone(48)
    assert liveness.is_gone(49)


def test_an_answer_settles_all_earlier_pings() -> None:
    liveness = PeerLiveness(gone_seconds=20)
    liveness.asked(1, now=10)
    liveness.asked(3, now=20)
    liveness.answered(3)
    assert not liveness.is_gone(1000)


def test_a_peer_that_waits_for_a_slow_program_is_not_gone() -> None:
    """The ping waits behind data that the program does not read; the peer's kernel still acknowledges."""
    acknowledges = True
    liveness = PeerLiveness(lambda: acknowledges, gone_seconds=20)
    liveness.sent(100)
    liveness.asked(1, now=10)
    assert not liveness.is_gone(1000)
    acknowledges = False
    assert liveness.is_gone(1000)


def test_confirmed_data_does_not_excuse_a_later_silence() -> None:
    liveness = PeerLiveness(gone_seconds=20)
    liveness.sent(100)
    liveness.asked(1, now=10)
    liveness.answered(1)
    liveness.asked(3, now=20)
    assert liveness.is_gone(40)


async def test_bytes_are_passed_on_at_once_only_while_a_reader_waits() -> None:
    """Bytes that could not be passed on are read later, in order, and only those count as unread."""
    stream = Stream(Session(NoWire()), 1, {})
    taken = bytearray()

    def pass_on(data: bytes | memoryview) -> int:
        taken.extend(data[:3])
        return min(3, len(data))

    reading = asyncio.ensure_future(stream.read(pass_on))
    await asyncio.sleep(0)
    assert [stream.take(memoryview(piece), ended=False) for piece in (b"abc", b"defgh", b"ij")] == [0, 2, 2]
    assert (bytes(taken), await reading, await stream.read(pass_on)) == (b"abcdef", b"gh", b"ij")
    assert stream.take(b"k", ended=True) == 1
    assert [await stream.read(pass_on), await stream.read(pass_on)] == [b"k", b""]


class NoWire:
    """Carries nothing."""

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        return
        yield

    async def send(self, *parts: bytes | memoryview) -> None: ...

    async def close(self) -> None: ...
