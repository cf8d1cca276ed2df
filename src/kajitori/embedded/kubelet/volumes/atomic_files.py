"""Files of a ConfigMap, Secret or projected volume, replaced as a whole while programs read them.

As in Kubernetes, the files are in a new folder, and the link `..data` to it is replaced by one rename. The program may
run as the same user and write into the volume. So every step uses the descriptor of a folder that was opened without
following a symlink, and links that a program planted lead nowhere.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

DATA_LINK = "..data"
Payload = Mapping[str, tuple[bytes, int]]
"""Content and mode by relative path."""


def check_path(path: str) -> str:
    """Return a path inside a volume. Raises ValueError for one that is absolute, contains `..`, or begins like internal
    names."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise ValueError(f"{path!r} is not a path inside the volume")
    return "/".join(parts)


def write_volume(volume: Path, payload: Payload) -> bool:
    """Make the volume hold exactly `payload`. Return whether anything changed.

    Raises OSError, and ValueError for a path that leaves the volume.
    """
    payload = {check_path(path): content for path, content in payload.items()}
    volume.mkdir(parents=True, exist_ok=True)
    root = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        old = _current_folder(root)
        if old is not None and _has_payload(root, old, payload):
            return False
        fresh = f"..{secrets.token_hex(8)}"
        os.mkdir(fresh, 0o755, dir_fd=root)
        folder = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        try:
            for path, (content, mode) in payload.items():
                _write(folder, path, content, mode)
        finally:
            os.close(folder)
        link = f"{fresh}.link"
        os.symlink(fresh, link, dir_fd=root)
        os.rename(link, DATA_LINK, src_dir_fd=root, dst_dir_fd=root)
        _update_links(root, {path.split("/")[0] for path in payload})
    finally:
        os.close(root)
    if old is not None:
        shutil.rmtree(volume / old, ignore_errors=True)
    return True


def _current_folder(root: int) -> str | None:
    with contextlib.suppress(OSError):
        target = os.readlink(DATA_LINK, dir_fd=root)
        if "/" not in target and target.startswith(".."):
            return target
    return None


def _has_payload(root: int, name: str, payload: Payload) -> bool:
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except OSError:
        return False
    try:
        found = set()
        for where, _, files, fd in os.fwalk(".", dir_fd=folder):
            for file in files:
                path = str(PurePosixPath(where) / file)
                found.add(path)
                if path not in payload or not _has_content(fd, file, *payload[path]):
                    return False
        return found == set(payload)
    finally:
        os.close(folder)


def _has_content(folder: int, name: str, content: bytes, mode: int) -> bool:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        return stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == mode and file.read() == content


def _write(folder: int, path: str, content: bytes, mode: int) -> None:
    *parents, name = path.split("/")
    current = os.dup(folder)
    try:
        for parent in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, 0o755, dir_fd=current)
            deeper = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = deeper
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=current), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
    finally:
        os.close(current)


def _update_links(root: int, names: set[str]) -> None:
    """Make every name in the volume a link through `..data`, and remove the links of names that are gone."""
    for name in os.listdir(root):
        if not name.startswith("..") and name not in names:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=root)
    for name in names:
        target = f"{DATA_LINK}/{name}"
        with contextlib.suppress(OSError):
            if os.readlink(name, dir_fd=root) == target:
                continue
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=root)
        os.symlink(target, name, dir_fd=root)
