"""The SSH server for one member, on the standard streams of this process: OpenSSH's client starts it as ProxyCommand.

This server asks for no password or key: its only client is the process that started it, which has the rights of the
same user. The Web API decides about each command and connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import asyncssh
from websockets.exceptions import ConnectionClosed

from kajitori.cli.ssh.files import MemberFiles
from kajitori.cli.ssh.member import Member, shell_command
from kajitori.client.members.streams import Channel, CommandStream, PortConnection
from kajitori.errors import KajitoriError
from kajitori.kube.spdy.ports import PortChannel

_CHUNK_BYTES = 64 << 10
_WINDOW_BYTES = 8 << 20
_FAILED_EXIT_CODE = 255
"""As OpenSSH's client exits if the connection fails."""
_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "")
"""Hosts by which a client means the member itself."""

NO_AGENT = (
    "your keys stay on your machine (-A is refused): others who may enter the run could use them",
    "clone here and bring the folder (kaji run --code .), or give the run a key of its own (kaji secret --help)",
)
NO_X11 = (
    "windows of X11 are not forwarded (-X is refused)",
    "serve a page instead, such as a notebook or xpra's, and look at it with kaji open RUN PORT",
)
NO_REMOTE_PORTS = (
    "a member can't reach ports of your machine (-R is refused)",
    "start that server as a run, whose address kaji port RUN shows; to reach a port of the member from here: -L",
)
NO_SOCKETS = (
    "Unix sockets are not forwarded",
    "let the program listen on a port, and forward that: -L 8080:localhost:8080",
)

Say = Callable[[str], None]


async def serve(member: Member, host_key: Path, stdin: int, stdout: int, say: Say) -> None:
    """Serve SSH for a member until the client hangs up. `stdin` and `stdout` are descriptors of the client's stream.

    `say` tells the user, as a line, what is refused: OpenSSH's client does not show a server's reasons.

    Raises:
        OSError: the key cannot be read.
    """
    channel_end, passed_on = socket.socketpair()
    for end in (channel_end, passed_on):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    threading.Thread(target=_copy_stream, args=(stdin, passed_on, True), name="from client", daemon=True).start()
    writer = threading.Thread(target=_copy_stream, args=(stdout, passed_on, False), name="to client", daemon=True)
    writer.start()
    connection = await asyncssh.run_server(
        channel_end,
        server_factory=partial(_Server, member, say),
        process_factory=partial(_run_session, member),
        sftp_factory=partial(MemberFiles, member=member),
        allow_scp=False,  # scp's old protocol is a program in the member
        server_host_keys=[str(host_key)],
        encoding=None,
        window=_WINDOW_BYTES,
        max_pktsize=_CHUNK_BYTES,
        compression_algs=None,
        encryption_algs=["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"],
        agent_forwarding=False,
        x11_forwarding=False,
        keepalive_interval=0,
    )
    await connection.wait_closed()
    await asyncio.to_thread(writer.join, 5.0)


