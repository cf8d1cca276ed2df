"""Volumes of Pods."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.strategies.paths import host_path, relative_path
from kajitori.embedded.apiserver.strategies.storage import validate_claim

Spec = dict[str, Any]
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_DOWNWARD_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")


def validate_volumes(volumes: list[Spec], field: str) -> list[Cause]:
    """Every fault of a Pod's volumes."""
    return _looked_at(volumes, field)[0]


def sound_volumes(volumes: list[Spec]) -> dict[str, Spec]:
    """The volumes without faults, by name: only these can be mounted."""
    return _looked_at(volumes, "")[1]


def _looked_at(volumes: list[Spec], field: str) -> tuple[list[Cause], dict[str, Spec]]:
    causes: list[Cause] = []
    sound: dict[str, Spec] = {}
    for index, volume in enumerate(volumes):
        where, name = f"{field}[{index}]", volume.get("name", "")
        faults = _source(volume, where)
        if not name:
            faults.append(required(f"{where}.name"))
        else:
            faults += [invalid(f"{where}.name", name, fault) for fault in texts.dns_label(name)]
        if name in sound:
            faults.append(duplicate(f"{where}.name", name))
        if not faults:
            sound[name] = volume
        causes += faults
    return causes, sound


def _source(volume: Spec, field: str) -> list[Cause]:
    sources = [name for name in volume if name != "name"]
    if not sources:
        return [required(field, "must specify a volume type")]
    causes: list[Cause] = []
    checks = {
        "hostPath": host_path,
        "configMap": _config_map,
        "secret": _secret,
        "persistentVolumeClaim": _claim,
        "emptyDir": _empty_dir,
        "nfs": _nfs,
        "downwardAPI": _downward,
        "projected": _projected,
        "ephemeral": _ephemeral,
    }
    for position, name in enumerate(sorted(sources, key=lambda one: (one != "emptyDir", one != "hostPath"))):
        if position:
            causes.append(forbidden(f"{field}.{name}", "may not specify more than 1 volume type"))
        elif name in checks:
            causes += checks[name](volume[name] or {}, f"{field}.{name}")
    return causes


def _config_map(source: Spec, field: str) -> list[Cause]:
    causes = [] if source.get("name") else [required(f"{field}.name")]
    return causes + _mode(source.get("defaultMode"), f"{field}.defaultMode") + _items(source, field)


def _secret(source: Spec, field: str) -> list[Cause]:
    causes = [] if source.get("secretName") else [required(f"{field}.secretName")]
    return causes + _mode(source.get("defaultMode"), f"{field}.defaultMode") + _items(source, field)


def _items(source: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(source.get("items") or []):
        where = f"{field}.items[{index}]"
        if not item.get("key"):
            causes.append(required(f"{where}.key"))
        path = item.get("path", "")
        causes += relative_path(path, f"{where}.path") if path else [required(f"{where}.path")]
        causes += _mode(item.get("mode"), f"{where}.mode")
    return causes


def _mode(mode: int | None, field: str) -> list[Cause]:
    return [invalid(field, mode, _MODE)] if mode is not None and not 0 <= mode <= 0o777 else []


def _claim(source: Spec, field: str) -> list[Cause]:
    return [] if source.get("claimName") else [required(f"{field}.claimName")]


def _empty_dir(source: Spec, field: str) -> list[Cause]:
    limit = source.get("sizeLimit")
    if limit is not None and quantities.parse_nano(limit) < 0:
        return [forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _nfs(source: Spec, field: str) -> list[Cause]:
    causes = [] if source.get("server") else [required(f"{field}.server")]
    path = source.get("path", "")
    if not path:
        causes.append(required(f"{field}.path"))
    elif not path.startswith("/"):
        causes.append(invalid(f"{field}.path", path, "must be an absolute path"))
    return causes


def _downward(source: Spec, field: str) -> list[Cause]:
    causes = _mode(source.get("defaultMode"), f"{field}.defaultMode")
    for item in source.get("items") or []:
        path = item.get("path", "")
        causes += relative_path(path, f"{field}.path") if path else [required(f"{field}.path")]
        reference = item.get("fieldRef")
        if reference is not None:
            path = reference.get("fieldPath", "")
            if path.partition("[")[0] not in _DOWNWARD_FIELDS:
                causes.append(not_supported(f"{field}.fieldRef.fieldPath", path, _DOWNWARD_FIELDS))
            if "resourceFieldRef" in item:
                causes.append(
                    invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
                )
        elif "resourceFieldRef" not in item:
            causes.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return causes


def _projected(source: Spec, field: str) -> list[Cause]:
    causes = _mode(source.get("defaultMode"), f"{field}.defaultMode")
    for index, one in enumerate(source.get("sources") or []):
        where = f"{field}.sources[{index}]"
        kinds = [name for name in one if one[name] is not None]
        causes += [forbidden(f"{where}.{name}", "may not specify more than 1 volume type") for name in kinds[1:]]
        for name in ("configMap", "secret"):
            if name in one:
                if not one[name].get("name"):
                    causes.append(required(f"{where}.{name}.name"))
                causes += _items(one[name], f"{where}.{name}")
        if "downwardAPI" in one:
            causes += _downward(one["downwardAPI"], f"{where}.downwardAPI")
        if "serviceAccountToken" in one and not one["serviceAccountToken"].get("path"):
            causes.append(required(f"{field}.path"))
    return causes


def _ephemeral(source: Spec, field: str) -> list[Cause]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{field}.volumeClaimTemplate")]
    return validate_claim(template.get("spec") or {}, f"{field}.volumeClaimTemplate.spec")
