"""Port-forward over the wire: connections to a Pod's ports as streams of SPDY/3.1, or as channels of a WebSocket.

SPDY: for each connection the client opens two streams with the headers `port` and `requestid`; their `streamtype` is
`data` or `error`. SPDY may be tunnelled in a WebSocket (`SPDY/3.1+portforward.k8s.io`, kubectl since 1.31).

WebSocket (`v4.channel.k8s.io`, the official Python client): the request names the ports. The n-th has channel 2n for
data and 2n+1 for errors, and both begin with the port in two bytes. One connection to each port is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from kajitori.embedded.kubelet.http.remote import (
    PROTOCOL_HEADER,
    SPDY,
    STREAMS_SECONDS,
    V4,
    check_protocol,
    ended,
    is_spdy,
    keep_awake,
    open_websocket,
)
from kajitori.embedded.kubelet.shim import foreign_socket, syscalls
from kajitori.embedded.upgrades import TakenOver, taken_over
from kajitori.errors import InvalidInput
from kajitori.kube.spdy.session import (
    CLOSE_SECONDS,
    Session,
    Stream,
)
from kajitori.kube.spdy.wires import TransportWire, WebSocketWire, Wire

PROTOCOL = "portforward.k8s.io"
TUNNEL = f"{SPDY}+{PROTOCOL}"
READ_BYTES = 256 * 1024
CONNECT_SECONDS = 10.0
MOST_CHANNELS = 127
"""Largest number of ports of a WebSocket with channels: a channel's number is one byte, and 255 is reserved."""
CHANNEL_PIECES = 32
"""Unread messages of one port at which a WebSocket with channels is not read."""


@dataclass(frozen=True)
class PodPorts:
    """The ports of one Pod at `localhost` in its network."""

    name: str
    uid: str
    namespace: str
    """File of its network namespace; empty if it uses the machine's network."""
    until_gone: Callable[[], Awaitable[object]]
    """Returns once the Pod has left this node."""
    process: int = 0
    """A process of the Pod. Its network is used if it is neither `namespace` nor the machine's: rootless Docker has a
    network of its own that it calls the host's."""

    async def connect(self, port: int) -> socket.socket:
        """Return a connection to a port. Raises OSError or TimeoutError."""
        refused: OSError | None = None
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                connection = await self._new_socket(family)
            except OSError as error:  # the machine has no IPv6
                refused = refused or error
                continue
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await asyncio.get_running_loop().sock_connect(connection, (address, port))
            except BaseException as error:
                connection.close()
                if not isinstance(error, OSError):
                    raise
                refused = refused or error
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        assert refused is not None
        raise refused

    def failure(self, port: int, error: OSError) -> str:
        """Return the message that kubectl prints when a port can't be reached."""
        why = str(error) or type(error).__name__
        if error.errno == errno.ECONNREFUSED:
            why = f"nothing listens on port {port} of localhost in the Pod: connection refused"
        elif error.errno == errno.ENOENT:
            why = "the Pod's network is gone"
        return f"error forwarding port {port} to pod {self.name}, uid {self.uid}: {why}"

    async def _new_socket(self, family: socket.AddressFamily) -> socket.socket:
        if self.namespace:
            made = await _socket_in(self.namespace, family)
        elif self.process and not _is_in_our_network(self.process):
            made = await _socket_of(self.process, family)
        else:
            made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        return made


