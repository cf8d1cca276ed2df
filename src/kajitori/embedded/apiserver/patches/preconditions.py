"""Answers to writes with failed preconditions."""

from __future__ import annotations

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.status import StatusError, qualified

_FOLDERS = {
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/customresourcedefinitions",
}
"""Prefixes of storage keys in messages, for resources that are not stored under their plural."""


def uid_conflict(
    kind: Kind, namespace: str, name: str, uid: str, present: str = "", *, dry_run: bool = False
) -> StatusError:
    """Return a 409: the precondition names another UID; `present` is empty if there is no object."""
    return _failed_precondition(kind, namespace, name, "UID", uid, present, dry_run)


def version_conflict(
    kind: Kind, namespace: str, name: str, version: str, present: str, *, dry_run: bool = False
) -> StatusError:
    """Return a 409: the precondition names another resource version."""
    return _failed_precondition(kind, namespace, name, "ResourceVersion", version, present, dry_run)


def _failed_precondition(
    kind: Kind, namespace: str, name: str, what: str, wanted: str, present: str, dry_run: bool
) -> StatusError:
    resource = kind.stored
    folder = f"{resource.group}/{resource.plural}" if kind.custom is not None else resource.plural
    folder = _FOLDERS.get(qualified(resource), folder)
    key = "/".join(part for part in ("" if dry_run else "/registry", folder, namespace, name) if part)
    if dry_run:
        # An object that is not stored has no storage key.
        key = f"/{key}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {present}"
    )
    return StatusError.conflict(kind.resource, name, why)
