"""Control groups of Pods on the node's own network. By them the kernel finds the Pod that a packet's socket belongs to.

nft names a group by its path below /sys/fs/cgroup, even if version 2 is mounted in a subfolder. The kernel compares it
with the socket's group, or with the ancestor at a given level. Levels are counted from the root group that the creator
of the rule sees, so the rule must be created in the node's own root group.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kajitori.agent.engines import nft
from kajitori.errors import Unavailable

BASE = Path("/sys/fs/cgroup")
_FIRST_NAMESPACE = 0xEFFFFFFB  # PROC_CGROUP_INIT_INO of include/linux/proc_ns.h
_PATH = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9_.:@-]*)+", re.ASCII)


class Group(NamedTuple):
    """An existing group."""

    name: str
    """The name that nft uses."""
    level: int
    number: int
    """Unique number of the group."""


def is_path(text: str) -> bool:
    """Return whether this can be a group's path, in characters that are safe in a rule."""
    return text.startswith(f"{BASE}/") and _PATH.fullmatch(text) is not None


def find_group(path: str) -> Group | None:
    """Return the group at a path; None if there is none."""
    mount = _mount()
    try:
        number = Path(path).stat().st_ino
        return Group(str(Path(path).relative_to(BASE)), len(Path(path).relative_to(mount or BASE).parts), number)
    except (OSError, ValueError):
        return None


@cache
def are_supported() -> bool:
    """Return whether this kernel can match packets by the control group of their socket."""
    mount = _mount()
    try:
        if mount is None or Path("/proc/self/ns/cgroup").stat().st_ino != _FIRST_NAMESPACE:
            return False
        nft.check(
            "add table inet kajitori_try\nadd set inet kajitori_try s { type cgroupsv2; }\n"
            "add chain inet kajitori_try c { type filter hook input priority 0; }\n"
            "add rule inet kajitori_try c socket cgroupv2 level 1 @s\n"
        )
    except (OSError, Unavailable):
        return False
    return True


def groups_of_pod(uid: str) -> tuple[str, ...]:
    """Return the path of a Pod's group in the hierarchy of version 2; nothing without one."""
    mount = _mount()
    group = group_of_pod(mount, uid) if mount is not None else None
    return (str(group),) if group is not None else ()


def group_of_pod(mount: Path, uid: str) -> Path | None:
    """Return the group that a kubelet made for a Pod, for any driver and class of service, in the hierarchy that is
    mounted here; None if there is none."""
    pod = f"pod{uid.replace('-', '_')}.slice"
    candidates = [f"kubepods.slice/kubepods-{pod}", f"kubepods/pod{uid}"]
    for quality in ("burstable", "besteffort"):
        candidates.append(f"kubepods.slice/kubepods-{quality}.slice/kubepods-{quality}-{pod}")
        candidates.append(f"kubepods/{quality}/pod{uid}")
    return next((mount / candidate for candidate in candidates if (mount / candidate).is_dir()), None)


@cache
def _mount() -> Path | None:
    """Return the folder in which the complete version 2 is mounted."""
    for folder in (BASE, BASE / "unified"):
        if (folder / "cgroup.procs").exists() and (folder / "cgroup.controllers").exists():
            return folder
    return None
