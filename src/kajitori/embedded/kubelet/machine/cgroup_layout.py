"""Finds where this kubelet can create control groups: version 2, version 1, hybrid machines, or nowhere."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kajitori.embedded.kubelet.shim.cgroups import Cgroup

CPU_PERIOD_MICROSECONDS = 100_000
MIN_CPU_SHARES = 2
_USED = frozenset({"memory", "cpu", "pids"})
TRIAL = "trial"
"""Name of the group in which `detect` tries whether processes can enter; it is removed at once."""


@dataclass(frozen=True)
class Hierarchy:
    """One hierarchy in which the kubelet owns a directory. `controllers` are those that can set limits there."""

    version: int
    path: Path
    controllers: frozenset[str]


@dataclass(frozen=True)
class CgroupLayout:
    """The usable hierarchies. If the kubelet may not write any, there are none and `why_not` says why."""

    hierarchies: tuple[Hierarchy, ...] = ()
    why_not: str = ""

    @property
    def limits_memory(self) -> bool:
        return any("memory" in hierarchy.controllers for hierarchy in self.hierarchies)

    def for_container(
        self,
        container_id: str,
        *,
        cpu_request_millis: int,
        cpu_limit_millis: int,
        memory_limit_bytes: int,
        max_processes: int = 0,
    ) -> list[Cgroup]:
        """Return the groups that the container's processes join, one per hierarchy. A limit of 0 means none."""
        return [
            Cgroup(
                str(hierarchy.path / container_id),
                hierarchy.version,
                "memory" in hierarchy.controllers,
                [
                    *_memory_writes(hierarchy, memory_limit_bytes),
                    *_cpu_writes(hierarchy, cpu_request_millis, cpu_limit_millis),
                    *_pids_writes(hierarchy, max_processes),
                ],
            )
            for hierarchy in self.hierarchies
        ]

    def remove(self) -> None:
        """Remove the kubelet's own directories if no container is left in them."""
        for hierarchy in self.hierarchies:
            with contextlib.suppress(OSError):
                hierarchy.path.rmdir()


def _memory_writes(hierarchy: Hierarchy, limit_bytes: int) -> list[tuple[str, str, bool]]:
    if "memory" not in hierarchy.controllers or limit_bytes <= 0:
        return []
    if hierarchy.version == 2:
        return [
            ("memory.max", str(limit_bytes), True),
            ("memory.swap.max", "0", False),
            ("memory.oom.group", "1", False),
        ]
    return [
        ("memory.limit_in_bytes", str(limit_bytes), True),
        ("memory.memsw.limit_in_bytes", str(limit_bytes), False),
        ("memory.swappiness", "0", False),
    ]


