"""PersistentVolume, PersistentVolumeClaim and StorageClass."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.kinds import Object, Strategy
from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.strategies import warnings
from kajitori.embedded.apiserver.strategies.paths import host_path
from kajitori.embedded.apiserver.strategies.selectors import label_selector

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_SOURCES = (
    "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker gcePersistentDisk glusterfs "
    "hostPath iscsi local nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume"
)
VOLUME_SOURCES = tuple(_SOURCES.split(" "))
_CLAIM_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class ClaimStrategy(Strategy):
    """The protection finalizer of real clusters is not put on: the controller that takes it away does not run here,
    and a claim would never go."""

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
        return validate_claim(obj.get("spec") or {}, "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        spec, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
        if not before.get("volumeName"):
            before["volumeName"] = spec.get("volumeName")
        if before.get("storageClassName") is None:
            # A claim that was made before there was a class gets one.
            before["storageClassName"] = spec.get("storageClassName")
        grown = spec.get("resources") or {}, before.get("resources") or {}
        if (new.get("status") or {}).get("phase") == "Bound":
            # Only then is there a volume that could grow.
            spec["resources"], before["resources"] = _without_storage(grown[0]), _without_storage(grown[1])
        spec.pop("volumeAttributesClassName", None)
        before.pop("volumeAttributesClassName", None)
        if {k: v for k, v in spec.items() if v is not None} != {k: v for k, v in before.items() if v is not None}:
            causes.append(forbidden("spec", _CLAIM_FIXED))
        given = quantities.parse_nano(((old.get("status") or {}).get("capacity") or {}).get("storage", "0"))
        if _requested(grown[0]) < _requested(grown[1]) and _requested(grown[0]) <= given:
            causes.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
        if spec.get("volumeMode") != before.get("volumeMode"):
            # The path is really that short.
            causes.append(invalid("volumeMode", spec.get("volumeMode"), "field is immutable"))
        return causes

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return warnings.of_claim(new["spec"])

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        capacity = (new.get("status") or {}).get("capacity") or {}
        return [fault for name, amount in capacity.items() for fault in _negative(amount, f"status.capacity[{name}]")]


def claim_from_store(obj: Object) -> Object:
    """A claim as it is read: its first phase is not stored with it, so that its first update changes something."""
    return {**obj, "status": {"phase": "Pending", **(obj.get("status") or {})}}


def _negative(amount: str, field: str) -> list[Cause]:
    whole = -(-quantities.parse_nano(amount) // quantities.NANO)
    return [invalid(field, whole, "must be a valid resource quantity")] if whole < 0 else []


def _complete_source(spec: dict[str, Any]) -> None:
    """What a claim is filled from stands there twice, under its old name and its new one."""
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
    """Defaults of a claim's spec, also of an ephemeral volume's template."""
    spec.setdefault("volumeMode", "Filesystem")


def validate_claim(spec: dict[str, Any], field: str) -> list[Cause]:
    """Every fault of a claim's spec."""
    causes = _access_modes(spec.get("accessModes") or [], f"{field}.accessModes")
    if spec.get("selector"):
        causes += label_selector(spec["selector"], f"{field}.selector")
    requests = (spec.get("resources") or {}).get("requests") or {}
    amount = requests.get("storage")
    if amount is None:
        causes.append(required(f"{field}.resources[storage]"))
    elif quantities.parse_nano(amount) <= 0:
        causes.append(invalid(f"{field}.resources[storage]", amount, "must be greater than zero"))
    name = spec.get("storageClassName")
    if name:
        causes += [invalid(f"{field}.storageClassName", name, fault) for fault in texts.dns_subdomain(name)]
    if spec.get("volumeMode") not in _VOLUME_MODES:
        causes.append(not_supported(f"{field}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES))
    for name in ("dataSource", "dataSourceRef"):
        if spec.get(name):
            causes += _data_source(spec[name], f"{field}.{name}")
    return causes


def _data_source(source: dict[str, Any], field: str) -> list[Cause]:
    causes = [required(f"{field}.{name}") for name in ("name", "kind") if not source.get(name)]
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        causes.append(invalid(field, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group:
        causes += [invalid(f"{field}.apiGroup", group, fault) for fault in texts.dns_subdomain(group)]
    return causes


def _access_modes(modes: list[str], field: str) -> list[Cause]:
    if not modes:
        return [required(field, "at least 1 access mode is required")]
    causes = [not_supported(field, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        causes.append(forbidden(field, "may not use ReadWriteOncePod with other access modes"))
    return causes


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
        spec = obj.get("spec") or {}
        causes: list[Cause] = []
        modes = spec.get("accessModes") or []
        if not modes:
            causes.append(required("spec.accessModes"))
        causes += [not_supported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
        capacity = spec.get("capacity") or {}
        if not capacity:
            causes.append(required("spec.capacity"))
        if "storage" not in capacity or len(capacity) > 1:
            causes.append(not_supported("spec.capacity", capacity or None, ("storage",)))
        for name, amount in capacity.items():
            causes += _negative(amount, f"spec.capacity[{name}]")
            if quantities.parse_nano(amount) <= 0:
                causes.append(invalid(f"spec.capacity[{name}]", amount, "must be greater than zero"))
        sources = [one for one in VOLUME_SOURCES if one in spec]
        if not sources:
            causes.append(required("spec", "must specify a volume type"))
        causes += [forbidden(f"spec.{one}", "may not specify more than 1 volume type") for one in sources[1:]]
        if spec.get("persistentVolumeReclaimPolicy") not in _RECLAIM:
            given = spec.get("persistentVolumeReclaimPolicy")
            causes.append(not_supported("spec.persistentVolumeReclaimPolicy", given, _RECLAIM))
        if spec.get("volumeMode") not in _VOLUME_MODES:
            causes.append(not_supported("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES))
        if "hostPath" in spec:
            causes += host_path(spec["hostPath"], "spec.hostPath")
        if "local" in spec and not (spec.get("nodeAffinity") or {}).get("required"):
            causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if any(spec.get(one) != before.get(one) for one in VOLUME_SOURCES):
            causes.append(
                forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
            )
        if spec.get("volumeMode") != before.get("volumeMode"):
            # The path is really that short.
            causes.append(invalid("volumeMode", spec.get("volumeMode"), "field is immutable"))
        return causes

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return warnings.of_volume(new["spec"])


class StorageClassStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate_create(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        provisioner = obj.get("provisioner", "")
        if not provisioner:
            causes.append(required("provisioner"))
        else:
            causes += [invalid("provisioner", provisioner, one) for one in texts.qualified_name(provisioner.lower())]
        if obj.get("reclaimPolicy") not in ("Delete", "Retain"):
            causes.append(not_supported("reclaimPolicy", obj.get("reclaimPolicy"), ("Delete", "Retain")))
        modes = ("Immediate", "WaitForFirstConsumer")
        if obj.get("volumeBindingMode") not in modes:
            causes.append(not_supported("volumeBindingMode", obj.get("volumeBindingMode"), modes))
        return causes

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
    """Whether claims without a class get this StorageClass."""
    return (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
