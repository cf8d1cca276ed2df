"""A command inside a member, with this process's standard streams and terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from typing import Any, BinaryIO

import click
from websockets.exceptions import ConnectionClosed

from kajitori.cli.terminal import say
from kajitori.client.members.streams import Channel, CommandStream, command_request, running
from kajitori.client.members.terminal_command import at_terminal
from kajitori.client.target import Target
from kajitori.client.views import View
from kajitori.client.web_api import run_path
from kajitori.core.messages.screen import Screen
from kajitori.errors import Unavailable

_CHUNK_BYTES = 32 * 1024

NO_STDIN = -1


def execute(
    target: Target,
    run: View,
    command: Sequence[str],
    *,
    rank: int,
    stdin: int = NO_STDIN,
    tty: bool = False,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
    debug: bool = False,
) -> int:
    """Run the command in the member of this rank and return its exit code.

    `stdin` is a descriptor that is passed on to its end, or `NO_STDIN`. The command's output goes to `stdout` and
    `stderr`, by default those of this process. Raises Unavailable if the connection breaks before the command ends; at
    a terminal only if it can't be connected again within a minute.
    """
    screen = Screen()

    def tell_broken() -> None:
        text = "the connection broke; connecting again for a minute (Ctrl-C ends this)"
        screen.columns = shutil.get_terminal_size().columns
        sys.stderr.buffer.write(screen.show(text))
        sys.stderr.buffer.flush()

    opened: AbstractAsyncContextManager[CommandStream]
    if tty:
        opened = at_terminal(target, run, command, rank=rank, stdin=stdin >= 0, tell_broken=tell_broken)
    else:
        opened = running(target, *command_request(target, run, command, rank=rank, stdin=stdin >= 0))
    if debug:
        say(f"> WebSocket {target.url}{run_path(run, '/exec')}")
    outputs = {Channel.STDOUT: stdout or sys.stdout.buffer, Channel.STDERR: stderr or sys.stderr.buffer}
    try:
        return asyncio.run(_execute(opened, screen, outputs, stdin, tty=tty))
    except Unavailable as error:
        if not isinstance(error.__cause__, ConnectionClosed):
            raise
        raise Unavailable(error.message, hint="a command that must survive this: start it in tmux") from error


async def _execute(
    opened: AbstractAsyncContextManager[CommandStream],
    screen: Screen,
    outputs: Mapping[Channel, BinaryIO],
    stdin: int,
    *,
    tty: bool,
) -> int:
    async with opened as stream:
        with raw_terminal(tty) as resized:
            sender = _Sender(stream, asyncio.get_running_loop())
            threading.Thread(target=sender.pass_on, args=(stdin, resized), name="stdin", daemon=True).start()
            try:
                async for channel, data in stream.output():
                    if tty:
                        screen.note(data)
                    outputs[channel].write(data)
                    outputs[channel].flush()
            finally:
                if stream.exit_code is None or screen.is_alternate:
                    outputs[Channel.STDOUT].write(screen.leave())
                    outputs[Channel.STDOUT].flush()
    assert stream.exit_code is not None
    return stream.exit_code


class _Sender:
    """Passes on standard input from a thread of its own, because it may be a file, which no event loop can wait for."""

    def __init__(self, stream: CommandStream, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._loop = loop

    def pass_on(self, stdin: int, resized: int) -> None:
        """Pass on stdin and the size of the window until the connection ends."""
        sources = [source for source in (resized, stdin) if source >= 0]
        try:
            if resized >= 0:
                self._send_size()
            while sources:
                # Windows can wait for sockets only; one source needs no choice
                ready = select.select(sources, [], [])[0] if len(sources) > 1 else sources
                if resized in ready:
                    os.read(resized, 1024)
                    self._send_size()
                if stdin in ready:
                    data = os.read(stdin, _CHUNK_BYTES)
                    if data:
                        self.send(self._stream.write(data))
                    else:
                        sources.remove(stdin)
                        self.send(self._stream.end_input())
        except (ConnectionClosed, CancelledError, OSError, RuntimeError, ValueError):
            return  # the connection, or with it the event loop, has ended

    def send(self, sending: Coroutine[Any, Any, None]) -> None:
        """Run this in the event loop, and wait for its end. Raises RuntimeError if the loop has ended."""
        try:
            future = asyncio.run_coroutine_threadsafe(sending, self._loop)
        except RuntimeError:
            sending.close()  # else Python warns on the user's terminal that it was never awaited
            raise
        future.result()

    def _send_size(self) -> None:
        columns, lines = shutil.get_terminal_size()
        self.send(self._stream.resize(columns, lines))


def check_terminal() -> None:
    """Raise UsageError unless stdin is a terminal that `raw_terminal` can change."""
    if not sys.stdin.isatty():
        raise click.UsageError("-t needs a terminal, and stdin is none")
    if not can_be_raw():
        raise click.UsageError("-t needs a terminal of Linux or macOS. Here, use kaji ssh RUN or the terminal of WSL")


def can_be_raw() -> bool:
    """Return whether this system has terminals that `raw_terminal` can change."""
    return sys.platform != "win32"


@contextlib.contextmanager
def raw_terminal(tty: bool) -> Iterator[int]:
    """Put the terminal into raw mode, because the member's own terminal echoes and edits lines.

    Yields a descriptor that becomes readable when the size of the window changes, or -1 if `tty` is False.
    """
    if not tty:
        yield -1
        return
    import termios
    import tty as terminal

    before = termios.tcgetattr(0)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def changed(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"!")

    def resumed(*_: object) -> None:
        terminal.setraw(0, termios.TCSADRAIN)
        changed()

    handlers = {
        signal.SIGWINCH: signal.signal(signal.SIGWINCH, changed),
        signal.SIGCONT: signal.signal(signal.SIGCONT, resumed),  # while it was stopped, the shell changed the mode
    }
    terminal.setraw(0, termios.TCSADRAIN)  # as OpenSSH does: what was typed before is not lost
    try:
        yield reader
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