def _cpu_writes(hierarchy: Hierarchy, request_millis: int, limit_millis: int) -> list[tuple[str, str, bool]]:
    if "cpu" not in hierarchy.controllers:
        return []
    shares = max(MIN_CPU_SHARES, request_millis * 1024 // 1000)
    quota = limit_millis * CPU_PERIOD_MICROSECONDS // 1000
    if hierarchy.version == 2:
        # From shares (2..262144) to weight (1..10000) as in KEP-2254.
        writes = [("cpu.weight", str(1 + (shares - 2) * 9999 // 262142), False)]
        return [*writes, ("cpu.max", f"{quota} {CPU_PERIOD_MICROSECONDS}", False)] if quota else writes
    writes = [("cpu.shares", str(shares), False)]
    return [*writes, ("cpu.cfs_quota_us", str(quota), False)] if quota else writes


def _pids_writes(hierarchy: Hierarchy, limit: int) -> list[tuple[str, str, bool]]:
    return [("pids.max", str(limit), False)] if "pids" in hierarchy.controllers and limit > 0 else []


def group_name(root: Path) -> str:
    """Return the name of the containers' control groups: the same for every kubelet of this root folder, and unique to
    it."""
    return f"kajitori-{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:12]}"


def groups_named(name: str, proc: Path = Path("/proc")) -> list[Path]:
    """Return all groups with this name below any group, since their place depends on how the kubelet was started."""
    found = {
        Path(folder, name)
        for mount in _cgroup_mounts(proc)
        for folder, below, _ in os.walk(mount.mount_point)
        if name in below
    }
    return sorted(found)


def detect(name: str, may_move: Callable[[Path], bool], proc: Path = Path("/proc")) -> CgroupLayout:
    """Find the hierarchies below which a directory `name` can be created, and create it.

    `may_move(path)` tries whether a process may enter that group. Nothing outside the kubelet's own group is touched,
    so limits on the kubelet itself keep holding.
    """
    own = _own_groups(proc)
    found: list[Hierarchy] = []
    refusals: list[str] = []
    for version, controllers, mount_point, mount_root in _cgroup_mounts(proc):
        if version == 1 and not controllers & _USED:
            continue
        path = own.get(",".join(sorted(controllers)) if version == 1 else "")
        if path is None:
            continue
        inside = os.path.relpath(path, mount_root) if path.startswith(mount_root) else "."
        base = Path(os.path.normpath(mount_point / inside))
        try:
            hierarchy = _prepare_v2(base, name) if version == 2 else _prepare_v1(base, name, controllers)
        except OSError as error:
            refusals.append(f"{base}: {error.strerror}")
            continue
        if _accepts_processes(hierarchy, may_move):
            found.append(hierarchy)
        else:
            refusals.append(f"{hierarchy.path}: no process may be moved in")
            with contextlib.suppress(OSError):
                hierarchy.path.rmdir()
    return CgroupLayout(tuple(found), "; ".join(refusals) or ("" if found else "no control groups are mounted"))


def _accepts_processes(hierarchy: Hierarchy, may_move: Callable[[Path], bool]) -> bool:
    """Return whether a process may enter a group below this one, as containers do. In version 2 a group that delegates
    controllers has no processes itself."""
    trial = Cgroup(str(hierarchy.path / TRIAL), hierarchy.version, counts_memory=False)
    try:
        trial.create()
        return may_move(Path(trial.path))
    except OSError:
        return False
    finally:
        trial.remove()


def _own_groups(proc: Path) -> dict[str, str]:
    """Return the kubelet's own group in each hierarchy: by its controllers (sorted, with commas) for version 1, by `""`
    for version 2."""
    found = {}
    with contextlib.suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            found[",".join(sorted(filter(None, controllers.split(","))))] = path
    return found


class _Mount(NamedTuple):
    """A mounted hierarchy of control groups."""

    version: int
    controllers: frozenset[str]
    """Empty for version 2."""
    mount_point: Path
    root: str
    """The group of the hierarchy that is mounted."""


def _cgroup_mounts(proc: Path) -> list[_Mount]:
    found = []
    with contextlib.suppress(OSError):
        for line in (proc / "self/mountinfo").read_text().splitlines():
            fields, _, rest = line.partition(" - ")
            kind, _, options = rest.split(" ", 2)
            root, mount_point = fields.split(" ")[3:5]
            if kind == "cgroup2":
                found.append(_Mount(2, frozenset(), Path(mount_point), root))
            elif kind == "cgroup":
                known = {"memory", "cpu", "cpuacct", "cpuset", "pids", "freezer", "blkio", "devices"}
                controllers = frozenset(options.split()[-1].split(",")) & known
                found.append(_Mount(1, controllers, Path(mount_point), root))
    return found


def _prepare_v1(base: Path, name: str, controllers: frozenset[str]) -> Hierarchy:
    path = base / name
    path.mkdir(exist_ok=True)
    # Controllers that are mounted together are all set.
    return Hierarchy(1, path, controllers)


def _prepare_v2(base: Path, name: str) -> Hierarchy:
    """Create a group in the kubelet's own group if that can be divided, else beside it (in a user's session systemd
    delegates the parent folder)."""
    last: OSError = OSError(0, "no group may be divided")
    best: Hierarchy | None = None
    for candidate in (base, base.parent):
        if not (candidate / "cgroup.controllers").exists():
            continue
        try:
            path = candidate / name
            path.mkdir(exist_ok=True)
        except OSError as error:
            last = error
            continue
        offered = frozenset((candidate / "cgroup.controllers").read_text().split()) & _USED
        enabled = frozenset(c for c in offered if _enable(candidate, c) and _enable(path, c))
        hierarchy = Hierarchy(2, path, enabled)
        if "memory" in enabled:
            if best is not None:
                best.path.rmdir()
            return hierarchy
        if best is None:
            best = hierarchy
        else:
            path.rmdir()
    if best is None:
        raise last
    return best  # without limits, but all processes in it can be killed at once


def _enable(group: Path, controller: str) -> bool:
    control = group / "cgroup.subtree_control"
    if controller in control.read_text().split():
        return True
    try:
        control.write_text(f"+{controller}")
    except OSError:
        if not _leave(group):
            return False
        try:
            control.write_text(f"+{controller}")
        except OSError:
            return False
    return True


def _leave(group: Path) -> bool:
    """Move the kubelet into a leaf of its own group, since a group with processes can't be divided. Return False if
    other processes are in the group."""
    try:
        if [int(line) for line in (group / "cgroup.procs").read_text().split()] != [os.getpid()]:
            return False
        leaf = group / "kubelet"
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        return False
    return True
