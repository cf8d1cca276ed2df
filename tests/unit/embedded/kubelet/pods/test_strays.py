"""A kubelet whose folder was put back to what it was: nothing of what ran since goes on unseen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.unit.embedded.kubelet.conftest import Bench, alive, until

from kajitori.embedded.kubelet.pods.strays import end_strays

PLACE = "pods/uid-1/containers/main/0"
TREE = "(setsid sleep 1000 &) ; trap '' TERM; echo $$ > ../program; while :; do sleep 1000; done"


def restored(root: Path) -> None:
    """A copy is put in the folder's place."""
    shutil.copytree(root, backup := root.parent / "backup", ignore=lambda *_: ["control"])
    shutil.rmtree(root)
    backup.rename(root)


def moved_away(root: Path) -> None:
    """Yesterday nothing was there, and today's is kept elsewhere."""
    root.rename(root.parent / "today")
    root.mkdir()


@pytest.mark.parametrize("happened", [restored, moved_away, shutil.rmtree])
async def test_what_no_folder_knows_is_ended(bench: Bench, tmp_path: Path, happened: object) -> None:
    """With everything that it started, whatever that makes of signals."""
    root = bench.root / "node"
    container = bench.container(f"node/{PLACE}")
    container.directory.parent.mkdir(parents=True)
    state = await container.launch(bench.shell(TREE))
    below = container.pids()
    assert below and alive(state.shim_pid)
    assert end_strays(root) == [], "it is known here"
    assert callable(happened)
    happened(root)
    assert end_strays(root) == [state.shim_pid]
    await until(lambda: not any(alive(pid) for pid in (*below, state.shim_pid)))
    assert end_strays(root) == []


async def test_another_folders_containers_are_left_alone(bench: Bench) -> None:
    """Also where one's name begins as the other's does."""
    container = bench.container(f"node-2/{PLACE}")
    container.directory.parent.mkdir(parents=True)
    state = await container.launch(bench.shell("sleep 1000"))
    shutil.rmtree(bench.root / "node-2" / "pods")
    assert end_strays(bench.root / "node") == []
    assert alive(state.shim_pid)
    os.kill(state.shim_pid, 9)
