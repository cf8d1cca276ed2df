"""The embedded cluster's store: every object with its revisions, as etcd keeps them; durable in SQLite or in memory."""

from __future__ import annotations

from kajitori.local.store.errors import (
    Compacted,
    DataFolderInUse,
    DataFolderUnusable,
    KeyTaken,
    NotStored,
    Stale,
    StoreDamaged,
)
from kajitori.local.store.records import ADDED, DELETED, MODIFIED, Event, Object, Record
from kajitori.local.store.store import Store
from kajitori.local.store.watcher import Watcher

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
