"""Attached to a run: this command's input, output and terminal are its program's, through restarts of the run."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from websockets.exceptions import ConnectionClosed

from kajitori.cli.connection.execution import can_be_raw, raw_terminal
from kajitori.cli.context import Cli
from kajitori.cli.follow.follow import tell_the_end
from kajitori.cli.follow.progress import Progress
from kajitori.cli.terminal import say, write_as_is
from kajitori.client.exitcodes import exit_code_of
from kajitori.client.members.attached_output import LEAST_BYTES, Shown
from kajitori.client.members.detach_keys import DetachKeys
from kajitori.client.members.streams import Channel, CommandStream, attach_url, running
from kajitori.client.streams import LogReader, outage_of, watch
from kajitori.client.views import View, is_final, phase_of, status_of
from kajitori.client.web_api import Api, run_path
from kajitori.core.messages.screen import Screen
from kajitori.errors import KajitoriError, NotFound, Unavailable, WrongState

INTERRUPTED = 130
AGAIN_SECONDS = 1.0
"""Pause before a connection that broke is opened again, and before a service's program is looked for again."""
_CHUNK_BYTES = 32 * 1024
LOG_TRIES = 3
_FEW_LINES = 50
"""Number of lines at the end of the log that count as output before the first connection."""
_SEARCHED_LINES = (2_000, 100_000)
"""Numbers of lines at the end of the log that are searched for the end of the shown output: first few, then many. A log
may be larger than the memory of the user's machine."""
_SETTLE_TRIES, _SETTLE_SECONDS = 50, 0.01
"""How often, and after which pause, a new connection is asked whether it has brought output."""


