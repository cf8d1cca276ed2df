"""The index of a log's lines."""

from __future__ import annotations

import pytest

from kajitori.core.logs import line_index
from kajitori.core.logs.line_index import LineIndex


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
