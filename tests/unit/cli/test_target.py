"""Which server a command talks to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kajitori.cli.target import Target, find_target
from kajitori.errors import Unauthenticated, Unavailable


def cluster(folder: Path, runtime: Path, **more: Any) -> Path:
    """A data folder as `kaji up` leaves it, with its link."""
    folder.mkdir()
    said = {"url": f"http://127.0.0.1/{folder.name}", "token": "t", "pid": os.getpid(), "namespace": "me", **more}
    file = folder / "kaji.json"
    file.write_text(json.dumps(said))
    links = runtime / "clusters"
    links.mkdir(parents=True, exist_ok=True)
    (links / folder.name).symlink_to(file)
    return folder


def dead_pid() -> int:
    """A process that has ended."""
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return int(done.stdout)


def test_the_environment_comes_first(tmp_path: Path) -> None:
    """$KAJI_SERVER with $KAJI_TOKEN wins over local clusters."""
    cluster(tmp_path / "a", tmp_path / "run")
    environment = {"KAJI_SERVER": "https://kaji.example.org/", "KAJI_TOKEN": "x\n", "KAJI_NAMESPACE": "team"}
    target = find_target(environment, None, tmp_path / "run")
    assert target == Target("https://kaji.example.org", "x", "team")
    assert not target.is_local


def test_a_folder_that_was_named_wins(tmp_path: Path) -> None:
    """--cluster means this one and no other."""
    folder = cluster(tmp_path / "a", tmp_path / "run")
    target = find_target({"KAJI_SERVER": "https://x.example", "KAJI_TOKEN": "x"}, folder, tmp_path / "run")
    assert target == Target("http://127.0.0.1/a", "t", "me", folder)
    assert target.is_local
    with pytest.raises(Unavailable) as caught:
        find_target({}, tmp_path / "nothing", tmp_path / "run")
    assert caught.value.hint == f"start one: kaji up --data {tmp_path / 'nothing'}"


def test_the_newest_that_runs(tmp_path: Path) -> None:
    """Of several local clusters the newest; dead ones, broken links and broken files are passed over."""
    runtime = tmp_path / "run"
    clusters: dict[str, dict[str, Any]] = {"old": {}, "new": {}, "dead": {"pid": dead_pid()}, "broken": {"pid": "x"}}
    for age, (name, more) in enumerate(clusters.items()):
        folder = cluster(tmp_path / name, runtime, **more)
        os.utime(folder / "kaji.json", (1000 + age, 1000 + age))
    (runtime / "clusters" / "gone").symlink_to(tmp_path / "gone" / "kaji.json")
    assert find_target({}, None, runtime).url == "http://127.0.0.1/new"


def test_a_cluster_that_ended_is_named(tmp_path: Path) -> None:
    """Where only a dead one is known, the way to start it again is said."""
    folder = cluster(tmp_path / "a", tmp_path / "run", pid=dead_pid())
    with pytest.raises(Unavailable) as caught:
        find_target({}, None, tmp_path / "run")
    assert "does not run any more" in caught.value.message
    assert caught.value.hint == f"start it again: kaji up --data {folder}"


def test_nothing_known(tmp_path: Path) -> None:
    """Without any server both ways out are named."""
    with pytest.raises(Unavailable) as caught:
        find_target({}, None, tmp_path)
    assert "kaji up" in caught.value.hint
    assert "$KAJI_SERVER" in caught.value.hint


def test_a_server_without_a_token() -> None:
    """The missing half is named."""
    with pytest.raises(Unauthenticated, match="KAJI_TOKEN is not"):
        find_target({"KAJI_SERVER": "https://kaji.example.org"}, None)
    with pytest.raises(Unavailable, match="no address"):
        find_target({"KAJI_SERVER": "kaji.example.org", "KAJI_TOKEN": "x"}, None)


def test_a_target_does_not_show_its_token() -> None:
    """Neither in a log nor in a report."""
    assert "hush" not in repr(Target("http://x", "hush"))
