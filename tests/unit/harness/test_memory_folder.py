"""The temporary folder in memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.harness.memory_folder import PREFIX, make_memory_folder


def test_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left, alive = tmp_path / f"{PREFIX}{ended.pid}-x", tmp_path / f"{PREFIX}1-x"
    for folder in (left, alive):
        folder.mkdir()
        (folder / "file").touch()
    made = make_memory_folder(tmp_path, needed_bytes=0)
    assert made is not None
    assert set(tmp_path.iterdir()) == {alive, made}


def test_without_room_there_is_no_folder(tmp_path: Path) -> None:
    assert make_memory_folder(tmp_path, needed_bytes=1 << 60) is None
    assert make_memory_folder(tmp_path / "missing") is None
    assert list(tmp_path.iterdir()) == []
