"""A kubelet with a folder restored from a backup: it ends containers that it does not know."""

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
    """Put a copy in the folder's place."""
    shutil.copytree(root, backup := root.parent / "backup", ignore=lambda *_: ["control"])
    shutil.rmtree(root)
    backup.rename(root)


def moved_away(root: Path) -> None:
    """Restore an empty folder and keep today's elsewhere."""
    root.rename(root.parent / "today")
    root.mkdir()


@pytest.mark.parametrize("happened", [restored, moved_away, shutil.rmtree])
async def test_a_container_without_a_folder_is_ended(bench: Bench, tmp_path: Path, happened: object) -> None:
    """All of its processes end, even those that ignore signals."""
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


async def test_containers_of_another_folder_are_left_alone(bench: Bench) -> None:
    """Even if one folder's name begins with the other's."""
    container = bench.container(f"node-2/{PLACE}")
    container.directory.parent.mkdir(parents=True)
    state = await container.launch(bench.shell("sleep 1000"))
    shutil.rmtree(bench.root / "node-2" / "pods")
    assert end_strays(bench.root / "node") == []
    assert alive(state.shim_pid)
    os.kill(state.shim_pid, 9)
