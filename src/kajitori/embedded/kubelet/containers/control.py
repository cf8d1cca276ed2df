"""Requests of a kubelet to a container's shim over its socket: run a command beside the program, attach to the
program."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from kajitori.embedded.kubelet.shim import main as shim
from kajitori.embedded.kubelet.shim.connection import MESSAGE_BYTES
from kajitori.errors import KajitoriError, Unavailable

ANSWER_SECONDS = 10.0
"""Longest wait for the answer to an attach. A shim that has not answered by then does not know the order."""
MAX_ORDER_BYTES = 200_000
"""Largest order that a shim gets: Linux takes no larger message by default (net.core.wmem_default)."""
_ENDED = "the container has ended"


class CommandNotStarted(KajitoriError):
    """A command beside the program could not be started; `program_exit_code` is the exit code that a shell would
    return."""

    code = "CommandNotStarted"

    def __init__(self, message: str, program_exit_code: int) -> None:
        super().__init__(message)
        self.program_exit_code = program_exit_code


class Execution:
    """A command that runs beside the program."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection

    async def wait(self) -> int:
        """Return its exit code; 137 if it ended with the container."""
        try:
            while data := await asyncio.get_running_loop().sock_recv(self._connection, MESSAGE_BYTES):
                answer = json.loads(data)
                if "exit_code" in answer:
                    return int(answer["exit_code"])
        except OSError:
            pass
        return 137

    async def signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            order = json.dumps({"do": "signal", "signal": number}).encode()
            await asyncio.get_running_loop().sock_sendall(self._connection, order)

    def resized(self) -> None:
        """Note that its terminal has another size: the kernel has told the command."""

    def close(self) -> None:
        """End the command if it still runs."""
        self._connection.close()


class Attachment:
    """A client that is attached to the program."""

    def __init__(self, connection: socket.socket, stdin: int) -> None:
        self.stdin = stdin
        """The program's input or its terminal; -1 if it has none. The caller closes it."""
        self._connection = connection

    def close(self) -> None:
        """Detach; the program keeps running."""
        self._connection.close()


async def connect(directory: Path) -> socket.socket:
    """Return a connection to a container's shim. Raises Unavailable if it has ended."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    with _closed_on_failure(connection):
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            address = f"/proc/self/fd/{folder}/{shim.CONTROL_SOCKET}"
            await asyncio.get_running_loop().sock_connect(connection, address)
        finally:
            os.close(folder)
    return connection


async def execute(directory: Path, argv: Sequence[str], stdio: Sequence[int], *, tty: bool = False) -> Execution:
    """Run a command beside the program. `stdio` are three descriptors, or one for a terminal; the caller closes them.

    Raises KajitoriError if it can't be started.
    """
    connection = await connect(directory)
    with _closed_on_failure(connection):
        message = json.dumps({"do": "exec", "argv": list(argv), "tty": tty}).encode()
        if len(message) > MAX_ORDER_BYTES:
            words = f"the command has {len(message):,} bytes, and the kubelet of processes takes {MAX_ORDER_BYTES:,}"
            raise CommandNotStarted(words, 126)
        socket.send_fds(connection, [message], list(stdio))
        answer = json.loads(await asyncio.get_running_loop().sock_recv(connection, MESSAGE_BYTES) or b"{}")
        if "pid" not in answer:
            raise CommandNotStarted(answer.get("error", _ENDED), answer.get("exit_code", 126))
    return Execution(connection, int(answer["pid"]))


async def attach(directory: Path, outputs: Sequence[int]) -> Attachment:
    """Copy the program's further output to these descriptors: one for a terminal, else two.

    The caller closes them; the copies close when the container has ended. Raises Unavailable if it has already ended.
    """
    connection = await connect(directory)
    with _closed_on_failure(connection):
        socket.send_fds(connection, [json.dumps({"do": "attach"}).encode()], list(outputs))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await readable(connection.fileno())
        except TimeoutError:
            raise Unavailable("the container was started by a version of Kajitori that can't attach to it") from None
        data, fds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        answer = json.loads(data or b"{}")
        if "attached" not in answer:
            raise Unavailable(answer.get("error", _ENDED))
    return Attachment(connection, fds[0] if fds else -1)


@contextlib.contextmanager
def _closed_on_failure(connection: socket.socket) -> Iterator[None]:
    """Close the connection if the block fails. A connection that broke means that the container has ended."""
    try:
        yield
    except OSError as error:
        connection.close()
        raise Unavailable(f"{_ENDED}: {error.strerror}") from error
    except BaseException:
        connection.close()
        raise


async def readable(fd: int) -> None:
    """Wait until a descriptor can be read."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)
