"""Exec over the wire: WebSocket as newer API servers and the embedded one speak it, SPDY as older ones do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.abc import AbstractStreamWriter

from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.execution import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    RemoteCommand,
    flag,
)
from kajitori.embedded.kubelet.http.spdy import Session, Stream
from kajitori.errors import InvalidInput

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PING_SECONDS = 10.0
STREAMS_SECONDS = 30.0
"""How long the client may take to open the streams that it asked for."""
_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


async def serve_exec(request: web.Request, container: Container, argv: Sequence[str]) -> web.StreamResponse:
    """Runs the command with the streams that the request asks for, until it ends or the remote hangs up."""
    if request.headers.get("Upgrade", "").lower().startswith("spdy/"):
        return await _serve_spdy(request, container, argv)
    return await _serve_websocket(request, container, argv)


async def _serve_websocket(request: web.Request, container: Container, argv: Sequence[str]) -> web.StreamResponse:
    query = request.query
    tty = flag(query, "tty")
    socket = web.WebSocketResponse(protocols=(V5, V4), heartbeat=PING_SECONDS, max_msg_size=0)
    if not socket.can_prepare(request).ok:
        raise InvalidInput.one("Upgrade", "this kubelet speaks WebSocket (v5.channel.k8s.io) and SPDY/3.1")
    await socket.prepare(request)

    async def send(channel: int, data: bytes) -> None:
        await socket.send_bytes(bytes([channel]) + data)

    command = RemoteCommand(
        container,
        argv,
        stdin=flag(query, "input", "stdin"),
        stderr=flag(query, "error", "stderr"),
        tty=tty,
        send=send,
    )
    # Clients wait for these before they show anything.
    await send(STDOUT, b"")
    running = asyncio.create_task(command.run())
    hearing = asyncio.create_task(_hear(socket, command))
    await asyncio.wait({running, hearing}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        with_status = json.dumps(running.result()).encode()
        if not socket.closed:
            await send(ERROR, with_status)
            await socket.close(code=WSCloseCode.OK)
    running.cancel()
    hearing.cancel()
    await asyncio.gather(running, hearing, return_exceptions=True)
    return socket


async def _hear(socket: web.WebSocketResponse, command: RemoteCommand) -> None:
    """Takes the remote's messages until it hangs up."""
    async for message in socket:
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or not message.data:
            continue
        # The official Python client writes text as text frames.
        received = message.data.encode() if message.type is WSMsgType.TEXT else message.data
        channel, data = received[0], received[1:]
        if channel == STDIN:
            await command.feed(data)
        elif channel == RESIZE:
            command.resize(data)
        elif channel == CLOSE and data[:1] == bytes([STDIN]):
            await command.close_stdin()


class _TakenOver(web.StreamResponse):
    """Stands for an answer that was written past aiohttp."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


async def _serve_spdy(request: web.Request, container: Container, argv: Sequence[str]) -> web.StreamResponse:
    query = request.query
    offered = [
        part.strip() for value in request.headers.getall("X-Stream-Protocol-Version", []) for part in value.split(",")
    ]
    if V4 not in offered:
        raise InvalidInput.one("X-Stream-Protocol-Version", f"this kubelet speaks {V4}", value=", ".join(offered))
    tty = flag(query, "tty")
    wanted = {ERROR}
    wanted |= {STDIN} if flag(query, "input", "stdin") else set()
    wanted |= {STDOUT} if flag(query, "output", "stdout") else set()
    wanted |= {STDERR} if flag(query, "error", "stderr") and not tty else set()
    wanted |= {RESIZE} if tty else set()
    streams: dict[int, Stream] = {}
    complete = asyncio.Event()

    def opened(stream: Stream) -> None:
        channel = _CHANNELS.get(stream.headers.get("streamtype", ""))
        if channel is not None:
            streams[channel] = stream
        if wanted <= set(streams):
            complete.set()

    transport, http = request.transport, request.protocol
    if not isinstance(transport, asyncio.Transport):
        return _TakenOver()
    session = Session(opened, http.connection_lost)
    lines = ("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: SPDY/3.1")
    transport.write("\r\n".join((*lines, f"X-Stream-Protocol-Version: {V4}", "", "")).encode())
    session.take_over(transport)
    try:
        async with asyncio.timeout(STREAMS_SECONDS):
            await complete.wait()
        await _converse(session, streams, container, argv, stderr=STDERR in wanted, tty=tty)
    except (TimeoutError, ConnectionError):
        pass  # the remote went away
    finally:
        session.close()
    return _TakenOver()


async def _converse(
    session: Session, streams: dict[int, Stream], container: Container, argv: Sequence[str], *, stderr: bool, tty: bool
) -> None:
    async def send(channel: int, data: bytes) -> None:
        if channel in streams:
            await streams[channel].write(data)

    command = RemoteCommand(container, argv, stdin=STDIN in streams, stderr=stderr, tty=tty, send=send)

    async def hear_stdin(stream: Stream) -> None:
        while (data := await stream.read()) is not None:
            await command.feed(data)
        await command.close_stdin()

    async def hear_resize(stream: Stream) -> None:
        while (data := await stream.read()) is not None:
            command.resize(data)

    hearing = [asyncio.create_task(hear_stdin(streams[STDIN]))] if STDIN in streams else []
    hearing += [asyncio.create_task(hear_resize(streams[RESIZE]))] if RESIZE in streams else []
    running = asyncio.create_task(command.run())
    ended = asyncio.create_task(session.ended.wait())
    try:
        await asyncio.wait({running, ended}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            for channel in (STDOUT, STDERR):
                if channel in streams:
                    await streams[channel].close()
            await streams[ERROR].write(json.dumps(running.result()).encode())
            await streams[ERROR].close()
            # The client ends the connection once it has read the status.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await session.ended.wait()
    finally:
        for task in (running, ended, *hearing):
            task.cancel()
        await asyncio.gather(running, ended, *hearing, return_exceptions=True)
