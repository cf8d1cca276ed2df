"""The files of a store, and the replacement of a damaged one that survives a crash at any point."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from kajitori.configuration.private_files import fsync_folder, write_private

FILE = "store.sqlite"
LOG = f"{FILE}-wal"
INDEX_OF_LOG = f"{FILE}-shm"
LOCK = "store.lock"
MADE = b"made\n"
"""Contents of the lock file once the store was completed."""
REPAIRING = "repairing"
"""File that exists while a new file replaces the old one. It names the folder with the old files."""


def set_aside(folder: Path) -> Path:
    """Copy the files of a damaged store into a new folder, and return the folder. After an interrupted repair, return
    the folder of that repair.

    Raises:
        OSError: for example, the disk is full.
    """
    if (kept := interrupted(folder)) is not None:
        return kept
    kept = folder / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    kept.mkdir(mode=0o700)
    for name in (FILE, LOG):
        if (folder / name).exists():
            shutil.copy2(folder / name, kept / name)
            with (kept / name).open("rb") as file:
                os.fsync(file.fileno())
    fsync_folder(kept)
    fsync_folder(folder)
    return kept


def put_in_place(folder: Path, fresh: Path, kept: Path) -> None:
    """Replace the store's file with a new one, and delete its log.

    Raises:
        OSError: it failed.
    """
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    # A log without its file, or beside another file, must not be read.
    write_private(folder / REPAIRING, kept.name.encode())
    for name in (LOG, INDEX_OF_LOG):
        (folder / name).unlink(missing_ok=True)
    fresh.replace(folder / FILE)
    fsync_folder(folder)
    (folder / REPAIRING).unlink()
    fsync_folder(folder)


def interrupted(folder: Path) -> Path | None:
    """Return the folder in which an interrupted repair kept the old files; None if none was interrupted."""
    try:
        kept = folder / (folder / REPAIRING).read_text()
    except FileNotFoundError:
        return None
    return kept
