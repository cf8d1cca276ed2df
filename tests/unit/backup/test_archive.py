"""The file of a backup: a part of it, or a changed one, is never taken for a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.backup.archive import ABOUT, FORMAT, About, BackupWriter, about, lines_of, reading, verify, writing
from kajitori.errors import InvalidInput, Unsupported

ONE = About(version="0.1.0", taken_at="2026-11-21T12:00:00Z", cluster="c1")


def written(path: Path) -> Path:
    with writing(path, ONE) as writer:
        writer.add("cluster/runs.jsonl", b'{"a": 1}\n{"a": 2}\n')
        with writer.entry("blobs/logs/x") as file:
            file.write(bytes(range(256)) * 5000)
        writer.counts["runs"] = 2
    return path


def test_a_backup_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = written(tmp_path / "b.tar.zst")
    found, contents = verify(path)
    assert (found, about(path), contents.counts) == (ONE, ONE, {"runs": 2})
    with reading(path) as entries:
        lines = {name: list(lines_of(file)) for name, file in entries if name.endswith("l")}
    assert lines == {"cluster/runs.jsonl": [{"a": 1}, {"a": 2}]}
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.7, 0.99])
def test_a_backup_that_was_cut_off_is_recognised(tmp_path: Path, share: float) -> None:
    """Wherever the cut is."""
    path = written(tmp_path / "b.tar.zst")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InvalidInput, match="not a complete backup"):
        verify(path)


def test_a_backup_without_its_list_of_contents_is_recognised(tmp_path: Path) -> None:
    """A process that was killed leaves no file with the name; another tool may have closed the tar."""
    path = tmp_path / "b.tar.zst"
    finish, BackupWriter.finish = BackupWriter.finish, lambda self: None  # type: ignore[method-assign, assignment, return-value]
    try:
        written(path)
    finally:
        BackupWriter.finish = finish  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="was cut off"):
        verify(path)


def test_a_changed_entry_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.zst"
    with writing(path, ONE) as writer:
        writer.add("cluster/runs.jsonl", b"{}")
        writer._entries["cluster/runs.jsonl"] = type(writer._entries[ABOUT])(2, "0" * 64)
    with pytest.raises(InvalidInput, match=r"missing or changed, such as cluster/runs\.jsonl"):
        verify(path)


def test_a_backup_in_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.zst"
    with writing(path, About(format=FORMAT + 1, version="9", taken_at="", cluster="")):
        pass
    with pytest.raises(Unsupported, match=f"has version {FORMAT + 1}"):
        verify(path)


def test_a_failed_backup_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "b.tar.zst", ONE):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
