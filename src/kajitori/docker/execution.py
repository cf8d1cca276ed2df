"""Commands inside a container, over the Web API's exec."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed

from kajitori.client.members.detach_keys import DETACH_KEYS, detach_keys_of
from kajitori.client.members.streams import CommandStream, command_request, running
from kajitori.client.members.terminal_command import at_terminal
from kajitori.docker.as_user import as_user
from kajitori.docker.hijack import STDERR, STDOUT
from kajitori.docker.platform import Platform
from kajitori.docker.translation.container import Container
from kajitori.errors import InvalidInput, NotFound

REMEMBERED = 1000
"""Commands that clients may still inspect."""

Write = Callable[[int, bytes], Awaitable[None]]


@dataclass
class Command:
    """One command, as `POST /containers/{id}/exec` made it."""

    container: Container
    words: list[str]
    """The program and its arguments, as the client wrote them."""
    run_words: list[str]
    """The words to run in the member: `words` after a prefix that sets user, folder and variables."""
    stdin: bool = False
    tty: bool = False
    stdout: bool = True
    stderr: bool = True
    detach_keys: bytes = b""
    id: str = field(default_factory=lambda: secrets.token_hex(32))
    is_running: bool = False
    exit_code: int | None = None
    size: tuple[int, int] | None = None
    """Columns and lines of the client's terminal, if it said so before the start."""
    stream: CommandStream | None = None

    @classmethod
    def of(cls, container: Container, body: Mapping[str, Any]) -> Command:
        """Read a request. Raises InvalidInput for options that a member does not support."""
        words = body.get("Cmd") or []
        words = [words] if isinstance(words, str) else [str(word) for word in words]
        if not words:
            raise InvalidInput.one("", "No exec command specified")
        user = str(body.get("User") or "")
        own = str(container.spec.get("user") or "")
        is_other = user not in ("", own) and not (user == "root" and own == "0")
        if is_other and own.partition(":")[0] not in ("", "0"):
            message = f"the container runs as user {own}, and only root may change to another"
            hint = "leave --user out, or start the container with another --user"
            raise InvalidInput.one("--user", message, value=user, hint=hint)
        if body.get("Privileged"):
            hint = "leave --privileged out; docker run --privileged asks policy for a privileged run"
            raise InvalidInput.one("--privileged", "a command has the rights of its container", hint=hint)
        surrounded = _with_surroundings(words, str(body.get("WorkingDir") or ""), body.get("Env") or ())
        return cls(
            container,
            words,
            as_user(user, surrounded) if is_other else surrounded,
            stdin=bool(body.get("AttachStdin")),
            tty=bool(body.get("Tty")),
            stdout=bool(body.get("AttachStdout", True)),
            stderr=bool(body.get("AttachStderr", True)),
            # docker-py begins the name of the field with a small letter, and Docker's daemon does not mind
            detach_keys=detach_keys_of(str(body.get("DetachKeys") or body.get("detachKeys") or DETACH_KEYS)),
            size=_size(body.get("ConsoleSize")),
        )

    def inspection(self) -> dict[str, Any]:
        """Return the answer of `GET /exec/{id}/json`."""
        return {
            "ID": self.id,
            "Running": self.is_running,
            "ExitCode": self.exit_code,
            "ProcessConfig": {
                "tty": self.tty,
                "entrypoint": self.words[0],
                "arguments": self.words[1:],
                "privileged": False,
            },
            "OpenStdin": self.stdin,
            "OpenStdout": self.stdout,
            "OpenStderr": self.stderr,
            "CanRemove": self.exit_code is not None,
            "ContainerID": self.container.id,
            "DetachKeys": "",
            "Pid": 1 if self.is_running else 0,
        }

    async def resize(self, columns: int, lines: int) -> None:
        """Set the size of the command's terminal."""
        self.size = columns, lines
        if self.stream is not None:
            with contextlib.suppress(ConnectionClosed):
                await self.stream.resize(columns, lines)

    async def run(self, platform: Platform, write: Write, stdin: AsyncIterator[bytes] | None) -> int:
        """Run the command to its end and return its exit code. Raises KajitoriError if it could not be run."""
        self.is_running = True
        try:
            target = await platform.signed_in()
            rank, has_input = self.container.rank, stdin is not None
            view, words = self.container.view, self.run_words
            opened: AbstractAsyncContextManager[CommandStream]
            if self.tty:
                opened = at_terminal(target, view, words, rank=rank, stdin=has_input)
            else:
                opened = running(target, *command_request(target, view, words, rank=rank, stdin=has_input))
            async with opened as stream:
                self.stream = stream
                if self.size is not None:
                    await self.resize(*self.size)
                await pass_through(stream, write, stdin)
                self.exit_code = stream.exit_code
        except BaseException:
            self.exit_code = 126 if self.exit_code is None else self.exit_code
            raise
        finally:
            self.is_running, self.stream = False, None
        return self.exit_code or 0


class Commands:
    """The commands of this bridge by id; the latest are remembered."""

    def __init__(self) -> None:
        self._commands: OrderedDict[str, Command] = OrderedDict()

    def add(self, command: Command) -> None:
        self._commands[command.id] = command
        while len(self._commands) > REMEMBERED:
            self._commands.popitem(last=False)

    def find(self, id: str) -> Command:
        """Return a command. Raises NotFound."""
        try:
            return self._commands[id]
        except KeyError:
            raise NotFound(f"No such exec instance: {id}") from None


async def output_of(
    platform: Platform, container: Container, words: Sequence[str], stdin: bytes | None = None
) -> tuple[int, bytes, bytes]:
    """Run a command, and return its exit code and what it wrote to stdout and stderr."""
    outputs: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}

    async def write(stream: int, data: bytes) -> None:
        outputs[stream].append(data)

    async def given() -> AsyncIterator[bytes]:
        yield stdin or b""

    command = Command(container, list(words), list(words), stdin=stdin is not None)
    code = await command.run(platform, write, given() if stdin is not None else None)
    return code, b"".join(outputs[STDOUT]), b"".join(outputs[STDERR])


def _with_surroundings(words: list[str], folder: str, environment: Sequence[str]) -> list[str]:
    """Return the words of a command that runs in a folder, with these variables."""
    if environment:
        words = ["env", *environment, *words]
    if folder:
        words = ["/bin/sh", "-c", f'cd {shlex.quote(folder)} && exec "$@"', "sh", *words]
    return words


def _size(given: object) -> tuple[int, int] | None:
    """Return columns and lines from Docker's pair of lines and columns."""
    if isinstance(given, list) and len(given) == 2 and all(isinstance(one, int) and one > 0 for one in given):
        return given[1], given[0]
    return None


async def pass_through(stream: CommandStream, write: Write, stdin: AsyncIterator[bytes] | None) -> None:
    """Pass input and output of a command on until it ends."""
    feeding = asyncio.create_task(_feed(stream, stdin)) if stdin is not None else None
    try:
        async with aclosing(stream.output()) as output:
            async for channel, data in output:
                if data:
                    await write(channel, data)
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(stream: CommandStream, stdin: AsyncIterator[bytes]) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for data in stdin:
            if data:
                await stream.write(data)
        await stream.end_input()
