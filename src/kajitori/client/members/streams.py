"""Commands in members and connections to their ports, over WebSockets of the Web API.

An event loop reads and writes the connections: two threads must not use one TLS connection at the same time, which the
synchronous client of `websockets` would do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Any
from urllib.parse import urlencode, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidProxy, InvalidStatus
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.typing import Subprotocol

from kajitori.client.connection import Response, proxy_for
from kajitori.client.members.tunnel_wire import TunnelConnection
from kajitori.client.models import CommandOutput
from kajitori.client.target import Target
from kajitori.client.views import View
from kajitori.client.web_api import error_of, run_path
from kajitori.errors import InvalidInput, KajitoriError, Unauthenticated, Unavailable
from kajitori.kube.connection.joined import PING_SECONDS
from kajitori.kube.spdy.session import PassOn

COMMAND_PROTOCOL = Subprotocol("v5.channel.k8s.io")
PORT_PROTOCOL = Subprotocol("v1.port-forward.kajitori.dev")
TUNNEL_PROTOCOL = Subprotocol("v2.port-forward.kajitori.dev")
"""SPDY/3.1 of `portforward.k8s.io` in binary messages."""
SESSION_HEADER = "Kaji-Session"
NOTHING_LISTENS = 1014
"""Close code of a connection if no program listens on the port."""
MAX_QUERY_BYTES = 4096
"""Largest size of a command that is part of the URL: proxies refuse URLs of more than about 8 KiB."""
MAX_COMMAND_BYTES = 1_000_000
"""Largest size of a command, percent-encoded: API server and kubelet get it in a URL, and take 1 MiB."""
MAX_WORD_BYTES = 131_071
"""Largest word of a command that Linux passes on to a program (MAX_ARG_STRLEN)."""
_OPEN_SECONDS = 15.0
SILENCE_SECONDS = 45.0
"""Silence after which the server is gone. It pings every PING_SECONDS, also while the program does not read."""


# asyncio warns of each write to a connection that was reset, for example of the answers to the pings that came while a
# laptop slept. Whoever uses the connection gets an error.
logging.getLogger("asyncio").addFilter(lambda record: record.msg != "socket.send() raised exception.")


class Channel(IntEnum):
    """The first byte of each message of `v5.channel.k8s.io`."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4
    CLOSE = 255


class WatchedConnection(ClientConnection):
    """A WebSocket that breaks once the server was silent for SILENCE_SECONDS."""

    was_silent = False
    """Whether it was broken for that reason."""
    _heard_at = 0.0
    _look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._heard_at = self.loop.time()
        self._look_later(SILENCE_SECONDS)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self.loop.time()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _look_later(self, seconds: float) -> None:
        self._look = self.loop.call_later(seconds, self._look_now)

    def _look_now(self) -> None:
        if not self.transport.is_reading():  # this process is slow: bytes that have arrived wait for it
            self._heard_at = self.loop.time()
        now = self.loop.time()
        left_seconds = self._heard_at + SILENCE_SECONDS - now
        if self._look is not None and now - self._look.when() > PING_SECONDS:
            # This process was stopped (Ctrl-Z), and asyncio runs overdue timers before it reads what has arrived.
            left_seconds = max(left_seconds, 2 * PING_SECONDS)
        if left_seconds > 0:
            self._look_later(left_seconds)
        else:
            self.was_silent = True
            self.transport.abort()


