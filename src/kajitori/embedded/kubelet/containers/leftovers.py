"""Finds and kills the processes that a container leaves if its shim is killed.

Every process of a container carries a mark in its environment. The mark contains the identity of the container's
folder, so that a copied data folder never touches the processes of the original.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet.shim import main as shim
from kajitori.embedded.kubelet.shim import tree
from kajitori.embedded.kubelet.shim.cgroups import Cgroup

MARKER_VARIABLE = "KAJITORI_CONTAINER"
"""Variable with the mark in every process of a container."""
ORIGIN_FILE = "origin.json"
"""File with the identity of the container's folder at its start: device, inode, and the machine's boot. A copied folder
has the file with the identity of the original."""


def write_origin(directory: Path) -> list[Any]:
    """Write the folder's identity into its file, and return it."""
    origin = _folder_identity(directory)
    (directory / ORIGIN_FILE).write_text(json.dumps(origin))
    return origin


def is_copy(directory: Path) -> bool:
    """Return whether the container was started in another folder, of which this one is a copy."""
    origin = _recorded_identity(directory)
    return origin is not None and origin != _folder_identity(directory)


def mark_of(container_id: str, origin: Sequence[Any]) -> str:
    """Return the mark of a container. The identity is part of it, since a copied folder has the same container ID."""
    return f"{container_id}-{origin[0]:x}-{origin[1]:x}"


def kill(directory: Path, container_id: str, cgroups: Sequence[Cgroup]) -> None:
    """Kill the processes that a killed shim left, and remove the container's control groups.

    A copy of a data folder names the processes and groups of the original; it must touch neither.
    """
    if is_copy(directory):
        return
    origin = _recorded_identity(directory)
    mark = container_id if origin is None else mark_of(container_id, origin)
    # Without an origin file this may be a copy as well. Processes below a living shim then belong to the original.
    shims = _living_shims() if origin is None else set()
    groups = [group for group in cgroups if not any(_is_below(pid, shims) for pid in group.pids())]
    for group in groups:
        if not group.kill():
            tree.kill_all(group.pids())
    tree.kill_all(pid for pid in _marked_processes(mark) if not _is_below(pid, shims))
    for group in groups:
        group.remove()


def _folder_identity(directory: Path) -> list[Any]:
    """Return device, inode and boot. They distinguish a folder from its copies until the machine restarts."""
    found = directory.stat()
    return [found.st_dev, found.st_ino, shim.boot_id()]


def _recorded_identity(directory: Path) -> list[Any] | None:
    """Return the folder's identity at the start; None for containers that earlier versions of Kajitori started."""
    try:
        found = json.loads((directory / ORIGIN_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) else None


def _marked_processes(mark: str) -> list[int]:
    """Return the processes that carry a container's mark. The environment of other users' processes can't be read."""
    variable = f"{MARKER_VARIABLE}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 - no Path objects for every process of the machine
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if variable in file.read().split(b"\0"):
                    found.append(int(entry))
    return found


def _living_shims() -> set[int]:
    """Return the shims that live on this machine, for any folder."""
    found: set[int] = set()
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")[:-1]
                if len(words) > 2 and words[-3].endswith(shim.COMMAND_ENDS):
                    found.add(int(entry))
    return found


def _is_below(pid: int, shims: set[int]) -> bool:
    """Return whether a process is one of these shims, or below one."""
    return bool(shims) and not shims.isdisjoint((pid, *tree.ancestors(pid)))
