"""Objects with one global revision, compare-and-swap, lists at a revision, and watches without gaps.

Everything is in memory, and a journal makes it durable. Later writes see a change at once. Watchers see it only when it
is on disk, and its writer waits for that too: `await store.durable(revision)`. Readers also wait for the revision that
they have read, so that no client sees a change that a power failure undoes. Nothing may be awaited between a change or
a read and its `durable`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from kajitori.embedded.store.collection import Collection
from kajitori.embedded.store.database import Contents
from kajitori.embedded.store.errors import Compacted, KeyTaken, NotStored, Stale, StoreDamaged
from kajitori.embedded.store.journal import Journal
from kajitori.embedded.store.records import ADDED, DELETED, MODIFIED, Event, EventType, Object, Record, encode
from kajitori.embedded.store.watcher import Watcher

log = logging.getLogger(__name__)

HISTORY_SECONDS = 300.0
"""Time that old revisions are kept; the interval at which kube-apiserver compacts etcd."""
HISTORY_BYTES = 256 << 20
"""Memory of old revisions at which they are dropped earlier."""
FORMS_SECONDS = 10.0
"""Time that encoded forms of an event are kept. Watchers take an event within milliseconds; later ones encode it
again."""
OBJECTS_SECONDS = 60.0
"""Interval at which decoded objects are released. Those in use are decoded again, once per interval."""
REWRITE_SECONDS = 3600.0
"""Minimum time between repairs of the file. If it is damaged again sooner, the disk is failing, and copies of damaged
files would soon fill it."""


class Store:
    """All objects of one cluster. Belongs to the event loop that opened it."""

    def __init__(self, *, history_seconds: float = HISTORY_SECONDS) -> None:
        """Create an empty store in memory; use `Store.open` for one that lasts."""
        self._collections: dict[str, Collection] = {}
        # Revisions of a new store start at the present time, in milliseconds. A client that still uses a revision of an
        # earlier store at this address then gets an error (too old), and does not wait for a revision that never comes.
        self._revision = self._durable = self._start = time.time_ns() // 1_000_000
        self._history: deque[Event] = deque()
        self._history_bytes = 0
        self._with_forms: deque[Event] = deque()
        """Published events that still have encoded forms."""
        self._objects_released_at = time.monotonic()
        self._history_seconds = history_seconds
        self._listeners: list[Callable[[Event], None]] = []
        self._journal: Journal | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: deque[Event] = deque()
        self._in_flight = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closed = False
        self._damage: StoreDamaged | None = None
        """Damage that was found in the file. The file is rewritten as soon as no write is in progress."""
        self._rewritten_at = -REWRITE_SECONDS

    @classmethod
    async def open(cls, folder: Path | None, *, history_seconds: float = HISTORY_SECONDS, max_pages: int = 0) -> Store:
        """Open the store in a folder (created if missing), or one in memory only (None). `max_pages` limits the size of
        the file, in pages of 4 KiB.

        Raises:
            DataFolderInUse: another server uses the folder.
            StoreDamaged: its contents are not what was written.
            DataFolderUnusable: it cannot be read or written.
        """
        store = cls(history_seconds=history_seconds)
        if folder is not None:
            loop = store._loop = asyncio.get_running_loop()

            def outcome(revision: int, error: Exception | None) -> None:
                loop.call_soon_threadsafe(store._on_stored, revision, error)

            def damaged(error: StoreDamaged) -> None:
                with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                    loop.call_soon_threadsafe(store._found_damaged, error)

            journal = store._journal = await asyncio.to_thread(Journal, folder, outcome, damaged, max_pages=max_pages)
            try:
                whole = await asyncio.to_thread(journal.load)
            except BaseException:
                journal.close()
                raise
            # The same holds for a folder that was restored from a backup: newer revisions that clients still use must
            # not be assigned again.
            store._revision = store._durable = store._start = max(whole.revision + 1, store._start)
            for record in whole.records:
                store._collection_of(record.resource).records[record.key] = record
            for collection in store._collections.values():
                collection.keys = sorted(collection.records)
            journal.start()
        return store

    async def close(self) -> None:
        """Write pending changes, end all watches, unlock the folder."""
        if self._closed:
            return
        self._closed = True
        if self._journal is not None:
            while self._pending:
                if not self._in_flight:
                    self._flush()
                await asyncio.sleep(0.001)
            await asyncio.to_thread(self._journal.close)
        for resource in self._collections:
            self.end_watches(resource)

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        return self._revision

    @property
    def durable_revision(self) -> int:
        """The revision of the last change that was published."""
        return self._durable

    def get(self, resource: str, namespace: str, name: str) -> Record | None:
        """Return the stored record, or None."""
        collection = self._collections.get(resource)
        return None if collection is None else collection.records.get(f"{namespace}/{name}" if namespace else name)

    def records(self, resource: str, namespace: str = "") -> list[Record]:
        """Return the records of a resource (in a namespace), in the order of etcd."""
        collection = self._collections.get(resource)
        if collection is None:
            return []
        records = collection.records
        return [records[key] for key in collection.in_namespace(namespace)]

    def count(self, resource: str) -> int:
        """Return the number of objects of a resource."""
        collection = self._collections.get(resource)
        return 0 if collection is None else len(collection.records)

    def resources(self) -> list[str]:
        """Return the resources (`group/plural`) that have objects."""
        return [name for name, collection in self._collections.items() if collection.records]

    def snapshot(self, resource: str, namespace: str, revision: int) -> list[Record]:
        """Return the records of a resource at a revision.

        Raises:
            Compacted: the revision is no longer kept.
        """
        if revision >= self._revision:
            return self.records(resource, namespace)
        self.check_kept(resource, revision)
        collection = self._collection_of(resource)
        records = {record.key: record for record in self.records(resource, namespace)}
        changed = False
        for event in reversed(collection.history):
            if event.revision <= revision:
                break
            if namespace and event.record.namespace != namespace:
                continue
            if event.type is ADDED:
                del records[event.record.key]
            else:
                assert event.previous is not None
                changed = changed or event.type is DELETED
                records[event.record.key] = event.previous
        return [records[key] for key in sorted(records)] if changed else list(records.values())

    def check_kept(self, resource: str, revision: int) -> None:
        """Check that all changes of a resource after a revision are kept.

        Raises:
            Compacted: they are not.
        """
        compacted = self._collection_of(resource).compacted
        if revision < compacted:
            raise Compacted(revision, compacted)

    async def durable(self, revision: int) -> None:
        """Wait until everything up to a revision is on disk and published.

        Raises:
            NotStored: it could not be written and was undone.
        """
        if revision <= self._durable:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, waiter))
        await waiter

    # --- changing ----------------------------------------------------------------------------------------------------

    def create(self, resource: str, namespace: str, name: str, obj: Object) -> Record:
        """Store a new object. `obj` gets its resource version, in place.

        Raises:
            KeyTaken: an object of that name exists.
        """
        if self.get(resource, namespace, name) is not None:
            raise KeyTaken(f"{resource} {namespace}/{name}")
        revision = self._revision + 1
        record = Record(resource, namespace, name, revision, encode(obj, revision))
        self._apply(ADDED, record, None)
        return record

    def update(self, expected: Record, obj: Object) -> Record:
        """Replace a record, which must still be the stored one. `obj` gets its resource version, in place.

        Raises:
            Stale: it is not.
        """
        self._check_current(expected)
        revision = self._revision + 1
        record = Record(expected.resource, expected.namespace, expected.name, revision, encode(obj, revision))
        self._apply(MODIFIED, record, expected)
        return record

    def delete(self, expected: Record) -> Record:
        """Delete a record, which must still be the stored one, and return its last state, at the revision of the
        deletion.

        Raises:
            Stale: it is not.
        """
        self._check_current(expected)
        revision = self._revision + 1
        value = encode(expected.decode(), revision)
        record = Record(expected.resource, expected.namespace, expected.name, revision, value)
        self._apply(DELETED, record, expected)
        return record

    def compact(self) -> None:
        """Forget the changes that were published."""
        while self._history and self._history[0].revision <= self._durable:
            self._forget()
        for collection in self._collections.values():
            collection.compacted = max(collection.compacted, self._durable)

    def _check_current(self, expected: Record) -> None:
        collection = self._collections.get(expected.resource)
        if collection is None or collection.records.get(expected.key) is not expected:
            raise Stale(repr(expected))

    def _collection_of(self, resource: str) -> Collection:
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = Collection(self._start)
        return collection

    def _apply(self, kind: EventType, record: Record, previous: Record | None) -> None:
        if self._closed:
            raise NotStored("the store is closed")
        event = Event(kind, record, previous)
        collection = self._collection_of(record.resource)
        if kind is DELETED:
            collection.remove(record.key)
        else:
            collection.put(record)
        collection.history.append(event)
        self._history.append(event)
        self._history_bytes += event.size_bytes
        self._revision = event.revision
        if self._journal is None:
            self._durable = event.revision
            self._publish(event)
            self._trim()
            return
        self._pending.append(event)
        if not self._in_flight:
            # Scheduled for the next turn of the loop, so that all changes of this turn share a commit.
            self._in_flight = -1
            assert self._loop is not None
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        assert self._journal is not None
        if self._damage is not None:
            self._rewrite(self._journal, self._damage)
            self._damage = None
        if not self._pending:
            self._in_flight = 0
            return
        batch = list(self._pending)
        self._in_flight = len(batch)
        self._journal.append(batch)

    def _on_stored(self, revision: int, error: Exception | None) -> None:
        """Handle the outcome of a batch, on the loop."""
        if error is not None:
            self._take_back(error)
            if isinstance(error, StoreDamaged):
                self._found_damaged(error)
            return
        for _ in range(self._in_flight):
            event = self._pending.popleft()
            self._durable = event.revision
            self._publish(event)
        while self._waiters and self._waiters[0][0] <= revision:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        self._trim()
        self._in_flight = 0
        self._flush()

    def _take_back(self, error: Exception) -> None:
        """Undo all changes that are not on disk, including later ones, which build on them."""
        while self._pending:
            event = self._pending.pop()
            collection = self._collections[event.record.resource]
            latest, latest_here = self._history.pop(), collection.history.pop()
            assert latest is latest_here is event
            self._history_bytes -= event.size_bytes
            if event.previous is None:
                collection.remove(event.record.key)
            else:
                collection.put(event.previous)
        self._in_flight = 0
        # The revisions are not reused: clients may have seen them.
        self._durable = self._revision
        waiters, self._waiters = self._waiters, deque()
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(NotStored(f"the change could not be stored: {error}"))

    def _found_damaged(self, error: StoreDamaged) -> None:
        self._damage = error
        if not self._in_flight:
            self._flush()

    def _rewrite(self, journal: Journal, error: StoreDamaged) -> None:
        """Make the journal replace its damaged file with the contents of memory. No write is in progress."""
        now = time.monotonic()
        log.error("%s", error.message)
        if now - self._rewritten_at < REWRITE_SECONDS:
            log.error(
                "the damaged file is not replaced, since it was replaced less than %.0f s ago: %s",
                REWRITE_SECONDS,
                error.hint,
            )
            return
        self._rewritten_at = now
        current = {
            (record.resource, record.key): record
            for collection in self._collections.values()
            for record in collection.records.values()
        }
        for event in reversed(self._pending):
            if event.previous is None:
                current.pop((event.record.resource, event.record.key), None)
            else:
                current[event.record.resource, event.record.key] = event.previous
        journal.replace(Contents(self._durable, list(current.values())))

    # --- watching ----------------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Hand every published event to `listener`, in order, before its writer is answered."""
        self._listeners.append(listener)

    def watch(
        self,
        resource: str,
        namespace: str,
        revision: int,
        wanted: Callable[[Event], bool] | None = None,
        *,
        name: str = "",
        group: str = "",
    ) -> Watcher:
        """Return a watcher of every published event of a resource (in a namespace, of one name) after a revision. End
        it with `unwatch`.

        With `group`, later events are only those of objects that are or were in the group (see `group_by`): an event
        then concerns one of a thousand watchers of a group each, not all.

        Raises:
            Compacted: not all events after that revision are kept.
        """
        self.check_kept(resource, revision)
        collection = self._collection_of(resource)
        key = (f"{namespace}/{name}" if namespace else name) if name else ""
        watcher = Watcher(resource, namespace, key, group if collection.group_of is not None else "", wanted)
        missed = []
        for event in reversed(collection.history):
            if event.revision <= revision:
                break
            if event.revision <= self._durable:
                missed.append(event)
        for event in reversed(missed):
            if _event_concerns(watcher, event):
                watcher.push(event)
        collection.add(watcher)
        return watcher

    def group_by(self, resource: str, group_of: Callable[[Record], str]) -> None:
        """Group the objects of a resource for their watchers. The group of a record never changes."""
        self._collection_of(resource).group_of = group_of

    def unwatch(self, watcher: Watcher) -> None:
        """End a watcher."""
        self._collection_of(watcher.resource).discard(watcher)

    def end_watches(self, resource: str) -> None:
        """End all watchers of a resource, which is no longer served."""
        for watcher in self._collection_of(resource).all_watchers():
            watcher.close()

    def _publish(self, event: Event) -> None:
        self._collections[event.record.resource].publish(event)
        for listener in self._listeners:
            listener(event)
        self._with_forms.append(event)

    def _trim(self) -> None:
        """Release what is older than its time limit, or is too much."""
        now = time.monotonic()
        while self._with_forms and self._with_forms[0].at <= now - FORMS_SECONDS:
            self._with_forms.popleft().forget_forms()
        if now - self._objects_released_at >= OBJECTS_SECONDS:
            self._objects_released_at = now
            for collection in self._collections.values():
                collection.forget_objects()
        history = self._history
        oldest = now - self._history_seconds
        while history and (history[0].at < oldest or self._history_bytes > HISTORY_BYTES):
            if history[0].revision > self._durable:
                return
            self._forget()

    def _forget(self) -> None:
        event = self._history.popleft()
        self._history_bytes -= event.size_bytes
        collection = self._collections[event.record.resource]
        oldest_here = collection.history.popleft()
        assert oldest_here is event
        collection.compacted = event.revision


def _event_concerns(watcher: Watcher, event: Event) -> bool:
    if watcher.key:
        return event.record.key == watcher.key
    return not watcher.namespace or watcher.namespace == event.record.namespace
