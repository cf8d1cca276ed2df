"""The files of a store, and how a new one takes the place of a damaged one, whenever the machine stops."""

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
"""What the lock holds once there is a store."""
REPAIRING = "repairing"
"""There while a new file takes the old one's place. It names the folder that holds what was there before."""


def set_aside(folder: Path) -> Path:
    """Keep a damaged store beside the new one to come; answers where. After an interrupted repair that is what it kept.

    Raises:
        OSError: there is no room for it.
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
    """Have a new file take the place of the store's, whose log is gone from then on.

    Raises:
        OSError: it can't.
    """
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    # A log without its file, or beside another one, must not be read.
    write_private(folder / REPAIRING, kept.name.encode())
    for name in (LOG, INDEX_OF_LOG):
        (folder / name).unlink(missing_ok=True)
    fresh.replace(folder / FILE)
    fsync_folder(folder)
    (folder / REPAIRING).unlink()
    fsync_folder(folder)


def interrupted(folder: Path) -> Path | None:
    """Where an interrupted repair kept what was there before it; None if none was interrupted."""
    try:
        kept = folder / (folder / REPAIRING).read_text()
    except FileNotFoundError:
        return None
    return kept
