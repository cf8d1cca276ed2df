"""Locks of folders that one process alone may use."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from kajitori import privatefile
from kajitori.privatefile import locked_alone


def test_a_lock_that_is_about_to_be_left_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the child of a process that was killed while it started it."""
    with ExitStack() as first:
        assert first.enter_context(locked_alone(tmp_path / "lock"))
        monkeypatch.setattr("kajitori.privatefile.time.sleep", lambda _: first.close())
        with locked_alone(tmp_path / "lock") as is_ours:
            assert is_ours


def test_one_that_is_held_is_not_had_until_it_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privatefile, "LOCK_SECONDS", 0.0)
    with locked_alone(tmp_path / "lock") as first:
        assert first
        with locked_alone(tmp_path / "lock") as second:
            assert not second
    with locked_alone(tmp_path / "lock") as third:
        assert third


def test_where_there_can_be_no_lock_nothing_is_locked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked_alone(tmp_path / "missing" / "lock"):
        pass
