"""PersistentVolume, PersistentVolumeClaim and StorageClass."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid
from kajitori.embedded.apiserver.schemas.quantities import parse_nano
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy
from kajitori.embedded.apiserver.validation.fields import VOLUME_SOURCES

_CLAIM_FIXED = "may not change, except resources.requests of a bound claim and volumeAttributesClassName"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims. They get no protection finalizer, since the controller that would remove it does not run
    here."""

    has_status = True
    first_status: ClassVar = {}
    immutable = ("spec.volumeMode",)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _complete_source(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        _complete_source(new["spec"])

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        _complete_source(new["spec"])

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        if old is None:
            return []
        spec, before = new["spec"], old.get("spec") or {}
        may_change = {"volumeAttributesClassName"}
        # A claim may get a volume and a class later, and the volume of a bound claim can grow.
        may_change |= {name for name in ("volumeName", "storageClassName") if not before.get(name)}
        if (new.get("status") or {}).get("phase") == "Bound":
            may_change.add("resources")
        names = (spec.keys() | before.keys()) - may_change
        causes = [forbidden("spec", _CLAIM_FIXED)] if any(spec.get(name) != before.get(name) for name in names) else []
        given = parse_nano(((old.get("status") or {}).get("capacity") or {}).get("storage", "0"))
        if _requested_bytes(spec) < _requested_bytes(before) and _requested_bytes(spec) <= given:
            causes.append(forbidden("spec.resources.requests.storage", "must not be less than status.capacity"))
        return causes

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        capacity = (new.get("status") or {}).get("capacity") or {}
        return [
            invalid(f"status.capacity[{name}]", amount, "must be greater than or equal to 0")
            for name, amount in capacity.items()
            if parse_nano(amount) < 0
        ]


def claim_from_store(obj: Object) -> Object:
    """Return a claim with its first phase, which is not stored, so that its first update is a change."""
    return {**obj, "status": {"phase": "Pending", **(obj.get("status") or {})}}


def _complete_source(spec: dict[str, Any]) -> None:
    """Copy the data source of a claim to its newer field as well."""
    if spec.get("dataSource"):
        spec["dataSource"].setdefault("apiGroup", None)
        spec.setdefault("dataSourceRef", dict(spec["dataSource"]))
    if spec.get("dataSourceRef"):
        spec["dataSourceRef"].setdefault("apiGroup", None)


def _requested_bytes(spec: dict[str, Any]) -> int:
    return parse_nano(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))


class VolumeStrategy(Strategy):
    has_status = True
    immutable = ("spec.volumeMode", *(f"spec.{name}" for name in VOLUME_SOURCES))

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": _present_time()}

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if "lastPhaseTransitionTime" in before:
            status.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])
        if status.get("phase") != before.get("phase"):
            status["lastPhaseTransitionTime"] = _present_time()


class StorageClassStrategy(Strategy):
    immutable = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def _present_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_default_class(obj: Object) -> bool:
    """Return whether claims without a class get this StorageClass."""
    return (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
