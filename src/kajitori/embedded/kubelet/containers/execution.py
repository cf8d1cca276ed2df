"""Connects the descriptors of a container's program, or of a command beside it, with the streams of a remote client."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.control import Attachment, CommandNotStarted
from kajitori.embedded.kubelet.containers.engine_execution import AnyExecution
from kajitori.errors import KajitoriError

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of Kubernetes' remote command protocol."""
READ_BYTES = 32 * 1024
TERMINAL_SECONDS = 1.0
"""Longest wait for output that a program wrote to a terminal before it ended."""
ENDED_SECONDS = 5.0
"""Longest time between the end of a container's output and its known end."""

Send = Callable[[int, bytes], Awaitable[None]]


class Remote(ABC):
    """A client at the other end of the streams.

    The protocol that carries them calls `feed`, `close_stdin` and `resize`, and receives output through `send`.
    """

    def __init__(self, *, stdin: bool, stderr: bool, tty: bool, send: Send) -> None:
        self._wants_stdin = stdin
        self._wants_stderr = stderr and not tty
        self._tty = tty
        self._send = send
        self._terminal = -1
        self._size = b""
        self._stdin: asyncio.Queue[bytes | None] = asyncio.Queue(64)
        self._has_ended = asyncio.Event()

    @abstractmethod
    async def run(self) -> dict[str, Any]:
        """Serve until there is no more output. Return the Status object for the error channel."""

    async def feed(self, data: bytes) -> None:
        """Pass on input from the remote; waits while the program does not read."""
        if self._wants_stdin:
            await self._stdin.put(data)

    async def close_stdin(self) -> None:
        """Record that the remote's input has ended."""
        await self._stdin.put(None)

    def resize(self, message: bytes) -> None:
        """Take a size such as `{"Width": 80, "Height": 24}`, also for a terminal that does not exist yet."""
        self._size = message
        if self._terminal >= 0:
            self._set_size(self._terminal)

    def _set_size(self, terminal: int) -> None:
        with contextlib.suppress(ValueError, OSError, TypeError, struct.error):
            size = json.loads(self._size)
            packed = struct.pack("HHHH", int(size.get("Height", 0)), int(size.get("Width", 0)), 0, 0)
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, packed)

    async def _feed_stdin(self, fd: int) -> None:
        os.set_blocking(fd, False)
        try:
            while (data := await self._stdin.get()) is not None:
                view = memoryview(data)
                while view:
                    try:
                        view = view[os.write(fd, view) :]
                    except BlockingIOError:
                        await _wait_ready(fd, write=True)
            self._end_input(fd)
        except OSError:
            while await self._stdin.get() is not None:
                pass  # The program no longer reads, but the remote must not block.
        finally:
            os.close(fd)

    @abstractmethod
    def _end_input(self, fd: int) -> None:
        """Handle the end of the remote's input; the descriptor is closed next."""

    async def _pump_output(self, fd: int, channel: int) -> None:
        """Send the output of a pipe or terminal until it ends, or until the program has ended and all its output was
        read."""
        os.set_blocking(fd, False)
        left, is_last = READ_BYTES, False
        try:
            while left > 0:
                if self._has_ended.is_set() and not self._tty and not is_last:
                    is_last, left = True, _waiting_bytes(fd)
                    continue
                try:
                    data = os.read(fd, min(left, READ_BYTES))
                except BlockingIOError:
                    if not await self._has_more(fd):
                        return
                    continue
                except OSError:
                    return  # a terminal without users answers EIO
                if not data:
                    return
                if is_last:
                    left -= len(data)
                if channel >= 0:
                    await self._send(channel, data)
        finally:
            os.close(fd)

    async def _has_more(self, fd: int) -> bool:
        """Wait for output. Return False if the program has ended and all its output was read."""
        if not self._has_ended.is_set():
            await _wait_ready(fd, write=False, or_else=self._has_ended)
            return True
        if not self._tty:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TERMINAL_SECONDS):
                await _wait_ready(fd, write=False)
                return True
        return False


