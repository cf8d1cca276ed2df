"""A shell that stays in a member and runs one short script after the other.

A command of its own for each question about a file would take a connection each. Any image that has `/bin/sh` will do.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from contextlib import AsyncExitStack

from websockets.exceptions import ConnectionClosed

from kajitori.cli.ssh.member import Member
from kajitori.client.members.streams import CommandStream
from kajitori.errors import KajitoriError, Unavailable

MAX_ANSWER_BYTES = 64 << 20
"""The member is not trusted: no answer may fill the memory."""


class ScriptFailed(KajitoriError):
    """A script ended with another exit code than 0; the message is what it printed."""

    code = "ScriptFailed"


class MemberShell:
    """A shell in a member. It starts with the first script, and again if its connection broke."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._stream: CommandStream | None = None
        self._output = bytearray()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None

    async def run(self, script: str, *words: bytes) -> bytes:
        """Run a script with the words as `$1` and so on, and return its standard output.

        Raises:
            ScriptFailed: its exit code is not 0.
            Unavailable: the connection broke, or the answer is larger than MAX_ANSWER_BYTES.
        """
        async with self._lock:
            try:
                return await self._run_script(script, words)
            except (ConnectionClosed, KajitoriError, asyncio.CancelledError) as error:
                if not isinstance(error, ScriptFailed):
                    await self._end()
                if isinstance(error, ConnectionClosed):
                    raise Unavailable("the connection to the member broke") from error
                raise

    async def close(self) -> None:
        """End the shell."""
        async with self._lock:
            await self._end()

    async def _run_script(self, script: str, words: tuple[bytes, ...]) -> bytes:
        if self._stream is None:
            stream = await self._stack.enter_async_context(self._member.running(["/bin/sh"]))
            self._stream = stream
            self._reading = asyncio.create_task(self._read_output(stream))
            await stream.write(b"LC_ALL=C; export LC_ALL\n")
        end = secrets.token_hex(16).encode()
        quoted = b" ".join(_quote(word) for word in words)
        lines = b"(set -- %s\n%s\n) 2>&1 </dev/null; printf '\\n%s %%d\\n' \"$?\"\n" % (quoted, script.encode(), end)
        await self._stream.write(lines)
        marker = b"\n" + end + b" "
        place = await self._wait_for_text(marker, 0)
        line_end = await self._wait_for_text(b"\n", place + len(marker))
        answer, code = bytes(self._output[:place]), bytes(self._output[place + len(marker) : line_end])
        del self._output[: line_end + 1]
        if code != b"0":
            raise ScriptFailed(answer.decode(errors="replace").strip() or f"exit code {code.decode(errors='replace')}")
        return answer

    async def _wait_for_text(self, text: bytes, begin: int) -> int:
        """Wait until the output has the text after `begin`, and return its place."""
        while (place := self._output.find(text, begin)) < 0:
            begin = max(begin, len(self._output) - len(text))
            if len(self._output) > MAX_ANSWER_BYTES:
                raise Unavailable("the member's answer is too large")
            piece = await self._pieces.get()
            if not piece:
                raise Unavailable("the shell in the member ended")
            self._output += piece
        return place

    async def _read_output(self, stream: CommandStream) -> None:
        try:
            async for _, data in stream.output():
                await self._pieces.put(data)
        except KajitoriError:
            pass
        finally:
            await self._pieces.put(b"")

    async def _end(self) -> None:
        reading, self._reading, self._stream, self._output = self._reading, None, None, bytearray()
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        self._pieces = asyncio.Queue()
        await self._stack.aclose()


def _quote(word: bytes) -> bytes:
    return shlex.quote(word.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
