"""One member, as the SSH server uses it: commands and connections, with a token that is renewed when it expires."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

from kajitori.client.members.port_tunnels import PortTunnels
from kajitori.client.members.streams import CommandStream, PortConnection, command_request, running
from kajitori.client.members.terminal_command import at_terminal
from kajitori.client.target import Target
from kajitori.client.views import View
from kajitori.errors import Unauthenticated
from kajitori.kube.spdy.ports import PortChannel

_HOME = 'if ! [ -w "${HOME:-/proc}" ]; then HOME=/tmp; export HOME; fi'
"""Programs such as VS Code's server write into the home folder; a user without one gets `/tmp`."""
_SHELL = "shell=$(command -v bash) || shell=/bin/sh"


T = TypeVar("T")


def shell_command(command: str | None, environment: Mapping[str, str]) -> list[str]:
    """Return the command that runs a line of a user's shell in a member, or the shell itself.

    It begins in the folder in which the run's program began. It is no login shell: its profile would replace the
    search path of the image.
    """
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if name.isidentifier()]
    start = 'exec "$shell"' if command is None else 'exec "$shell" -c "$1"'
    script = "\n".join([_HOME, *exports, _SHELL, start])
    return ["/bin/sh", "-c", script, "sh", *([] if command is None else [command])]


class Member:
    """A member of a run."""

    def __init__(self, target: Target, run: View, rank: int) -> None:
        self._target = target
        self._run = run
        self._rank = rank
        self._tunnels = PortTunnels(run, rank)
        self._renewing = asyncio.Lock()

    def running(
        self, command: Sequence[str], *, stdin: bool = True, tty: bool = False
    ) -> AbstractAsyncContextManager[CommandStream]:
        """Run a command in the member. Raises KajitoriError as `streams.running` does."""

        def start(target: Target) -> AbstractAsyncContextManager[CommandStream]:
            if tty:
                return at_terminal(target, self._run, command, rank=self._rank, stdin=stdin)
            return running(target, *command_request(target, self._run, command, rank=self._rank, stdin=stdin))

        return self._open_stream(start)

    def connected(self, port: int) -> AbstractAsyncContextManager[PortChannel | PortConnection]:
        """Connect to a port of the member. Raises KajitoriError as `streams.connected` does."""
        return self._open_stream(lambda target: self._tunnels.connected(target, port))

    @asynccontextmanager
    async def _open_stream(self, start: Callable[[Target], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
        """Open a stream; once more with a new token if the server refuses the present one."""
        async with AsyncExitStack() as stack:
            target = self._target
            try:
                stream = await stack.enter_async_context(start(target))
            except Unauthenticated:
                if not await self._renew_token(target):
                    raise
                stream = await stack.enter_async_context(start(self._target))
            yield stream

    async def _renew_token(self, refused: Target) -> bool:
        """Replace a token that was refused. Return False if it cannot be renewed."""
        if refused.signed_in is None:
            return False
        async with self._renewing:
            if self._target is refused:  # else another session has renewed it meanwhile
                self._target = await asyncio.to_thread(refused.renewed)
        return True