class CommandStream:
    """A command that runs in a member. Iterate over `output` for what it prints; then `exit_code` is known."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    @property
    def session(self) -> str:
        """The name of the session of an attached program, or of a command at a terminal, to which a new connection may
        return; empty with an older server."""
        response = self._socket.response
        return response.headers.get(SESSION_HEADER, "") if response is not None else ""

    async def write(self, data: bytes) -> None:
        """Send standard input. Raises ConnectionClosed if the connection has ended."""
        await self._socket.send(bytes([Channel.STDIN]) + data)

    async def end_input(self) -> None:
        """Tell the command that its standard input ends. Raises ConnectionClosed if the connection has ended."""
        await self._socket.send(bytes([Channel.CLOSE, Channel.STDIN]))

    async def resize(self, columns: int, lines: int) -> None:
        """Set the size of the terminal. Raises ConnectionClosed if the connection has ended."""
        size = json.dumps({"Width": columns, "Height": lines}).encode()
        await self._socket.send(bytes([Channel.RESIZE]) + size)

    async def output(self) -> AsyncGenerator[tuple[Channel, bytes]]:
        """Yield pieces of standard output and standard error until the command ends.

        Raises Unavailable if the connection breaks before, and KajitoriError if the command could not be run.
        """
        try:
            async for message in self._socket:
                data = message.encode() if isinstance(message, str) else message
                if not data:
                    continue
                if data[0] in (Channel.STDOUT, Channel.STDERR):
                    yield Channel(data[0]), data[1:]
                elif data[0] == Channel.STATUS:
                    self.exit_code = _exit_code(data[1:])
                    return
        except ConnectionClosed as error:
            reason = _reason_of_end(self._socket, error)
            raise Unavailable(
                "the connection broke while the command ran" + (f": {reason}" if reason else "")
            ) from error
        raise Unavailable("the connection ended before the command did")

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()


class PortConnection:
    """A connection to a port of a member. Each direction ends by itself."""

    def __init__(self, socket: ClientConnection, port: int) -> None:
        self._socket = socket
        self._port = port
        self._is_over = False

    async def read(self, _pass_on: PassOn | None = None) -> bytes:
        """Return the next bytes; none after the end of this direction. Raises Unavailable if nothing listens on the
        port, or if the connection breaks."""
        if self._is_over:
            return b""
        try:
            data = await self._socket.recv(decode=False)
        except ConnectionClosed as error:
            if error.rcvd is not None and error.rcvd.code == NOTHING_LISTENS:
                raise Unavailable(error.rcvd.reason or f"nothing listens on port {self._port} of the member") from error
            raise Unavailable(_reason_of_end(self._socket, error) or "the connection broke") from error
        self._is_over = not data
        return data

    async def write(self, data: bytes | memoryview) -> None:
        """Send bytes. Raises ConnectionClosed if the connection has ended."""
        if data:
            await self._socket.send(data)

    async def end_writing(self) -> None:
        """End this direction; the other one continues. Raises ConnectionClosed if the connection has ended."""
        await self._socket.send(b"")


def command_request(
    target: Target, run: View, command: Sequence[str], *, rank: int = 0, stdin: bool = False, tty: bool = False
) -> tuple[str, str]:
    """Return the URL of the WebSocket for a command in a member, and the message with which it begins: the words of a
    command that is too long for a URL, else nothing. Raises InvalidInput for words that no program can get."""
    hint = "send a long script on standard input (kaji exec -i RUN sh < FILE), or copy it: kaji cp FILE RUN:PATH"
    if (longest := max(len(os.fsencode(word)) for word in command)) > MAX_WORD_BYTES:
        message = f"a word has {longest:,} bytes, and programs get at most {MAX_WORD_BYTES:,}"
        raise InvalidInput.one("COMMAND", message, hint=hint)
    words = [("command", word) for word in command]
    if (size := len(urlencode(words))) > MAX_COMMAND_BYTES:
        message = f"takes {size:,} bytes of an address, and {MAX_COMMAND_BYTES:,} fit"
        raise InvalidInput.one("COMMAND", message, hint=hint)
    flags = [("rank", str(rank))] + [("stdin", "true")] * stdin + [("tty", "true")] * tty
    path = run_path(run, "/exec")
    if size <= MAX_QUERY_BYTES:
        return _url(target, path, [*words, *flags]), ""
    return _url(target, path, [("wordsInMessage", "true"), *flags]), json.dumps(list(command))


def resumed_command_url(
    target: Target, run: View, session: str, position: int, *, rank: int = 0, stdin: bool = False
) -> str:
    """Return the URL of the WebSocket to a command at a terminal that runs already, from this position of its output
    on."""
    flags = [("rank", str(rank))] + [("stdin", "true")] * stdin + [("tty", "true")]
    return _url(target, run_path(run, "/exec"), [*flags, ("session", session), ("position", str(position))])


def attach_url(
    target: Target, run: View, *, rank: int = 0, stdin: bool = False, session: str = "", position: int = 0
) -> str:
    """Return the URL of the WebSocket to the program of a member; of an earlier `session`, from this position of its
    output on."""
    flags = [("rank", str(rank))] + [("stdin", "true")] * stdin
    flags += [("session", session), ("position", str(position))] if session else []
    return _url(target, run_path(run, "/attach"), flags)


@asynccontextmanager
async def running(target: Target, url: str, first_message: str = "") -> AsyncIterator[CommandStream]:
    """Run the command of a `command_request`, or attach by `attach_url`; the connection closes at the end.

    Raises:
        Unavailable: the server cannot be reached.
        KajitoriError: the server refuses the command.
    """
    socket = await _connect(url, target, COMMAND_PROTOCOL)
    try:
        if first_message:
            with contextlib.suppress(ConnectionClosed):  # the stream tells why
                await socket.send(first_message)
        yield CommandStream(socket)
    except KajitoriError:
        socket.transport.abort()  # a closing handshake would wait for what the server still sends
        raise
    except BaseException:
        _leave(socket)
        raise
    await socket.close()


def _leave(socket: ClientConnection) -> None:
    """Close a connection at once, and tell the server that its caller does not come back: for one whose connection
    breaks it keeps the program's output for a while."""
    if socket.protocol.state is State.OPEN:
        socket.protocol.send_close(CloseCode.NORMAL_CLOSURE)
        socket.send_data()
    socket.transport.abort()


