"""How commands find a running `kaji up`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kajitori.client.target import find_target
from kajitori.configuration import cluster_file, private_files
from kajitori.configuration.cluster_file import CLUSTER_FILE, ClusterFile, announced, claimed
from kajitori.errors import Conflict, InvalidInput, Unavailable

CLUSTER = ClusterFile("http://127.0.0.1:1", "secret", os.getpid(), "default")


def test_commands_tell_a_cluster_that_starts_from_one_that_runs_or_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They find its folder from the beginning. A file that a killed `kaji up` left behind does not count."""
    data = tmp_path / "data"
    monkeypatch.setattr(cluster_file, "links_folder", lambda: tmp_path / "clusters")

    def answer() -> str:
        try:
            return find_target({}, None, tmp_path).url
        except Unavailable as error:
            return error.message

    assert answer() == "no cluster is known"
    data.mkdir()
    (data / CLUSTER_FILE).write_text("{}")
    with claimed(data):
        assert answer() == f"the cluster in {data} is still starting"
        with pytest.raises(Unavailable, match="still starting"):
            find_target({}, data, tmp_path)
        with announced(data, CLUSTER):
            assert answer() == CLUSTER.url
            assert (data / CLUSTER_FILE).stat().st_mode & 0o777 == 0o600
        assert answer() == f"the cluster in {data} is not up"
    assert answer() == "no cluster is known"


def test_a_folder_is_claimed_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that fails changes nothing of the other's."""
    monkeypatch.setattr(cluster_file, "links_folder", lambda: tmp_path / "clusters")
    monkeypatch.setattr(private_files, "LOCK_SECONDS", 0.0)
    with claimed(tmp_path / "data"):
        with pytest.raises(Conflict, match="another kaji up"), claimed(tmp_path / "data"):
            pass
        assert [link.resolve() for link in (tmp_path / "clusters").iterdir()] == [tmp_path / "data" / CLUSTER_FILE]

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(InvalidInput, match="make room on its disk"):
        patched.setattr(Path, "write_text", full)
        with claimed(tmp_path / "other"):
            pass
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="it is not a folder"), claimed(tmp_path / "file"):
        pass
