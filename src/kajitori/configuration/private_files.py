"""Files that only their owner may read: tokens, keys, and what contains them; and folders that are one process's."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_SECONDS = 1.0
"""A process that was killed while it started another one leaves it its locks, until that begins its own program."""


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably; nobody else can read it, at no moment.

    Raises:
        OSError: it can't be written; the old content is still there, unless only the folder's own write failed.
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
    """Make the names in a folder durable: a renamed file keeps its old content otherwise, if the power fails.

    Raises:
        OSError: the folder can't be read, or its disk fails.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked_alone(path: Path) -> Iterator[bool]:
    """Locks a file, which is made where it is missing, for this process alone; whether nobody else has it.

    Raises:
        OSError: there can be no such file.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True
