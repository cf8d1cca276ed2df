"""Attaching to a run."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import pytest
from tests.harness.waiting import until
from tests.unit.cli.fake_web_api import TOKEN, view

from kajitori.cli.context import Cli
from kajitori.cli.follow import attached
from kajitori.cli.follow.attached import Attachment
from kajitori.client.members.streams import Channel, CommandStream
from kajitori.client.target import Target
from kajitori.client.web_api import Api
from kajitori.errors import Unavailable


class Stream:
    """A program that ends at once."""

    session = ""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    async def resize(self, columns: int, lines: int) -> None:
        self.sizes.append((columns, lines))

    async def output(self) -> AsyncIterator[Any]:
        return
        yield  # a generator without pieces


@pytest.mark.parametrize(("from_start", "sizes"), [(False, [(80, 25), (80, 24)]), (True, [(80, 24)])])
def test_a_program_that_has_drawn_its_screen_draws_it_again(
    from_start: bool, sizes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor or a prompt draws again when the size of its terminal changes, so coming back changes it and changes it
    back, as `docker attach` does. `kaji run` begins with the program itself."""
    stream = Stream()

    @asynccontextmanager
    async def running(_: Target, url: str) -> AsyncIterator[Stream]:
        yield stream

    @contextmanager
    def raw_terminal(_: bool) -> Iterator[int]:
        reader, writer = os.pipe()
        yield reader
        os.close(reader)
        os.close(writer)

    monkeypatch.setattr(attached, "running", running)
    monkeypatch.setattr(attached, "raw_terminal", raw_terminal)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback=None: (80, 24))
    monkeypatch.setattr(Attachment, "_log", lambda *_: b"")
    api = Api(Target("http://127.0.0.1:9", TOKEN))
    session = Attachment(cast(Cli, None), api, view("bert"), keys=b"", from_start=from_start, quiet=True)
    asyncio.run(session._converse("ws://127.0.0.1:9"))
    assert stream.sizes == sizes


def test_a_notice_of_the_server_is_shown_and_is_no_output_of_the_program(capfdbinary: Any) -> None:
    """It is not in the log, in which a later connection looks for the end of what was shown."""

    class Talking(Stream):
        async def output(self) -> AsyncIterator[Any]:
            yield Channel.STDOUT, b"epoch 1 of"
            yield Channel.STDERR, b"\r\nkaji: this run is preempted\r\n"
            yield Channel.STDOUT, b" 10\r\n"

    run = view("bert") | {"spec": {"stdin": True, "tty": True}}
    session = Attachment(
        cast(Cli, None), Api(Target("http://127.0.0.1:9", TOKEN)), run, keys=b"", from_start=False, quiet=True
    )
    session._log = lambda *_: b""  # type: ignore[method-assign]
    asyncio.run(session._print(cast(CommandStream, Talking())))
    shown = capfdbinary.readouterr()
    assert (shown.out, shown.err) == (b"epoch 1 of 10\r\n", b"\r\nkaji: this run is preempted\r\n")
    assert session._shown.go_on(b"epoch 1 of 10\r\nepoch 2", b"") == b"epoch 2"


def test_output_that_a_new_connection_brings_later_than_the_log_is_shown_once(capfdbinary: Any) -> None:
    """A busy kubelet may send the first output after the log with the same lines has been read."""
    log_was_read, came = threading.Event(), threading.Event()

    class Late(Stream):
        async def output(self) -> AsyncIterator[Any]:
            await asyncio.to_thread(log_was_read.wait)
            yield Channel.STDOUT, b"324\r\n325\r\n326\r\n"
            came.set()

    def log(*_: Any) -> bytes:
        log_was_read.set()
        return b"320\r\n321\r\n322\r\n323\r\n324\r\n325\r\n"

    api = Api(Target("http://127.0.0.1:9", TOKEN))
    api.sleep = lambda _: cast(None, came.wait())
    run = view("bert") | {"spec": {"tty": True}}
    session = Attachment(cast(Cli, None), api, run, keys=b"", from_start=False, quiet=True)
    session._shown.add(b"320\r\n321\r\n322\r\n323\r\n")
    session._shown_attempt, session._is_broken = attached._attempt(run), True
    session._log = log  # type: ignore[method-assign,assignment]
    asyncio.run(session._print(cast(CommandStream, Late())))
    assert capfdbinary.readouterr().out == b"324\r\n325\r\n326\r\n"


@pytest.mark.parametrize(
    ("session", "shown"), [("s1", b".........."), ("s2", b".....")], ids=["goes on", "another server"]
)
def test_of_identical_bytes_none_is_lost_or_shown_twice_if_the_session_goes_on(
    session: str, shown: bytes, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    """The client tells the server how many bytes have arrived. With another server it looks into the log, where it has
    to guess the place."""
    urls: list[str] = []

    class Dots(Stream):
        session = "s1"
        pieces: tuple[bytes, ...] = (b"..", b"...")

        async def output(self) -> AsyncIterator[Any]:
            for piece in self.pieces:
                await asyncio.sleep(0)
                yield Channel.STDOUT, piece
            if self.pieces[-1] == b"...":
                await until(lambda: attachment._session)
                raise Unavailable("the connection broke")

    stream = Dots()

    @asynccontextmanager
    async def running(_: Target, url: str) -> AsyncIterator[Stream]:
        urls.append(url)
        yield stream

    monkeypatch.setattr(attached, "running", running)
    api = Api(Target("http://127.0.0.1:9", TOKEN), sleep=lambda _: None)
    run = view("bert", status={"attempt": {"number": 1}}) | {"spec": {"stdin": True, "tty": True}}
    attachment = Attachment(cast(Cli, None), api, run, keys=b"", from_start=False, quiet=True)
    attachment._log = lambda *_: b"." * 5 * len(urls)  # type: ignore[method-assign]
    assert attachment._attach()
    stream = Dots()
    stream.session, stream.pieces = session, (b".....",) if session == "s1" else (b"",)
    assert attachment._attach()
    assert capfdbinary.readouterr().out == shown
    assert urls[1].endswith("/attach?rank=0&stdin=true&session=s1&position=5")


def test_reports_keep_the_screen_of_an_editor_which_is_left_behind_with_the_run(capfdbinary: Any) -> None:
    """The report of a broken connection was written over the text at the cursor, and the shell went on in the editor's
    screen after Ctrl-P Ctrl-Q."""
    run = view("bert") | {"spec": {"stdin": True, "tty": True}}
    api = Api(Target("http://127.0.0.1:9", TOKEN))
    session = Attachment(cast(Cli, None), api, run, keys=b"", from_start=False, quiet=False)
    session._report("before the first connection")
    session._is_terminal, session._shown_attempt = True, 1
    session._report("at a prompt")
    session._write(Channel.STDOUT, b"\x1b[?1049h")
    session._report("in an editor")
    session._follow = session._input.start = lambda: None  # type: ignore[method-assign]
    session._input.detached = True
    assert session.last() is None
    shown = capfdbinary.readouterr()
    assert shown.err.startswith(b"before the first connection\n\r\n\akaji: at a prompt\r\n\a\x1b7\x1b[999;1H")
    assert shown.out.startswith(b"\x1b[?1049h\x1b[0m") and shown.out.endswith(b"\x1b[?1049l")
