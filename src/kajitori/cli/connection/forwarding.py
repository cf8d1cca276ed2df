"""Forwarding of ports of this machine to ports of a member.

A new connection finds the member that runs at that moment, so forwarding survives restarts of the member and of the
server; connections that are open then break.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from websockets.exceptions import ConnectionClosed

from kajitori.cli.terminal import echo, say
from kajitori.client.members.port_tunnels import PortTunnels
from kajitori.client.members.streams import PortConnection
from kajitori.client.streams import outage_of, watch
from kajitori.client.target import Target
from kajitori.client.views import View, phase_of
from kajitori.client.web_api import Api
from kajitori.errors import FieldError, InvalidInput, KajitoriError, Unavailable
from kajitori.kube.spdy.ports import PortChannel
from kajitori.kube.spdy.wires import TransportWire

MOST_PORT = 65_535
KEPT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Forward:
    """A port of this machine, 0 for any that is free, and the port of the member that it leads to."""

    local: int
    remote: int

    @classmethod
    def parse(cls, text: str) -> Forward:
        """Read `PORT`, `LOCAL:PORT` or `:PORT`. Raises FieldError."""
        local, colon, remote = text.rpartition(":")
        local = local if colon else remote
        for part in (remote, local or "0"):
            if not part.isascii() or not part.isdigit() or int(part) > MOST_PORT:
                raise FieldError(f"{text!r:.80} is not a port", "write PORT, LOCAL:PORT, or :PORT for any local port")
        if not int(remote):
            raise FieldError(f"{text!r:.80}: a program listens on no port 0", "write LOCAL:PORT, such as 8888:80")
        return cls(int(local or 0), int(remote))


class Forwarder:
    """Listens on local ports, and joins each connection to one to the member's port."""

    def __init__(self, find_target: Callable[[], Target], run: View, rank: int, tell: Callable[[str], None]) -> None:
        """`find_target` looks for the server again, because its address may have changed with a restart. `tell` reports
        connections that fail."""
        self._find_target = find_target
        self._target = find_target()
        self._tunnels = PortTunnels(run, rank)
        self._tell = tell
        self._told = ""
        self._servers: list[asyncio.Server] = []
        self._joined: set[asyncio.Task[None]] = set()

    async def listen(self, address: str, forward: Forward) -> int:
        """Listen on a local port, and return its number. Raises InvalidInput if that is not possible."""

        def serve(program: _LocalProgram) -> None:
            task = asyncio.create_task(self._serve_connection(forward, program))
            self._joined.add(task)
            task.add_done_callback(self._joined.discard)

        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(partial(_LocalProgram, serve), address, forward.local, backlog=1024)
        except (OSError, UnicodeError) as error:
            number = getattr(error, "errno", None) or 0
            why = os.strerror(number) if number in errno.errorcode else str(error)
            hint = f"let the machine choose a free port: :{forward.remote}"
            where = f"{address}:{forward.local}"
            raise InvalidInput.one("PORT", f"can't listen on {where}: {why}", value=where, hint=hint) from error
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening and break all connections."""
        for server in self._servers:
            server.close()
        for task in self._joined:
            task.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)
        await self._tunnels.close()

    async def _serve_connection(self, forward: Forward, program: _LocalProgram) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                await _copy_both_ways(await self._connect(stack, forward.remote), program)
        except KajitoriError as error:
            self._report_failure(f"port {forward.remote}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        except ConnectionClosed:
            self._report_failure(f"port {forward.remote}: the connection to the server broke; new ones are tried")
        except OSError:
            pass  # the local program has broken its connection
        else:
            self._told = ""
        finally:
            await program.close()

    async def _connect(self, stack: contextlib.AsyncExitStack, port: int) -> PortChannel | PortConnection:
        """Connect to the member's port. If the server does not answer, look for it again."""
        try:
            return await stack.enter_async_context(self._tunnels.connected(self._target, port))
        except Unavailable:
            found = await asyncio.to_thread(self._find_target)
            if found == self._target:
                raise
        self._target = found
        return await stack.enter_async_context(self._tunnels.connected(self._target, port))

    def _report_failure(self, text: str) -> None:
        """Report a failure, once until another one or a success follows: a browser tries again and again."""
        if text != self._told:
            self._told = text
            self._tell(text)


