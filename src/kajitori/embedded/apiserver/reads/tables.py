"""meta.k8s.io/v1 Tables: the columns that `kubectl get` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kajitori.embedded.apiserver.crds import version_of
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.reads import durations, jsonpath, rows
from kajitori.embedded.apiserver.strategies.strategy import Object

Row = Callable[[Object, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `priority` above 0 is shown by `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


_NAME = Column("Name", format="name", description="Name must be unique within a namespace.")
_AGE = Column("Age", description="How long ago the object was created.")
_CREATED = Column("Created At", "date", description="When the object was created.")


def _columns(*names: str, wide: Sequence[str] = ()) -> tuple[Column, ...]:
    """Name, the given columns, and those for `-o wide`."""
    shown = [_AGE if one == "Age" else Column(one) for one in names]
    return (_NAME, *shown, *(Column(one, priority=1) for one in wide))


_EVENT_COLUMNS = (
    Column("Last Seen"),
    Column("Type"),
    Column("Reason"),
    Column("Object"),
    Column("Subobject", priority=1),
    Column("Source", priority=1),
    Column("Message"),
    Column("First Seen", priority=1),
    Column("Count", priority=1),
    Column("Name", priority=1, format="name"),
)

_KINDS: dict[tuple[str, str], tuple[tuple[Column, ...], Row]] = {
    ("", "configmaps"): (_columns("Data", "Age"), rows.config_map),
    ("", "endpoints"): (_columns("Endpoints", "Age"), rows.endpoints),
    ("", "events"): (_EVENT_COLUMNS, rows.event),
    ("events.k8s.io", "events"): (_EVENT_COLUMNS, rows.new_event),
    ("", "namespaces"): (_columns("Status", "Age"), rows.namespace),
    ("", "nodes"): (
        _columns(
            "Status",
            "Roles",
            "Age",
            "Version",
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        rows.node,
    ),
    ("", "persistentvolumeclaims"): (
        _columns(
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            wide=("VolumeMode",),
        ),
        rows.claim,
    ),
    ("", "persistentvolumes"): (
        _columns(
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            wide=("VolumeMode",),
        ),
        rows.volume,
    ),
    ("", "pods"): (
        _columns("Ready", "Status", "Restarts", "Age", wide=("IP", "Node", "Nominated Node", "Readiness Gates")),
        rows.pod,
    ),
    ("", "podtemplates"): (_columns("Containers", "Images", "Pod Labels"), rows.pod_template),
    ("", "resourcequotas"): (_columns("Request", "Limit", "Age"), rows.quota),
    ("", "secrets"): (_columns("Type", "Data", "Age"), rows.secret),
    ("", "serviceaccounts"): (_columns("Age"), rows.plain),
    ("", "services"): (
        _columns("Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)),
        rows.service,
    ),
    ("networking.k8s.io", "networkpolicies"): (_columns("Pod-Selector", "Age"), rows.network_policy),
    ("policy", "poddisruptionbudgets"): (
        (
            _NAME,
            Column("Min Available"),
            Column("Max Unavailable"),
            Column("Allowed Disruptions", "integer"),
            _AGE,
        ),
        rows.budget,
    ),
    ("storage.k8s.io", "storageclasses"): (
        _columns("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        rows.storage_class,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        (
            _NAME,
            Column("Value", "integer"),
            Column("Global-Default", "boolean"),
            _AGE,
            Column("PreemptionPolicy"),
        ),
        rows.priority_class,
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        (_NAME, Column("Validations", "integer"), Column("ParamKind"), _AGE),
        rows.admission_policy,
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): (
        _columns("PolicyName", "ParamRef", "Age"),
        rows.admission_binding,
    ),
    ("coordination.k8s.io", "leases"): (_columns("Holder", "Age"), rows.lease),
    ("discovery.k8s.io", "endpointslices"): (_columns("AddressType", "Ports", "Endpoints", "Age"), rows.endpoint_slice),
}


def to_table(
    kind: Kind,
    objects: Sequence[Object],
    *,
    include: str = "Metadata",
    now: datetime | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """A Table of the objects, without list metadata, which the caller adds as `metadata`.

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
    # Where nobody wrote how a kind is printed, a table of nothing has none.
    unknown = row is rows.created and not shown
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [one.as_dict() for one in columns] if headers else None,
        "rows": None if unknown else shown,
    }


def _columns_of(kind: Kind) -> tuple[tuple[Column, ...], Row]:
    if kind.custom is not None:
        return _custom(kind)
    found = _KINDS.get((kind.resource.group, kind.resource.plural))
    return found if found is not None else ((_NAME, _CREATED), rows.created)


def _custom(kind: Kind) -> tuple[tuple[Column, ...], Row]:
    """The columns that a definition asks for; without any, the age."""
    wanted = version_of(kind).get("additionalPrinterColumns") or []
    if not wanted:
        wanted = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    columns = [
        Column(
            one["name"],
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
