"""HTTP/1.1 connections to programs of runs, over port-forward streams through the API server.

A stream costs the API server and the kubelet a handshake, so connections are kept for some seconds and used again, but
only for the same person and the same port of the same Pod.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import h11

from kajitori.api.requests.limits import Turns
from kajitori.errors import Busy, KajitoriError, Unavailable
from kajitori.kube.connection.joined import JoinedEnd

AT_ONCE = 4096
PER_VISITOR = 64
"""Connections to programs that are open at the same time: of all visitors, and of one visitor to one run. A page of
JupyterLab holds one for each kernel, terminal and request."""
WAIT_SECONDS = 10.0
"""Time for which a request waits for one of its visitor's connections to become free."""
KEPT_SECONDS = 15.0
"""Time for which an unused connection is kept. Programs close theirs later than that, mostly."""
KEPT_PER_PORT = 8
CONNECT_SECONDS = 15.0
MAX_HEAD_BYTES = 128 << 10
"""Largest head of a program's answer; some set many cookies."""
CHUNK_BYTES = 64 << 10

TUNNEL = "kajitori.tunnel"
"""ASGI extension of requests that ask for a WebSocket which is passed on in bytes: a Tunnel."""

HeaderList = Sequence[tuple[bytes, bytes]]


class Duplex(Protocol):
    """A connection to a port: bytes in both directions."""

    async def read(self) -> bytes:
        """Return the next bytes, or none at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; wait while the program does not read."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class Tunnel(JoinedEnd):
    """The caller's side of a WebSocket, in bytes."""

    @abstractmethod
    async def accept(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer that the protocol is switched."""

    @abstractmethod
    async def read(self) -> bytes:
        """Return the next bytes, or none at the end."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Send bytes; wait while the caller does not read."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    @abstractmethod
    def is_gone(self) -> bool:
        """Whether the caller has disconnected."""


@dataclass(frozen=True, slots=True)
class PortOfPod:
    """The destination and the user of a connection."""

    visitor: str
    namespace: str
    run_uid: str
    pod: str
    pod_uid: str
    port: int


class NotReached(Unavailable):
    """The program does not answer: nothing listens at its port, or it does not speak HTTP/1.1 there."""

    code = "ProgramNotReached"
    http_status = 502


class NoAnswer(NotReached):
    """The program closed the connection without an answer."""


class BrokenAnswer(NotReached):
    """The program does not speak HTTP/1.1 at this port, or its answer ended early."""


class Connection:
    """One connection to a program, on which one request at a time is answered."""

    def __init__(self, stream: Duplex) -> None:
        self.stream = stream
        self.was_used = False
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def send_head(self, method: bytes, target: bytes, headers: HeaderList) -> None:
        """Send the head of a request."""
        await self._send(h11.Request(method=method, target=target, headers=list(headers)))

    async def send_body(self, data: bytes) -> None:
        """Send a part of the request's body."""
        for begin in range(0, len(data), CHUNK_BYTES):
            await self._send(h11.Data(data=data[begin : begin + CHUNK_BYTES]))

    async def end_body(self) -> None:
        """Note the end of the request's body."""
        await self._send(h11.EndOfMessage())

    async def read_head(self) -> h11.Response | h11.InformationalResponse:
        """Return the head of the answer; other informational answers than 101 are left out.

        Raises NoAnswer if the program closed the connection before it sent anything, BrokenAnswer.
        """
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    return event
            else:
                raise NoAnswer("the program closed the connection without an answer")

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the parts of the answer's body. Raises BrokenAnswer if it ends early."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise BrokenAnswer("the program's answer ended early")

    @property
    def trailing(self) -> bytes:
        """Bytes that arrived after the head of an answer that switched protocols."""
        return bytes(self._http.trailing_data[0])

    def again(self) -> bool:
        """Prepare the next request. Return whether the connection may be used for one."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self.was_used = True
        return True

    async def aclose(self) -> None:
        """Close the connection."""
        with suppress(KajitoriError, OSError):
            await self.stream.aclose()

    async def _send(self, event: h11.Event) -> None:
        try:
            data = self._http.send(event)
        except h11.LocalProtocolError as error:
            raise BrokenAnswer(f"the request cannot be passed on: {error}") from None
        if data:
            await self.stream.write(data)

    async def _next(self) -> h11.Event | object:
        while True:
            try:
                event = self._http.next_event()
                if isinstance(event, h11.Event) or event is h11.PAUSED:
                    return event
                data = await self.stream.read()
                if not data and self._http.their_state in (h11.IDLE, h11.SEND_RESPONSE):
                    if self._http.trailing_data[0]:
                        raise BrokenAnswer("the program's answer ended early")
                    raise NoAnswer("the program closed the connection without an answer")
                self._http.receive_data(data)
            except h11.RemoteProtocolError as error:
                hint = "a program that speaks another protocol is reached with kaji port-forward"
                raise BrokenAnswer(f"the program's answer is not HTTP/1.1: {error}", hint=hint) from None


class Connections:
    """Connections to programs: limited for each visitor, and kept for the visitor's next request."""

    def __init__(self) -> None:
        self._turns = Turns(AT_ONCE, PER_VISITOR)
        self._kept: dict[PortOfPod, list[tuple[Connection, asyncio.TimerHandle]]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def turn(self, place: PortOfPod) -> AsyncIterator[None]:
        """Hold one of the visitor's connections to a run while the context lasts. Raises Busy."""
        turn = self._turns.turn(f"{place.visitor} {place.run_uid}")
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn.__aenter__()
        except TimeoutError:
            message = f"you have {PER_VISITOR} connections to this run open"
            raise Busy(message, hint="close some of its pages in your browser") from None
        try:
            yield
        finally:
            await turn.__aexit__(None, None, None)

    async def take(
        self, place: PortOfPod, open_stream: Callable[[], Awaitable[Duplex]], *, fresh: bool = False
    ) -> Connection:
        """Return a connection: a kept one, or a new one if there is none or `fresh` asks for it."""
        kept = self._kept.get(place)
        if kept and not fresh:
            connection, timer = kept.pop()
            timer.cancel()
            if not kept:
                del self._kept[place]
            return connection
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return Connection(await open_stream())
        except TimeoutError:
            raise Unavailable("the node of this run does not answer", hint="try again") from None

    async def give_back(self, place: PortOfPod, connection: Connection) -> None:
        """Keep a connection for the next request, if it can take one."""
        kept = self._kept.setdefault(place, [])
        if len(kept) >= KEPT_PER_PORT or not connection.again():
            if not kept:
                del self._kept[place]
            await connection.aclose()
            return
        timer = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._expire, place, connection)
        kept.append((connection, timer))

    async def close(self) -> None:
        """Close the kept connections."""
        for kept in self._kept.values():
            for connection, timer in kept:
                timer.cancel()
                await connection.aclose()
        self._kept.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _expire(self, place: PortOfPod, connection: Connection) -> None:
        kept = [pair for pair in self._kept.pop(place, ()) if pair[0] is not connection]
        if kept:
            self._kept[place] = kept
        task = asyncio.create_task(connection.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
