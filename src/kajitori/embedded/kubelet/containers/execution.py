"""A command in a container between its descriptors and a remote's streams, whatever protocol carries them."""

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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kajitori.embedded.kubelet.containers.container import CommandNotStarted, Container, Execution
from kajitori.errors import KajitoriError

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of Kubernetes' remote command protocol."""
READ_BYTES = 32 * 1024

Send = Callable[[int, bytes], Awaitable[None]]


class RemoteCommand:
    """One exec: `feed`, `close_stdin` and `resize` are called by the protocol, which gets output through `send`."""

    def __init__(
        self, container: Container, argv: Sequence[str], *, stdin: bool, stderr: bool, tty: bool, send: Send
    ) -> None:
        self._container = container
        self._argv = argv
        self._wants_stdin = stdin
        self._wants_stderr = stderr and not tty
        self._tty = tty
        self._send = send
        self._terminal = -1
        self._stdin: asyncio.Queue[bytes | None] = asyncio.Queue(64)

    async def run(self) -> dict[str, Any]:
        """Runs the command to its end; answers the Status object for the error channel."""
        try:
            return status_of(await (self._run_terminal() if self._tty else self._run_pipes()))
        except CommandNotStarted as error:
            # kubectl shows the code alone: why it could not be started is said as a shell would say it.
            await self._send(STDOUT if self._tty else STDERR, f"{error.message}\n".encode())
            return status_of(error.program_exit_code, f"command terminated with non-zero exit code: {error.message}")
        except KajitoriError as error:
            return {
                "metadata": {},
                "status": "Failure",
                "reason": "InternalError",
                "message": error.message,
                "code": 500,
            }

    async def feed(self, data: bytes) -> None:
        """What the remote typed; waits while the command does not read."""
        if self._wants_stdin:
            await self._stdin.put(data)

    async def close_stdin(self) -> None:
        """The remote has nothing more to say: the command sees the end of its input."""
        await self._stdin.put(None)

    def resize(self, message: bytes) -> None:
        """`{"Width": 80, "Height": 24}`."""
        if self._terminal < 0:
            return
        with contextlib.suppress(ValueError, OSError, TypeError, struct.error):
            size = json.loads(message)
            packed = struct.pack("HHHH", int(size.get("Height", 0)), int(size.get("Width", 0)), 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, packed)

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
        outputs = [self._pump(out_read, STDOUT), self._pump(err_read, STDERR if self._wants_stderr else -1)]
        return await self._attend(execution, stdin_write, outputs)

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
            return await self._attend(execution, keyboard, [self._pump(ours, STDOUT)])
        finally:
            self._terminal = -1

    async def _attend(self, execution: Execution, stdin: int, outputs: Sequence[Awaitable[None]]) -> int:
        feeding = asyncio.create_task(self._feed(stdin)) if stdin >= 0 else None
        pumps = [asyncio.ensure_future(output) for output in outputs]
        try:
            code = await execution.wait()
            # What it wrote is all in the pipes; a child that it left behind does not keep them open for us.
            await asyncio.wait(pumps, timeout=1.0)
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

    async def _feed(self, fd: int) -> None:
        os.set_blocking(fd, False)
        try:
            while (data := await self._stdin.get()) is not None:
                view = memoryview(data)
                while view:
                    try:
                        view = view[os.write(fd, view) :]
                    except BlockingIOError:
                        await _ready(fd, write=True)
            if self._tty:
                os.write(fd, b"\x04")
        except OSError:
            while await self._stdin.get() is not None:
                pass  # nobody reads any more; the remote must not wait for that
        finally:
            os.close(fd)

    async def _pump(self, fd: int, channel: int) -> None:
        os.set_blocking(fd, False)
        try:
            while True:
                try:
                    data = os.read(fd, READ_BYTES)
                except BlockingIOError:
                    await _ready(fd, write=False)
                    continue
                except OSError:
                    return  # a terminal whose last user is gone answers EIO
                if not data:
                    return
                if channel >= 0:
                    await self._send(channel, data)
        finally:
            os.close(fd)


async def _ready(fd: int, *, write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    (loop.add_writer if write else loop.add_reader)(fd, ready.set)
    try:
        await ready.wait()
    finally:
        (loop.remove_writer if write else loop.remove_reader)(fd)


def status_of(exit_code: int, message: str = "") -> dict[str, Any]:
    """The Status that says how a command ended, as `kubectl exec` reads it."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": message or f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def flag(query: Mapping[str, str], *names: str) -> bool:
    """Whether one of the query parameters is set: kube-apiserver says `output=1`, clients `stdout=true`."""
    return any(query.get(name, "").lower() in ("1", "true") for name in names)