async def _socket_in(namespace: str, family: socket.AddressFamily) -> socket.socket:
    """Return a socket in a network namespace. A socket stays in the namespace that it was created in."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[socket.socket] = loop.create_future()

    def answer(result: socket.socket | OSError) -> None:
        if made.cancelled():
            if isinstance(result, socket.socket):
                result.close()
        elif isinstance(result, socket.socket):
            made.set_result(result)
        else:
            made.set_exception(result)

    def make() -> None:
        try:
            syscalls.enter(namespace, syscalls.CLONE_NEWNET)
            result: socket.socket | OSError = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            result = error
        loop.call_soon_threadsafe(answer, result)

    # A new thread each time: a thread of a pool would have to leave the namespace again.
    threading.Thread(target=make, name="socket of a Pod").start()
    return await made


def _is_in_our_network(process: int) -> bool:
    try:
        return foreign_socket.is_shared(process, "net")
    except PermissionError:  # of another user: a container of Docker that runs as root, in the machine's network
        return True


async def _socket_of(process: int, family: socket.AddressFamily) -> socket.socket:
    """Return a socket in the network of a process that may be in another user namespace."""
    program = foreign_socket.PROGRAM.format(folder=str(Path(foreign_socket.__file__).parent.parent))
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            maker = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-c", program, str(process), str(int(family)), stdin=theirs.fileno()
            )
        await maker.wait()
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            number, fds, _, _ = socket.recv_fds(ours, 16, 1)
            if fds:
                return socket.socket(fileno=fds[0])
            if number:
                raise OSError(int(number), os.strerror(int(number)))
    raise OSError(f"no socket could be made in the network of process {process}")


async def serve_port_forward(request: web.Request, ports: PodPorts) -> web.StreamResponse:
    """Forward connections to a Pod's ports until the client disconnects or the Pod is gone."""
    if is_spdy(request):
        check_protocol(request, PROTOCOL)
        wire = TransportWire()
        headers = {"Connection": "Upgrade", "Upgrade": SPDY, PROTOCOL_HEADER: PROTOCOL}
        async with taken_over(request, headers, wire):
            await _while_there(ports, _Forwarding(ports).serve(wire))
        return TakenOver()
    channels = _requested_ports(request)
    websocket = await open_websocket(request, TUNNEL, *([V4] if channels else []))
    if websocket.ws_protocol == TUNNEL:
        await _while_there(ports, _Forwarding(ports).serve(WebSocketWire(websocket)))
    else:
        await _while_there(ports, _Channels(websocket, ports, channels).serve())
    with contextlib.suppress(TimeoutError):  # the client does not read
        async with asyncio.timeout(CLOSE_SECONDS):
            await websocket.close(code=WSCloseCode.OK)
    return websocket


async def _while_there(ports: PodPorts, serving: Coroutine[None, None, None]) -> None:
    """Serve a client until `serving` ends or the Pod is gone."""
    tasks = (asyncio.create_task(serving), asyncio.ensure_future(ports.until_gone()))
    try:
        await _first_to_end(*tasks)
    finally:
        await ended(*tasks)


async def _join(
    connection: socket.socket,
    read: Callable[[], Awaitable[bytes]],
    write: Callable[[bytes], Awaitable[None]],
    *,
    half_closes: bool,
) -> None:
    """Copy bytes both ways until both sides have ended. `read` and `write` are the client's; no bytes mean the end.

    With `half_closes` false the client can't end its own direction, and the program's end is enough. Raises OSError if
    either side breaks.
    """
    loop = asyncio.get_running_loop()

    async def upload() -> None:
        while data := await read():
            await loop.sock_sendall(connection, data)
        with contextlib.suppress(OSError):  # the program may have disconnected already
            connection.shutdown(socket.SHUT_WR)

    async def download() -> None:
        while data := await loop.sock_recv(connection, READ_BYTES):
            await write(data)
        await write(b"")

    tasks = [asyncio.create_task(upload()), asyncio.create_task(download())]
    try:
        await (asyncio.gather(*tasks) if half_closes else _first_to_end(*tasks))
    finally:
        await ended(*tasks)


