"""meta.k8s.io/v1 Tables: the columns that `kubectl get` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kajitori.embedded.apiserver.crds import version_of
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.reads import durations, rows
from kajitori.embedded.apiserver.schemas import jsonpath
from kajitori.embedded.apiserver.schemas.schema import Object

Cell = str | Callable[[Object], Any]
"""A JSON path into the object, or a function of the object."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. With a `priority` above 0 only `-o wide` shows it. `blank` is shown if `cell` finds no value."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""
    blank: Any = ""
    is_age: bool = False
    """Whether the value is a time, and the time since then is shown."""

    def as_dict(self) -> dict[str, Any]:
        """Return the entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


_wide = partial(Column, priority=1)
_CREATION = ".metadata.creationTimestamp"
_NAME = Column("Name", ".metadata.name", format="name", description="Name must be unique within a namespace.")
_AGE = Column("Age", _CREATION, description="How long ago the object was created.", is_age=True)
_BY_CREATION = (_NAME, Column("Created At", _CREATION, "date", blank=None))
_NONE, _UNSET, _UNKNOWN = "<none>", "<unset>", "<unknown>"
_BINDING = (
    *(_NAME, Column("PolicyName", ".spec.policyName")),
    *(Column("ParamRef", ".spec.paramRef.name", blank=_UNSET), _AGE),
)


def _policy_columns(parts: str) -> tuple[Column, ...]:
    """Return the columns of an admission policy, which has a number of `parts`."""
    counted = Column(parts, partial(rows.count, path=f"spec.{parts.lower()}"), "integer")
    return _NAME, counted, Column("ParamKind", ".spec.paramKind.kind", blank=_UNSET), _AGE


_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "configmaps"): (_NAME, Column("Data", rows.data_size), _AGE),
    ("", "endpoints"): (_NAME, Column("Endpoints", rows.endpoints), _AGE),
    ("", "events"): (
        *(Column("Last Seen", rows.last_seen, is_age=True), Column("Type", ".type"), Column("Reason", ".reason")),
        *(Column("Object", rows.event_object), _wide("Subobject", ".involvedObject.fieldPath")),
        *(_wide("Source", rows.event_source), Column("Message", rows.event_message)),
        *(_wide("First Seen", rows.first_seen, is_age=True), _wide("Count", rows.event_count)),
        _wide("Name", ".metadata.name", format="name"),
    ),
    ("", "namespaces"): (_NAME, Column("Status", ".status.phase"), _AGE),
    ("", "nodes"): (
        *(_NAME, Column("Status", rows.node_status), Column("Roles", rows.node_roles), _AGE),
        Column("Version", ".status.nodeInfo.kubeletVersion"),
        _wide("Internal-IP", '.status.addresses[?(@.type=="InternalIP")].address', blank=_NONE),
        _wide("External-IP", '.status.addresses[?(@.type=="ExternalIP")].address', blank=_NONE),
        _wide("OS-Image", ".status.nodeInfo.osImage", blank=_UNKNOWN),
        _wide("Kernel-Version", ".status.nodeInfo.kernelVersion", blank=_UNKNOWN),
        _wide("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", blank=_UNKNOWN),
    ),
    ("", "persistentvolumeclaims"): (
        *(_NAME, Column("Status", rows.phase), Column("Volume", ".spec.volumeName")),
        Column("Capacity", ".status.capacity.storage"),
        Column("Access Modes", partial(rows.modes, path="status.accessModes")),
        Column("StorageClass", ".spec.storageClassName"),
        Column("VolumeAttributesClass", ".spec.volumeAttributesClassName", blank=_UNSET),
        *(_AGE, _wide("VolumeMode", ".spec.volumeMode", blank=_UNSET)),
    ),
    ("", "persistentvolumes"): (
        *(_NAME, Column("Capacity", ".spec.capacity.storage")),
        Column("Access Modes", partial(rows.modes, path="spec.accessModes")),
        *(Column("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"), Column("Status", rows.phase)),
        *(Column("Claim", rows.volume_claim), Column("StorageClass", ".spec.storageClassName")),
        Column("VolumeAttributesClass", ".spec.volumeAttributesClassName", blank=_UNSET),
        *(Column("Reason", ".status.reason"), _AGE),
        _wide("VolumeMode", ".spec.volumeMode", blank=_UNSET),
    ),
    ("", "pods"): (
        *(_NAME, Column("Ready", rows.pod_ready), Column("Status", rows.pod_status)),
        *(Column("Restarts", rows.pod_restarts), _AGE, _wide("IP", ".status.podIP", blank=_NONE)),
        _wide("Node", ".spec.nodeName", blank=_NONE),
        _wide("Nominated Node", ".status.nominatedNodeName", blank=_NONE),
        _wide("Readiness Gates", rows.pod_gates),
    ),
    ("", "podtemplates"): (
        *(_NAME, Column("Containers", partial(rows.joined, path="template.spec.containers", name="name"))),
        Column("Images", partial(rows.joined, path="template.spec.containers", name="image")),
        Column("Pod Labels", partial(rows.labels, path="template.metadata.labels")),
    ),
    ("", "resourcequotas"): (
        *(_NAME, Column("Request", partial(rows.quota, of_limits=False))),
        *(Column("Limit", partial(rows.quota, of_limits=True)), _AGE),
    ),
    ("", "secrets"): (_NAME, Column("Type", ".type"), Column("Data", rows.data_size), _AGE),
    ("", "serviceaccounts"): (_NAME, _AGE),
    ("", "services"): (
        *(_NAME, Column("Type", ".spec.type"), Column("Cluster-IP", ".spec.clusterIP", blank=_NONE)),
        *(Column("External-IP", rows.external_address), Column("Port(s)", rows.service_ports), _AGE),
        _wide("Selector", partial(rows.labels, path="spec.selector")),
    ),
    ("networking.k8s.io", "networkpolicies"): (
        *(_NAME, Column("Pod-Selector", partial(rows.labels, path="spec.podSelector.matchLabels")), _AGE),
    ),
    ("resource.k8s.io", "deviceclasses"): (_NAME, _AGE),
    ("resource.k8s.io", "resourceclaims"): (_NAME, Column("State", rows.device_claim_state), _AGE),
    ("resource.k8s.io", "resourceclaimtemplates"): (_NAME, _AGE),
    ("resource.k8s.io", "resourceslices"): (
        *(_NAME, Column("Node", ".spec.nodeName", blank=_UNSET), Column("Driver", ".spec.driver")),
        *(Column("Pool", ".spec.pool.name"), _AGE),
    ),
    ("policy", "poddisruptionbudgets"): (
        *(_NAME, Column("Min Available", ".spec.minAvailable", blank="N/A")),
        Column("Max Unavailable", ".spec.maxUnavailable", blank="N/A"),
        *(Column("Allowed Disruptions", ".status.disruptionsAllowed", "integer", blank=0), _AGE),
    ),
    ("storage.k8s.io", "storageclasses"): (
        Column("Name", rows.class_name, format="name", description=_NAME.description),
        *(Column("Provisioner", ".provisioner"), Column("ReclaimPolicy", ".reclaimPolicy", blank="Delete")),
        Column("VolumeBindingMode", ".volumeBindingMode", blank=_UNSET),
        *(Column("AllowVolumeExpansion", ".allowVolumeExpansion", blank=False), _AGE),
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        *(_NAME, Column("Value", ".value", "integer", blank=0)),
        *(Column("Global-Default", ".globalDefault", "boolean", blank=False), _AGE),
        Column("PreemptionPolicy", ".preemptionPolicy"),
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _policy_columns("Validations"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): _policy_columns("Mutations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _BINDING,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): _BINDING,
    ("coordination.k8s.io", "leases"): (_NAME, Column("Holder", ".spec.holderIdentity"), _AGE),
    ("discovery.k8s.io", "endpointslices"): (
        *(_NAME, Column("AddressType", ".addressType"), Column("Ports", rows.slice_ports)),
        *(Column("Endpoints", rows.slice_addresses), _AGE),
    ),
}


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
    columns = _columns_of(kind)
    shown = []
    for obj in objects:
        one: dict[str, Any] = {"cells": [_cell_value(column, obj, moment) for column in columns]}
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


def _columns_of(kind: Kind) -> tuple[Column, ...]:
    if kind.custom is None:
        return _COLUMNS.get((kind.resource.group, kind.resource.plural), _BY_CREATION)
    # The columns that a definition asks for; the age if it asks for none.
    age = {"name": "Age", "type": "date", "jsonPath": _CREATION}
    wanted = [
        Column(
            one["name"],
            one["jsonPath"],
            one.get("type", "string"),
            one.get("priority", 0),
            one.get("format", ""),
            one.get("description", ""),
            None,
            one.get("type") == "date",
        )
        for one in version_of(kind).get("additionalPrinterColumns") or [age]
    ]
    return (_NAME, *wanted)


_TYPES: dict[str, tuple[type, ...]] = {"integer": (int, float), "number": (int, float), "boolean": (bool,)}


def _cell_value(column: Column, obj: Object, now: datetime) -> Any:
    if not isinstance(column.cell, str):
        value = column.cell(obj)
    else:
        found = [one for one in jsonpath.compile_path(column.cell).find(obj) if one is not None and one != ""]
        if not found:
            return _UNKNOWN if column.is_age and column.blank is not None else column.blank
        is_text = column.type == "string" and not column.is_age and not isinstance(found[0], bool)
        value = ",".join(map(jsonpath.text_of, found)) if is_text else found[0]
    if column.is_age:
        return durations.age(value if isinstance(value, str) else None, now)
    return value if isinstance(value, _TYPES.get(column.type, (object,))) else None
