"""The log that a shim writes and a kubelet reads: every loss is reported, however files are rotated."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.api.logs.lines import Position, Resumption, Text
from kajitori.core.formats import rotation_notice
from kajitori.embedded.kubelet.containers import logs
from kajitori.embedded.kubelet.containers.logs import LogOptions, LogReader, Renderer, read_log
from kajitori.embedded.kubelet.shim import logfile
from kajitori.embedded.kubelet.shim.logfile import LogWriter

NOTICE = re.compile(rb"(?m)^(?:\S+Z )?kaji: (\d+) bytes printed before this line were dropped .*\n")


@pytest.fixture(autouse=True, scope="module")
def exact_sizes() -> Iterator[None]:
    """Notices with exact sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rotation_notice, "size_words", lambda size: f"{size} bytes")
        yield


def lines(first: int, last: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(first, last))


async def whole(path: Path, **options: object) -> bytes:
    return b"".join([piece async for piece in read_log(path, LogOptions(**options), lambda: True)])  # type: ignore[arg-type]


class Following:
    """A reader that reads when it is told to."""

    def __init__(self, path: Path) -> None:
        self._reader = LogReader(path)
        self._renderer = Renderer(timestamps=False)
        self.text = b""

    def read(self, blocks: int = 10**9) -> bytes:
        while blocks and (block := self._reader.read()) is not None:
            self.text += self._renderer.notice(*self._reader.take_dropped()) + self._renderer.text(block)
            blocks -= 1
        return self.text

    def close(self) -> None:
        self._reader.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0.log"


def times_in(path: Path) -> list[str]:
    """Return the time of each entry."""
    return [entry.split()[0] for entry in path.read_text().splitlines()]


def files_of(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


async def test_dropped_bytes_are_announced_at_the_top(path: Path) -> None:
    writer = LogWriter(str(path), max_bytes=2000, max_files=3)
    for number in range(1000):
        writer.write("stdout", lines(number, number + 1))
    writer.close()
    assert files_of(path) == ["0.log", "0.log.1", "0.log.2", "0.log.dropped"]
    text = await whole(path)
    first, rest = text.split(b"\n", 1)
    announced = NOTICE.fullmatch(first + b"\n")
    assert announced is not None
    assert int(announced[1]) + len(rest) == len(lines(0, 1000))
    assert lines(0, 1000).endswith(rest)
    assert not NOTICE.search(await whole(path, tail_lines=5))


async def test_files_that_a_reader_needs_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LogWriter(str(path), max_bytes=2000, max_files=2)
    writer.write("stdout", lines(0, 10))
    slow = Following(path)
    slow.read(blocks=1)
    for number in range(10, 1000):
        writer.write("stdout", lines(number, number + 1))
    assert len(files_of(path)) > 10
    assert slow.read() == lines(0, 1000)
    slow.close()
    for number in range(1000, 1100):
        writer.write("stdout", lines(number, number + 1))
    back = Following(path)  # its connection broke and it returns
    assert lines(999, 1100) in back.read()
    back.close()
    monkeypatch.setattr(logfile, "HELD_AFTER_READER_SECONDS", -1.0)
    for number in range(1100, 1200):
        writer.write("stdout", lines(number, number + 1))
    assert files_of(path) == ["0.log", "0.log.1", "0.log.dropped"]
    writer.close()


async def test_a_follower_is_told_what_a_small_disk_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogWriter, "_has_room", lambda _: False)
    writer = LogWriter(str(path), max_bytes=2000, max_files=2)
    writer.write("stdout", lines(0, 10))
    slow = Following(path)
    slow.read(blocks=1)
    for number in range(10, 1000):
        writer.write("stdout", lines(number, number + 1))
    writer.close()
    text = slow.read()
    slow.close()
    announced = sum(int(size) for size in NOTICE.findall(text))
    assert announced
    assert announced + len(NOTICE.sub(b"", text)) == len(lines(0, 1000))
    assert text.startswith(lines(0, 10))
    assert text.endswith(lines(990, 1000))


async def test_a_full_disk_is_reported_in_the_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, write = False, os.write

    def sometimes(fd: int, data: bytes) -> int:
        if full and len(data) > 20:
            return write(fd, bytes(data)[:20])  # half an entry fits
        if full:
            raise OSError(errno.ENOSPC, "no space left")
        return write(fd, data)

    monkeypatch.setattr(os, "write", sometimes)
    writer = LogWriter(str(path), max_bytes=100_000, max_files=2)
    writer.write("stdout", lines(0, 5) + b"half")
    writer.flush_partial()
    full = True
    writer.write("stdout", b" a line\n" + lines(6, 8))
    full = False
    writer.write("stdout", lines(8, 10))
    writer.close()
    lost = len(b" a line\n" + lines(6, 8))
    said = b"kaji: %d bytes that were printed here are lost: the disk of this node was full\n" % lost
    assert await whole(path) == lines(0, 5) + b"half\n" + said + lines(8, 10)


async def test_stdout_and_stderr_are_merged_as_on_a_terminal(path: Path) -> None:
    writer = LogWriter(str(path), max_bytes=100_000, max_files=2)
    writer.write("stderr", b"10%\r")
    writer.flush_partial()
    writer.write("stdout", b"hello\n")
    writer.write("stderr", b"20%\r100%\n")
    writer.close()
    assert await whole(path) == b"10%\rhello\n20%\r100%\n"
    stamped = (await whole(path, timestamps=True)).split(b"\n")
    assert [line[31:] for line in stamped] == [b"10%\rhello", b"20%\r100%", b""]


