"""The garbage collector: deletes objects after their owners (kubernetes `pkg/controller/garbagecollector`)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.requests.answers import store_key
from kajitori.embedded.apiserver.requests.options import DeleteOptions
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.upkeep.deletion import FOREGROUND, ORPHAN, delete_record
from kajitori.embedded.apiserver.writes.objects import Objects
from kajitori.embedded.store import DELETED, Event, Record

Add = Callable[[str, str], None]


class _Owner(msgspec.Struct):
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None


class _Owned(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Owned).decode


class GarbageCollector:
    """Tracks owners and dependents; deletes, orphans or releases dependents."""

    def __init__(self, objects: Objects, add: Add) -> None:
        self._objects = objects
        self._add = add
        self._dependents: dict[str, set[tuple[str, str]]] = {}
        """Dependents by the UID of their owner: resource and key."""

    def track(self, record: Record) -> None:
        """Record an object, and queue it if there may be something to do."""
        if b'"ownerReferences"' not in record.value and b'"deletionTimestamp"' not in record.value:
            return
        meta = _decode(record.value).metadata
        for owner in meta.owner_references or ():
            self._dependents.setdefault(owner.uid, set()).add((record.resource, record.key))
        waits = meta.deletion_timestamp and {ORPHAN, FOREGROUND} & set(meta.finalizers or ())
        if meta.owner_references or waits:
            self._add(record.resource, record.key)

    def on_event(self, event: Event) -> None:
        """Record a change."""
        record = event.record
        previous = event.previous
        if previous is not None and b'"ownerReferences"' in previous.value:
            for owner in _decode(previous.value).metadata.owner_references or ():
                known = self._dependents.get(owner.uid)
                if known is not None:
                    known.discard((record.resource, record.key))
                    if not known:
                        del self._dependents[owner.uid]
                if event.type is DELETED:
                    # An owner may have waited for this dependent.
                    self._look_at_owner(record, owner.uid)
        if event.type is not DELETED:
            self.track(record)
            if previous is not None and b'"deletionTimestamp"' in record.value:
                for resource, key in self._dependents.get(_decode(record.value).metadata.uid, ()):
                    self._add(resource, key)
            return
        for resource, key in self._dependents.get(_decode(record.value).metadata.uid, ()):
            self._add(resource, key)

    def _look_at_owner(self, dependent: Record, uid: str) -> None:
        for owner in dependent.object["metadata"].get("ownerReferences") or ():
            if owner.get("uid") == uid:
                found = self._find(dependent, owner)
                if found is not None:
                    self._add(found.resource, found.key)

    def process(self, record: Record) -> None:
        """Take the due steps for one object. The writes are not durable yet.

        Raises:
            Stale: it changed meanwhile.
        """
        kind = kind_of(self._objects.registry, record)
        if kind is None:
            return
        meta = record.object["metadata"]
        finalizers = meta.get("finalizers") or []
        if meta.get("deletionTimestamp"):
            if ORPHAN in finalizers:
                self._orphan_dependents(kind, record)
            elif FOREGROUND in finalizers:
                self._wait_for_dependents(kind, record)
            return
        owners = meta.get("ownerReferences") or []
        if owners:
            self._check_owners(kind, record, owners)

    def _orphan_dependents(self, kind: Kind, record: Record) -> None:
        """Remove the owner from its dependents, then let it be deleted."""
        uid = record.object["metadata"]["uid"]
        for dependent in self._dependents_of(uid):
            self._drop_owners(dependent, {uid})
        self._drop_finalizer(kind, record, ORPHAN)

    def _wait_for_dependents(self, kind: Kind, record: Record) -> None:
        """Let an owner be deleted once no dependent blocks it."""
        uid = record.object["metadata"]["uid"]
        blocked = False
        for dependent in self._dependents_of(uid):
            owners = dependent.object["metadata"].get("ownerReferences") or []
            blocked = blocked or any(one.get("uid") == uid and one.get("blockOwnerDeletion") for one in owners)
            if not dependent.object["metadata"].get("deletionTimestamp"):
                self._add(dependent.resource, dependent.key)
        if not blocked:
            self._drop_finalizer(kind, record, FOREGROUND)

    def _check_owners(self, kind: Kind, record: Record, owners: list[Object]) -> None:
        solid, gone, waiting = [], set(), set()
        for owner in owners:
            uid = owner.get("uid", "")
            if not self._is_resolvable(kind, owner):
                # The kind is not served, or the owner is namespaced and the dependent is not: leave it as it is.
                return
            found = self._find(record, owner)
            if found is None:
                gone.add(uid)
                continue
            meta = found.object["metadata"]
            if meta.get("deletionTimestamp") and FOREGROUND in (meta.get("finalizers") or ()):
                waiting.add(uid)
            else:
                solid.append(uid)
        if solid:
            if gone or waiting:
                self._drop_owners(record, gone | waiting)
            return
        finalizers = record.object["metadata"].get("finalizers") or []
        propagation = "Background"
        if ORPHAN in finalizers:
            propagation = "Orphan"
        elif FOREGROUND in finalizers or (waiting and self._dependents.get(record.object["metadata"]["uid"])):
            propagation = "Foreground"
        delete_record(self._objects, kind, record, DeleteOptions(propagation=propagation))

    def _is_resolvable(self, kind: Kind, owner: Object) -> bool:
        found = find_owner_kind(self._objects.registry, owner)
        return found is not None and (kind.resource.namespaced or not found.resource.namespaced)

    def _find(self, dependent: Record, owner: Object) -> Record | None:
        kind = find_owner_kind(self._objects.registry, owner)
        if kind is None:
            return None
        namespace = dependent.namespace if kind.resource.namespaced else ""
        found = self._objects.store.get(store_key(kind), namespace, owner.get("name", ""))
        if found is None or found.object["metadata"]["uid"] != owner.get("uid"):
            return None
        return found

    def _dependents_of(self, uid: str) -> list[Record]:
        found = []
        for resource, key in sorted(self._dependents.get(uid, ())):
            namespace, _, name = key.rpartition("/")
            record = self._objects.store.get(resource, namespace, name)
            if record is not None:
                found.append(record)
        return found

    def _drop_owners(self, record: Record, uids: set[str]) -> None:
        kind = kind_of(self._objects.registry, record)
        if kind is None:
            return
        obj = record.decode()
        meta = obj["metadata"]
        kept = [one for one in meta.get("ownerReferences") or [] if one.get("uid") not in uids]
        if kept:
            meta["ownerReferences"] = kept
        else:
            meta.pop("ownerReferences", None)
        if obj != record.object:
            self._objects.put(kind, record, obj)

    def _drop_finalizer(self, kind: Kind, record: Record, finalizer: str) -> None:
        drop_finalizer(self._objects, kind, record, finalizer)


def drop_finalizer(objects: Objects, kind: Kind, record: Record, finalizer: str) -> None:
    """Remove a finalizer. If it was the last one of an object that is being deleted, remove the object. Not durable
    yet."""
    obj = record.decode()
    meta = obj["metadata"]
    kept = [one for one in meta.get("finalizers") or [] if one != finalizer]
    held = kept or (store_key(kind) == "/namespaces" and (obj.get("spec") or {}).get("finalizers"))
    if not held and meta.get("deletionTimestamp") and not meta.get("deletionGracePeriodSeconds"):
        objects.remove(kind, record)
        return
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)
    objects.put(kind, record, obj)


def kind_of(registry: KindRegistry, record: Record) -> Kind | None:
    """Return the kind of a stored object, in the version in which it is stored."""
    group, _, plural = record.resource.partition("/")
    kinds = registry.find_stored(group, plural)
    return next((kind for kind in kinds if kind.storage is None), kinds[0] if kinds else None)


def find_owner_kind(registry: KindRegistry, owner: Object) -> Kind | None:
    """Return the kind of an owner reference, in any version that is served."""
    version, name = owner.get("apiVersion", ""), owner.get("kind", "")
    found = registry.find_kind(version, name)
    if found is not None:
        return found
    group = version.rpartition("/")[0]
    return next(
        (kind for kind in registry.all() if (kind.resource.group, kind.resource.kind) == (group, name)),
        None,
    )
