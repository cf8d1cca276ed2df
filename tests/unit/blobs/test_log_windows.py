"""Windows of a kept log in every kind of store: few requests, each for a small part."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kajitori.api.logs.lines import Position
from kajitori.api.logs.ranges import attempt_logs, windows
from kajitori.api.logs.ranges.attempt_logs import StoredLog
from kajitori.api.logs.ranges.search import SearchQuery, search
from kajitori.api.logs.ranges.windows import Window
from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.blobs import Blobs

LINES = 20_000
NAME = MemberLogName("team", "uid", 1, 0)


def stamp(number: int) -> str:
    return f"2026-11-21T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000000000Z"


CONTENT = "".join(f"{stamp(number)} line {number} {'x' * 40}\n" for number in range(LINES)).encode()


def first_and_last(window: Window) -> tuple[int, int]:
    numbers = [int(line.text.split()[1]) for line in window.lines]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    return numbers[0], numbers[-1]


async def test_windows_need_few_ranged_requests(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request to a cloud's store takes tens of milliseconds, and people scroll."""
    for name in ("PROBE_BYTES", "NEAR_BYTES", "TAIL_BYTES"):
        monkeypatch.setattr(attempt_logs, name, 16 * 1024)
    asked: list[tuple[int, int | None]] = []
    get = blobs.get

    def counted(key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        if key == NAME.key:
            asked.append((start, length))
        return get(key, start=start, length=length)

    monkeypatch.setattr(blobs, "get", counted)
    kept = KeptLogs(blobs)
    await kept.keep(NAME, CONTENT)

    async def requests(window: Any) -> tuple[tuple[int, int], int]:
        asked.clear()
        return first_and_last(await window), len(asked)

    log = StoredLog(kept, await kept.head(NAME), 0, 1)
    assert await requests(windows.last_window(log, 100)) == ((LINES - 100, LINES - 1), 1)
    places = {at: Position(stamp(at).encode(), 1) for at in (9_900, 10_000)}
    found, count = await requests(windows.window_before(log, places[10_000], 100))
    assert (found, count <= 10) == ((9_900, 9_999), True)
    again = StoredLog(kept, await kept.head(NAME), 0, 1)  # the next request of the same browser
    found, count = await requests(windows.window_before(again, places[9_900], 100))
    assert (found, count <= 4) == ((9_800, 9_899), True)
    assert await requests(windows.window_after(again, places[10_000], 100)) == ((10_001, 10_100), 1)
    await requests(windows.window_at_line(again, 15_000, 50))  # counts all lines once
    assert await requests(windows.window_at_line(again, 15_000, 50)) == ((14_999, 15_048), 1)
    asked.clear()
    found_lines = [line async for part in search(again, SearchQuery(text=b"line 1234")) for line in part.lines]
    assert (len(found_lines), len(asked)) == (11, 1)
