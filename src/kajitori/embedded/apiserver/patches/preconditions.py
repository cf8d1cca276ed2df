"""Refusals of writes that mean another state of an object than the present one."""

from __future__ import annotations

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.status import StatusError, qualified

_FOLDERS = {
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/customresourcedefinitions",
}
"""Where etcd has them, as messages say, if not under their plural."""


def not_that_uid(
    kind: Kind, namespace: str, name: str, uid: str, present: str = "", *, dry_run: bool = False
) -> StatusError:
    """409: whoever changes an object means another one of the same name; `present` is empty if there is none."""
    return _failed_precondition(kind, namespace, name, "UID", uid, present, dry_run)


def not_that_version(
    kind: Kind, namespace: str, name: str, version: str, present: str, *, dry_run: bool = False
) -> StatusError:
    """409: whoever changes an object means another version of it."""
    return _failed_precondition(kind, namespace, name, "ResourceVersion", version, present, dry_run)


def _failed_precondition(
    kind: Kind, namespace: str, name: str, what: str, wanted: str, present: str, dry_run: bool
) -> StatusError:
    resource = kind.stored
    folder = f"{resource.group}/{resource.plural}" if kind.custom is not None else resource.plural
    folder = _FOLDERS.get(qualified(resource), folder)
    key = "/".join(part for part in ("" if dry_run else "/registry", folder, namespace, name) if part)
    if dry_run:
        # What is not stored has no place below the prefix.
        key = f"/{key}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {present}"
    )
    return StatusError.conflict(kind.resource, name, why)
