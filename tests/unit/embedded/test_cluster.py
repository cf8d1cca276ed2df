"""How an embedded cluster is reached: ports that it remembers for its folder, and its socket."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from kajitori.embedded.cluster import LOCAL_SOCKET, EmbeddedCluster, EmbeddedSettings, last_port, remember_port
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.retry import NO_RETRY
from kajitori.kube.errors import UnauthorizedError
from kajitori.kube.resources import NAMESPACES


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


@pytest.mark.parametrize("below", ["data", "d" * 100])
async def test_clients_of_the_same_process_need_no_tls_unless_the_path_is_too_long(below: str) -> None:
    """They use a socket in the data folder. Without TLS nobody checks the address, so a wrong one shows it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        folder = Path(short, below)
        async with EmbeddedCluster(EmbeddedSettings(folder, in_memory=True)) as cluster:
            config = cluster.client_config()
            is_local = below == "data"
            assert ((folder / LOCAL_SOCKET).is_socket(), bool(config.local_socket)) == (is_local, is_local)
            elsewhere = replace(config, server="https://127.0.0.1:1") if is_local else config
            async with KubeClient(elsewhere, retry=NO_RETRY) as client, KubeClient(elsewhere.with_token("wrong")) as no:
                assert (await client.get(NAMESPACES, "default"))["metadata"]["name"] == "default"
                with pytest.raises(UnauthorizedError):
                    await no.get(NAMESPACES, "default")
        assert not (folder / LOCAL_SOCKET).exists()