class _Input:
    """Reads standard input in a thread for the whole session, and sends it over the connection that is open."""

    def __init__(self, keys: bytes) -> None:
        self.detached = False
        self.ended = False
        self._keys = DetachKeys(keys)
        self._changed = threading.Condition()
        self._connection: tuple[CommandStream, asyncio.AbstractEventLoop, asyncio.Task[Any] | None] | None = None

    def start(self) -> None:
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def connect(self, stream: CommandStream) -> None:
        """Send to this stream from now on."""
        with self._changed:
            self._connection = stream, asyncio.get_running_loop(), asyncio.current_task()
            self._changed.notify_all()

    def disconnect(self) -> None:
        """Hold back what is typed until the next connection."""
        with self._changed:
            self._connection = None

    def _read(self) -> None:
        fd = sys.stdin.fileno()
        while data := os.read(fd, _CHUNK_BYTES):
            data, self.detached = self._keys.feed(data)
            stream, loop, task = self._wait()
            if data:
                self._run(stream.write(data), loop)
            if self.detached and task is not None:
                with suppress(RuntimeError):  # the event loop has ended
                    loop.call_soon_threadsafe(task.cancel)
                return
        self.ended = True
        stream, loop, _ = self._wait()
        self._run(stream.end_input(), loop)

    def _wait(self) -> tuple[CommandStream, asyncio.AbstractEventLoop, asyncio.Task[Any] | None]:
        with self._changed:
            while self._connection is None:
                self._changed.wait()
            return self._connection

    def _run(self, sending: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        """Send, and wait until the connection has taken it. What is typed while a connection breaks is lost."""
        try:
            asyncio.run_coroutine_threadsafe(sending, loop).result()
        except RuntimeError:
            sending.close()  # the event loop has ended
        except (ConnectionClosed, CancelledError, OSError):
            pass


class Attachment:
    """The session of one command."""

    def __init__(self, cli: Cli, api: Api, run: View, *, keys: bytes, from_start: bool, quiet: bool) -> None:
        """With `from_start`, output from before the first connection is shown, too."""
        spec = run.get("spec") or {}
        self._cli = cli
        self._api = api
        self._view = run
        self._quiet = quiet
        self._from_start = from_start
        self._shown = Shown()
        self._shown_attempt: object = None
        """Number of the attempt whose output was shown last."""
        self._is_broken = False
        """Whether the last connection ended before its program, so that output may be missing."""
        self._session = ""
        """The server's name of the connection to the program, to which the next connection may return."""
        self._position = 0
        """Number of bytes of the session's output that were shown."""
        self._has_stdin = bool(spec.get("stdin"))
        self._has_tty = bool(spec.get("tty"))
        self._is_service = spec.get("type") == "service"
        self._is_terminal = self._has_tty and sys.stdin.isatty() and can_be_raw()
        self._input = _Input(keys if self._is_terminal else b"")
        self._ended_attempt: object = None
        self._screen = Screen()

    def last(self) -> View | None:
        """Stay attached until the run is final, and return its last view; None if the user has detached."""
        if self._has_stdin:
            self._input.start()
        try:
            while not is_final(self._view):
                self._follow()
                if self._input.detached:
                    return None
        finally:
            if not is_final(self._view):
                self._leave_screen()
        if self._is_broken:
            self._catch_up()
        if self._from_start:  # the program ended before a connection was possible
            write_as_is(self._log())
        return self._view

    def _follow(self) -> None:
        """Wait for a member that runs, and attach to it. Return after a connection, or once the run is final."""
        progress = Progress(self._cli, say, quiet=self._quiet)
        try:
            for view in watch(self._api, self._view, outage_of(self._view, self._report)):
                self._view = view
                if is_final(view):
                    return
                if phase_of(view) == "Running" and _attempt(view) != self._ended_attempt:
                    progress.stop()
                    if self._attach():
                        return
                else:
                    progress.show(view)
        finally:
            progress.stop()

    def _attach(self) -> bool:
        """Attach until the program or the connection ends. Return False if there is nothing to attach to now."""
        wants_stdin = self._has_stdin and (self._has_tty or not self._input.ended)
        try:
            session = self._session if self._is_broken else ""
            url = attach_url(self._api.target, self._view, stdin=wants_stdin, session=session, position=self._position)
            asyncio.run(self._converse(url))
        except asyncio.CancelledError:
            if not self._input.detached:
                raise
        except (WrongState, NotFound):
            return False
        except KajitoriError as error:
            if not isinstance(error, Unavailable) and type(error) is not KajitoriError:
                raise
            self._is_broken = self._shown_attempt is not None and not self._from_start
            self._tell(f"{self._view['name']}: {error.message}; attaching again")
            if wants_stdin and not self._has_tty:
                self._tell(f"{self._view['name']}: its input ended with the connection")
                self._has_stdin = False
            self._api.sleep(AGAIN_SECONDS)
        else:
            self._is_broken = False
            if self._screen.is_alternate:  # it was killed
                self._leave_screen()
            if self._is_service:  # its kubelet starts the program again
                self._api.sleep(AGAIN_SECONDS)
            else:
                self._ended_attempt = _attempt(self._view)
        return True

    async def _converse(self, url: str) -> None:
        async with running(self._api.target, url) as stream:
            if goes_on := self._is_broken and bool(stream.session) and stream.session == self._session:
                self._is_broken = False
            else:
                self._session = ""
            with raw_terminal(self._is_terminal) as resized:
                loop = asyncio.get_running_loop()
                resizing: set[asyncio.Task[None]] = set()

                def resize() -> None:
                    os.read(resized, 1024)
                    task = loop.create_task(stream.resize(*shutil.get_terminal_size()))
                    resizing.add(task)
                    task.add_done_callback(resizing.discard)

                if resized >= 0:
                    columns, lines = shutil.get_terminal_size()
                    if not self._from_start and not goes_on:
                        # A change of size makes the program draw its screen or prompt again.
                        await stream.resize(columns, lines + 1)
                    await stream.resize(columns, lines)
                    loop.add_reader(resized, resize)
                self._input.connect(stream)
                try:
                    await (self._print_on(stream) if goes_on else self._print(stream))
                finally:
                    self._input.disconnect()
                    if resized >= 0:
                        loop.remove_reader(resized)

    async def _print_on(self, stream: CommandStream) -> None:
        """Print the output of a session that goes on: the server sends it from the last shown byte on."""
        async for channel, data in stream.output():
            self._write(channel, data)

    async def _print(self, stream: CommandStream) -> None:
        """Print the output; before it, what was printed before the connection and has not been shown."""
        attempt = _attempt(self._view)
        if self._is_broken and attempt != self._shown_attempt:
            await asyncio.to_thread(self._catch_up)
        if self._shown_attempt not in (None, attempt):
            self._from_start = True
        if not self._is_broken:
            self._shown = Shown()
        self._shown_attempt = attempt
        self._position = 0
        early: list[tuple[Channel, bytes]] = []
        waits = self._from_start or self._is_broken

        async def print_log() -> None:
            nonlocal waits
            if self._is_broken:
                await asyncio.to_thread(self._catch_up, early)
            elif self._from_start:
                log = await asyncio.to_thread(self._log)
                write_as_is(self._shown.begin(log, _bytes(early)))
            else:
                self._shown.precede(await asyncio.to_thread(self._log, _FEW_LINES))
            self._from_start = self._is_broken = waits = False
            for channel, data in early:
                self._write(channel, data)
            self._session = stream.session

        printing = asyncio.create_task(print_log())
        try:
            async for channel, data in stream.output():
                if waits and not self._is_notice(channel):
                    early.append((channel, data))
                else:
                    self._write(channel, data)
            await printing
        finally:
            printing.cancel()  # of a connection that broke: the next one reads the log again

    def _is_notice(self, channel: Channel) -> bool:
        """Whether a piece is the server's own, and so is not in the log: a terminal has no standard error."""
        return self._has_tty and channel is Channel.STDERR

    def _write(self, channel: Channel, data: bytes) -> None:
        if not self._is_notice(channel):
            self._position += len(data)
            data = self._shown.new(data)
        if channel is Channel.STDERR:
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()
        elif data:
            self._screen.note(data)
            write_as_is(data)

    def _tell(self, text: str) -> None:
        if not self._quiet:
            self._report(text)

    def _report(self, text: str) -> None:
        """Print a line of kaji's own: in the last line of the screen if a program uses all of it."""
        if self._is_terminal and self._shown_attempt is not None:
            self._screen.columns = shutil.get_terminal_size().columns
            sys.stderr.buffer.write(self._screen.show(text))
            sys.stderr.buffer.flush()
        else:
            say(text)

    def _leave_screen(self) -> None:
        """Give the terminal back to the user's shell if a program that uses the whole screen stays behind."""
        if self._is_terminal:
            write_as_is(self._screen.leave())

    def _catch_up(self, early: Sequence[tuple[Channel, bytes]] | None = None) -> None:
        """Print what the program has printed since the last connection broke.

        `early` holds the bytes that the next connection has brought so far; None if there is no next one.
        """
        self._is_broken = False
        for lines in _SEARCHED_LINES:
            log = self._log(lines, self._shown_attempt)  # first: `early` then has what came before the end of the log
            if early is not None:
                self._settle(early)
            is_last = lines == _SEARCHED_LINES[-1]
            missed = self._shown.go_on(log, _bytes(early or ()), guesses=is_last)
            if missed is not None:
                write_as_is(missed)
                return
        self._tell_of_gap()

    def _settle(self, early: Sequence[tuple[Channel, bytes]]) -> None:
        """Wait a moment for output of a connection that may be slower than the log was: the log has it, too, and it
        would be shown twice."""
        for _ in range(_SETTLE_TRIES):
            if len(_bytes(early)) >= LEAST_BYTES:
                return
            self._api.sleep(_SETTLE_SECONDS)

    def _tell_of_gap(self) -> None:
        name = self._view["name"]
        self._tell(f"{name}: what it printed meanwhile is not shown here; all of it: kaji logs {name}")

    def _log(self, lines: int | None = None, attempt: Any = None) -> bytes:
        """Return the output of an attempt so far, or its last lines."""
        for number in range(LOG_TRIES):
            try:
                reader = LogReader(self._api, self._view, tail=lines, attempt=attempt)
                log = b"".join(part.text for part in reader.parts())
                break
            except Unavailable:
                if number + 1 < LOG_TRIES:
                    self._api.sleep(AGAIN_SECONDS)
            except KajitoriError:
                return b""  # kaji logs tells why
        else:
            return b""
        is_unfinished = self._has_tty and log.endswith(b"\n") and not log.endswith(b"\r\n")
        return log[:-1] if is_unfinished else log  # a log ends an unfinished line, such as a prompt


def _bytes(pieces: Sequence[tuple[Channel, bytes]]) -> bytes:
    return b"".join(data for _, data in pieces)


def _attempt(view: View) -> object:
    return (status_of(view).get("attempt") or {}).get("number")


def attach_to_the_end(
    cli: Cli, api: Api, run: View, *, keys: bytes, from_start: bool, quiet: bool, remove: bool
) -> int:
    """Attach to a run with standard input or a terminal, and return its exit code; 0 if the user detaches."""
    name = run["name"]
    try:
        final = Attachment(cli, api, run, keys=keys, from_start=from_start, quiet=quiet).last()
    except KeyboardInterrupt:
        say(f"\n{name} goes on. Come back: kaji attach {name}   Stop it: kaji stop {name}")
        return INTERRUPTED
    except NotFound as error:
        raise Unavailable(error.message, hint=error.hint) from error
    if final is None:
        say(f"\n{name} goes on. Come back: kaji attach {name}   Stop it: kaji stop {name}")
        return 0
    tell_the_end(final, quiet=quiet, remove=remove)
    if remove:
        with suppress(NotFound):  # another client has deleted it
            api.delete(run_path(final), uid=final["uid"])
    return exit_code_of(final)