async def _first_to_end(*tasks: asyncio.Future[Any]) -> None:
    """Wait until one of the tasks has ended. Raises its exception."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


@dataclass(frozen=True)
class _Pair:
    """A connection whose second stream is missing."""

    port: int
    late: asyncio.Task[None]
    """Resets the stream if the second one does not come."""
    streams: Mapping[str, Stream]


class _Forwarding:
    """The connections of one SPDY session."""

    def __init__(self, ports: PodPorts) -> None:
        self._ports = ports
        self._waiting: dict[str, _Pair] = {}
        """By the client's number of the connection."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, wire: Wire) -> None:
        """Run the session to its end; then end its connections."""
        session = Session(wire, self._on_stream)
        try:
            await session.run()
        finally:
            await ended(*self._tasks)
            await session.close()

    def _on_stream(self, stream: Stream) -> bool:
        headers = stream.headers
        kind, port, number = headers.get("streamtype", ""), headers.get("port", ""), headers.get("requestid", "")
        if kind not in ("data", "error") or not _is_port(port):
            return False
        if not number:  # clients before 1.3: the data stream follows its error stream
            number = f"stream {stream.number if kind == 'error' else stream.number - 2}"
        pair = self._waiting.get(number)
        if pair is None:
            late = self._start(self._give_up_late(number))
            self._waiting[number] = _Pair(int(port), late, {kind: stream})
            return True
        if kind in pair.streams or pair.port != int(port):
            return False
        del self._waiting[number]
        pair.late.cancel()
        streams = {**pair.streams, kind: stream}
        self._start(self._forward(pair.port, streams["data"], streams["error"]))
        return True

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _give_up_late(self, number: str) -> None:
        await asyncio.sleep(STREAMS_SECONDS)
        pair = self._waiting.pop(number)
        with contextlib.suppress(ConnectionError):
            for stream in pair.streams.values():
                await stream.reset()

    async def _forward(self, port: int, data: Stream, errors: Stream) -> None:
        forwarding = asyncio.create_task(self._connect_and_join(port, data))
        broken = asyncio.create_task(data.broken.wait())
        try:
            await asyncio.wait({forwarding, broken}, return_when=asyncio.FIRST_COMPLETED)
            with contextlib.suppress(ConnectionError):
                if forwarding.done() and not data.broken.is_set() and (failure := forwarding.result()):
                    await errors.write(failure.encode())
                # kubectl waits for the end of the error stream in any case.
                await errors.close()
                await data.reset()
        finally:
            await ended(forwarding, broken)
            data.give_up()
            errors.give_up()

    async def _connect_and_join(self, port: int, data: Stream) -> str:
        """Forward one connection to its end. Return an error message if the port can't be reached."""

        async def write(piece: bytes) -> None:
            await (data.write(piece) if piece else data.close())

        try:
            connection = await self._ports.connect(port)
        except OSError as error:
            return self._ports.failure(port, error)
        # No error if the connection breaks later: kubectl would end all the others, too.
        with connection, contextlib.suppress(OSError):
            await _join(connection, data.read, write, half_closes=True)
        return ""


def _requested_ports(request: web.Request) -> list[int]:
    """Return the ports that the request names. Raises InvalidInput for an invalid port."""
    given = [part for value in request.query.getall("port", []) for part in value.split(",")]
    for one in given:
        if not _is_port(one):
            raise InvalidInput.one("port", "must be a port", value=one)
    if len(given) > MOST_CHANNELS:
        raise InvalidInput.one(
            "port", f"must be at most {MOST_CHANNELS}: each takes two channels", value=str(len(given))
        )
    return [int(one) for one in given]


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536


class _Channels:
    """A WebSocket with one connection to each of its ports."""

    def __init__(self, websocket: web.WebSocketResponse, ports: PodPorts, channels: list[int]) -> None:
        self._websocket = websocket
        self._ports = ports
        self._channels = channels
        self._incoming: list[asyncio.Queue[bytes]] = [asyncio.Queue(CHANNEL_PIECES) for _ in channels]
        self._open = set(range(len(channels)))

    async def serve(self) -> None:
        """Serve until all connections have ended or the client disconnects."""
        for index, port in enumerate(self._channels):
            for channel in (2 * index, 2 * index + 1):
                await self._send(channel, port.to_bytes(2, "little"))
        forwarding = asyncio.create_task(self._forward_all())
        hearing = asyncio.create_task(self._receive())
        pinging = asyncio.create_task(keep_awake(self._websocket))
        try:
            await _first_to_end(forwarding, hearing, pinging)
        finally:
            await ended(forwarding, hearing, pinging)

    async def _forward_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for index in range(len(self._channels)):
                group.create_task(self._forward(index))

    async def _receive(self) -> None:
        async for message in self._websocket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            index, is_error = divmod(message.data[0], 2)
            if index in self._open and not is_error and len(message.data) > 1:
                await self._incoming[index].put(message.data[1:])

    async def _forward(self, index: int) -> None:
        port = self._channels[index]

        async def write(piece: bytes) -> None:
            if piece:  # the protocol can't express the end
                await self._send(2 * index, piece)

        incoming = self._incoming[index]
        try:
            with await self._ports.connect(port) as connection:
                await _join(connection, incoming.get, write, half_closes=False)
        except OSError as error:
            with contextlib.suppress(ConnectionError):
                await self._send(2 * index + 1, self._ports.failure(port, error).encode())
        finally:
            self._open.discard(index)
            while not incoming.empty():  # otherwise `_receive` would wait, and with it the other ports
                incoming.get_nowait()

    async def _send(self, channel: int, data: bytes) -> None:
        await self._websocket.send_bytes(bytes([channel]) + data)
