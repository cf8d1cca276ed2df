"""Durable files that other users cannot read, and locks by which one process claims a folder."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from kajitori.configuration import private_files
from kajitori.configuration.private_files import exclusive_lock, write_private


def test_a_lock_that_will_soon_be_free_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example one held by the child of a process that was killed while it started the child."""
    with ExitStack() as first:
        assert first.enter_context(exclusive_lock(tmp_path / "lock"))
        monkeypatch.setattr("kajitori.configuration.private_files.time.sleep", lambda _: first.close())
        with exclusive_lock(tmp_path / "lock") as is_ours:
            assert is_ours


def test_a_held_lock_is_not_granted_until_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "LOCK_SECONDS", 0.0)
    with exclusive_lock(tmp_path / "lock") as first:
        assert first
        with exclusive_lock(tmp_path / "lock") as second:
            assert not second
    with exclusive_lock(tmp_path / "lock") as third:
        assert third


def test_without_support_for_locks_nothing_is_locked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), exclusive_lock(tmp_path / "missing" / "lock"):
        pass


def test_a_written_file_and_its_folder_are_synced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the content, then the folder with the file's name."""
    file, synced = tmp_path / "token", []
    file.write_text("old")

    def fsync(handle: int) -> None:
        synced.append((os.path.samestat(os.fstat(handle), tmp_path.stat()), file.read_text()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_private(file, b"new")
    assert synced == [(False, "old"), (True, "new")]
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_private(file, b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("token", "old")]
