"""Windows of a stored log: only the needed range of bytes is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.api.logs.lines import Position
from kajitori.api.logs.ranges import attempt_logs, windows
from kajitori.api.logs.ranges import search as searches
from kajitori.api.logs.ranges.attempt_logs import StoredLog
from kajitori.api.logs.ranges.expressions import Expression
from kajitori.api.logs.ranges.search import SearchQuery, search
from kajitori.api.logs.ranges.windows import Window
from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.errors import Unavailable

LINES = 5_000


class Counting(MemoryBlobs):
    """Gives blobs in small pieces, and counts the bytes that are read."""

    read_bytes = 0

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        async for piece in super().get(key, start=start, length=length):
            for begin in range(0, len(piece), 4096):
                self.read_bytes += len(piece[begin : begin + 4096])
                yield piece[begin : begin + 4096]


def stamp(number: int) -> str:
    """Ten lines have the same time."""
    return f"2026-11-21T{10 + number // 36000:02d}:{number // 600 % 60:02d}:{number // 10 % 60:02d}.000000000Z"


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch) -> Counting:
    for name in ("PROBE_BYTES", "NEAR_BYTES", "TAIL_BYTES"):
        monkeypatch.setattr(attempt_logs, name, 4096)
    return Counting()


@pytest.fixture
async def log(blobs: Counting) -> StoredLog:
    kept = KeptLogs(blobs)
    name = MemberLogName("team", "uid", 1, 0)
    await kept.keep(name, "".join(f"{stamp(number)} line {number}\n" for number in range(LINES)).encode())
    return StoredLog(kept, await kept.head(name), 0, 1)


def numbers(window: Window) -> list[int]:
    return [int(line.text.split()[1]) for line in window.lines]


def position(number: int) -> Position:
    return Position(stamp(number).encode(), number % 10 + 1)


async def test_the_last_lines_are_read_from_the_end(log: StoredLog, blobs: Counting) -> None:
    window = await windows.last_window(log, 50)
    assert numbers(window) == list(range(LINES - 50, LINES))
    assert (window.is_at_end, window.is_at_beginning) == (True, False)
    assert blobs.read_bytes < 20_000
    assert (await windows.last_window(log, LINES)).is_at_beginning


@pytest.mark.parametrize("number", [0, 7, 1234, 2500, LINES - 1])
async def test_lines_around_a_position_are_found(log: StoredLog, blobs: Counting, number: int) -> None:
    """Several lines may have the same time."""
    before = await windows.window_before(log, position(number), 25)
    assert numbers(before) == list(range(max(0, number - 25), number))
    assert before.is_at_beginning == (number <= 25)
    after = await windows.window_after(log, position(number), 25)
    assert numbers(after) == list(range(number + 1, min(LINES, number + 26)))
    assert after.is_at_end == (number + 26 > LINES)
    around = await windows.window_around(log, position(number), 10)
    assert number in numbers(around)


@pytest.mark.parametrize("limit", [3, 10, 17, 1000])
async def test_lines_of_the_same_time_are_numbered(log: StoredLog, limit: int) -> None:
    """Also if a window begins among them, so that no line is shown twice or left out."""
    window = await windows.last_window(log, limit)
    first = window.lines[0]
    assert (first.nth, numbers(window)[0]) == ((LINES - limit) % 10 + 1, LINES - limit)
    earlier = await windows.window_before(log, first.position, limit)
    assert numbers(earlier)[-1] == LINES - limit - 1
    assert earlier.lines[0].nth == (LINES - 2 * limit) % 10 + 1


async def test_a_time_is_found_by_halves(log: StoredLog, blobs: Counting) -> None:
    window = await windows.window_since(log, stamp(3000).encode(), 5)
    assert numbers(window) == [3000, 3001, 3002, 3003, 3004]


async def test_a_line_is_found_by_number_and_the_index_is_kept(log: StoredLog, blobs: Counting) -> None:
    """The next request reads only the lines near it."""
    log_of_now = await log.index()
    log_of_now.stride_bytes = 4096
    await log.keep_index(log_of_now)
    window = await windows.window_at_line(log, 4001, 3)
    assert (numbers(window), window.first) == ([4000, 4001, 4002], 4001)
    index = await log.index()
    assert index.entries
    near = index.before_line(4000)
    assert near is not None
    assert 4000 - near.line < 200
    assert numbers(await windows.window_at_line(log, LINES + 1, 3)) == []
    assert (await log.index()).lines == LINES


async def test_a_search_finds_lines_and_counts_the_others(log: StoredLog) -> None:
    parts = [part async for part in search(log, SearchQuery(b"LINE 49", ignores_case=True, limit=3))]
    found = [(line.text, number) for part in parts for line, number in part.lines]
    assert found == [(b"line 49", 50), (b"line 490", 491), (b"line 491", 492)]
    assert (parts[-1].matches, parts[-1].is_over, parts[-1].next) == (111, True, None)


async def test_a_search_by_an_expression_finds_the_same_lines(log: StoredLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their numbers and positions, also if a block is searched in pieces and by further requests."""
    plain = [part async for part in search(log, SearchQuery(b"line 49", limit=3))]
    expression = SearchQuery(b"", expression=Expression("^line 49"), limit=3)
    for piece_bytes in (1 << 20, 1, 1000):
        monkeypatch.setattr(searches, "PIECE_BYTES", piece_bytes)
        parts = [part async for part in search(log, expression)]
        assert [line for part in parts for line in part.lines] == [line for part in plain for line in part.lines]
        assert (parts[-1].matches, parts[-1].next) == (111, None)
    monkeypatch.setattr(searches, "SEARCHED_SECONDS", 0)
    monkeypatch.setattr(searches, "PIECE_BYTES", 10_000)
    found = 0
    afters: list[Position | None] = [None]
    for after in afters:
        query = SearchQuery(b"", expression=Expression("line"), after=after)
        part = [part async for part in search(log, query)][-1]
        found += part.matches
        if part.next is not None:
            assert part.next not in afters, "each request comes further, also among lines of the same time"
            afters.append(part.next)
    assert found == LINES and len(afters) > 10


