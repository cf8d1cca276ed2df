"""Field managers: `metadata.managedFields` and server-side apply (apimachinery `managedfields`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.patches import field_merging, fieldsets
from kajitori.embedded.apiserver.patches.field_types import type_faults
from kajitori.embedded.apiserver.patches.fieldsets import Comparison, FieldSet, difference, intersection, union
from kajitori.embedded.apiserver.patches.own_metadata import now_text
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError

Entry: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, str, str]
"""Key of an entry: manager, operation, apiVersion (of updates only), subresource."""
Managers: TypeAlias = dict[Key, Entry]

UPDATES_MAX = 10
_ANCIENT = "ancient-changes"
_BEFORE_FIRST_APPLY = "before-first-apply"
_UNTRACKED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "managedFields",
        "clusterName",
    }
)
_EMPTY: Mapping[str, Object] = {
    "Pod": {"spec": {"containers": None}},
    "LimitRange": {"spec": {"limits": None}},
    "Service": {"status": {"loadBalancer": {}}},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "PriorityClass": {"value": 0},
    "PersistentVolumeClaim": {"spec": {"resources": {}}},
    "Event": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "CustomResourceDefinition": {"spec": {"names": {}}},
}
"""Fields that objects of built-in kinds have before anything is set. They have no manager."""


def manage(kind: Kind, new: Object, old: Object | None, *, manager: str, subresource: str) -> None:
    """Record in `new` that a manager made it from `old` by an ordinary write."""
    managers = _managers_after(new, old, subresource)
    if old is not None and not managers:
        # An object without managers stays so until the first apply.
        _write(new, managers)
        return
    before = _empty_object(kind) if old is None else old
    if kind.custom is not None and any(type_faults(kind.schema, new)):
        # The fields of this object cannot be compared; mostly it is refused anyway.
        new["metadata"].pop("managedFields", None)
        return
    try:
        compared = Comparison(
            kind.schema, _tracked_part(kind, before, subresource), _tracked_part(kind, new, subresource)
        )
    except fieldsets.Repeated:
        # Validation reports this with a better message.
        return
    changed = union(compared.added, compared.modified)
    if changed or compared.removed:
        _take_away(managers, changed, compared.removed)
    if changed:
        key = (manager, "Update", kind.resource.api_version, subresource)
        before_this = managers[key]["fieldsV1"] if key in managers else {}
        _add(managers, key, kind, union(before_this, changed), at=now_text())
        _cap_updates(managers)
    _write(new, managers)


def apply(
    kind: Kind, live: Object | None, config: Object, *, manager: str, subresource: str, force: bool
) -> tuple[Object, list[Entry]]:
    """Return the live object with a configuration applied to it, and its new managedFields.

    Raises:
        StatusError: 409, with every field that another manager owns with another value.
    """
    schema = kind.schema
    applied = _tracked_part(kind, config, subresource)
    if not applied["metadata"]:
        del applied["metadata"]
    wanted = fieldsets.fields_of(schema, applied)
    key = (manager, "Apply", "", subresource)
    if live is None:
        managers: Managers = {}
        if wanted:
            _add(managers, key, kind, wanted, at=now_text())
        return config, _sorted_entries(managers)
    managers = _managers_after(live, None)
    before = _tracked_part(kind, live, subresource)
    if not managers:
        everything = Comparison(schema, _tracked_part(kind, _empty_object(kind), subresource), before)
        first = (_BEFORE_FIRST_APPLY, "Update", kind.resource.api_version, subresource)
        _add(managers, first, kind, union(everything.added, everything.modified), at=now_text())
    last: FieldSet = managers[key]["fieldsV1"] if key in managers else {}
    merged = field_merging.merge(schema, before, applied)
    _add(managers, key, kind, wanted, at=managers.get(key, {}).get("time") or now_text())
    merged = _prune(kind, merged, last, managers)
    compared = Comparison(schema, before, merged)
    changed = union(compared.added, compared.modified)
    others = {one: entry for one, entry in managers.items() if one != key}
    conflicts = {one: both for one, entry in others.items() if (both := intersection(entry["fieldsV1"], changed))}
    if conflicts and not force:
        raise _conflict_error(managers, conflicts)
    _take_away(managers, changed, compared.removed, except_for=key)
    if not compared.is_same:
        managers[key]["time"] = now_text()
    if not managers[key]["fieldsV1"]:
        del managers[key]
    return _put_back(kind, live, merged, config, subresource), _sorted_entries(managers)


def _prune(kind: Kind, merged: Object, last: FieldSet, managers: Managers) -> Object:
    """Remove fields that the manager applied last time, no longer applies, and that no other manager has."""
    if not last:
        return merged
    schema = kind.schema

    def named(fields: FieldSet) -> FieldSet:
        return fieldsets.with_named_fields(schema, fields)

    everything = named(fieldsets.fields_of(schema, merged))
    pruned = field_merging.remove(schema, merged, named(last)) or {}
    managed: FieldSet = {}
    for entry in managers.values():
        managed = union(managed, entry["fieldsV1"])
    kept = union(named(fieldsets.fields_of(schema, pruned)), named(managed))
    pruned = field_merging.remove(schema, merged, difference(everything, kept)) or {}
    kept = named(fieldsets.fields_of(schema, pruned))
    dropped = difference(intersection(everything, named(last)), kept)
    result: Object = field_merging.remove(schema, merged, dropped) or {}
    return result


def _put_back(kind: Kind, live: Object, merged: Object, config: Object, subresource: str) -> Object:
    """Return the tracked part of an object, with untracked fields from the live object."""
    tracked = _tracked_part(kind, live, subresource)
    result = {name: value for name, value in live.items() if name not in tracked}
    result |= merged
    meta = {name: value for name, value in live["metadata"].items() if name in _UNTRACKED_METADATA}
    # In the configuration, these are preconditions.
    told = ("resourceVersion", "uid", "selfLink")
    meta |= {name: config["metadata"][name] for name in told if config["metadata"].get(name)}
    result["metadata"] = (merged.get("metadata") or {}) | meta
    return result


def _tracked_part(kind: Kind, obj: Object, subresource: str) -> Object:
    """Return the part of an object that has managers, without fields that the server sets or that this endpoint cannot
    change."""
    untouched = ("apiVersion", "kind", "metadata")
    if subresource == "status":
        part = {"status": obj["status"]} if "status" in obj else {}
    elif kind.strategy.has_status:
        part = {name: value for name, value in obj.items() if name not in untouched and name != "status"}
    else:
        part = {name: value for name, value in obj.items() if name not in untouched}
    meta = {name: value for name, value in obj.get("metadata", {}).items() if name not in _UNTRACKED_METADATA}
    # The status of a custom resource is tracked without metadata.
    part["metadata"] = {} if subresource == "status" and kind.custom is not None else meta
    return part


def _empty_object(kind: Kind) -> Object:
    if kind.custom is not None:
        return {"metadata": {}}
    found: Object = {"metadata": {}}
    for name in ("spec", "status"):
        if name in kind.schema.properties:
            found[name] = {}
    return {**found, **_EMPTY.get(kind.resource.kind, {})}


def _managers_after(obj: Object, old: Object | None, subresource: str = "") -> Managers:
    """Return the managers after a write: from the new object if it has any, else from the old one."""
    given = obj["metadata"].get("managedFields")
    if old is not None and (subresource or not given):
        given = old["metadata"].get("managedFields")
    managers: Managers = {}
    for entry in given or ():
        if not entry.get("operation") or entry.get("fieldsType") != "FieldsV1":
            continue
        updates = entry["operation"] == "Update"
        key = (
            entry.get("manager", ""),
            entry["operation"],
            entry.get("apiVersion", "") if updates else "",
            entry.get("subresource", ""),
        )
        managers[key] = dict(entry)
        managers[key].setdefault("fieldsV1", {})
    return managers


def _add(managers: Managers, key: Key, kind: Kind, fields: FieldSet, *, at: str) -> None:
    manager, operation, _, subresource = key
    entry: Entry = {"manager": manager, "operation": operation, "apiVersion": kind.resource.api_version}
    if at:
        entry["time"] = at
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
    if subresource:
        entry["subresource"] = subresource
    managers[key] = entry


def _take_away(managers: Managers, changed: FieldSet, removed: FieldSet, *, except_for: Key | None = None) -> None:
    """Remove the fields that another manager changed or removed from their former managers."""
    for key in list(managers):
        if key == except_for:
            continue
        entry = managers[key]
        fields = difference(difference(entry["fieldsV1"], changed), removed)
        if fields:
            entry["fieldsV1"] = fields
        else:
            del managers[key]


def _cap_updates(managers: Managers) -> None:
    """Keep the newest updates; merge the fields of older ones, by version."""
    updates = [key for key in managers if key[1] == "Update"]
    named = sorted((key for key in updates if key[0] != _ANCIENT), key=lambda key: str(managers[key].get("time", "")))
    together = {key for key in updates if key[0] == _ANCIENT}
    while len(named) + len(together) > UPDATES_MAX and named:
        oldest = named.pop(0)
        entry = managers.pop(oldest)
        bucket = (_ANCIENT, "Update", oldest[2], "")
        if bucket in managers:
            entry["fieldsV1"] = union(managers[bucket]["fieldsV1"], entry["fieldsV1"])
        entry.pop("subresource", None)
        managers[bucket] = {**entry, "manager": _ANCIENT}
        together.add(bucket)


def _sorted_entries(managers: Managers) -> list[Entry]:
    def place(entry: Entry) -> tuple[str, str, str, str, str]:
        names = ("operation", "time", "manager", "apiVersion", "subresource")
        return tuple(str(entry.get(name, "")) for name in names)  # type: ignore[return-value]

    return sorted(managers.values(), key=place)


def _write(obj: Object, managers: Managers) -> None:
    listed = _sorted_entries(managers)
    if listed:
        obj["metadata"]["managedFields"] = listed
    else:
        obj["metadata"].pop("managedFields", None)


def _conflict_error(managers: Managers, conflicts: Mapping[Key, FieldSet]) -> StatusError:
    causes: list[dict[str, str]] = []
    texts: list[str] = []
    for key in sorted(conflicts):
        entry = managers[key]
        who = f'"{entry.get("manager", "")}"'
        if entry.get("subresource"):
            who += f' with subresource "{entry["subresource"]}"'
        if entry["operation"] == "Update":
            who += f" using {entry.get('apiVersion', '')}"
        found = fieldsets.paths(conflicts[key])
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path} for path in found
        ]
        if len(conflicts) == len(found) == 1:
            texts.append(f"conflict with {who}: {found[0]}")
        else:
            texts.append(f"conflicts with {who}:" + "".join(f"\n- {path}" for path in found))
    count = len(causes)
    detail = f"Apply failed with {count} conflict{'' if count == 1 else 's'}: " + "\n".join(texts)
    return StatusError(409, "Conflict", detail, {"causes": causes})


def check_typed(kind: Kind, config: Object) -> None:
    """Check the types of a configuration.

    Raises:
        StatusError: 500, it has fields, types or repeated items that its kind does not allow.
    """
    faults = list(type_faults(kind.schema, config))
    if not faults:
        return
    detail = faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults))
    meta, resource = config["metadata"], kind.resource
    where = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    which = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    raise StatusError(500, "", f"failed to create typed patch object ({where}; {which}): {detail}")
