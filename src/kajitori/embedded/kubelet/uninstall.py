"""Removes everything that a process kubelet has left on its machine, if it will not be started again."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.embedded.kubelet.machine import cgroup_layout
from kajitori.embedded.kubelet.network.pod_networks import NamespaceNetwork
from kajitori.embedded.kubelet.pods import strays
from kajitori.embedded.kubelet.pods.records import saved_records
from kajitori.embedded.kubelet.root_lock import LOCK_FILE, locked_root
from kajitori.embedded.kubelet.shim.cgroups import Cgroup
from kajitori.errors import Unavailable, WrongState

FILES = ("pods", "logs", "messages", "addresses", "network", "pki", "probe", "pod-cidr")
"""Names of the files and folders that a kubelet creates in its folder, apart from the lock."""


async def uninstall(root: Path, *, force: bool = False) -> list[str]:
    """Remove what belongs to the kubelet of this folder, and return what was removed.

    A next call finishes what this one could not remove. It also works by the folder's name alone, if the folder is
    gone.

    Raises Unavailable if the kubelet runs or something can't be removed, WrongState if containers run and `force` is
    not set, and Unsupported if only root can remove it.
    """
    # Only a folder with the lock is a kubelet's: other folders may have a `pki` or `logs` of their own.
    is_own = (root / LOCK_FILE).exists()
    with locked_root(root) if is_own else contextlib.nullcontext():
        removed = await _end_containers(root, force)
        removed += await NamespaceNetwork(root).remove()
        removed += _remove_groups(cgroup_layout.group_name(root))
        if is_own:
            _remove_files(root)
            removed.append(str(root))
    return removed


async def _end_containers(root: Path, force: bool) -> list[str]:
    running = strays.running(root)
    if running and not force:
        _refuse(root, running)
    for pid, folder in running.items():
        engine = Container(folder, "").engine
        strays.end(pid)
        if engine is not None:
            await EngineClient(engine.socket, engine.api).remove(engine.name)
    if left := strays.running(root):
        raise Unavailable(f"processes {', '.join(map(str, left))} do not end", hint="try again in a minute")
    return [f"{len(running)} container{'s' if len(running) > 1 else ''}"] if running else []


def _refuse(root: Path, running: Mapping[int, Path]) -> None:
    names = {record.pod["metadata"]["uid"]: record.pod["metadata"] for record in saved_records(root)}
    pods = {folder.relative_to(root.resolve() / "pods").parts[0] for folder in running.values()}
    shown = sorted(f"{names[uid]['namespace']}/{names[uid]['name']}" if uid in names else uid for uid in pods)
    hint = "start the kubelet again and drain its node; or end the containers with --force"
    raise WrongState(f"containers of {root} still run: {', '.join(shown)}", hint=hint)


def _remove_groups(name: str) -> list[str]:
    """Remove the control groups with this name in every hierarchy, children first."""
    removed = []
    for group in cgroup_layout.groups_named(name):
        for path, _, _ in os.walk(group, topdown=False):
            if not Cgroup(path, 2, counts_memory=False).remove():
                raise Unavailable(f"the control group {path} is in use", hint="end the processes in it, and try again")
        removed.append(f"control group {group}")
    return removed


def _remove_files(root: Path) -> None:
    for name in FILES:
        path = root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    (root / LOCK_FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        root.rmdir()  # unless it holds other files
