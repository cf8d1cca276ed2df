"""Tables: widths, cutting, colours."""

from __future__ import annotations

import sys
from unicodedata import normalize

import pytest

from kajitori.cli.context import Cli
from kajitori.cli.printing.output import Column, StatusLine, print_table

COLUMNS = (Column("NAME"), Column("SIZE", right=True), Column("REASON", flexible=True), Column("STATUS", styled=True))


def printed(capsys: pytest.CaptureFixture[str], rows: list[tuple[str, ...]], width: int | None = None) -> list[str]:
    print_table(Cli(environment={}, width=width), COLUMNS, rows)
    return capsys.readouterr().out.splitlines()


def test_columns_are_three_spaces_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Texts are aligned left and numbers right; no line ends in spaces."""
    assert printed(capsys, [("bert", "8", "", "Running"), ("a", "16", "no room", "Queued")]) == [
        "NAME   SIZE   REASON    STATUS",
        "bert      8             Running",
        "a        16   no room   Queued",
    ]


def test_a_table_without_rows_is_its_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, []) == ["NAME   SIZE   REASON   STATUS"]


def test_wide_and_combining_characters_keep_columns_straight(capsys: pytest.CaptureFixture[str]) -> None:
    """A Japanese character takes two columns, a combining accent none."""
    accent = normalize("NFD", "é")
    assert printed(capsys, [("舵取り", "1", "x", "y"), (accent, "1", "x", "y")]) == [
        "NAME     SIZE   REASON   STATUS",
        "舵取り      1   x        y",
        f"{accent}           1   x        y",
    ]


def test_the_flexible_column_is_cut_at_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "needs 16 h100 for 2 members; there is room for 1"
    lines = printed(capsys, [("bert", "8", reason, "Queued")], width=50)
    assert lines[1] == "bert      8   needs 16 h100 for 2 member…   Queued"
    assert max(map(len, lines)) <= 50


def test_nothing_is_cut_if_cutting_does_not_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal wraps such lines, so everything can still be read."""
    reason = "needs 16 h100 for 2 members"
    assert reason in printed(capsys, [("bert", "8", reason, "Queued")], width=20)[1]


def test_cells_are_coloured_only_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ("bert", "8", "", "Failed")
    assert "\x1b" not in "".join(printed(capsys, [row]))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[31mFailed\x1b[0m" in printed(capsys, [row])[1]
    print_table(Cli(environment={"NO_COLOR": "1"}), COLUMNS, [row])
    assert "\x1b" not in capsys.readouterr().out


def test_a_status_line_is_cut_replaced_and_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that wraps could not be overwritten, and a server's text must not move the cursor."""
    monkeypatch.setenv("COLUMNS", "12")
    line = StatusLine(Cli(environment={}), "waiting for nodes")
    line.update("a\x1b[2Jb\nc")
    line.stop()
    written = capsys.readouterr().err.split("\r")
    assert written == ["", "waiting fo…\x1b[K", "a [2Jb c\x1b[K", "\x1b[K"]


def test_a_dumb_terminal_shows_no_status_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine(Cli(environment={"TERM": "dumb"}), "waiting")
    line.stop()
    assert not capsys.readouterr().err
