"""Control groups of Pods that use the node's own network: by them the kernel tells whose a packet's socket is.

nft names a group by its path below /sys/fs/cgroup, also where version 2 is mounted in a folder of that, and the kernel
compares it with the socket's group or the one so many levels up. Levels are counted from the group that whoever makes
the rule takes for the first one: so it has to be the node's own first one.
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
    """A group that is there."""

    name: str
    """As nft has it."""
    level: int
    number: int
    """No other group gets it."""


def is_path(text: str) -> bool:
    """Whether this may be a group's path: it can stand in a rule as it is."""
    return text.startswith(f"{BASE}/") and _PATH.fullmatch(text) is not None


def located(path: str) -> Group | None:
    """The group at a path; None where there is none (any more)."""
    mount = _mount()
    try:
        number = Path(path).stat().st_ino
        return Group(str(Path(path).relative_to(BASE)), len(Path(path).relative_to(mount or BASE).parts), number)
    except (OSError, ValueError):
        return None


@cache
def are_seen() -> bool:
    """Whether packets can be told by group here."""
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


def of_kubernetes_pod(uid: str) -> tuple[str, ...]:
    """Paths of the group that a kubelet has made for a Pod, whichever driver and class of service; none where that is
    not found."""
    mount = _mount()
    if mount is None:
        return ()
    pod = f"pod{uid.replace('-', '_')}.slice"
    candidates = [f"kubepods.slice/kubepods-{pod}", f"kubepods/pod{uid}"]
    for quality in ("burstable", "besteffort"):
        candidates.append(f"kubepods.slice/kubepods-{quality}.slice/kubepods-{quality}-{pod}")
        candidates.append(f"kubepods/{quality}/pod{uid}")
    return next(((str(mount / each),) for each in candidates if (mount / each).is_dir()), ())


@cache
def _mount() -> Path | None:
    """Where version 2 is, as a whole."""
    for folder in (BASE, BASE / "unified"):
        if (folder / "cgroup.procs").exists() and (folder / "cgroup.controllers").exists():
            return folder
    return None
