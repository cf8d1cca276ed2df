"""The index of a log's lines."""

from __future__ import annotations

import pytest

from kajitori.core.logs import line_index
from kajitori.core.logs.line_index import Entry, LineIndex, RecentIndexes


def lines(second: int, count: int) -> bytes:
    return b"".join(b"2026-11-21T10:00:%02d.%09dZ line\n" % (second, number) for number in range(count))


def test_entries_are_first_lines_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet finds them again by their time."""
    index = LineIndex(stride_bytes=1)
    index.add(lines(0, 3), lines(0, 3))
    index.add(lines(0, 2) + lines(1, 4), lines(0, 2) + lines(1, 4))
    index.add(lines(2, 1), lines(2, 1))
    size = len(lines(0, 1))
    assert [(entry.line, entry.offset, entry.time[-2:]) for entry in index.entries] == [
        (5, 5 * size, "01"),
        (9, 9 * size, "02"),
    ]
    assert (index.lines, index.offset) == (10, 10 * size)


def test_a_line_is_found_by_number() -> None:
    index = LineIndex(stride_bytes=1)
    for second in range(4):
        index.add(lines(second, 10), lines(second, 10))
    assert index.before_line(9) is None
    assert [found.line for number in (10, 19, 20, 99) if (found := index.before_line(number))] == [10, 10, 20, 30]


def test_offsets_are_those_of_the_stored_lines() -> None:
    """Stamps in the store may be shorter than uniform ones."""
    index = LineIndex(stride_bytes=1)
    index.add(lines(0, 2) + lines(1, 1), b"2026-11-21T10:00:00Z line\n" * 2 + b"2026-11-21T10:00:01Z line\n")
    assert [entry.offset for entry in index.entries] == [52]


def test_an_index_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many entries every second one is dropped, and later ones are farther apart."""
    monkeypatch.setattr(line_index, "MOST_ENTRIES", 4)
    index = LineIndex(stride_bytes=1)
    for second in range(60):
        index.add(lines(second, 2), lines(second, 2))
    assert len(index.entries) <= 4
    found = index.before_line(100)
    assert found is not None
    assert found.line <= 100
    assert index.stride_bytes > 1


def entries_at(*seconds: int) -> LineIndex:
    """Return an index with an entry for each of these seconds, ten lines apart."""
    entries = [Entry(10 * n, 100 * n, f"2026-11-21T10:00:{second:02}") for n, second in enumerate(seconds, 1)]
    return LineIndex(entries=entries)


def test_a_line_before_the_first_entry_is_not_found_by_number() -> None:
    index = entries_at(5, 8)
    assert [index.before_line(number) for number in (0, 9)] == [None, None]
    assert [found.line for number in (10, 11, 20) if (found := index.before_line(number))] == [10, 10, 20]


def test_entries_are_a_stride_apart() -> None:
    size = len(lines(0, 2))
    index = LineIndex(stride_bytes=2 * size)
    for second in range(9):
        index.add(lines(second, 2), lines(second, 2))
    assert [entry.offset // size for entry in index.entries] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert index.time == "2026-11-21T10:00:08"


def test_every_second_entry_is_dropped_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "MOST_ENTRIES", 4)
    index = LineIndex(stride_bytes=1)
    for second in range(6):
        index.add(lines(second, 1), lines(second, 1))
    assert [entry.time[-2:] for entry in index.entries] == ["02", "04"], "one more than four made it"
    assert index.stride_bytes == 2
    four = LineIndex(stride_bytes=1)
    for second in range(5):
        four.add(lines(second, 1), lines(second, 1))
    assert len(four.entries) == 4


def test_the_indexes_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecentIndexes, "MOST", 2)
    recent, known = RecentIndexes(), [LineIndex(lines=number) for number in range(4)]
    for number in (1, 2):
        recent.keep(str(number), known[number])
    recent.keep("1", recent.get("1"))
    recent.keep("3", known[3])
    assert [recent.get(name).lines for name in "123"] == [1, 0, 3]
    assert recent.get("new") == LineIndex()
