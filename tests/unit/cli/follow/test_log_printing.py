"""Logs of several members on one screen or in one file: each line has its rank, and progress bars are redrawn in
place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.cli.follow.log_printing import _OneBelowTheOther, _plain_rank, _Redrawn

BYTES = st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n", b" ", "語".encode()]), max_size=6).map(b"".join)
OUTPUT = st.lists(st.tuples(st.integers(0, 2), BYTES), max_size=30)


class Screen:
    """A terminal that understands line ends, carriage returns, and the sequences that are used to redraw."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0

    def write(self, data: bytes) -> None:
        for token in re.findall(r"\x1b\[\d*[AJ]|\x1b\[[\d;]*m|.|\n|\r", data.decode(), re.S):
            if token == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif token == "\r":
                self.column = 0
            elif token.endswith("A") and token.startswith("\x1b"):
                self.row -= int(token[2:-1])
            elif token == "\x1b[J":
                del self.lines[self.row + 1 :]
                self.lines[self.row] = self.lines[self.row][: self.column]
            elif not token.startswith("\x1b"):
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + token + line[self.column + 1 :]
                self.column += 1


def test_lines_in_a_file_have_their_ranks() -> None:
    shape = _OneBelowTheOther(_plain_rank)
    assert shape.add(0, b"one\ntwo\n") == b"[0] one\n[0] two\n"
    assert shape.add(1, b"\n") == b"[1] \n"
    assert shape.add(0, b"begin") == b"[0] begin"
    assert shape.add(0, b"ning\nhalf") == b"ning\n[0] half"
    assert shape.add(1, b"other\n") == b"\n[1] other\n"
    assert shape.add(0, b" of it\n") == b"[0]  of it\n"
    assert shape.end() == b""


def test_a_redrawn_bar_in_a_file_has_its_rank_each_time() -> None:
    """With the carriage return first, as tqdm writes it, and with the return last."""
    shape = _OneBelowTheOther(_plain_rank)
    assert shape.add(0, b"\r 10%") == b"[0]  10%"
    assert shape.add(0, b"\r 20%") == b"\r[0]  20%"
    assert shape.add(1, b"5%\r") == b"\n[1] 5%"
    assert shape.add(1, b"6%\r") == b"\r[1] 6%"
    assert shape.add(1, b"\n") == b"\n"
    assert shape.add(0, b"\r100%\r\n") == b"[0] 100%\n"


def test_bars_at_a_terminal_are_below_finished_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a line of its own, whatever other members print."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "24")
    screen, shape = Screen(), _Redrawn(_plain_rank)
    for rank, text in [(0, b"\r10%"), (1, b"5%\r"), (0, b"\r20%"), (2, b"hello\n"), (1, b"6%\r")]:
        screen.write(shape.add(rank, text))
    assert screen.lines == ["[2] hello", "[0] 20%", "[1] 6%"]
    screen.write(shape.make_room() + b"bert: restarting\n")
    screen.write(shape.add(0, b"\rdone\n"))
    assert screen.lines == ["[2] hello", "bert: restarting", "[0] done", "[1] 6%"]
    screen.write(shape.add(1, "\r\x1b[2J\x1b[31m語語語語語語語語語語".encode()))
    assert screen.lines[-1] == "[1] " + "語" * 7
    screen.write(shape.end())
    assert screen.lines[-2:] == ["[1] " + "語" * 7, ""]


def test_bars_that_do_not_fit_on_the_terminal_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "6")
    screen, shape = Screen(), _Redrawn(_plain_rank)
    for rank in range(10):
        screen.write(shape.add(rank, b"\r10%"))
    assert screen.lines == ["[0] 10%", "[1] 10%", "[2] 10%", "and 7 more"]


@given(OUTPUT)
def test_a_file_has_all_output_and_each_line_has_its_rank(output: list[tuple[int, bytes]]) -> None:
    shape = _OneBelowTheOther(_plain_rank)
    out = b"".join(shape.add(rank, text) for rank, text in output) + shape.end()
    shown: dict[int, bytes] = {}
    for line in re.split(rb"[\r\n]", out):
        found = re.fullmatch(rb"\[(\d)\] (.*)", line, re.S)
        assert found is not None or not line
        if found is not None:
            shown[int(found[1])] = shown.get(int(found[1]), b"") + found[2]
    for rank in {rank for rank, _ in output}:
        printed = b"".join(text for writer, text in output if writer == rank)
        assert shown.get(rank, b"") == re.sub(rb"[\r\n]", b"", printed)


@given(OUTPUT)
def test_finished_lines_at_a_terminal_stay_in_order(output: list[tuple[int, bytes]]) -> None:
    """Bars below never overwrite them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "500")
        patch.setenv("LINES", "24")
        screen, shape = Screen(), _Redrawn(_plain_rank)
        for rank, text in output:
            screen.write(shape.add(rank, text))
        screen.write(shape.end())
    expected: list[str] = []
    begun: dict[int, bytes] = {}
    for rank, text in output:
        *lines, begun[rank] = (begun.get(rank, b"") + text).split(b"\n")
        expected += [f"[{rank}] {_visible(line)}" for line in lines]
    assert [line.rstrip() for line in screen.lines[: len(expected)]] == [line.rstrip() for line in expected]


def _visible(line: bytes) -> str:
    drawings = [drawing for drawing in line.split(b"\r") if drawing]
    return drawings[-1].decode() if drawings else ""
