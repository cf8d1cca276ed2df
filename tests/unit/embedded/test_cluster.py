"""Ports that an embedded cluster remembers for its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from kajitori.embedded.cluster import last_port, remember_port


def test_ports_are_those_of_the_folder_not_of_its_copies(tmp_path: Path) -> None:
    """A moved folder and a restored backup keep them."""
    original = tmp_path / "original"
    original.mkdir()
    assert last_port(original, "web") == 0
    remember_port(original, "web", 8600)
    remember_port(original, "kubernetes", 6443)
    assert (last_port(original, "web"), last_port(original, "kubernetes")) == (8600, 6443)
    copy = shutil.copytree(original, tmp_path / "copy")
    assert last_port(copy, "web") == 0
    remember_port(copy, "web", 8601)
    assert (last_port(copy, "web"), last_port(copy, "kubernetes"), last_port(original, "web")) == (8601, 0, 8600)
    moved = original.rename(tmp_path / "moved")
    assert last_port(moved, "web") == 8600
    shutil.copytree(moved, original)
    assert last_port(original, "web") == 8600
