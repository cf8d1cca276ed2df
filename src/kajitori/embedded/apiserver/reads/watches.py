"""Watches: events of a selection, as a stream of JSON documents."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.reads.lists import partial_metadata
from kajitori.embedded.apiserver.reads.tables import to_table
from kajitori.embedded.apiserver.requests.answers import encode_stored, store_key
from kajitori.embedded.apiserver.requests.formats import Format, encode_json
from kajitori.embedded.apiserver.requests.options import ListOptions
from kajitori.embedded.apiserver.requests.selection import NODE_FIELD, Selection, selection
from kajitori.embedded.apiserver.requests.target import Target
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.writes.objects import Objects, check_version
from kajitori.embedded.store import ADDED, DELETED, MODIFIED, Compacted, Event, Record, Watcher

BOOKMARK_SECONDS = 60.0
MIN_TIMEOUT_SECONDS = 1800
"""A watch without a timeout ends after 30 to 60 minutes, at random, as in kube-apiserver."""
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BATCH = 256


@dataclass(slots=True)
class _Writer:
    """Encodes events. An encoding that many watchers share is made once."""

    kind: Kind
    selected: Selection
    shape: str
    include: str
    needs_columns: bool

    def event(self, event: Event) -> bytes | None:
        """Return an event in the form of this watch; None if it is outside its selection."""
        kind = self.translate(event)
        return None if kind is None else self._encoded_event(event, kind)

    def translate(self, event: Event) -> str | None:
        """Return the type of an event for a watch with a selection. If an object leaves the selection, the watch sees a
        deletion."""
        if not self.selected:
            return event.type
        matches = self.selected.matches
        before = event.previous is not None and matches(event.previous)
        if event.type is DELETED:
            return DELETED if before else None
        now = matches(event.record)
        if now:
            return MODIFIED if before else ADDED
        return DELETED if before else None

    def _encoded_event(self, event: Event, seen_as: str) -> bytes:
        kind = self.kind
        left = seen_as is DELETED and event.type is not DELETED
        key = (kind.resource.group, kind.resource.version, seen_as, self.shape, self.include)
        made = None if self.needs_columns else event.encoded(key)
        if made is None:
            if left:
                assert event.previous is not None
                obj = kind.decode(event.previous.decode())
                obj["metadata"]["resourceVersion"] = str(event.revision)
                made = self.document(seen_as, obj)
            else:
                made = self.record(seen_as, event.record)
            if not self.needs_columns:
                event.share_encoded(key, made)
        self.needs_columns = False
        return made

    def record(self, seen_as: str, record: Record) -> bytes:
        if self.shape:
            return self.document(seen_as, self.kind.decode(record.decode()))
        return b'{"type":"%b","object":%b}\n' % (seen_as.encode(), encode_stored(self.kind, record))

    def document(self, seen_as: str, obj: Object) -> bytes:
        if self.shape == "Table":
            version = obj["metadata"].get("resourceVersion", "")
            obj = to_table(self.kind, [obj], include=self.include, headers=self.needs_columns)
            obj["metadata"] = {"resourceVersion": version}
            self.needs_columns = False
        elif self.shape:
            obj = partial_metadata(obj)
        return encode_json({"type": seen_as, "object": obj}) + b"\n"

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {_INITIAL_EVENTS_END: "true"}
        resource = self.kind.resource
        kind, version = resource.kind, resource.api_version
        if self.shape == "Table":
            kind, version = "Table", "meta.k8s.io/v1"
        elif self.shape:
            kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
        obj: dict[str, Any] = {"kind": kind, "apiVersion": version, "metadata": meta}
        if self.shape == "Table":
            obj |= {"columnDefinitions": None, "rows": []}
        return encode_json({"type": "BOOKMARK", "object": obj}) + b"\n"


def error_event(error: StatusError) -> bytes:
    """Return the event that ends a watch."""
    return encode_json({"type": "ERROR", "object": error.body()}) + b"\n"


class Watch:
    """One watch request, from its first event to its end."""

    def __init__(
        self, objects: Objects, target: Target, options: ListOptions, answer: Format, *, include: str = "Metadata"
    ) -> None:
        """
        Raises:
            StatusError: 400, 422.
        """
        self._objects = objects
        self._target = target
        self._options = options
        self._selection = selection(target, options)
        self._writer = _Writer(target.kind, self._selection, answer.shape, include, answer.shape == "Table")
        version = options.resource_version
        check_version(version)
        self._version = int(version or 0)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the answer's body, each of one or more whole lines, until the watch ends."""
        store = self._objects.store
        initial: list[Record] = []
        start = self._version
        if self._options.send_initial_events or (start == 0 and self._options.send_initial_events is None):
            revision = store.revision
            if start > revision:
                raise StatusError.future_version(start, revision)
            initial = self._present_records()
            start = revision
            await self._objects.durable(revision)
        elif start == 0:
            start = store.durable_revision
        try:
            watcher = self._watch(start)
        except Compacted as error:
            yield error_event(StatusError.expired(str(error)))
            return
        try:
            for index in range(0, len(initial), _BATCH):
                yield b"".join(self._writer.record(ADDED, record) for record in initial[index : index + _BATCH])
            if self._options.send_initial_events and self._options.allow_bookmarks:
                yield self._writer.bookmark(start, initial_end=True)
            async for piece in self._event_chunks(watcher):
                yield piece
        finally:
            store.unwatch(watcher)

    def _present_records(self) -> list[Record]:
        records = self._objects.store.records(store_key(self._target.kind), self._target.namespace)
        return [one for one in records if self._selection.matches(one)] if self._selection else records

    def _watch(self, start: int) -> Watcher:
        namespace, name = self._target.namespace, self._selection.name
        wanted = None
        if self._selection:
            translate = self._writer.translate

            def wanted(event: Event) -> bool:
                return translate(event) is not None

        if name and self._target.kind.resource.namespaced and not namespace:
            name = ""
        group = self._selection.fields.exact(NODE_FIELD) or ""
        return self._objects.store.watch(store_key(self._target.kind), namespace, start, wanted, name=name, group=group)

    async def _event_chunks(self, watcher: Watcher) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        seconds = self._options.timeout_seconds
        if not seconds:
            seconds = MIN_TIMEOUT_SECONDS + random.randrange(MIN_TIMEOUT_SECONDS)
        end = loop.time() + seconds
        bookmark_at = loop.time() + BOOKMARK_SECONDS if self._options.allow_bookmarks else end
        encode = self._writer.event
        while True:
            events = watcher.take()
            if events:
                pieces = [piece for event in events if (piece := encode(event)) is not None]
                yield b"".join(pieces)
                continue
            if watcher.closed:
                return
            remaining = min(end, bookmark_at) - loop.time()
            if remaining > 0:
                try:
                    async with asyncio.timeout(remaining):
                        await watcher.wait()
                    continue
                except TimeoutError:
                    continue
            if loop.time() >= end:
                if self._options.allow_bookmarks:
                    yield self._writer.bookmark(self._objects.store.durable_revision)
                return
            bookmark_at = loop.time() + BOOKMARK_SECONDS
            yield self._writer.bookmark(self._objects.store.durable_revision)
