"""Deletion: grace, preconditions, finalizers (kube-apiserver `rest.BeforeDelete` and `Store.Delete`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kajitori.embedded.apiserver.admission import admission
from kajitori.embedded.apiserver.admission.admission import AdmissionRequest
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.patches.own_metadata import now_text
from kajitori.embedded.apiserver.requests.answers import encode_plain
from kajitori.embedded.apiserver.requests.options import DeleteOptions
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError, qualified
from kajitori.embedded.apiserver.writes.objects import Caller, Objects
from kajitori.embedded.store import Record, Stale

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
DEFINITION_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
NAMESPACES = "namespaces"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_ANSWERS_OBJECT = frozenset(
    {
        "pods",
        "services",
        "persistentvolumeclaims",
        "persistentvolumes",
        "serviceaccounts",
        "resourcequotas",
        "storageclasses.storage.k8s.io",
    }
)
"""Kinds for which the answer to a deletion is the object (ReturnDeletedObject) and not a Status."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion."""

    value: bytes
    at_once: bool
    """Whether the object was removed; otherwise its grace or finalizers delay that."""


async def delete(
    objects: Objects, kind: Kind, namespace: str, name: str, caller: Caller, options: DeleteOptions
) -> Deleted:
    """Delete an object, or mark it as being deleted.

    Raises:
        StatusError: 404, 409 (a precondition fails), 403.
    """
    while True:
        record = objects.get(kind, namespace, name)
        obj = record.decode()
        StatusError.check_preconditions(kind.resource, obj["metadata"], options.uid, options.resource_version)
        request = AdmissionRequest(
            "DELETE", kind, namespace, name, obj, obj, "", options.dry_run, caller.user, caller.warnings
        )
        await admission.admit(request, objects.view)
        objects.validating_policies.check(request)
        if objects.find(kind, namespace, name) is not record:
            continue
        try:
            done = delete_record(objects, kind, record, options)
        except Stale:
            continue
        await objects.durable(objects.store.revision)
        return done


def delete_record(objects: Objects, kind: Kind, record: Record, options: DeleteOptions) -> Deleted:
    """Delete a stored object, or mark it as being deleted, without admission. Not durable yet.

    Raises:
        Stale: it changed meanwhile.
    """
    resource = qualified(kind.resource)
    obj = record.decode()
    meta = obj["metadata"]
    if resource == NAMESPACES:
        if not meta.get("deletionTimestamp"):
            return _mark_namespace(objects, kind, record, obj, options)
        if (obj.get("spec") or {}).get("finalizers"):
            return Deleted(_encoded(kind, obj), at_once=False)
    if resource == DEFINITIONS and not meta.get("deletionTimestamp"):
        return _mark_definition(objects, kind, record, obj, options)
    graceful = resource == "pods" and _begin_grace(obj, options)
    if graceful is None:
        # It is being deleted already; only a shorter grace period changes anything.
        return Deleted(
            _encoded(kind, obj) if resource in _ANSWERS_OBJECT else _success_status(kind, obj), at_once=False
        )
    finalizers = meta.get("finalizers") or []
    if kind.stored.plural != "events":
        # Events own nothing, so the propagation policy does not matter.
        finalizers = _finalizers_for(finalizers, options)
        _put_finalizers(meta, finalizers)
    if not graceful and finalizers:
        _mark_deleted(obj)
    if finalizers or (graceful and meta["deletionGracePeriodSeconds"] > 0):
        return _store_marked(objects, kind, record, obj, options)
    if not options.dry_run:
        if graceful:
            record = objects.put(kind, record, obj)
        obj = objects.remove(kind, record).object
    return Deleted(_encoded(kind, obj) if resource in _ANSWERS_OBJECT else _success_status(kind, obj), at_once=True)


def _begin_grace(pod: Object, options: DeleteOptions) -> bool | None:
    """Set a Pod's grace period, in place. Return False if it is deleted without one, and None if it has one already
    that does not change."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    if meta.get("deletionTimestamp"):
        had = meta.get("deletionGracePeriodSeconds")
        if not had:
            return False
        if options.grace_seconds is None or options.grace_seconds >= had:
            return None
        begun = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=had)
        meta["deletionTimestamp"] = _time_text(begun + timedelta(seconds=options.grace_seconds))
        meta["deletionGracePeriodSeconds"] = options.grace_seconds
        return True
    grace = options.grace_seconds
    if grace is None:
        grace = int(spec.get("terminationGracePeriodSeconds", 0))
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        grace = 0
    grace = max(grace, 1) if grace < 0 else grace
    meta["deletionTimestamp"] = _time_text(datetime.now(UTC) + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    return True


def _mark_deleted(obj: Object) -> None:
    """Mark an object as being deleted while finalizers hold it."""
    meta = obj["metadata"]
    now = now_text()
    if not meta.get("deletionTimestamp"):
        if meta.get("generation"):
            meta["generation"] += 1
        meta["deletionTimestamp"] = now
    elif meta["deletionTimestamp"] > now:
        meta["deletionTimestamp"] = now
    meta["deletionGracePeriodSeconds"] = 0


def _finalizers_for(present: list[str], options: DeleteOptions) -> list[str]:
    """Return the finalizers for the treatment of dependents (deletionFinalizersForGarbageCollection)."""
    had = orphan, foreground = ORPHAN in present, FOREGROUND in present
    if options.orphan_dependents is not None:
        orphan, foreground = options.orphan_dependents, False
    elif options.propagation:
        orphan, foreground = options.propagation == "Orphan", options.propagation == "Foreground"
    if (orphan, foreground) == had:
        return present
    rest = [one for one in present if one not in (ORPHAN, FOREGROUND)]
    return [*rest, *([ORPHAN] if orphan else []), *([FOREGROUND] if foreground else [])]


def _mark_namespace(objects: Objects, kind: Kind, record: Record, obj: Object, options: DeleteOptions) -> Deleted:
    obj["metadata"]["deletionTimestamp"] = now_text()
    obj.setdefault("status", {})["phase"] = "Terminating"
    _put_finalizers(obj["metadata"], _finalizers_for(obj["metadata"].get("finalizers") or [], options))
    return _store_marked(objects, kind, record, obj, options)


def _mark_definition(objects: Objects, kind: Kind, record: Record, obj: Object, options: DeleteOptions) -> Deleted:
    obj["metadata"]["deletionTimestamp"] = now_text()
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if DEFINITION_FINALIZER not in finalizers:
        finalizers.append(DEFINITION_FINALIZER)
    conditions: list[Any] = obj.setdefault("status", {}).setdefault("conditions", [])
    conditions.append(
        {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now_text(),
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
    )
    return _store_marked(objects, kind, record, obj, options)


def _store_marked(objects: Objects, kind: Kind, record: Record, obj: Object, options: DeleteOptions) -> Deleted:
    if not options.dry_run and obj != record.object:
        obj = objects.put(kind, record, obj).object
    return Deleted(_encoded(kind, obj), at_once=False)


def _put_finalizers(meta: Object, finalizers: list[str]) -> None:
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _encoded(kind: Kind, stored: Object) -> bytes:
    return encode_plain(kind.decode(stored))


def _success_status(kind: Kind, obj: Object) -> bytes:
    resource, meta = kind.resource, obj["metadata"]
    details = {"name": meta["name"]} | ({"group": resource.group} if resource.group else {})
    details |= {"kind": resource.plural, "uid": meta["uid"]}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return encode_plain(status)


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
