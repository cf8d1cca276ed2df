"""The control groups that an engine created for a container, found by the container's first process."""

from __future__ import annotations

import contextlib
import os

from .cgroups import Cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_COUNTERS = ("memory", "cpuacct")
_NEW_GROUPS = (
    "docker/{id}",
    "system.slice/docker-{id}.scope",
    "user.slice/user-{user}.slice/user@{user}.service/user.slice/docker-{id}.scope",
)
"""Paths, below the root of a hierarchy, at which Docker creates the group of a container: directly, through systemd,
and for rootless Docker through the user's systemd."""


def of_container(pid: int, engine_id: str, proc: str = "/proc") -> list[Cgroup]:
    """Return the groups that belong to the container alone and count memory or processor time."""
    try:
        with open(f"{proc}/{pid}/cgroup") as file:
            lines = file.read().splitlines()
        with open(f"{proc}/self/mounts") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return []
    found: dict[str, Cgroup] = {}
    for line in lines:
        _, names, path = line.split(":", 2)
        if engine_id not in path:
            continue  # a group that it shares with other programs: an engine without rights to create groups
        group = _group_at(names.split(",") if names else [], path, mounts)
        if group is not None:
            found.setdefault(group.path, group)
    return sorted(found.values(), key=lambda group: (not group.counts_memory, group.version))


def memory_of(engine_id: str, proc: str = "/proc") -> Cgroup | None:
    """Return the group that counts the memory of a container of Docker that is being started; None if there is none
    yet."""
    try:
        with open(f"{proc}/self/mounts") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return None
    for _, folder, kind, options, *_ in mounts:
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            for place in _NEW_GROUPS:
                path = os.path.join(folder, place.format(id=engine_id, user=os.getuid()))
                group = Cgroup(path, 2 if kind == "cgroup2" else 1, True)
                if os.path.exists(os.path.join(group.path, "memory.stat")):
                    return group
    return None


def _group_at(names: list[str], path: str, mounts: Iterable[list[str]]) -> Cgroup | None:
    version = 1 if names else 2
    for _, folder, kind, options, *_ in mounts:
        if version == 2 and kind == "cgroup2":
            group = Cgroup(folder + path, 2, False)
            group.counts_memory = os.path.exists(os.path.join(group.path, "memory.current"))
            with contextlib.suppress(OSError):
                os.stat(group.path)
                return group
        elif version == 1 and kind == "cgroup" and set(names) <= set(options.split(",")):
            if not any(name in _COUNTERS for name in names):
                return None
            return Cgroup(folder + path, 1, "memory" in names)
    return None
