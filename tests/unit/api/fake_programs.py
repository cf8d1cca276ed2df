"""Programs of the members of a FakeKubernetes: their logs, exec and attach, and connections to their ports."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from kajitori.kube.spdy.ports import PORT_PROTOCOL
from kajitori.kube.spdy.session import Session, Stream
from kajitori.kube.spdy.wires import WebSocketWire

Object = dict[str, Any]

EXEC_PROTOCOL = "v5.channel.k8s.io"
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ")


class FakeLog:
    """The output of one container; tests can add more while it is followed."""

    def __init__(self, *lines: str) -> None:
        self.lines = [f"{line}\n" for line in lines]
        self.ended = False
        self.open = 0
        self.status = 200
        self.sent = 0
        """Number of bytes that were written to the connection."""
        self.breaks = False
        """Whether the connection is aborted once everything was sent."""
        self.is_merged = False
        """Whether the server cannot tell the container's output streams apart, and refuses to read one alone."""
        self.changed = asyncio.Event()
        self.left = asyncio.Event()
        """Set when a reader has disconnected."""

    def print(self, *lines: str, end: str = "\n") -> None:
        """Add lines; with another `end`, parts of one line."""
        self.lines += [f"{line}{end}" for line in lines]
        self.changed.set()

    def end(self) -> None:
        self.ended = True
        self.changed.set()


def error_status(code: int, reason: str, message: str) -> web.Response:
    """Return an error of an API server."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return web.json_response(body, status=code)


async def send_log(request: web.Request, log: FakeLog) -> web.StreamResponse:
    """Answer with a log, from the lines and with the times that the request asks for, and follow it."""
    if "limitBytes" in request.query:
        return web.Response(body="".join(log.lines)[: int(request.query["limitBytes"])].encode())
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    tail = int(request.query.get("tailLines", len(log.lines)))
    position = max(0, len(log.lines) - tail)
    log.open += 1
    try:
        while True:
            lines, position = log.lines[position:], len(log.lines)
            for line in lines:
                text = line if request.query.get("timestamps") == "true" else _STAMP.sub("", line)
                await response.write(text.encode())
                log.sent += len(text)
            if log.breaks and request.transport is not None:
                request.transport.abort()
            if request.query.get("follow") != "true" or log.ended:
                return response
            log.changed.clear()
            if position == len(log.lines):
                await log.changed.wait()
    finally:
        log.open -= 1
        log.left.set()


async def echo_stdin(request: web.Request) -> web.StreamResponse:
    """Stand for a program that prints its command, or how a client attached to it, then echoes standard input until
    that ends, and exits with 3."""
    socket = await _exec_socket(request)
    attached = [f"{name}={request.query[name]}" for name in ("stdin", "tty")]
    await socket.send_bytes(b"\x01" + " ".join(request.query.getall("command", attached)).encode())
    async for message in socket:
        if message.type is not WSMsgType.BINARY:
            continue
        if message.data[0] == 0:
            await socket.send_bytes(b"\x02" + message.data[1:])
        elif message.data[0] == 4:
            await socket.send_bytes(b"\x01size " + message.data[1:])
        elif message.data[0] == 255:
            break
    await _send_exit_code(socket, 3)
    return socket


async def run_here(request: web.Request) -> web.StreamResponse:
    """Run the command on this machine, with its streams over the channels of an exec."""
    socket = await _exec_socket(request)
    pipes = asyncio.subprocess.PIPE
    command = request.query.getall("command")
    program = await asyncio.create_subprocess_exec(*command, stdin=pipes, stdout=pipes, stderr=pipes)
    assert program.stdin is not None and program.stdout is not None and program.stderr is not None

    async def send(channel: bytes, output: asyncio.StreamReader) -> None:
        while piece := await output.read(65_536):
            await socket.send_bytes(channel + piece)

    async def receive(given: asyncio.StreamWriter) -> None:
        async for message in socket:
            if message.data[0] == 0:
                given.write(message.data[1:])
            elif message.data[0] == 255:
                break
        given.close()

    listening = asyncio.create_task(receive(program.stdin))
    await asyncio.gather(send(b"\x01", program.stdout), send(b"\x02", program.stderr))
    code = await program.wait()
    await _send_exit_code(socket, code)
    listening.cancel()
    return socket


async def _exec_socket(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=(EXEC_PROTOCOL,))
    await socket.prepare(request)
    return socket


async def _send_exit_code(socket: web.WebSocketResponse, code: int) -> None:
    """Send the Status that ends an exec, and close the connection."""
    end: Object = {"status": "Success"}
    if code:
        causes = [{"reason": "ExitCode", "message": str(code)}]
        details = {"causes": causes}
        end = {"status": "Failure", "reason": "NonZeroExitCode", "message": f"exit {code}", "details": details}
    await socket.send_bytes(b"\x03" + json.dumps(end).encode())
    await socket.close()


async def echo_port(request: web.Request) -> web.StreamResponse:
    """Stand for a program that echoes in upper case on port 7. Nothing listens on other ports."""
    socket = web.WebSocketResponse(protocols=(PORT_PROTOCOL,))
    await socket.prepare(request)
    streams: dict[str, Stream] = {}
    complete = asyncio.Event()

    def opened(stream: Stream) -> bool:
        streams[stream.headers["streamtype"]] = stream
        if len(streams) == 2:
            complete.set()
        return True

    async def echo() -> None:
        await complete.wait()
        if streams["data"].headers["port"] != "7":
            await streams["error"].write(b"dial tcp4 127.0.0.1: connect: connection refused")
            await streams["error"].close()
        else:
            with suppress(ConnectionError):
                while piece := await streams["data"].read():
                    await streams["data"].write(piece.upper())
        await streams["data"].close()

    session = Session(WebSocketWire(socket), opened)
    echoing = asyncio.create_task(echo())
    try:
        await session.run()
    finally:
        echoing.cancel()
        await asyncio.gather(echoing, return_exceptions=True)
    return socket
