"""The streams of one SPDY connection in asyncio, on an upgraded connection or tunnelled in a WebSocket."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kajitori.kube.connection.joined import PING_SECONDS
from kajitori.kube.spdy.frames import (
    Connection,
    DataReceived,
    Event,
    Ponged,
    ProtocolError,
    ResetCode,
    StreamOpened,
    StreamReset,
)
from kajitori.kube.spdy.wires import Wire

log = logging.getLogger(__name__)

GONE_SECONDS = 20.0
"""Silence after an unanswered ping at which a `PeerLiveness` gives the peer up. A ping goes out every PING_SECONDS, and
the answers are looked at as often, so a peer that vanished is noticed within 28 s."""
UNREAD_BYTES = 4 << 20
"""Unread bytes in all streams of a connection at which it stops reading from the peer. Without flow control a single
stream can't be stopped."""
CLOSE_SECONDS = 2.0
"""Longest wait for the peer when a connection is closed."""

PassOn = Callable[[bytes | memoryview], int]
"""Takes bytes at once and returns how many it took. It must not keep them: their memory is used again."""


@dataclass
class PeerLiveness:
    """Decides whether the peer of a session is gone. Times are seconds of one clock.

    A ping waits behind data that the peer does not read while its program is slow. A missing answer therefore proves
    only something if no data was sent before the ping. Otherwise the peer's kernel must also have stopped to
    acknowledge bytes.
    """

    acknowledges: Callable[[], bool] = lambda: True
    """Whether the peer's kernel has acknowledged everything that was sent."""
    gone_seconds: float = field(default_factory=lambda: GONE_SECONDS)
    _sent_bytes: int = field(default=0, init=False)
    _confirmed_bytes: int = field(default=0, init=False)
    """Number of bytes that the peer had read when it answered a ping."""
    _asked: dict[int, tuple[float, int]] = field(default_factory=dict, init=False)
    """Time of each ping without an answer, and the number of bytes that were sent before it."""
    _heard_at: float = field(default=0.0, init=False)

    def sent(self, count: int) -> None:
        """Record that bytes other than pings were sent."""
        self._sent_bytes += count

    def asked(self, number: int, now: float) -> None:
        """Record that a ping was sent."""
        self._asked[number] = now, self._sent_bytes

    def heard(self, now: float) -> None:
        """Record that bytes arrived, or that this side does not read now."""
        self._heard_at = now

    def answered(self, number: int) -> None:
        """Record the answer to a ping. It also counts as the answer to all earlier pings."""
        if number in self._asked:
            self._confirmed_bytes = self._asked[number][1]
            self._asked = {other: asked for other, asked in self._asked.items() if other > number}

    def is_gone(self, now: float) -> bool:
        """Return whether the peer is gone."""
        for at, sent_before in self._asked.values():
            if now - max(at, self._heard_at) >= self.gone_seconds:
                return sent_before == self._confirmed_bytes or not self.acknowledges()
        return False


