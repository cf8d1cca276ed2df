"""meta.k8s.io/v1 Tables: the columns that `kubectl get` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kajitori.embedded.apiserver.crds import version_of
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.reads import durations, jsonpath, rows
from kajitori.embedded.apiserver.strategies.strategy import Object

Cell = str | Callable[[Object], Any]
"""A JSON path into the object, or a function of the object."""
Row = Callable[[Object, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `priority` above 0 is shown by `-o wide` only. `blank` is shown where `cell` leads to nothing."""

    name: str
    cell: Cell = ""
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""
    blank: Any = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


_NAME = Column("Name", ".metadata.name", format="name", description="Name must be unique within a namespace.")
_CREATION = ".metadata.creationTimestamp"
_AGE = Column("Age", _CREATION, description="How long ago the object was created.")
_CREATED = Column("Created At", _CREATION, "date", description="When the object was created.", blank=None)
_UNSET = "<unset>"


def _names(*names: str, wide: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return columns of rows that a function makes as a whole."""
    return (
        _NAME,
        *(_AGE if one == "Age" else Column(one) for one in names),
        *(Column(one, priority=1) for one in wide),
    )


_EVENT_COLUMNS = (
    *(Column("Last Seen"), Column("Type"), Column("Reason"), Column("Object"), Column("Subobject", priority=1)),
    *(Column("Source", priority=1), Column("Message"), Column("First Seen", priority=1), Column("Count", priority=1)),
    Column("Name", priority=1, format="name"),
)

_ROWS: dict[tuple[str, str], tuple[tuple[Column, ...], Row]] = {
    ("", "events"): (_EVENT_COLUMNS, rows.event),
    ("events.k8s.io", "events"): (_EVENT_COLUMNS, rows.new_event),
    ("", "nodes"): (
        _names(
            *("Status", "Roles", "Age", "Version"),
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        rows.node,
    ),
    ("", "pods"): (
        _names("Ready", "Status", "Restarts", "Age", wide=("IP", "Node", "Nominated Node", "Readiness Gates")),
        rows.pod,
    ),
    ("", "services"): (_names("Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), rows.service),
}
"""Kinds with a function that makes a whole row."""

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "configmaps"): (_NAME, Column("Data", rows.data_size), _AGE),
    ("", "endpoints"): (_NAME, Column("Endpoints", rows.endpoints), _AGE),
    ("", "namespaces"): (_NAME, Column("Status", ".status.phase"), _AGE),
    ("", "persistentvolumeclaims"): (
        *(_NAME, Column("Status", rows.phase), Column("Volume", ".spec.volumeName")),
        *(Column("Capacity", rows.claim_capacity), Column("Access Modes", rows.claim_modes)),
        Column("StorageClass", ".spec.storageClassName"),
        Column("VolumeAttributesClass", ".spec.volumeAttributesClassName", blank=_UNSET),
        *(_AGE, Column("VolumeMode", ".spec.volumeMode", priority=1, blank=_UNSET)),
    ),
    ("", "persistentvolumes"): (
        *(_NAME, Column("Capacity", ".spec.capacity.storage"), Column("Access Modes", rows.volume_modes)),
        *(Column("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"), Column("Status", rows.phase)),
        *(Column("Claim", rows.volume_claim), Column("StorageClass", ".spec.storageClassName")),
        Column("VolumeAttributesClass", ".spec.volumeAttributesClassName", blank=_UNSET),
        *(Column("Reason", ".status.reason"), _AGE),
        Column("VolumeMode", ".spec.volumeMode", priority=1, blank=_UNSET),
    ),
    ("", "podtemplates"): (
        *(_NAME, Column("Containers", rows.template_names), Column("Images", rows.template_images)),
        Column("Pod Labels", rows.template_labels),
    ),
    ("", "resourcequotas"): (
        *(_NAME, Column("Request", partial(rows.quota, of_limits=False))),
        *(Column("Limit", partial(rows.quota, of_limits=True)), _AGE),
    ),
    ("", "secrets"): (_NAME, Column("Type", ".type"), Column("Data", rows.data_size), _AGE),
    ("", "serviceaccounts"): (_NAME, _AGE),
    ("networking.k8s.io", "networkpolicies"): (_NAME, Column("Pod-Selector", rows.pod_selector), _AGE),
    ("policy", "poddisruptionbudgets"): (
        *(_NAME, Column("Min Available", ".spec.minAvailable", blank="N/A")),
        Column("Max Unavailable", ".spec.maxUnavailable", blank="N/A"),
        *(Column("Allowed Disruptions", ".status.disruptionsAllowed", "integer", blank=0), _AGE),
    ),
    ("storage.k8s.io", "storageclasses"): (
        Column("Name", rows.class_name, format="name", description=_NAME.description),
        *(Column("Provisioner", ".provisioner"), Column("ReclaimPolicy", ".reclaimPolicy", blank="Delete")),
        Column("VolumeBindingMode", ".volumeBindingMode", blank=_UNSET),
        Column("AllowVolumeExpansion", rows.grows),
        _AGE,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        *(_NAME, Column("Value", ".value", "integer", blank=0)),
        *(Column("Global-Default", ".globalDefault", "boolean", blank=False), _AGE),
        Column("PreemptionPolicy", ".preemptionPolicy"),
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        *(_NAME, Column("Validations", rows.validations, "integer"), Column("ParamKind", rows.param_kind), _AGE),
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): (
        *(_NAME, Column("PolicyName", ".spec.policyName"), Column("ParamRef", ".nothing", blank=_UNSET), _AGE),
    ),
    ("coordination.k8s.io", "leases"): (_NAME, Column("Holder", ".spec.holderIdentity"), _AGE),
    ("discovery.k8s.io", "endpointslices"): (
        *(_NAME, Column("AddressType", ".addressType"), Column("Ports", rows.slice_ports)),
        *(Column("Endpoints", rows.slice_addresses), _AGE),
    ),
}
"""Kinds with independent columns."""


def to_table(
    kind: Kind,
    objects: Sequence[Object],
    *,
    include: str = "Metadata",
    now: datetime | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """Return a Table of the objects, without list metadata, which the caller adds as `metadata`.

    `include` is what `includeObject` says: "None", "Metadata" (PartialObjectMetadata) or "Object".
    With `headers` false columnDefinitions is None (all but the first event of a watch).
    """
    moment = now or datetime.now(UTC)
    columns, row = _columns_of(kind)
    shown = []
    for obj in objects:
        one: dict[str, Any] = {"cells": row(obj, moment)}
        if kind.resource.plural == "pods" and kind.resource.group == "":
            conditions = rows.pod_conditions(obj)
            if conditions:
                one["conditions"] = conditions
        if include == "Object":
            one["object"] = obj
        elif include == "Metadata":
            metadata = obj.get("metadata") or {}
            one["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        shown.append(one)
    # kube-apiserver answers null for an empty table of a kind that it has no columns for.
    unknown = columns == _BY_CREATION and not shown
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [one.as_dict() for one in columns] if headers else None,
        "rows": None if unknown else shown,
    }


_BY_CREATION = (_NAME, _CREATED)


def _columns_of(kind: Kind) -> tuple[tuple[Column, ...], Row]:
    if kind.custom is not None:
        return _custom(kind)
    key = (kind.resource.group, kind.resource.plural)
    if key in _ROWS:
        return _ROWS[key]
    columns = _COLUMNS.get(key, _BY_CREATION)
    return columns, partial(_row, columns)


def _row(columns: tuple[Column, ...], obj: Object, now: datetime) -> list[Any]:
    return [_plain_cell(column, obj, now) for column in columns]


def _plain_cell(column: Column, obj: Object, now: datetime) -> Any:
    if not isinstance(column.cell, str):
        return column.cell(obj)
    found = jsonpath.compile_path(column.cell).find(obj)
    value = found[0] if found and found[0] is not None else column.blank
    if column is _AGE:
        return durations.age(value or None, now)
    return str(value) if column.type == "string" else value


def _custom(kind: Kind) -> tuple[tuple[Column, ...], Row]:
    """Return the columns that a definition asks for; the age if it asks for none."""
    wanted = version_of(kind).get("additionalPrinterColumns") or []
    if not wanted:
        wanted = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    columns = [
        Column(
            one["name"],
            one["jsonPath"],
            one.get("type", "string"),
            one.get("priority", 0),
            one.get("format", ""),
            one.get("description", "") or f"Custom resource definition column (in JSONPath format): {one['jsonPath']}",
        )
        for one in wanted
    ]
    paths = [jsonpath.compile_path(one["jsonPath"]) for one in wanted]

    def row(obj: Object, now: datetime) -> list[Any]:
        cells = [_cell(column.type, path.find(obj), now) for column, path in zip(columns, paths, strict=True)]
        return [(obj.get("metadata") or {}).get("name", ""), *cells]

    return (_NAME, *columns), row


def _cell(kind: str, values: list[Any], now: datetime) -> Any:
    if not values:
        return None
    value = values[0]
    if kind == "date":
        return durations.age(value if isinstance(value, str) else None, now)
    if kind == "string":
        return ",".join(jsonpath.text_of(one) for one in values) if len(values) > 1 else jsonpath.text_of(value)
    if kind == "integer":
        return int(value) if isinstance(value, int | float) else None
    if kind == "number":
        return value if isinstance(value, int | float) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return value
