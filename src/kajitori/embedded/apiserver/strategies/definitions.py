"""CustomResourceDefinitions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import IMMUTABLE, Cause, invalid, not_supported, required
from kajitori.embedded.apiserver.schemas.schema import is_same
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.strategies.structural import validate_structural
from kajitori.embedded.apiserver.validation.validate import validate

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer on every definition: its objects are deleted first."""
_APPROVED = "api-approved.kubernetes.io"
_PRESERVE = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
_STILL_STORED = (
    "missing from spec.versions; it must remain in spec.versions until a storage migration ensures no data remains "
    "persisted in this version"
)
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions. A definition is established and served as soon as it is stored."""

    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        given = spec.setdefault("names", {})
        if given.get("kind"):
            given.setdefault("singular", given["kind"].lower())
            given.setdefault("listKind", f"{given['kind']}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        obj["status"] = {
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
            ],
            "acceptedNames": dict(obj["spec"].get("names") or {}),
            "storedVersions": _stored(obj["spec"], []),
        }

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        status = dict(new.get("status") or {})
        status["acceptedNames"] = dict(new["spec"].get("names") or {})
        status["storedVersions"] = _stored(new["spec"], status.get("storedVersions") or [])
        new["status"] = status

    def validate_create(self, obj: Object) -> list[Cause]:
        return self._faults(obj, {})

    def _faults(self, obj: Object, before: dict[str, Any]) -> list[Cause]:
        """Return every fault except of changes; `before` is the stored spec, whose schemas are valid."""
        spec = obj.get("spec") or {}
        given, group = spec.get("names") or {}, spec.get("group", "")
        causes: list[Cause] = []
        if obj["metadata"].get("name") != f"{given.get('plural', '')}.{group}":
            causes.append(
                invalid("metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
            )
        causes += _group(group, obj["metadata"].get("annotations") or {})
        causes += validate("apiextensions_v1", "CustomResourceDefinitionSpec", spec, "spec")
        if given.get("kind") and given.get("kind") == given.get("listKind"):
            causes.append(invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same"))
        if spec.get("preserveUnknownFields"):
            causes.append(invalid("spec.preserveUnknownFields", True, _PRESERVE))
        causes += _versions(spec.get("versions") or [], before.get("versions") or [])
        strategy = (spec.get("conversion") or {}).get("strategy")
        if strategy == "Webhook":
            detail = "this API server converts between versions by changing apiVersion only (None)"
            causes.append(invalid("spec.conversion.strategy", strategy, detail))
        elif strategy != "None":
            causes.append(not_supported("spec.conversion.strategy", strategy or "", ("None", "Webhook")))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        causes: list[Cause] = []
        fixed = [name for name in ("group", "scope") if spec.get(name) != before.get(name)]
        causes += [invalid(f"spec.{name}", spec.get(name), IMMUTABLE) for name in fixed]
        for name in ("kind", "plural"):
            value = (spec.get("names") or {}).get(name)
            if value != (before.get("names") or {}).get(name):
                causes.append(invalid(f"spec.names.{name}", value, IMMUTABLE))
        listed = {one.get("name") for one in spec.get("versions") or []}
        for index, one in enumerate((new.get("status") or {}).get("storedVersions") or []):
            if one not in listed:
                causes.append(
                    invalid(
                        f"status.storedVersions[{index}]",
                        one,
                        _STILL_STORED,
                    )
                )
        return causes + self._faults(new, before)


def _stored(spec: dict[str, Any], before: list[str]) -> list[str]:
    """Return the versions that objects may be stored in: every version that was ever the storage version."""
    now = [one.get("name", "") for one in spec.get("versions") or [] if one.get("storage")]
    return list(dict.fromkeys([*before, *now]))


def _condition(kind: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def _group(group: str, annotations: dict[str, str]) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    causes = [invalid("spec.group", group, fault) for fault in texts.dns_subdomain(group)]
    if "." not in group:
        causes.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    if (group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io")) and not annotations.get(
        _APPROVED
    ):
        detail = (
            f'protected groups must have approval annotation "{_APPROVED}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        causes.append(required(f"metadata.annotations[{_APPROVED}]", detail))
    return causes


def _versions(versions: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    stored = [(one.get("schema") or {}).get("openAPIV3Schema") for one in before]
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            causes.append(required(f"{where}.schema.openAPIV3Schema"))
        elif not isinstance(schema, dict):
            causes.append(invalid(f"{where}.schema.openAPIV3Schema", schema, "must be an object"))
        elif not any(is_same(schema, one) for one in stored):
            # To check an unchanged schema as well would load the library for CEL at every start.
            causes += validate_structural(schema, f"{where}.schema.openAPIV3Schema")
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            causes += _scale(scale, f"{where}.subresources.scale")
    if sum(bool(one.get("storage")) for one in versions) != 1:
        shown = [{"name": one.get("name"), "storage": bool(one.get("storage"))} for one in versions]
        causes.append(invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
        causes.append(invalid("status.storedVersions", None, "must have at least one stored version"))
    return causes


def _scale(scale: dict[str, Any], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, start in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale.get(name, "")
        if path and not path.startswith(start):
            causes.append(invalid(f"{field}.{name}", path, f"should be a JSON path under {start[:-1]}"))
    return causes


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key in the order that Kubernetes prefers: v2, v1, v1beta1, v1alpha1, then others by name."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), "")
