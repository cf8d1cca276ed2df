"""How commands find a running `kaji up`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.configuration import cluster_file
from kajitori.configuration.cluster_file import CLUSTER_FILE, ClusterFile, announced
from kajitori.configuration.private_files import write_private

CLUSTER = ClusterFile("http://127.0.0.1:1", "secret", 7, "default")


def test_whoever_sees_the_file_finds_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a script that waits for the file meets a `kaji` that knows no cluster. Both go with the context."""
    data, links = tmp_path / "data", tmp_path / "links"
    data.mkdir()
    monkeypatch.setattr(cluster_file, "links_folder", lambda: links)
    seen = []

    def noted(path: Path, content: bytes) -> None:
        seen.append([link.resolve() for link in links.glob("*")])
        write_private(path, content)

    monkeypatch.setattr(cluster_file, "write_private", noted)
    with announced(data, CLUSTER):
        assert seen == [[data / CLUSTER_FILE]]
        assert (data / CLUSTER_FILE).stat().st_mode & 0o777 == 0o600
    assert not [*links.glob("*")] and not (data / CLUSTER_FILE).exists()
