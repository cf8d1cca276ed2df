"""Exec and attach over the wire, as WebSocket or as SPDY/3.1."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from kajitori.embedded.kubelet.containers.execution import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Remote,
    Send,
    flag,
)
from kajitori.embedded.upgrades import TakenOver, taken_over
from kajitori.errors import InvalidInput
from kajitori.kube.connection.joined import PING_SECONDS
from kajitori.kube.spdy.session import Session, Stream
from kajitori.kube.spdy.wires import TransportWire

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STREAMS_SECONDS = 30.0
"""Longest wait for the client to open all the streams that it asked for."""
LEAVE_SECONDS = 2.0
"""Longest wait for the client to close the connection after the status."""
MESSAGE_BYTES = 64 << 20
"""Largest WebSocket message that is accepted."""
SPDY = "SPDY/3.1"
PROTOCOL_HEADER = "X-Stream-Protocol-Version"
_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


@dataclass(frozen=True)
class Wanted:
    """The streams that a request asks for."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def of(cls, request: web.Request) -> Wanted:
        """Raises InvalidInput if the request asks for none."""
        query = request.query
        stdin, stdout, stderr = (
            flag(query, *names) for names in (("input", "stdin"), ("output", "stdout"), ("error", "stderr"))
        )
        tty = flag(query, "tty")
        if not (stdin or stdout or stderr):
            raise InvalidInput.one("", "you must specify at least 1 of stdin, stdout, stderr")
        return cls(stdin, stdout, stderr and not tty, tty)


Make = Callable[[Wanted, Send], Remote]


async def serve_remote(request: web.Request, make: Make) -> web.StreamResponse:
    """Connect the remote that `make` returns with the streams that the request asks for, until either ends."""
    if is_spdy(request):
        return await _serve_spdy(request, Wanted.of(request), make)
    return await _serve_websocket(request, Wanted.of(request), make)


def is_spdy(request: web.Request) -> bool:
    """Return whether the client asks for an upgrade to SPDY."""
    return request.headers.get("Upgrade", "").lower().startswith("spdy/")


def check_protocol(request: web.Request, protocol: str) -> None:
    """Raise InvalidInput if a client that upgrades to SPDY does not offer this protocol."""
    values = request.headers.getall(PROTOCOL_HEADER, [])
    if protocol not in [part.strip() for value in values for part in value.split(",")]:
        raise InvalidInput.one(PROTOCOL_HEADER, f"this kubelet speaks {protocol}", value=", ".join(values))


async def open_websocket(request: web.Request, *protocols: str) -> web.WebSocketResponse:
    """Upgrade to a WebSocket. Raises InvalidInput unless the client asks for one with one of these protocols."""
    # Not aiohttp's heartbeat: it disconnects clients that do not answer within seconds, such as a busy Python program.
    socket = web.WebSocketResponse(protocols=protocols, max_msg_size=MESSAGE_BYTES, compress=False)
    if not (ready := socket.can_prepare(request)).ok or ready.protocol is None:
        speaks = f"this kubelet speaks {SPDY} and WebSocket with {' or '.join(protocols)}"
        raise InvalidInput.one("Upgrade", speaks, value=request.headers.get("Sec-WebSocket-Protocol", ""))
    await socket.prepare(request)
    return socket


async def keep_awake(socket: web.WebSocketResponse) -> None:
    """Ping the client until the connection is gone, since proxies close idle connections."""
    with contextlib.suppress(ConnectionError):
        while True:
            await asyncio.sleep(PING_SECONDS)
            await socket.ping()


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _serve_websocket(request: web.Request, wanted: Wanted, make: Make) -> web.StreamResponse:
    socket = await open_websocket(request, V5, V4)

    async def send(channel: int, data: bytes) -> None:
        await socket.send_bytes(bytes([channel]) + data)

    remote = make(wanted, send)
    # Clients show nothing before this message.
    await send(STDOUT, b"")
    running = asyncio.create_task(remote.run())
    hearing = asyncio.create_task(_receive(socket, remote))
    # `_receive` does not notice that the client is gone while it waits for the program to read input; a ping does.
    pinging = asyncio.create_task(keep_awake(socket))
    try:
        await asyncio.wait({running, hearing, pinging}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            with contextlib.suppress(ConnectionError):
                await send(ERROR, json.dumps(running.result()).encode())
                await socket.close(code=WSCloseCode.OK)
    finally:
        await ended(running, hearing, pinging)
    return socket


async def _receive(socket: web.WebSocketResponse, remote: Remote) -> None:
    """Handle the client's messages until it disconnects."""
    async for message in socket:
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or not message.data:
            continue
        # The official Python client writes text as text frames.
        received = message.data.encode() if message.type is WSMsgType.TEXT else message.data
        channel, data = received[0], received[1:]
        if channel == STDIN:
            await remote.feed(data)
        elif channel == RESIZE:
            remote.resize(data)
        elif channel == CLOSE and data[:1] == bytes([STDIN]):
            await remote.close_stdin()


async def _serve_spdy(request: web.Request, wanted: Wanted, make: Make) -> web.StreamResponse:
    check_protocol(request, V4)
    channels = {ERROR}
    channels |= {STDIN} if wanted.stdin else set()
    channels |= {STDOUT} if wanted.stdout else set()
    channels |= {STDERR} if wanted.stderr else set()
    channels |= {RESIZE} if wanted.tty else set()
    streams: dict[int, Stream] = {}
    complete = asyncio.Event()

    def opened(stream: Stream) -> bool:
        channel = _CHANNELS.get(stream.headers.get("streamtype", ""), -1)
        if channel not in channels or channel in streams:
            return False
        streams[channel] = stream
        if channels == set(streams):
            complete.set()
        return True

    wire = TransportWire()
    session = Session(wire, opened)
    headers = {"Connection": "Upgrade", "Upgrade": SPDY, PROTOCOL_HEADER: V4}
    async with taken_over(request, headers, wire):
        connected = asyncio.create_task(session.run())
        conversing = asyncio.create_task(_converse(complete, streams, wanted, make))
        try:
            await asyncio.wait({connected, conversing}, return_when=asyncio.FIRST_COMPLETED)
            if conversing.done():
                conversing.result()
                # The client closes the connection after it has read the status.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LEAVE_SECONDS):
                        await asyncio.shield(connected)
            await session.close()
        finally:
            await ended(connected, conversing)
    return TakenOver()


async def _converse(complete: asyncio.Event, streams: dict[int, Stream], wanted: Wanted, make: Make) -> None:
    """Serve a client after it has opened all streams. Return early if it disconnects or opens too few."""
    try:
        async with asyncio.timeout(STREAMS_SECONDS):
            await complete.wait()
    except TimeoutError:
        return

    async def send(channel: int, data: bytes) -> None:
        if channel in streams:
            await streams[channel].write(data)

    remote = make(wanted, send)

    async def hear_stdin(stream: Stream) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await stream.read():
                await remote.feed(data)
        await remote.close_stdin()

    async def hear_resize(stream: Stream) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await stream.read():
                remote.resize(data)

    hearing = [asyncio.create_task(hear_stdin(streams[STDIN]))] if STDIN in streams else []
    hearing += [asyncio.create_task(hear_resize(streams[RESIZE]))] if RESIZE in streams else []
    try:
        status = await remote.run()
        for channel in (STDOUT, STDERR):
            if channel in streams:
                await streams[channel].close()
        await streams[ERROR].write(json.dumps(status).encode())
        await streams[ERROR].close()
    except ConnectionError:
        pass  # the client has disconnected
    finally:
        await ended(*hearing)
