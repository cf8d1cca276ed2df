"""Search for the real API server's binaries, and the messages of tests that lack them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.binaries import etcd_fault, find_binary, require_binaries, search_path


def executable(folder: Path, name: str) -> None:
    """Write a file that can be executed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_the_named_folder_comes_first_then_the_newest_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.36 is newer than 1.9; $KUBEBUILDER_ASSETS comes before the store."""
    store = tmp_path / "kubebuilder-envtest" / "k8s"
    for version in ("1.9.0-linux-amd64", "1.36.2-linux-amd64"):
        executable(store / version, "kube-apiserver")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert find_binary("kube-apiserver") == store / "1.36.2-linux-amd64" / "kube-apiserver"
    executable(tmp_path / "named", "kube-apiserver")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "named"))
    assert find_binary("kube-apiserver") == tmp_path / "named" / "kube-apiserver"
    assert [folder.name for folder in search_path()] == ["named", "1.36.2-linux-amd64", "1.9.0-linux-amd64"]


def test_a_test_without_binaries_is_skipped_with_the_searched_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        require_binaries("kube-apiserver", "etcd")
    assert str(tmp_path) in str(skipped.value)
    assert "kube-apiserver" in str(skipped.value)


@pytest.mark.parametrize(
    ("version", "is_too_old"),
    [("3.4.23", True), ("3.4.31", False), ("3.5.0", True), ("3.5.12", True), ("3.5.13", False), ("3.6.13", False)],
)
def test_an_etcd_too_old_for_the_api_server_is_refused(version: str, is_too_old: bool) -> None:
    """The message names the existing version, the needed one, and how to get it."""
    fault = etcd_fault(version)
    assert bool(fault) == is_too_old
    assert not fault or all(part in fault for part in (version, "3.5.13", "setup-envtest use"))