async def output_of(target: Target, run: View, command: Sequence[str], rank: int) -> CommandOutput:
    """Run a command in a member and return what it printed; errors as for `running`."""
    found = {Channel.STDOUT: bytearray(), Channel.STDERR: bytearray()}
    async with running(target, *command_request(target, run, command, rank=rank)) as stream:
        async for channel, data in stream.output():
            found[channel] += data
        assert stream.exit_code is not None
        stdout, stderr = bytes(found[Channel.STDOUT]), bytes(found[Channel.STDERR])
        return CommandOutput(exit_code=stream.exit_code, stdout=stdout, stderr=stderr)


@asynccontextmanager
async def connected(target: Target, run: View, port: int, rank: int = 0) -> AsyncIterator[PortConnection]:
    """Connect to a port of a member; the connection closes at the end.

    Raises:
        Unavailable: the server cannot be reached.
        KajitoriError: the server refuses the connection.
    """
    url = _url(target, run_path(run, "/port-forward"), [("port", str(port)), ("rank", str(rank))])
    socket = await _connect(url, target, PORT_PROTOCOL)
    try:
        yield PortConnection(socket, port)
    except BaseException:
        socket.transport.abort()  # a closing handshake would wait for what the server still sends
        raise
    await socket.close()


async def open_tunnel(target: Target, run: View, port: int, rank: int) -> TunnelConnection | None:
    """Open a WebSocket for any number of connections to `port` and other ports of a member.

    Return None if the server is older and has a WebSocket for each connection only. Raises KajitoriError as `connected`
    does.
    """
    url = _url(target, run_path(run, "/port-forward"), [("port", str(port)), ("rank", str(rank))])
    socket = await _connect(url, target, TUNNEL_PROTOCOL, PORT_PROTOCOL)
    if isinstance(socket, TunnelConnection) and socket.subprotocol == TUNNEL_PROTOCOL:
        return socket
    socket.transport.abort()
    return None


def _url(target: Target, path: str, query: Sequence[tuple[str, str]]) -> str:
    return "ws" + target.url.removeprefix("http") + f"{path}?{urlencode(query)}"


async def _connect(url: str, target: Target, *protocols: Subprotocol) -> ClientConnection:
    try:
        return await _open(url, target, *protocols)
    except Unauthenticated:
        if target.signed_in is None:
            raise
        return await _open(url, await asyncio.to_thread(target.renewed), *protocols)


async def _open(url: str, target: Target, *protocols: Subprotocol) -> ClientConnection:
    """Open a WebSocket that pings the server, so that proxies do not close an idle connection. It does not wait for the
    answers: a server that passes data on to a slow program does not read them. The session of a tunnel has pings of its
    own."""
    is_tunnel = TUNNEL_PROTOCOL in protocols
    try:
        return await connect(
            url,
            subprotocols=protocols,
            additional_headers={"Authorization": f"Bearer {target.token}"},
            proxy=_proxy_of(target),
            ssl=target.tls() if url.startswith("wss") else None,
            open_timeout=_OPEN_SECONDS,
            max_size=None,
            compression=None,
            ping_interval=None if is_tunnel else PING_SECONDS,
            ping_timeout=None,
            create_connection=TunnelConnection if is_tunnel else WatchedConnection,
        )
    except InvalidStatus as error:
        raise _refusal(error, target) from error
    except (InvalidProxy, ImportError) as error:  # ImportError: a SOCKS proxy without the library for it
        raise Unavailable(f"{target.url} can't be reached by this proxy: {error}", hint=target.way_out) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise Unavailable(f"{target.url} can't be reached: {error}", hint=target.way_out) from error


def _proxy_of(target: Target) -> str | None:
    """Return the URL of the proxy that requests to the server take, too."""
    proxy = None if target.is_local else proxy_for(urlsplit(target.url), os.environ)
    return proxy.geturl() if proxy is not None else None


def _reason_of_end(socket: ClientConnection, error: ConnectionClosed) -> str:
    """Return why a WebSocket has ended; empty if that is not known."""
    if isinstance(socket, WatchedConnection) and socket.was_silent:
        return f"the server was silent for {SILENCE_SECONDS:.0f} seconds"
    return error.rcvd.reason if error.rcvd is not None else ""


def _refusal(error: InvalidStatus, target: Target) -> KajitoriError:
    """Return the error for an answer that refuses the WebSocket."""
    body = bytes(error.response.body or b"")
    return error_of(Response(error.response.status_code, {}, iter([body]), target.url))


def _exit_code(payload: bytes) -> int:
    """Return the exit code in a Kubernetes Status. Raises KajitoriError if the command did not run."""
    try:
        status = json.loads(payload)
    except ValueError as error:
        raise Unavailable("the server did not say how the command ended") from error
    if status.get("status") == "Success":
        return 0
    causes: list[Mapping[str, Any]] = (status.get("details") or {}).get("causes") or []
    hint = ""
    for cause in causes:
        if cause.get("reason") == "ExitCode":
            with contextlib.suppress(ValueError, KeyError):
                return int(cause["message"])
        elif cause.get("reason") == "Hint":
            hint = str(cause.get("message") or "")
    raise KajitoriError(str(status.get("message") or "the command could not be run"), hint=hint)
