"""Errors of the store."""

from __future__ import annotations

from pathlib import Path

from kajitori.errors import Conflict, KajitoriError, Unavailable


class KeyTaken(Exception):
    """An object is already stored under that key."""


class Stale(Exception):
    """The record was changed or deleted meanwhile."""


class Compacted(Exception):
    """The revision is no longer kept; `oldest` is the first one that is."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class NotStored(KajitoriError):
    """A change could not be made durable. It was undone, and so were all later ones."""

    code = "NotStored"
    http_status = 507


class DataFolderInUse(Conflict):
    """Another server uses this data folder."""

    code = "DataFolderInUse"

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"another server is using the data folder {folder}",
            hint="stop it first (`kaji up` runs in the foreground there), or choose another folder with --data",
        )


class DataFolderUnusable(Unavailable):
    """The data folder cannot be read or written, or contains something else."""

    code = "DataFolderUnusable"


class StoreDamaged(DataFolderUnusable):
    """The contents of the data folder are not what was written there."""

    code = "StoreDamaged"

    def __init__(self, folder: Path, what: str) -> None:
        super().__init__(
            f"the cluster's objects in {folder} are damaged: {what}",
            hint="put a backup of the data folder in its place, or start once with `kaji up --repair`: it recovers "
            "what can be read, lists what is lost, and keeps the damaged file",
        )