class RemoteCommand(Remote):
    """One exec."""

    def __init__(
        self, container: Container, argv: Sequence[str], *, stdin: bool, stderr: bool, tty: bool, send: Send
    ) -> None:
        super().__init__(stdin=stdin, stderr=stderr, tty=tty, send=send)
        self._container = container
        self._argv = argv
        self._execution: AnyExecution | None = None

    def resize(self, message: bytes) -> None:
        super().resize(message)
        if self._execution is not None:
            self._execution.resized()

    async def run(self) -> dict[str, Any]:
        """Run the command to its end. Return the Status object for the error channel."""
        try:
            return status_of(await (self._run_terminal() if self._tty else self._run_pipes()))
        except CommandNotStarted as error:
            # kubectl shows only the exit code, so the reason goes to the output, as in a shell.
            await self._send(STDOUT if self._tty else STDERR, f"{error.message}\n".encode())
            return status_of(error.program_exit_code, f"command terminated with non-zero exit code: {error.message}")
        except KajitoriError as error:
            return _failure_status(error.message)

    async def _run_pipes(self) -> int:
        stdin_read, stdin_write = os.pipe2(os.O_CLOEXEC)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        try:
            execution = await self._container.execute(self._argv, (stdin_read, out_write, err_write))
        except BaseException:
            for fd in (stdin_write, out_read, err_read):
                os.close(fd)
            raise
        finally:
            for fd in (stdin_read, out_write, err_write):
                os.close(fd)
        if not self._wants_stdin:
            os.close(stdin_write)
            stdin_write = -1
        outputs = [
            self._pump_output(out_read, STDOUT),
            self._pump_output(err_read, STDERR if self._wants_stderr else -1),
        ]
        return await self._serve(execution, stdin_write, outputs)

    async def _run_terminal(self) -> int:
        ours, theirs = pty.openpty()
        os.set_inheritable(ours, False)
        self._terminal = ours
        try:
            execution = await self._container.execute(self._argv, (theirs,), tty=True)
        except BaseException:
            self._terminal = -1
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        keyboard = os.dup(ours) if self._wants_stdin else -1
        try:
            return await self._serve(execution, keyboard, [self._pump_output(ours, STDOUT)])
        finally:
            self._terminal = -1

    async def _serve(self, execution: AnyExecution, stdin: int, outputs: Sequence[Awaitable[None]]) -> int:
        feeding = asyncio.create_task(self._feed_stdin(stdin)) if stdin >= 0 else None
        pumps = [asyncio.ensure_future(output) for output in outputs]
        self._execution = execution
        if self._tty:
            execution.resized()
        try:
            code = await execution.wait()
            # A child that the command left may keep the pipes open, but they hold all that the command wrote.
            self._has_ended.set()
            await asyncio.gather(*pumps)
            return code
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await execution.signal(signal.SIGHUP)
            raise
        finally:
            execution.close()
            tasks = [*pumps, *([feeding] if feeding else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _end_input(self, fd: int) -> None:
        if self._tty:
            os.write(fd, b"\x04")


class RemoteAttachment(Remote):
    """One attach. With `once` the program's input ends with it."""

    def __init__(self, container: Container, *, once: bool, stdin: bool, stderr: bool, tty: bool, send: Send) -> None:
        super().__init__(stdin=stdin, stderr=stderr, tty=tty, send=send)
        self._container = container
        self._once = once and stdin

    async def run(self) -> dict[str, Any]:
        """Serve until the program ends. The program keeps running if the remote disconnects earlier."""
        reading, writing = zip(*(os.pipe2(os.O_CLOEXEC) for _ in range(1 if self._tty else 2)), strict=True)
        try:
            attachment = await self._container.attach(writing)
        except BaseException as error:
            for fd in reading:
                os.close(fd)
            if isinstance(error, KajitoriError):
                return _failure_status(error.message)
            raise
        finally:
            for fd in writing:
                os.close(fd)
        try:
            await self._serve(attachment, reading)
        finally:
            attachment.close()
            if self._once:
                await self._container.close_stdin()
        if not self._container.ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDED_SECONDS):
                    await self._container.ended.wait()
                    return status_of(0)
            return _failure_status(
                "detached: the output was not read for too long. The program keeps running; see its log"
            )
        return status_of(0)

    async def _serve(self, attachment: Attachment, reading: Sequence[int]) -> None:
        channels = (STDOUT, STDERR if self._wants_stderr else -1)
        pumps = [
            asyncio.ensure_future(self._pump_output(fd, channel))
            for fd, channel in zip(reading, channels, strict=False)
        ]
        feeding = self._start_feeding(attachment.stdin)
        try:
            await asyncio.gather(*pumps)
        finally:
            tasks = [*pumps, *([feeding] if feeding else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._terminal >= 0:
                os.close(self._terminal)
                self._terminal = -1

    def _start_feeding(self, stdin: int) -> asyncio.Task[None] | None:
        """Take over the program's input, or its terminal, which any client may resize."""
        if self._tty and stdin >= 0:
            self._terminal = stdin
            if self._size:
                self._set_size(stdin)
            stdin = os.dup(stdin) if self._wants_stdin else -1
        elif stdin >= 0 and not self._wants_stdin:
            os.close(stdin)
            stdin = -1
        return asyncio.create_task(self._feed_program(stdin)) if stdin >= 0 else None

    def _end_input(self, fd: int) -> None:
        """Do nothing: the next client that attaches may type into the terminal."""

    async def _feed_program(self, stdin: int) -> None:
        await self._feed_stdin(stdin)
        if self._once:
            await self._container.close_stdin()


async def _wait_ready(fd: int, *, write: bool, or_else: asyncio.Event | None = None) -> None:
    """Wait until the descriptor is ready or the event is set."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    (loop.add_writer if write else loop.add_reader)(fd, ready.set)
    ending = asyncio.create_task(_set_after(or_else, ready)) if or_else is not None else None
    try:
        await ready.wait()
    finally:
        (loop.remove_writer if write else loop.remove_reader)(fd)
        if ending is not None:
            ending.cancel()


async def _set_after(first: asyncio.Event, then: asyncio.Event) -> None:
    await first.wait()
    then.set()


def _waiting_bytes(fd: int) -> int:
    """Return the number of bytes that can be read from a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])


def status_of(exit_code: int, message: str = "") -> dict[str, Any]:
    """Return the Status object for a command's exit code, as `kubectl exec` reads it."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": message or f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def _failure_status(message: str) -> dict[str, Any]:
    return {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message, "code": 500}


def flag(query: Mapping[str, str], *names: str) -> bool:
    """Return whether one of the query parameters is set: kube-apiserver sends `output=1`, clients `stdout=true`."""
    return any(query.get(name, "").lower() in ("1", "true") for name in names)