class Stream:
    """One stream of a session. Each side ends its own direction."""

    def __init__(self, session: Session, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.broken = asyncio.Event()
        """Set when the peer has reset the stream, or the connection is gone."""
        self._session = session
        self._unread: collections.deque[bytes] = collections.deque()
        self._has_ended = False
        self._changed = asyncio.Event()
        self._pass_on: PassOn | None = None

    async def read(self, pass_on: PassOn | None = None) -> bytes:
        """Return the next bytes from the peer, or no bytes after it has ended its direction.

        While this waits, `pass_on` may take bytes at once, before they are copied; only the others are returned.
        Raises ConnectionResetError if the peer has reset the stream or the connection is gone, after all bytes that
        arrived before.
        """
        while True:
            if self._unread:
                data = self._unread.popleft()
                self._session.forget_unread(len(data))
                return data
            if self._has_ended:
                return b""
            if self.broken.is_set():
                raise ConnectionResetError("the peer gave the stream up")
            self._changed.clear()
            self._pass_on = pass_on
            try:
                await self._changed.wait()
            finally:
                self._pass_on = None

    def read_arrived(self) -> bytes:
        """Return all unread bytes, without waiting for any."""
        data = b"".join(self._unread)
        self._unread.clear()
        self._session.forget_unread(len(data))
        return data

    async def write(self, data: bytes | memoryview) -> None:
        """Send bytes; wait while the peer does not read. Raises ConnectionError."""
        if self.broken.is_set():
            raise ConnectionResetError("the peer gave the stream up")
        await self._session.send_data(self.number, data, end=False)

    async def close(self) -> None:
        """End this side's direction. Raises ConnectionError."""
        if not self.broken.is_set():
            await self._session.send_data(self.number, b"", end=True)

    async def reset(self) -> None:
        """Close both directions. Raises ConnectionError."""
        self.give_up()
        await self._session.reset(self.number)

    def take(self, data: bytes | memoryview, ended: bool) -> int:
        """Add bytes from the peer; return the number of bytes that are left to read. Only the session calls this."""
        if data and self._pass_on is not None and not self._unread:
            data = data[self._pass_on(data) :]
        if data:
            self._unread.append(bytes(data))
        self._has_ended = self._has_ended or ended
        if data or ended:
            self._changed.set()
        return len(data)

    def break_off(self) -> None:
        """Close both directions; bytes that arrived before can still be read. Only the session calls this."""
        self.broken.set()
        self._changed.set()

    def give_up(self) -> None:
        """Discard unread bytes and close both directions, without telling the peer."""
        self.read_arrived()
        self.break_off()


def refuse(_: Stream) -> bool:
    """Accept no stream of the peer."""
    return False


class Session:
    """One side of a connection. `opened` is called with each stream that the peer opens, and returns whether it is
    accepted. By default no stream is."""

    def __init__(
        self,
        wire: Wire,
        opened: Callable[[Stream], bool] = refuse,
        *,
        is_client: bool = False,
        liveness: PeerLiveness | None = None,
        abort: Callable[[], object] = lambda: None,
    ) -> None:
        """With `liveness`, the session calls `abort` when the peer is gone; `abort` must end the wire at once."""
        self._liveness = liveness
        self._abort = abort
        self._wire = wire
        self._opened = opened
        self._connection = Connection(is_client=is_client)
        self._streams: dict[int, Stream] = {}
        self._unread_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Serve until the connection ends; then all its streams are broken."""
        pinging = asyncio.create_task(self._ping())
        try:
            async with contextlib.aclosing(self._wire.pieces()) as pieces:
                async for piece in pieces:
                    self._note_sign_of_life()
                    for event in self._connection.receive(piece):
                        self._take(event)
                    await self._send(self._connection.take_queued())
                    await self._has_room.wait()
                    self._note_sign_of_life()
        except ProtocolError as error:
            log.info("the peer of an exec or port-forward broke SPDY/3.1: %s", error)
        except ConnectionError:
            pass  # the peer is gone
        finally:
            pinging.cancel()
            for stream in self._streams.values():
                stream.break_off()
            self._streams.clear()
            await asyncio.gather(pinging, return_exceptions=True)

    @property
    def unread_bytes(self) -> int:
        """Number of bytes that arrived and that no stream has read yet."""
        return self._unread_bytes

    async def open(self, headers: Mapping[str, str]) -> Stream:
        """Open a stream to the peer. Raises ConnectionError."""
        number, frame = self._connection.open(headers)
        stream = self._streams[number] = Stream(self, number, headers)
        await self._send(frame)
        return stream

    async def close(self) -> None:
        """Close the connection; wait at most CLOSE_SECONDS for a peer that does not read."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._send(self._connection.go_away())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._wire.close()

    async def send_data(self, stream: int, data: bytes | memoryview, *, end: bool) -> None:
        """Send bytes of a stream. Raises ConnectionError."""
        await self._send(*self._connection.data(stream, data, end=end))
        if end:
            self._forget(stream)

    async def reset(self, stream: int) -> None:
        """Tell the peer that a stream was reset. Raises ConnectionError."""
        self._streams.pop(stream, None)
        await self._send(self._connection.reset(stream))

    def forget_unread(self, count: int) -> None:
        """Subtract bytes that a stream has read or discarded from the number of unread bytes."""
        self._unread_bytes -= count
        if self._unread_bytes <= UNREAD_BYTES:
            self._has_room.set()

    async def _send(self, *parts: bytes | memoryview) -> None:
        if any(parts):
            if self._liveness is not None:
                self._liveness.sent(sum(map(len, parts)))
            async with self._sending:  # keeps the order while several tasks wait for the peer to read
                await self._wire.send(*parts)

    async def _ping(self) -> None:
        try:
            while True:
                await asyncio.sleep(PING_SECONDS)
                if self._liveness is not None and not self._is_alive(self._liveness):
                    self._abort()
                    raise ConnectionResetError("the peer is gone")
                if not self._sending.locked():  # if data waits, a ping would wait behind it
                    number, frame = self._connection.ping()
                    async with self._sending:
                        await self._wire.send(frame)
                    if self._liveness is not None:
                        self._liveness.asked(number, asyncio.get_running_loop().time())
        except ConnectionError:
            # `run` does not notice the end of the connection while it waits for streams to be read.
            for stream in self._streams.values():
                stream.give_up()
            self._streams.clear()

    def _note_sign_of_life(self) -> None:
        if self._liveness is not None:
            self._liveness.heard(asyncio.get_running_loop().time())

    def _is_alive(self, liveness: PeerLiveness) -> bool:
        if not self._has_room.is_set():
            self._note_sign_of_life()
        return not liveness.is_gone(asyncio.get_running_loop().time())

    def _take(self, event: Event) -> None:
        match event:
            case StreamOpened(number, headers, ended):
                self._take_opened(Stream(self, number, dict(headers)), ended)
            case DataReceived(number, data, ended):
                if (stream := self._streams.get(number)) is not None:
                    self._unread_bytes += stream.take(data, ended)
                    if self._unread_bytes > UNREAD_BYTES:
                        self._has_room.clear()
                    if ended:  # events that follow may have closed it already
                        self._forget(number)
            case Ponged(number) if self._liveness is not None:
                self._liveness.answered(number)
            case StreamReset(number, _):
                if (stream := self._streams.pop(number, None)) is not None:
                    stream.break_off()

    def _take_opened(self, stream: Stream, ended: bool) -> None:
        self._streams[stream.number] = stream
        if ended:
            stream.take(b"", ended)
        if self._opened(stream):
            self._connection.queue(self._connection.reply(stream.number))
        else:
            self._connection.queue(self._connection.reset(stream.number, ResetCode.REFUSED_STREAM))
            self._streams.pop(stream.number, None)
            stream.give_up()

    def _forget(self, number: int) -> None:
        """Remove a stream if both sides have ended it."""
        if not self._connection.is_open(number):
            self._streams.pop(number, None)
