"""Removing a volume's folder with its contents, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori import errors
from kajitori.embedded.controllers.volumes import REMOVING, remove_folder


def test_a_folder_is_removed_with_its_contents(tmp_path: Path) -> None:
    """A second removal is no error, since the first may have been interrupted."""
    (tmp_path / "pvc-1" / "deep").mkdir(parents=True)
    (tmp_path / "pvc-1" / "deep" / "file").write_text("x")
    (tmp_path / "pvc-2").mkdir()
    remove_folder(tmp_path, "pvc-1")
    remove_folder(tmp_path, "pvc-1")
    assert [p.name for p in tmp_path.iterdir()] == ["pvc-2"]


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    """Neither a link inside, nor one in the folder's place."""
    precious, root = tmp_path / "precious", tmp_path / "root"
    precious.mkdir()
    (precious / "thesis").write_text("years")
    (root / "pvc-1").mkdir(parents=True)
    (root / "pvc-1" / "link").symlink_to(precious)
    (root / "pvc-2").symlink_to(precious)
    remove_folder(root, "pvc-1")
    remove_folder(root, "pvc-2")
    assert list(root.iterdir()) == []
    assert (precious / "thesis").read_text() == "years"


def test_an_interrupted_removal_is_completed(tmp_path: Path) -> None:
    """The renamed folder is left over from it."""
    (tmp_path / f"{REMOVING}pvc-1" / "rest").mkdir(parents=True)
    remove_folder(tmp_path, "pvc-1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../other"])
def test_names_that_lead_out_of_the_root_are_refused(tmp_path: Path, name: str) -> None:
    """Nothing outside the root is touched."""
    with pytest.raises(ValueError, match="not the name of a volume"):
        remove_folder(tmp_path / "root", name)


def test_a_failed_removal_names_the_volume(tmp_path: Path) -> None:
    """The error names the volume; a plain file is not a volume."""
    (tmp_path / "pvc-1").write_text("not a folder")
    with pytest.raises(errors.Unavailable, match="pvc-1"):
        remove_folder(tmp_path, "pvc-1")
