"""PersistentVolume, PersistentVolumeClaim and StorageClass."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid
from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.strategies import warnings
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.validation.fields import VOLUME_SOURCES
from kajitori.embedded.apiserver.validation.validate import validate

_CLAIM_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims. They get no protection finalizer, since the controller that would remove it does not run
    here."""

    has_status = True

    def default(self, obj: Object) -> None:
        default_claim(obj.setdefault("spec", {}))

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _complete_source(obj["spec"])
        obj["status"] = {}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        _complete_source(new["spec"])

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        _complete_source(new["spec"])

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("core_v1", "PersistentVolumeClaimSpec", obj.get("spec"), "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        spec, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
        if not before.get("volumeName"):
            before["volumeName"] = spec.get("volumeName")
        if before.get("storageClassName") is None:
            # A claim that was created without a class may get one.
            before["storageClassName"] = spec.get("storageClassName")
        grown = spec.get("resources") or {}, before.get("resources") or {}
        if (new.get("status") or {}).get("phase") == "Bound":
            # Only the volume of a bound claim can grow.
            spec["resources"], before["resources"] = _without_storage(grown[0]), _without_storage(grown[1])
        spec.pop("volumeAttributesClassName", None)
        before.pop("volumeAttributesClassName", None)
        if {k: v for k, v in spec.items() if v is not None} != {k: v for k, v in before.items() if v is not None}:
            causes.append(forbidden("spec", _CLAIM_FIXED))
        given = quantities.parse_nano(((old.get("status") or {}).get("capacity") or {}).get("storage", "0"))
        if _requested(grown[0]) < _requested(grown[1]) and _requested(grown[0]) <= given:
            causes.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
        if spec.get("volumeMode") != before.get("volumeMode"):
            causes.append(invalid("spec.volumeMode", spec.get("volumeMode"), "field is immutable"))
        return causes

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return warnings.of_claim(new["spec"])

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        capacity = (new.get("status") or {}).get("capacity") or {}
        return [fault for name, amount in capacity.items() for fault in _negative(amount, f"status.capacity[{name}]")]


def claim_from_store(obj: Object) -> Object:
    """Return a claim with its first phase, which is not stored, so that its first update is a change."""
    return {**obj, "status": {"phase": "Pending", **(obj.get("status") or {})}}


def _negative(amount: str, field: str) -> list[Cause]:
    whole = -(-quantities.parse_nano(amount) // quantities.NANO)
    return [invalid(field, whole, "must be a valid resource quantity")] if whole < 0 else []


def _complete_source(spec: dict[str, Any]) -> None:
    """Copy the data source of a claim to its newer field as well."""
    if spec.get("dataSource"):
        spec["dataSource"].setdefault("apiGroup", None)
        spec.setdefault("dataSourceRef", dict(spec["dataSource"]))
    if spec.get("dataSourceRef"):
        spec["dataSourceRef"].setdefault("apiGroup", None)


def _without_storage(resources: dict[str, Any]) -> dict[str, Any]:
    requests = {name: amount for name, amount in (resources.get("requests") or {}).items() if name != "storage"}
    return {**resources, "requests": requests}


def _requested(resources: dict[str, Any]) -> int:
    return quantities.parse_nano((resources.get("requests") or {}).get("storage", "0"))


def default_claim(spec: dict[str, Any]) -> None:
    """Set the defaults of a claim's spec, also in the template of an ephemeral volume."""
    spec.setdefault("volumeMode", "Filesystem")


class VolumeStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": _now()}

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if "lastPhaseTransitionTime" in before:
            status.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])
        if status.get("phase") != before.get("phase"):
            status["lastPhaseTransitionTime"] = _now()

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("core_v1", "PersistentVolumeSpec", obj.get("spec"), "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if any(spec.get(one) != before.get(one) for one in VOLUME_SOURCES):
            causes.append(
                forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
            )
        if spec.get("volumeMode") != before.get("volumeMode"):
            causes.append(invalid("spec.volumeMode", spec.get("volumeMode"), "field is immutable"))
        return causes


class StorageClassStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("storage_v1", "StorageClass", obj, "")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        for name in ("parameters", "provisioner"):
            if (new.get(name) or None) != (old.get(name) or None):
                causes.append(forbidden(name, "updates to parameters are forbidden."))
        for name in ("reclaimPolicy", "volumeBindingMode"):
            if new.get(name) != old.get(name):
                causes.append(invalid(name, new.get(name), "field is immutable"))
        return causes


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_default_class(obj: Object) -> bool:
    """Return whether claims without a class get this StorageClass."""
    return (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
