"""Mounts volumes at their mount paths, in a mount namespace of the container.

If a mount point is missing directly under `/` or under a system folder, that folder is replaced by a copy in memory
with the same entries, so nothing is left on the machine. Under a user's folder the mount point is created on the
machine, as Docker does, because files that the program writes into a copy would be lost."""

from __future__ import annotations

import os
import stat

from . import syscalls
from .cgroups import write_control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SYSTEM_FOLDERS = frozenset(
    [
        "/",
        "/etc",
        "/home",
        "/media",
        "/mnt",
        "/opt",
        "/run",
        "/srv",
        "/usr",
        "/usr/local",
        "/usr/share",
        "/var",
        "/var/cache",
        "/var/lib",
    ]
)


def enter(document: Mapping[str, Any], uid: int, gid: int) -> None:
    """Put the calling process (single-threaded) into a mount namespace with the mounts of `document`.

    `document` has `user_namespace`, `scratch` (an empty folder) and `mounts`: `source`, `sub_path`, `target`,
    `read_only`. Raises OSError with what failed.
    """
    if document["user_namespace"]:
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        write_control("/proc/self/setgroups", "deny")
        write_control("/proc/self/uid_map", f"{uid} {uid} 1")
        write_control("/proc/self/gid_map", f"{gid} {gid} 1")
    else:
        syscalls.unshare(syscalls.CLONE_NEWNS)
    # Mounts made here do not reach the machine; mounts that the machine makes later (a network drive) still arrive.
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_SLAVE)

    mounts = sorted(document["mounts"], key=lambda mount: str(mount["target"]).count("/"))
    if any(_nearest_existing_parent(str(mount["target"])) == "/" for mount in mounts):
        _copy_root(document["scratch"])
    # Open all sources before the first mount, which may cover the folder with the next source.
    opened = [(_open_source(mount), mount) for mount in mounts]
    for source, mount in opened:
        _bind(source, str(mount["target"]), bool(mount["read_only"]))
        os.close(source)


def join(pid: int, user_namespace: bool) -> None:
    """Put the calling process into the namespaces of a running one."""
    kinds = [("user", syscalls.CLONE_NEWUSER)] if user_namespace else []
    kinds.append(("mnt", syscalls.CLONE_NEWNS))
    fds = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds]
    for fd, kind in fds:
        syscalls.setns(fd, kind)
        os.close(fd)


def _open_source(mount: Mapping[str, Any]) -> int:
    source = os.open(mount["source"], os.O_PATH | os.O_CLOEXEC)
    sub_path = str(mount.get("sub_path") or "")
    if not sub_path:
        return source
    try:
        return syscalls.open_beneath(source, sub_path, os.O_PATH)
    except FileNotFoundError:
        _make_beneath(source, sub_path.split("/"))
        return syscalls.open_beneath(source, sub_path, os.O_PATH)
    finally:
        os.close(source)


def _make_beneath(directory: int, parts: Sequence[str]) -> None:
    """Create the folders of a `subPath` that does not exist yet, without following a symlink out of the volume."""
    current = os.dup(directory)
    try:
        for part in parts:
            try:
                deeper = syscalls.open_beneath(current, part, os.O_PATH | os.O_DIRECTORY)
            except FileNotFoundError:
                os.mkdir(part, 0o755, dir_fd=current)
                deeper = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = deeper
    finally:
        os.close(current)


def _bind(source: int, target: str, read_only: bool) -> None:
    _make_target(target, is_directory=stat.S_ISDIR(os.fstat(source).st_mode))
    syscalls.mount(f"/proc/self/fd/{source}", target, flags=syscalls.MS_BIND | syscalls.MS_REC)
    if read_only:
        # A user namespace may not clear flags that the machine's administrator set, so they are kept.
        kept = os.statvfs(target).f_flag & (syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        syscalls.mount("none", target, flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | kept)


def _make_target(target: str, is_directory: bool) -> None:
    if os.path.exists(target):
        return
    parent = _nearest_existing_parent(target)
    if os.path.realpath(parent) in SYSTEM_FOLDERS and not _is_tmpfs_copy(parent):
        _copy_in_place(parent)
    if is_directory:
        os.makedirs(target, 0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


_copies: set[str] = set()


def _is_tmpfs_copy(path: str) -> bool:
    return os.path.realpath(path) in _copies


def _nearest_existing_parent(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _copy_root(scratch: str) -> None:
    """Replace `/` by a folder in memory with the same entries."""
    syscalls.mount("tmpfs", scratch, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    # Otherwise the copy of the folder that holds `scratch` would contain the copy as well.
    syscalls.mount("none", scratch, flags=syscalls.MS_UNBINDABLE)
    _bind_entries("/", scratch)
    os.chdir(scratch)
    # With both paths the same, the old root ends up on top of the new one and is unmounted from there.
    syscalls.pivot_root(".", ".")
    syscalls.unmount(".", syscalls.MNT_DETACH)
    os.chdir("/")
    _copies.add("/")


def _copy_in_place(path: str) -> None:
    path = os.path.realpath(path)
    real = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mode = stat.S_IMODE(os.fstat(real).st_mode)
    syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode={mode:o}")
    _bind_entries(f"/proc/self/fd/{real}", path)
    os.close(real)
    _copies.add(path)


def _bind_entries(source: str, target: str) -> None:
    for entry in os.listdir(source):
        old, new = os.path.join(source, entry), os.path.join(target, entry)
        mode = os.lstat(old).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(old), new)
            continue
        if stat.S_ISDIR(mode):
            os.mkdir(new)
        else:
            os.close(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        syscalls.mount(old, new, flags=syscalls.MS_BIND | syscalls.MS_REC)