async def test_a_search_does_not_find_times(log: StoredLog) -> None:
    parts = [part async for part in search(log, SearchQuery(b"2026"))]
    assert parts[-1].matches == len([number for number in range(LINES) if "2026" in str(number)])


async def test_a_long_search_is_continued(log: StoredLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has a bounded amount of work."""
    monkeypatch.setattr(searches, "SEARCHED_BYTES", 1)
    found, after = 0, None
    for _ in range(100):
        part = [part async for part in search(log, SearchQuery(b"line", after=after))][-1]
        found, after = found + part.matches, part.next
        if after is None:
            break
    assert found == LINES


async def test_a_search_has_bounds_of_time(log: StoredLog) -> None:
    query = SearchQuery(b"", since=stamp(100).encode(), until=stamp(120).encode())
    parts = [part async for part in search(log, query)]
    assert [line.text for part in parts for line, _ in part.lines] == [b"line %d" % n for n in range(100, 120)]


async def test_counting_to_a_late_line_is_continued_by_further_requests(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was counted is kept, so that each request comes further."""
    monkeypatch.setattr(windows, "COUNTED_BYTES", 40_000)
    refusals = []
    for _ in range(20):
        try:
            window = await windows.window_at_line(log, LINES - 1, 3)
            break
        except Unavailable as error:
            refusals.append((await log.index()).lines)
            assert error.message.endswith(f"lines of this log are counted so far, fewer than {LINES - 1:,}")
    assert numbers(window) == [LINES - 2, LINES - 1]
    assert window.is_at_end and len(refusals) > 2 and refusals == sorted(set(refusals))


async def test_the_first_line_is_at_the_beginning(log: StoredLog) -> None:
    window = await windows.window_at_line(log, 1, 2)
    assert (numbers(window), window.is_at_beginning, window.is_at_end, window.first) == ([0, 1], True, False, 1)
    assert (await windows.window_at_line(log, 2, 2)).is_at_beginning is False
    beyond = await windows.window_at_line(log, LINES + 1, 2)
    assert (beyond.lines, beyond.first, beyond.is_at_end) == ([], None, True)
    exact = await windows.window_since(log, stamp(LINES - 10).encode(), 10)
    assert len(exact.lines) == 10 and exact.is_at_end, "no line is left out"


async def test_a_search_tells_how_far_it_is(log: StoredLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "PROGRESS_BYTES", 60_000)
    parts = [part async for part in search(log, SearchQuery(b"not there"))]
    told = [part.searched_bytes for part in parts]
    assert told == sorted(told) and len(told) >= 3 and [part.is_over for part in parts][-2:] == [False, True]
    assert all(later - earlier > 60_000 for earlier, later in zip([0, *told], told[:-1], strict=False))
