"""A temporary folder in memory for the tests of all workers.

Tests make thousands of small files. On a disk, those of `tests/unit/blobs` take twice as long as in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
PREFIX = "kajitori-tests-"
NEEDED_BYTES = 6 << 30
"""Space in memory that must be free. The tests use less than a third of it."""


def make_memory_folder(memory: Path = MEMORY, needed_bytes: int = NEEDED_BYTES) -> Path | None:
    """Make a folder in memory for this process, and remove the folders of processes that have ended.

    Return None if programs cannot be run there, or if too little memory is free.
    """
    if not os.access(memory, os.W_OK) or not _has_room(memory, needed_bytes):
        return None
    for folder in memory.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=memory))
    folder.chmod(0o1777)  # like /tmp: some programs of the tests run as other users
    return folder


def _has_room(memory: Path, needed_bytes: int) -> bool:
    room = os.statvfs(memory)
    if room.f_flag & os.ST_NOEXEC or room.f_bavail * room.f_frsize < needed_bytes:
        return False
    lines = Path("/proc/meminfo").read_text().splitlines()
    available_kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return available_kib << 10 >= needed_bytes
