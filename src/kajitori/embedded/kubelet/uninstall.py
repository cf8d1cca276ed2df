"""Takes away what a process kubelet that will not be started again left on its machine."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from kajitori.embedded.kubelet.alone import LOCK_FILE, alone
from kajitori.embedded.kubelet.machine import cgroup_layout
from kajitori.embedded.kubelet.network.pod_networks import NamespaceNetwork
from kajitori.embedded.kubelet.pods import strays
from kajitori.embedded.kubelet.pods.records import saved_records
from kajitori.embedded.kubelet.shim.cgroups import Cgroup
from kajitori.errors import Unavailable, WrongState

FILES = ("pods", "logs", "messages", "addresses", "network", "pki", "probe", "pod-cidr")
"""What kubelets make in their folder, beside the lock."""


async def uninstall(root: Path, *, force: bool = False) -> list[str]:
    """Removes what belongs to the kubelet of this folder, and nothing else; answers what that was. What was left half
    removed is removed the next time. By the folder's name alone, too: the folder itself may be gone.

    Raises Unavailable where the kubelet runs or something can't be removed, WrongState where containers run, unless
    `force` is there to end them, and Unsupported where only root can do it.
    """
    # Whose folder it is shows its lock: other folders have a `pki` or `logs` of their own.
    is_own = (root / LOCK_FILE).exists()
    with alone(root) if is_own else contextlib.nullcontext():
        removed = _end_containers(root, force)
        removed += await NamespaceNetwork(root).remove()
        removed += _remove_groups(cgroup_layout.group_name(root))
        if is_own:
            _remove_files(root)
            removed.append(str(root))
    return removed


def _end_containers(root: Path, force: bool) -> list[str]:
    running = strays.running(root)
    if running and not force:
        names = {record.pod["metadata"]["uid"]: record.pod["metadata"] for record in saved_records(root)}
        pods = {folder.relative_to(root.resolve() / "pods").parts[0] for folder in running.values()}
        shown = sorted(f"{names[uid]['namespace']}/{names[uid]['name']}" if uid in names else uid for uid in pods)
        hint = "start the kubelet again to look after them, and drain its node; or end them with --force"
        raise WrongState(f"containers of {root} still run: {', '.join(shown)}", hint=hint)
    for pid in running:
        strays.end(pid)
    if left := strays.running(root):
        raise Unavailable(f"processes {', '.join(map(str, left))} do not end", hint="try again in a while")
    return [f"{len(running)} container{'s' if len(running) > 1 else ''}"] if running else []


def _remove_groups(name: str) -> list[str]:
    """Control groups of that name, wherever the kubelet's own was: those below it first."""
    removed = []
    for group in cgroup_layout.groups_called(name):
        for path, _, _ in os.walk(group, topdown=False):
            if not Cgroup(path, 2, counts_memory=False).remove():
                raise Unavailable(f"the control group {path} is in use", hint="end what runs in it, and try again")
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
        root.rmdir()  # unless there is something of somebody else's in it
