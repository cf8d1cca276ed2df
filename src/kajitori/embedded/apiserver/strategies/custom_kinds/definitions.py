"""CustomResourceDefinitions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, required
from kajitori.embedded.apiserver.schemas.schema import Object, is_same
from kajitori.embedded.apiserver.strategies.custom_kinds.structural import validate_structural
from kajitori.embedded.apiserver.strategies.strategy import Strategy

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer on every definition: its objects are deleted first."""
_APPROVED = "api-approved.kubernetes.io"
_ACCEPTED = "the initial names have been accepted"
_PRESERVE = "must not be true: set x-kubernetes-preserve-unknown-fields in the schema of a version instead"
_STILL_STORED = "must remain in spec.versions, since objects may be stored in this version"
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions. A definition is established and served as soon as it is stored."""

    has_status = True
    has_generation = True
    immutable = ("spec.group", "spec.scope", "spec.names.kind", "spec.names.plural")

    def complete(self, obj: Object) -> None:
        given = obj["spec"]["names"]
        if given.get("kind"):
            given.setdefault("singular", given["kind"].lower())
            given.setdefault("listKind", f"{given['kind']}List")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        always = {"status": "True", "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        obj["status"] = {
            "conditions": [
                {"type": "NamesAccepted", "reason": "NoConflicts", "message": "no conflicts found", **always},
                {"type": "Established", "reason": "InitialNamesAccepted", "message": _ACCEPTED, **always},
            ],
            "acceptedNames": dict(obj["spec"]["names"]),
            "storedVersions": _stored_versions(obj["spec"], []),
        }

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        status = dict(new.get("status") or {})
        status["acceptedNames"] = dict(new["spec"].get("names") or {})
        status["storedVersions"] = _stored_versions(new["spec"], status.get("storedVersions") or [])
        new["status"] = status

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        spec, before = new["spec"], (old or {}).get("spec") or {}
        given, group = spec["names"], spec.get("group", "")
        causes = _group_faults(group, new["metadata"].get("annotations") or {})
        if new["metadata"].get("name") != f"{given.get('plural', '')}.{group}":
            causes.append(invalid("metadata.name", new["metadata"].get("name"), "must be the plural, a dot, the group"))
        if given.get("kind") and given.get("kind") == given.get("listKind"):
            causes.append(invalid("spec.names.listKind", given["listKind"], "must not be the same as kind"))
        if spec.get("preserveUnknownFields"):
            causes.append(invalid("spec.preserveUnknownFields", True, _PRESERVE))
        versions = spec.get("versions") or []
        causes += _version_faults(versions, before.get("versions") or [])
        if spec["conversion"].get("strategy") != "None":
            detail = "must be None: this API server converts between versions by changing apiVersion only"
            causes.append(invalid("spec.conversion.strategy", spec["conversion"].get("strategy"), detail))
        listed = {one.get("name") for one in versions}
        stored = (new.get("status") or {}).get("storedVersions") or []
        lost = [(index, one) for index, one in enumerate(stored) if one not in listed]
        return causes + [invalid(f"status.storedVersions[{index}]", one, _STILL_STORED) for index, one in lost]


def _stored_versions(spec: dict[str, Any], before: list[str]) -> list[str]:
    """Return the versions that objects may be stored in: every version that was ever the storage version."""
    now = [one.get("name", "") for one in spec.get("versions") or [] if one.get("storage")]
    return list(dict.fromkeys([*before, *now]))


def _group_faults(group: str, annotations: dict[str, str]) -> list[Cause]:
    causes = [invalid("spec.group", group, fault) for fault in texts.dns_subdomain(group)]
    if "." not in group:
        causes.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    if f".{group}".endswith((".k8s.io", ".kubernetes.io")) and not annotations.get(_APPROVED):
        causes.append(required(f"metadata.annotations[{_APPROVED}]", "the group is reserved for Kubernetes"))
    return causes


def _version_faults(versions: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    stored = [(one.get("schema") or {}).get("openAPIV3Schema") for one in before]
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            causes.append(required(f"{where}.schema.openAPIV3Schema"))
        elif not any(is_same(schema, one) for one in stored):
            # To check an unchanged schema as well would load the library for CEL at every start.
            causes += validate_structural(schema, f"{where}.schema.openAPIV3Schema")
        scale = (version.get("subresources") or {}).get("scale") or {}
        for name, start in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
            path = scale.get(name, "")
            if path and not path.startswith(start):
                causes.append(invalid(f"{where}.subresources.scale.{name}", path, f"must begin with {start}"))
    if sum(bool(one.get("storage")) for one in versions) != 1:
        causes.append(forbidden("spec.versions", "exactly one version must have storage: true"))
    return causes


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key in the order that Kubernetes prefers: v2, v1, v1beta1, v1alpha1, then others by name."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), "")
