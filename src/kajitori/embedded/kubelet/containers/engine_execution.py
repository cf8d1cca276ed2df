"""Commands beside the program of an engine's container: streams between descriptors and the engine's connection."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import stat
import struct
import termios
import tty as terminals
from collections.abc import Sequence

from kajitori.embedded.kubelet.containers.control import CommandNotStarted, Execution, readable
from kajitori.embedded.kubelet.engine.client import NO_DETACH_KEYS, EngineClient, EngineError
from kajitori.embedded.kubelet.shim import tree
from kajitori.embedded.kubelet.shim.engine_wire import Frames
from kajitori.errors import KajitoriError, NotFound

READ_BYTES = 32 * 1024
EXIT_TRIES = 50
"""Number of times that the exit code is asked for after a command's output has ended."""
EXIT_PAUSE_SECONDS = 0.05
NOT_STARTED = b"OCI runtime exec failed"
"""Beginning of what Docker sends as the output of a command that it can't start."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
_OF_PODMAN = re.compile(rb"Error: (?:read|write) unixpacket @->/proc/self/fd/\d+/attach: [^\r\n]*\r?\n?\Z")
"""What Podman adds to the output of a command that ends before it has read all of its input, or that did not start."""


async def execute_in_engine(
    client: EngineClient, container: str, argv: Sequence[str], stdio: Sequence[int], *, tty: bool
) -> EngineExecution:
    """Run a command in a container. `stdio` are three descriptors, or one for a terminal; the caller closes them.

    Raises KajitoriError if it can't be started.
    """
    reads_input = tty or _is_stream(stdio[0])
    if tty:
        terminals.setraw(stdio[0])  # the command's own terminal echoes and edits
    body = {
        "Cmd": list(argv),
        "AttachStdin": reads_input,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": tty,
        "DetachKeys": NO_DETACH_KEYS,
    }
    try:
        identifier = await client.create_exec(container, body)
        reader, writer = await client.start_exec(identifier, tty=tty)
    except (NotFound, EngineError) as error:
        raise _not_started(error.message) from error
    return EngineExecution(client, identifier, (reader, writer), stdio, tty=tty, reads_input=reads_input)


class EngineExecution:
    """A command that the engine runs beside the program."""

    def __init__(
        self,
        client: EngineClient,
        identifier: str,
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        stdio: Sequence[int],
        *,
        tty: bool,
        reads_input: bool,
    ) -> None:
        self._client = client
        self._identifier = identifier
        self._reader, self._writer = connection
        self._tty = tty
        self._fds = [os.dup(fd) for fd in stdio]
        for fd in self._fds:
            os.set_blocking(fd, False)
        self._refusal = b""
        """Output that may be the message of Docker about a command that did not start."""
        self._output = asyncio.create_task(self._copy_output())
        self._input = asyncio.create_task(self._copy_input()) if reads_input else None
        self._resizing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def wait(self) -> int:
        """Return its exit code; 137 if it ended with the container.

        Raises CommandNotStarted, with Docker only: it answers before it starts the command.
        """
        await asyncio.wait({self._output})
        code = 137
        with contextlib.suppress(KajitoriError):
            for _ in range(EXIT_TRIES):
                state = await self._client.exec_state(self._identifier)
                if not state.get("Running") and state.get("ExitCode") is not None:
                    code = int(state["ExitCode"])
                    break
                await asyncio.sleep(EXIT_PAUSE_SECONDS)
        is_refused = bool(self._refusal) and code in (NOT_EXECUTABLE, NOT_FOUND)
        if self._refusal and not is_refused:
            await self._write_output("stdout", self._refusal)
        await self._finish()
        if is_refused:
            raise _not_started(self._refusal.decode(errors="replace").strip())
        return code

    async def signal(self, number: int) -> None:
        """Signal the command and the processes that it started. Engines signal its first process alone."""
        with contextlib.suppress(KajitoriError):
            state = await self._client.exec_state(self._identifier)
            if state.get("Running") and (pid := int(state.get("Pid") or 0)):
                tree.signal_command(pid, tree.streams_of(pid), number)

    def resized(self) -> None:
        """Tell the engine the size of the command's terminal."""
        if self._fds:
            self._resizing = asyncio.create_task(self._resize(self._fds[0]))

    def close(self) -> None:
        """End the command if it still runs."""
        if self._fds and self._closing is None:
            self._closing = asyncio.create_task(self._end())

    async def _end(self) -> None:
        if not self._output.done():
            await self.signal(signal.SIGKILL)
        await self._finish()

    async def _finish(self) -> None:
        """Close the streams, after the tasks that use them have ended."""
        fds, self._fds = self._fds, []
        tasks = [task for task in (self._output, self._input, self._resizing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for fd in fds:
            os.close(fd)
        self._writer.close()

    async def _resize(self, terminal: int) -> None:
        with contextlib.suppress(KajitoriError, OSError):
            packed = fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8)
            rows, columns, _, _ = struct.unpack("HHHH", packed)
            if rows and columns:
                await self._client.resize_exec(self._identifier, rows, columns)

    async def _copy_output(self) -> None:
        frames, is_first = Frames(), True
        with contextlib.suppress(OSError):
            while data := await self._reader.read(READ_BYTES):
                for stream, piece in [("stdout", data)] if self._tty else frames.feed(data):
                    if is_first and piece.startswith(NOT_STARTED):
                        self._refusal = piece
                    else:
                        await self._write_output("stdout", self._refusal)
                        await self._write_output(stream, piece)
                        self._refusal = b""
                    is_first = False

    async def _write_output(self, stream: str, piece: bytes) -> None:
        piece = _OF_PODMAN.sub(b"", piece)
        if piece and self._fds:
            fd = self._fds[0] if self._tty else self._fds[1 if stream == "stdout" else 2]
            with contextlib.suppress(OSError if self._tty else BrokenPipeError):
                await _write(fd, piece)

    async def _copy_input(self) -> None:
        fd = self._fds[0]
        if self._tty:
            await self._resize(fd)  # before the first key
        with contextlib.suppress(OSError):
            while True:
                try:
                    data = os.read(fd, READ_BYTES)
                except BlockingIOError:
                    await readable(fd)
                    continue
                if not data:
                    break
                self._writer.write(data)
                await self._writer.drain()
            self._writer.write_eof()


def _not_started(message: str) -> CommandNotStarted:
    not_found = "not found" in message or "no such file" in message
    return CommandNotStarted(message, NOT_FOUND if not_found else NOT_EXECUTABLE)


AnyExecution = Execution | EngineExecution
"""A command beside a container's program."""


async def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await _wait_writable(fd)


async def _wait_writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(fd)


def _is_stream(fd: int) -> bool:
    """Return whether the descriptor can be waited for; `/dev/null` can't, and has nothing to read."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
