"""Commands at terminals whose connections break."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, view

from kajitori.client.members import terminal_command
from kajitori.client.members.streams import Channel, CommandStream, resumed_command_url
from kajitori.client.members.terminal_command import TerminalCommand
from kajitori.client.target import Target
from kajitori.errors import KajitoriError, NotFound, Unavailable


class Stream(CommandStream):
    """A connection that brings some pieces, and then ends with an exit code or breaks."""

    def __init__(self, session: str, *pieces: bytes, code: int | None = None) -> None:
        self.exit_code = None
        self._name, self._pieces, self._code = session, pieces, code
        self.sent: list[Any] = []

    @property
    def session(self) -> str:
        return self._name

    async def write(self, data: bytes) -> None:
        self.sent.append(data)

    async def resize(self, columns: int, lines: int) -> None:
        self.sent.append((columns, lines))

    async def output(self) -> AsyncGenerator[tuple[Channel, bytes]]:
        for piece in self._pieces:
            yield Channel.STDERR if piece.startswith(b"kaji:") else Channel.STDOUT, piece
        if self._code is None:
            raise Unavailable("the connection broke while the command ran")
        self.exit_code = self._code


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_command, "FIRST_PAUSE_SECONDS", 0.0)


async def shown(command: TerminalCommand) -> bytes:
    return b"".join([data async for _, data in command.output()])


async def test_it_goes_on_after_the_last_byte_that_arrived() -> None:
    """A server that is away is asked again. The size of the terminal, and what was typed meanwhile, are sent then."""
    asked, told = list[tuple[str, int]](), list[str]()
    back = Stream("s1", b"three", code=3)

    async def connect(session: str, position: int) -> CommandStream:
        asked.append((session, position))
        await command.write(b"typed")
        if len(asked) == 1:
            raise Unavailable("it is away")
        return back

    first = Stream("s1", b"one", b"kaji: a notice", b"two")
    command = TerminalCommand(first, connect, lambda: told.append("broken"))
    await command.resize(80, 24)
    assert await shown(command) == b"onekaji: a noticetwothree"
    assert (asked, command.exit_code, told) == ([("s1", 6)] * 2, 3, ["broken"])
    assert back.sent == [(80, 24), b"typedtyped"]


@pytest.mark.parametrize("refusal", [NotFound("no such session"), KajitoriError("no")])
async def test_it_ends_as_before_if_the_server_has_lost_it(refusal: KajitoriError) -> None:
    async def connect(session: str, position: int) -> CommandStream:
        raise refusal

    with pytest.raises(Unavailable, match="broke while the command ran"):
        await shown(TerminalCommand(Stream("s1"), connect))


async def test_ctrl_c_ends_the_attempts() -> None:
    tries = 0

    async def connect(session: str, position: int) -> CommandStream:
        nonlocal tries
        tries += 1
        await command.write(b"x\x03" if tries == 3 else b"x")
        raise Unavailable("it is away")

    command = TerminalCommand(Stream("s1"), connect)
    with pytest.raises(Unavailable, match="broke while the command ran"):
        await shown(command)
    assert tries == 3


async def test_an_older_server_that_names_no_session_is_not_asked() -> None:
    async def connect(session: str, position: int) -> CommandStream:
        raise AssertionError

    with pytest.raises(Unavailable, match="broke while the command ran"):
        await shown(TerminalCommand(Stream(""), connect))


def test_its_url_names_no_command() -> None:
    """A server runs the command of a URL; this one must run none."""
    url = resumed_command_url(Target("http://127.0.0.1:1", TOKEN), view("bert"), "s1", 6, rank=2, stdin=True)
    assert url.partition("?")[2] == "rank=2&stdin=true&tty=true&session=s1&position=6"
