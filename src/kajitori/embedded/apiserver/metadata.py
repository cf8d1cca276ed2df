"""Validation of metadata (k8s.io/apimachinery/pkg/api/validation/objectmeta.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import IMMUTABLE, Cause, forbidden, invalid, required, too_long

ANNOTATIONS_MAX_BYTES = 256 * 1024
STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"
_NO_OWNERS = frozenset({("v1", "Event")})

Metadata = Mapping[str, Any]


def validate_new(meta: Metadata, *, namespaced: bool, rule: texts.Rule) -> list[Cause]:
    """Return every fault of the metadata of a new object; `rule` checks names of its kind."""
    causes: list[Cause] = []
    generate, name = meta.get("generateName", ""), meta.get("name", "")
    if generate:
        # A trailing dash is allowed: five random characters follow.
        masked = f"{generate[:-1]}a" if generate.endswith("-") and len(generate) > 1 else generate
        causes += [invalid("metadata.generateName", generate, fault) for fault in rule(masked)]
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [invalid("metadata.name", name, fault) for fault in rule(name)]
    namespace = meta.get("namespace", "")
    if namespaced:
        if not namespace:
            causes.append(required("metadata.namespace"))
        else:
            causes += [invalid("metadata.namespace", namespace, fault) for fault in texts.dns_label(namespace)]
    elif namespace:
        causes.append(forbidden("metadata.namespace", "not allowed on this type"))
    return causes + _validate_common(meta)


def validate_changed(new: Metadata, old: Metadata) -> list[Cause]:
    """Return every fault of changed metadata, including changes that are not allowed."""
    causes = _validate_common(new)
    if old.get("deletionTimestamp"):
        added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
        if added:
            detail = f"{', '.join(sorted(added))} may not be added, since the object is being deleted"
            causes.append(forbidden("metadata.finalizers", detail))
    for name in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(name) != old.get(name):
            causes.append(invalid(f"metadata.{name}", new.get(name), IMMUTABLE))
    return causes


def validate_labels(labels: Mapping[str, str], field: str) -> list[Cause]:
    """Return every fault of a set of labels."""
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += [invalid(field, key, fault) for fault in texts.qualified_name(key)]
        causes += [invalid(field, value, fault) for fault in texts.label_value(value)]
    return causes


def validate_annotations(annotations: Mapping[str, str], field: str) -> list[Cause]:
    """Return every fault of a set of annotations, including their total size."""
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        # Keys are checked in lower case for compatibility with old annotations.
        causes += [invalid(field, key, fault) for fault in texts.qualified_name(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_MAX_BYTES:
        causes.append(too_long(field, ANNOTATIONS_MAX_BYTES))
    return causes


def _validate_common(meta: Metadata) -> list[Cause]:
    causes = validate_labels(meta.get("labels") or {}, "metadata.labels")
    causes += validate_annotations(meta.get("annotations") or {}, "metadata.annotations")
    causes += _validate_owners(meta.get("ownerReferences") or [], "metadata.ownerReferences")
    for one in meta.get("finalizers") or ():
        causes += [invalid("metadata.finalizers", one, fault) for fault in texts.qualified_name(one)]
    return causes


def validate_finalizers(meta: Metadata) -> list[Cause]:
    """Return the finalizers without a domain. Built-in kinds accept only standard ones of these; custom resources
    accept any."""
    return [
        invalid(f"metadata.finalizers[{index}]", one, UNQUALIFIED)
        for index, one in enumerate(meta.get("finalizers") or ())
        if "/" not in one and one not in STANDARD_FINALIZERS
    ]


def _validate_owners(owners: list[dict[str, Any]], field: str) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version or version.count("/") > 1 or version.endswith("/"):
            causes.append(invalid(f"{field}.apiVersion", version, "version must not be empty"))
        missing = [name for name in ("kind", "name", "uid") if not owner.get(name)]
        causes += [invalid(f"{field}.{name}", "", "must not be empty") for name in missing]
        if (version, owner.get("kind")) in _NO_OWNERS:
            causes.append(invalid(field, owner, "an Event may not be an owner"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        causes.append(invalid(field, owners, f"only one owner may be the controller, not {', '.join(controllers)}"))
    return causes
