"""Run a command as an ordinary user of a machine without user namespaces: `python ordinary_user.py COMMAND…`, as root.

The machine itself is not changed. The command runs without capabilities in a user namespace that allows no further
ones, and in a process namespace, so all of its processes end with it. Folders that only root may enter (a Python in
root's home, for example) are mounted for it at the same paths.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

USER = 65534
"""User ID of `nobody`."""

_NEW_NAMESPACES = 0x00020000 | 0x10000000 | 0x20000000  # mounts, user, processes: sched.h
_PRIVATE, _RECURSIVE, _BIND = 0x40000, 0x4000, 0x1000  # sys/mount.h
_NO_NEW_PRIVILEGES, _DEATH_SIGNAL, _DROP_CAPABILITY = 38, 1, 24  # sys/prctl.h

_libc = ctypes.CDLL(None, use_errno=True)


def command(*arguments: str) -> list[str]:
    """Return the command to run as root so that the arguments run as USER."""
    return [sys.executable, "-I", __file__, *arguments]


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]))


def _enter_namespaces() -> None:
    """Enter new namespaces of users, processes and mounts. All user IDs are mapped to themselves."""
    ready, mapped = os.pipe(), os.pipe()
    inside = os.getpid()
    helper = os.fork()
    if helper == 0:
        os.read(ready[0], 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{inside}/{name}").write_text("0 0 65536\n")
        os.write(mapped[1], b".")
        os._exit(0)
    _check(_libc.unshare(_NEW_NAMESPACES))
    os.write(ready[1], b".")
    os.read(mapped[0], 1)
    os.waitpid(helper, 0)
    os.setgroups([])


def _forbidden_ancestor(path: Path) -> Path | None:
    """Return the outermost folder above `path` that ordinary users may not enter; None if there is none."""
    return next((up for up in reversed(path.parents) if not up.stat().st_mode & 0o001), None)


def _show(paths: Iterable[Path]) -> None:
    """Make folders reachable for all users, in this mount namespace only. Several may lie below one forbidden
    folder."""
    hidden = {path: up for path in paths if (up := _forbidden_ancestor(path)) is not None}
    folders = {path: os.open(path, os.O_PATH) for path in hidden}
    for up in set(hidden.values()):
        _mount("none", str(up), "tmpfs", 0, "mode=0755")
    for path, folder in sorted(folders.items()):
        path.mkdir(parents=True, exist_ok=True)  # exists already if it lies in a folder shown before
        _mount(f"/proc/self/fd/{folder}", str(path), None, _BIND | _RECURSIVE)
        os.close(folder)


def _become_ordinary() -> None:
    for capability in range(int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1):
        _check(_libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0))
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def main(arguments: list[str]) -> int:
    _enter_namespaces()
    first = os.fork()
    if first:
        signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
        return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    _check(_libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
    _mount("none", "/", None, _PRIVATE | _RECURSIVE)
    _mount("proc", "/proc", "proc", 0)
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    _show({Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]})
    wanted = os.fork()
    if wanted == 0:
        _become_ordinary()
        os.execvp(arguments[0], arguments)
    while True:  # the first process of a namespace must reap the orphans of the others
        process, status = os.wait()
        if process == wanted:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code if code >= 0 else 128 - code)
