"""A command at a terminal that goes on if the connection to the server breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress

from websockets.exceptions import ConnectionClosed

from kajitori.client.members.streams import Channel, CommandStream, command_request, resumed_command_url, running
from kajitori.client.target import Target
from kajitori.client.views import View
from kajitori.core.backoff import Backoff
from kajitori.errors import KajitoriError, Unavailable

RETURN_SECONDS = 60.0
"""Time that servers keep a command after the connection of its caller broke."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
TYPED_AHEAD_BYTES = 64 * 1024
INTERRUPT = b"\x03"
"""Ctrl-C at a terminal."""

Connect = Callable[[str, int], Awaitable[CommandStream]]
"""Connects with a session, from a position of its output on."""


class TerminalCommand(CommandStream):
    """A command at a terminal. If the connection breaks, `output` connects again and goes on with the first byte that
    did not arrive.

    Input that is typed before it has connected again is sent then. Ctrl-C ends the attempts. If the server ends, the
    command ends with it. A command that is too long for a URL has no session, and ends with its connection.
    """

    def __init__(self, first: CommandStream, connect: Connect, tell_broken: Callable[[], None] | None = None) -> None:
        """`tell_broken` is called once for each connection that breaks."""
        self.exit_code = None
        self._stream: CommandStream | None = first
        self._session = first.session
        self._connect = connect
        self._tell_broken = tell_broken
        self._position = 0
        """Number of bytes of the program's output that have arrived."""
        self._size: tuple[int, int] | None = None
        self._typed = b""
        """Input that was typed while no connection was open."""
        self._has_input_ended = False
        self._interrupted = asyncio.Event()

    @property
    def session(self) -> str:
        return self._session

    async def write(self, data: bytes) -> None:
        if self._stream is None:
            self._typed = (self._typed + data)[:TYPED_AHEAD_BYTES]
            if INTERRUPT in data:
                self._interrupted.set()
            return
        with suppress(ConnectionClosed):  # the program may have received it, so it is not sent again
            await self._stream.write(data)

    async def end_input(self) -> None:
        self._has_input_ended = True
        await self._send_state()

    async def resize(self, columns: int, lines: int) -> None:
        self._size = columns, lines
        await self._send_state()

    async def _send_state(self) -> None:
        """Tell the program the size of the terminal, and whether its input has ended."""
        if self._stream is None:
            return
        with suppress(ConnectionClosed):
            if self._size is not None:
                await self._stream.resize(*self._size)
            if self._has_input_ended:
                await self._stream.end_input()

    async def output(self) -> AsyncGenerator[tuple[Channel, bytes]]:
        assert self._stream is not None
        stream = self._stream
        while True:
            try:
                async with aclosing(stream.output()) as pieces:
                    async for channel, data in pieces:
                        if channel is Channel.STDOUT:  # notices of the server come as standard error
                            self._position += len(data)
                        yield channel, data
                self.exit_code = stream.exit_code
                return
            except Unavailable as error:
                self._stream = None
                stream = await self._connected_again(error)
            typed, self._typed, self._stream = self._typed, b"", stream
            await self._send_state()
            if typed:
                await self.write(typed)

    async def _connected_again(self, error: Unavailable) -> CommandStream:
        """Return a connection with which the command goes on. Raises `error` if there is none."""
        if not self._session:
            raise error
        if self._tell_broken is not None:
            self._tell_broken()
        loop, pauses = asyncio.get_running_loop(), Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        until = loop.time() + RETURN_SECONDS
        while loop.time() < until and not self._interrupted.is_set():
            try:
                return await self._connect(self._session, self._position)
            except Unavailable:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pauses.next_seconds()):
                        await self._interrupted.wait()
            except KajitoriError:
                break  # the session has ended
        raise error

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.close()


@asynccontextmanager
async def at_terminal(
    target: Target,
    run: View,
    command: Sequence[str],
    *,
    rank: int = 0,
    stdin: bool = False,
    tell_broken: Callable[[], None] | None = None,
) -> AsyncIterator[TerminalCommand]:
    """Run a command in a member at a terminal; the connections close at the end. Raises as `running` does."""
    async with AsyncExitStack() as connections:

        async def connect(session: str, position: int) -> CommandStream:
            url = resumed_command_url(target, run, session, position, rank=rank, stdin=stdin)
            return await connections.enter_async_context(running(target, url))

        request = command_request(target, run, command, rank=rank, stdin=stdin, tty=True)
        first = await connections.enter_async_context(running(target, *request))
        yield TerminalCommand(first, connect, tell_broken)