async def test_a_reader_that_resumes_after_a_line_in_two_pieces_gets_no_line_twice(path: Path) -> None:
    """It reads since the second of the last line, and the line before that began in an earlier second: only its rest is
    read, which must not look like a line of the same time."""
    writer = LogWriter(str(path), max_bytes=100_000, max_files=2)
    writer.write("stdout", b"in two")
    writer.flush_partial()
    writer.write("stdout", b" pieces\nlast\n")  # read together on a busy machine
    writer.close()
    position = Position().after(Text(await whole(path, timestamps=True)))
    _, of_the_rest, _ = times_in(path)
    again = await whole(path, timestamps=True, since=of_the_rest)
    assert [line[31:] for line in again.split(b"\n")] == [b" pieces", b"last", b""]
    assert Resumption(position).fresh(Text(again)).text == b""


async def test_the_lines_of_one_stream_are_read_alone(path: Path) -> None:
    writer = LogWriter(str(path), max_bytes=100_000, max_files=2)
    writer.write("stderr", b"10%")
    writer.write("stdout", b"hello\n" + b"x" * 20_000 + b"\n")
    writer.write("stderr", b" 20%\n")
    writer.close()
    assert await whole(path, stream="stdout") == b"hello\n" + b"x" * 20_000 + b"\n"
    assert await whole(path, stream="stderr") == b"10% 20%\n"


async def test_a_read_ends_at_the_length_of_its_beginning(path: Path) -> None:
    writer = LogWriter(str(path), max_bytes=10_000, max_files=5)
    writer.write("stdout", lines(0, 100))
    read = b""
    async for piece in read_log(path, LogOptions(), lambda: False):
        read += piece
        writer.write("stdout", lines(0, 100))
    assert read.startswith(lines(0, 100))
    writer.close()


async def test_a_time_is_found_without_reading_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From each entry on, the log is the same as the end of the whole one."""
    monkeypatch.setattr(logs, "CHUNK_BYTES", 256)
    writer = LogWriter(str(path), max_bytes=1 << 20, max_files=1)
    for number in range(100):
        writer.write("stdout", lines(number, number + 1))
    writer.close()
    text = await whole(path, timestamps=True)
    entries = text.splitlines(keepends=True)
    for number in (0, 1, 50, 98, 99):
        since = entries[number][:30].decode()
        assert await whole(path, timestamps=True, since=since) == b"".join(entries[number:])
    blocks = [piece async for piece in read_log(path, LogOptions(since=entries[90][:30].decode()), lambda: True)]
    assert len(blocks) < 6


async def test_timestamps_grow_even_if_the_clock_is_set_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([2_000_000_000, 1_000_000_000, 3_000_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(moments))
    writer = LogWriter(str(path), max_bytes=10_000, max_files=5)
    for number in range(3):
        writer.write("stdout", lines(number, number + 1))
    stamped = (await whole(path, timestamps=True)).decode().splitlines()
    assert [line.split()[0][17:] for line in stamped] == ["02.000000000Z", "02.000000001Z", "03.000000000Z"]


async def test_rotated_files_are_in_order_if_the_clock_jumps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hours ahead and back: `since` and the last lines leave out nothing that was written later."""
    seconds = [1000.0]
    monkeypatch.setattr(time, "time_ns", lambda: int(seconds[0] * 1e9))
    writer = LogWriter(str(path), max_bytes=600, max_files=100)
    for number in range(60):
        if number % 20 == 0:
            seconds[0] += (0, 10_800, -10_800)[number // 20]
        seconds[0] += 1
        writer.write("stdout", lines(number, number + 1))
    assert len(list(path.parent.glob(f"{path.name}*"))) > 4
    stamped = (await whole(path, timestamps=True)).splitlines(keepends=True)
    assert b"".join(entry.partition(b" ")[2] for entry in stamped) == lines(0, 60)
    for number in (5, 25, 45, 59):
        since = stamped[number][:30].decode()
        assert await whole(path, timestamps=True, since=since) == b"".join(stamped[number:])
    assert await whole(path, tail_lines=30) == lines(30, 60)


written = st.lists(st.tuples(st.binary(max_size=60), st.booleans(), st.integers(0, 3)), max_size=40)


@given(written, st.integers(150, 600), st.integers(1, 4), st.integers(0, 20))
def test_a_follower_gets_every_byte_in_order(
    steps: list[tuple[bytes, bool, int]], max_bytes: int, max_files: int, begin: int
) -> None:
    """For any pieces, rotations, and reading speeds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.log"
        writer = LogWriter(str(path), max_bytes, max_files)
        follower = Following(path)
        said = b""
        for number, (data, flush, blocks) in enumerate(steps):
            writer.write("stdout", data)
            said += data
            if flush:
                writer.flush_partial()
            if number == begin or (number > begin and blocks):
                follower.read(blocks)
        writer.close()
        text = follower.read()
        follower.close()
        announced = sum(int(size) for size in NOTICE.findall(text))
        assert NOTICE.sub(b"", text) == said[announced:]  # a reader misses only what was dropped before it began


@given(written, st.integers(150, 600), st.integers(0, 12))
def test_the_last_lines_are_the_end_of_all_lines(
    steps: list[tuple[bytes, bool, int]], max_bytes: int, count: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.log"
        writer = LogWriter(str(path), max_bytes, 3)
        for data, flush, stream in steps:
            writer.write(("stdout", "stderr")[stream % 2], data)
            if flush:
                writer.flush_partial()
        writer.close()
        text = NOTICE.sub(b"", asyncio.run(whole(path)))
        kept = [line for line in re.split(rb"(?<=\n)", text) if line]
        expected = b"".join(kept[-count:]) if count else b""
        assert NOTICE.sub(b"", asyncio.run(whole(path, tail_lines=count))) == expected
