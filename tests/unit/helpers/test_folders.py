"""Reading folders that another process empties at the same time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.folders import texts_below


def test_files_that_vanish_while_they_are_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder vanishes between its discovery and its listing, a file between its listing and its reading."""
    stays, goes = tmp_path / "pods" / "stays" / "main", tmp_path / "pods" / "goes" / "main"
    for folder in (stays, goes):
        folder.mkdir(parents=True)
        (folder / "0.log").write_text(folder.parent.name)
        (folder / "pid").write_text("7")
    (stays / "1.log").symlink_to("gone")
    list_folder = os.scandir

    def remove_before_listing(path: Any) -> Any:
        if str(path) == str(goes.parent):
            shutil.rmtree(goes.parent)
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", remove_before_listing)
    assert texts_below(tmp_path, "*.log") == {stays / "0.log": "stays"}
    assert not goes.exists()
    assert texts_below(goes) == {}
