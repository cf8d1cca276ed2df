"""Files that only their owner may read, for tokens and keys, and locks by which a process claims a folder."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_SECONDS = 1.0
"""How long to wait for a lock. A child process of a killed process keeps its locks until it has executed its own
program."""
_CLOSED_IN_CHILDREN = getattr(os, "O_CLOEXEC", 0)
"""Windows closes descriptors in child processes without being asked."""


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably. Other users can read it at no time.

    Raises:
        OSError: it cannot be written. The old content is still there, unless only syncing the folder failed.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        fsync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def fsync_folder(folder: Path) -> None:
    """Make renames in a folder durable. Without this, a renamed file may have its old content after a power failure.
    Windows cannot open a folder, and has no such call.

    Raises:
        OSError: the folder cannot be read, or its disk fails.
    """
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def exclusive_lock(path: Path, seconds: float | None = None) -> Iterator[bool]:
    """Lock a file exclusively, waiting at most this long (LOCK_SECONDS by default), and yield whether this succeeded.
    The file is created if it is missing.

    Raises:
        OSError: the file cannot be created or opened.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _CLOSED_IN_CHILDREN, 0o600)
    try:
        yield _lock(handle, LOCK_SECONDS if seconds is None else seconds)
    finally:
        os.close(handle)


def _lock(handle: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not _lock_now(handle):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


if sys.platform == "win32":
    import msvcrt

    def _lock_now(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # may lie behind the end of the file
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _lock_now(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