class _LocalProgram(TransportWire):
    """A connection of a program on this machine. Each direction ends by itself."""

    def __init__(self, serve: Callable[[_LocalProgram], None]) -> None:
        super().__init__()
        self._serve_connection = serve
        self._socket: socket.socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._socket = transport.get_extra_info("socket").dup()
        self._serve_connection(self)

    def eof_received(self) -> bool:
        self._has_ended = True
        self._changed.set()
        return True

    def pass_on(self, data: bytes | memoryview) -> int:
        """Send what the system takes at once, without a copy of it, and return the number of bytes."""
        if self._transport.get_write_buffer_size():
            return 0  # earlier bytes go first
        try:
            return self._socket.send(data)
        except OSError:  # there is no room, or the program has hung up, which `send` finds out
            return 0

    def end_writing(self) -> None:
        """End this direction after all bytes are sent."""
        self._transport.write_eof()

    async def close(self) -> None:
        self._socket.close()
        await super().close()


async def _copy_both_ways(connection: PortChannel | PortConnection, program: _LocalProgram) -> None:
    """Copy bytes both ways until both sides have ended. Raises Unavailable with the server's reason if it breaks the
    connection off, OSError if the local program does."""

    async def upload() -> None:
        async with contextlib.aclosing(program.pieces()) as pieces:
            async for piece in pieces:
                await connection.write(piece)
        if program.is_lost:
            raise ConnectionResetError("the local program broke its connection")
        await connection.end_writing()

    async def download() -> None:
        while data := await connection.read(program.pass_on):
            await program.send(data)
        program.end_writing()

    tasks = [asyncio.create_task(upload()), asyncio.create_task(download())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if tasks[1].done():
            tasks[1].result()  # it raises the reason why the server broke off
        tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def forward_until_end(
    open_api: Callable[[], Api],
    forwarder: Forwarder,
    view: View,
    forwards: Sequence[Forward],
    address: str,
    notebook: View | None = None,
) -> None:
    """Listen, print where, and forward until the run has ended. `open_api` opens a client of the Web API, and
    `notebook` has port, path and token of a notebook.

    Raises InvalidInput if a port is taken, NotFound if the run is deleted.
    """
    asyncio.run(_forward_ports(open_api, forwarder, view, forwards, address, notebook))


async def _forward_ports(
    open_api: Callable[[], Api],
    forwarder: Forwarder,
    view: View,
    forwards: Sequence[Forward],
    address: str,
    notebook: View | None,
) -> None:
    _keep_freed_memory()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[View] = loop.create_future()
    try:
        for forward in forwards:
            port = await forwarder.listen(address, forward)
            where = f"[{address}]" if ":" in address else address
            echo(f"Forwarding {where}:{port} -> port {forward.remote} of {view['name']}")
            if notebook is not None and forward.remote == notebook["port"]:
                echo(f"Open http://{where}:{port}{notebook['path']}/lab?token={notebook['token']}")
                say("the link is a password for the notebook, until it is started again")
        threading.Thread(target=_watch_end, args=(open_api, view, loop, ended), name="watch", daemon=True).start()
        last = await ended
    finally:
        await forwarder.close()
    say(f"{view['name']} has ended: {phase_of(last)}")


def _keep_freed_memory() -> None:
    """Let the C library keep freed blocks of memory for the next ones.

    After a block of this size was freed, smaller ones are not returned to the system (mallopt(3), M_MMAP_THRESHOLD).
    Otherwise the system clears new memory for each read and write.
    """
    bytes(KEPT_BYTES)


def _watch_end(
    open_api: Callable[[], Api], view: View, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[View]
) -> None:
    """Settle the future once the run is final or cannot be followed any longer."""
    settle: Callable[[], object] = partial(ended.set_result, view)
    while True:
        try:
            with open_api() as api:
                for seen in watch(api, view, outage_of(view, say)):
                    settle = partial(ended.set_result, seen)
        except Unavailable:
            continue  # the server has been away for minutes
        except BaseException as error:
            settle = partial(ended.set_exception, error)
        break
    with contextlib.suppress(RuntimeError):  # the command has ended
        loop.call_soon_threadsafe(lambda: ended.done() or settle())
