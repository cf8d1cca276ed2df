"""`kaji backup ls`, `kaji backup verify`, and what `kaji restore` prints."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.helpers.output_schemas import check_output

from kajitori.backup.archive import About, writing
from kajitori.backup.restoring import Report
from kajitori.cli.context import Cli
from kajitori.cli.verbs.platform.backup import command
from kajitori.cli.verbs.platform.restore import _print
from kajitori.core.formats.times import format_time
from kajitori.errors import InvalidInput, NotFound


def backup(path: Path, hours: float) -> Path:
    taken_at = format_time(datetime.now(UTC) - timedelta(hours=hours))
    with writing(path, About(version="0.1.0", taken_at=taken_at, cluster="")) as writer:
        writer.counts["runs"] = 3
    return path


def called(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, words, obj=Cli(), standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.return_value or 0, result.output


@pytest.mark.parametrize("place", ["{}", "file://{}"])
def test_backups_are_listed_with_their_age(tmp_path: Path, place: str) -> None:
    """The newest first; a file that is none is named as such; an exit code tells whether the newest is too old."""
    backup(tmp_path / "old.tar.zst", 50)
    backup(tmp_path / "new.tar.zst", 3)
    (tmp_path / "cut.tar.zst").write_bytes(b"nothing")
    code, output = called("ls", place.format(tmp_path), "--max-age", "26h")
    assert code == 0
    lines = output.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "new.tar.zst", "old.tar.zst", "cut.tar.zst"]
    assert "not a complete backup" in lines[3]
    assert called("ls", place.format(tmp_path), "--max-age", "2h")[0] == 1
    found = json.loads(called("ls", place.format(tmp_path), "-o", "json")[1])
    check_output(found, "verbs/backup", complete=True)
    assert [one["name"] for one in found["items"]] == ["new.tar.zst", "old.tar.zst", "cut.tar.zst"]


def test_a_folder_that_does_not_exist_is_no_empty_list(tmp_path: Path) -> None:
    assert called("ls", str(tmp_path))[0] == 0
    with pytest.raises(NotFound, match=r"no folder .*missing"):
        called("ls", str(tmp_path / "missing"))
    with pytest.raises(NotFound, match="is a file, not a folder") as caught:
        called("ls", str(backup(tmp_path / "one.tar.zst", 1)))
    assert "kaji backup verify" in caught.value.hint


def test_a_backup_is_verified_as_a_whole(tmp_path: Path) -> None:
    path = backup(tmp_path / "b.tar.zst", 1)
    assert "is complete" in called("verify", str(path))[1]
    check_output(json.loads(called("verify", str(path), "-o", "json")[1]), "$defs/BackupCheck", complete=True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidInput, match="not a complete backup"):
        called("verify", str(path))


def test_a_restore_lists_what_it_restored_and_what_not(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(queued=["vision/bert"], ended=["vision/a", "vision/b"], blobs=2, rows={"runs": 3})
    report.kept["exist and stay as they are"] = 4
    _print(report, False)
    assert capsys.readouterr().out.splitlines() == [
        "Runs queued again: 1 (vision/bert)",
        "Runs restored as they ended: 2 (vision/a, vision/b)",
        "Runs that exist and stay as they are: 4",
        "Rows of history read: 3 runs",
        "Blobs stored: 2",
    ]
    _print(report, True)
    assert "would be queued again" in capsys.readouterr().out
