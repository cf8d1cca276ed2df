"""The embedded cluster's store: every object with its revisions, as in etcd; in memory, made durable by SQLite. Begin
with `store.Store`."""

from __future__ import annotations

from kajitori.embedded.store.errors import (
    Compacted,
    DataFolderInUse,
    DataFolderUnusable,
    KeyTaken,
    NotStored,
    Stale,
    StoreDamaged,
)
from kajitori.embedded.store.records import ADDED, DELETED, MODIFIED, Event, Object, Record
from kajitori.embedded.store.store import Store
from kajitori.embedded.store.watcher import Watcher

__all__ = [
    "ADDED",
    "DELETED",
    "MODIFIED",
    "Compacted",
    "DataFolderInUse",
    "DataFolderUnusable",
    "Event",
    "KeyTaken",
    "NotStored",
    "Object",
    "Record",
    "Stale",
    "Store",
    "StoreDamaged",
    "Watcher",
]