class _Server(asyncssh.SSHServer):
    def __init__(self, member: Member, say: Say) -> None:
        self._member = member
        self._say = say
        self._refused: set[tuple[str, str]] = set()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Refuse to forward the agent and X11. asyncssh asks its own options, and has no callback that could say so."""

        async def refuse_agent() -> bool:
            return self._tell_refusal(NO_AGENT)

        async def refuse_x11(*_: object) -> str | None:
            self._tell_refusal(NO_X11)
            return None

        conn.create_agent_listener = refuse_agent  # type: ignore[method-assign]
        conn.attach_x11_listener = refuse_x11  # type: ignore[method-assign, assignment]

    def begin_auth(self, username: str) -> bool:
        """Accept the client without a password or key."""
        return False

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Callable[[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]], Awaitable[None]]:
        """Connect to a port of the member. Raises ChannelOpenError for a port of another host."""
        if dest_host not in _HERE:
            reason = f"{dest_host} is another host: only ports of the member itself can be reached, as localhost"
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, reason)
        return partial(_forward_port, self._member, dest_port)

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        """Refuse to listen in the member."""
        return self._tell_refusal(NO_REMOTE_PORTS)

    def unix_connection_requested(self, dest_path: str) -> bool:
        """Refuse to connect to a Unix socket of the member."""
        return self._tell_refusal(NO_SOCKETS)

    def unix_server_requested(self, listen_path: str) -> bool:
        """Refuse to listen on a Unix socket in the member."""
        return self._tell_refusal(NO_REMOTE_PORTS)

    def _tell_refusal(self, reason: tuple[str, str]) -> bool:
        """Tell the user once why something is refused and what to do instead. Return False."""
        if reason not in self._refused:
            self._refused.add(reason)
            for line in (f"kaji: {reason[0]}", f"      {reason[1]}"):
                self._say(line)
        return False


async def _run_session(member: Member, process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run a session: the user's command, or a shell."""
    if process.subsystem is not None:
        process.stderr.write(f"there is no subsystem {process.subsystem}\n".encode())
        process.exit(_FAILED_EXIT_CODE)
        return
    has_terminal = process.term_type is not None
    environment = {**process.env, **({"TERM": process.term_type} if process.term_type else {})}
    command = shell_command(process.command, environment)
    try:
        async with member.running(command, tty=has_terminal) as stream:
            if has_terminal:
                await _send_size(stream, process.term_size)
            passing_on = asyncio.create_task(_pass_input(process, stream))
            try:
                async for channel, data in stream.output():
                    writer = process.stderr if channel is Channel.STDERR else process.stdout
                    writer.write(data)
                    await writer.drain()
            finally:
                passing_on.cancel()
        process.exit(stream.exit_code or 0)
    except (asyncssh.ConnectionLost, BrokenPipeError):
        return
    except KajitoriError as error:
        end = b"\r\n" if has_terminal else b"\n"
        process.stderr.write(f"kaji: {error.message}".encode() + end)
        if error.hint:
            process.stderr.write(f"      {error.hint}".encode() + end)
        process.exit(_FAILED_EXIT_CODE)


async def _pass_input(process: asyncssh.SSHServerProcess[bytes], stream: CommandStream) -> None:
    """Pass on the client's data until its end."""
    try:
        while True:
            try:
                data = await process.stdin.read(_CHUNK_BYTES)
            except asyncssh.TerminalSizeChanged as change:
                await _send_size(stream, (change.width, change.height, 0, 0))
            except asyncssh.BreakReceived:
                await stream.write(b"\x03")
            except asyncssh.SignalReceived as received:
                if received.signal in ("INT", "SIGINT"):
                    # a terminal turns this byte into the signal; no other signal can be sent
                    await stream.write(b"\x03")
            else:
                if not data:
                    await stream.end_input()
                    return
                await stream.write(data)
    except ConnectionClosed:
        return


async def _send_size(stream: CommandStream, size: tuple[int, int, int, int]) -> None:
    columns, lines = size[:2]
    if columns and lines:
        await stream.resize(columns, lines)


async def _forward_port(
    member: Member, port: int, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]
) -> None:
    """Pass on a connection to a port of the member; each direction ends by itself."""
    try:
        async with member.connected(port) as connection:
            sending = asyncio.create_task(_send_to_member(reader, connection))
            try:
                while data := await connection.read():
                    writer.write(data)
                    await writer.drain()
                writer.write_eof()
                await sending
            finally:
                sending.cancel()
    except (KajitoriError, ConnectionClosed, OSError):
        pass  # as a connection that is refused or reset; the client's program says so
    finally:
        writer.close()


async def _send_to_member(reader: asyncssh.SSHReader[bytes], connection: PortChannel | PortConnection) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        await connection.write(data)
    await connection.end_writing()


def _copy_stream(descriptor: int, end: socket.socket, is_input: bool) -> None:
    """Copy bytes between a descriptor, which may be a pipe, and a socket until one of them ends."""
    try:
        if is_input:
            while data := os.read(descriptor, _CHUNK_BYTES):
                end.sendall(data)
            end.shutdown(socket.SHUT_WR)
        else:
            while data := end.recv(_CHUNK_BYTES):
                while data:
                    data = data[os.write(descriptor, data) :]
    except OSError:
        pass
