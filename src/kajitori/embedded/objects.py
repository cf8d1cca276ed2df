"""The fields of Kubernetes objects that the embedded cluster's own controllers read; the rest is not decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kajitori.core.kubernetes.selectors import holds
from kajitori.kube.device_objects import DeviceClaim
from kajitori.kube.metadata import ObjectMeta, Wire

Text = dict[str, str]


def no_metadata() -> ObjectMeta:
    """Return the metadata of an object that was never stored."""
    return ObjectMeta(name="")


class Condition(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None


# --- Pods ------------------------------------------------------------------------------------------------------------


class Toleration(msgspec.Struct, rename="camel", gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Requirement(msgspec.Struct, rename="camel"):
    """One expression of a node selector; `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(msgspec.Struct, rename="camel"):
    """A label selector; an empty one matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether the labels fulfil all requirements; an unknown operator matches nothing."""
        held = labels or {}
        if any(held.get(key) != value for key, value in (self.match_labels or {}).items()):
            return False
        return all(holds(r.key, r.operator, r.values, held) for r in self.match_expressions or ())


class NodeSelectorTerm(msgspec.Struct, rename="camel"):
    """One term of a node selector: all its expressions have to match, and a term without any matches nothing."""

    match_expressions: list[Requirement] = []
    match_fields: list[Requirement] = []


class NodeSelector(msgspec.Struct, rename="camel"):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredTerm(msgspec.Struct, rename="camel"):
    weight: int = 1
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(msgspec.Struct):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class InterPodAffinity(msgspec.Struct):
    required: list[Any] = msgspec.field(default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(msgspec.Struct, rename="camel"):
    node_affinity: NodeAffinity | None = None
    pod_affinity: InterPodAffinity | None = None
    pod_anti_affinity: InterPodAffinity | None = None


class ContainerPort(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Resources(msgspec.Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(msgspec.Struct, rename="camel"):
    name: str = ""
    image: str = ""
    resources: Resources | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class ClaimSource(msgspec.Struct, rename="camel", gc=False):
    claim_name: str = ""


class Volume(msgspec.Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class SpreadConstraint(msgspec.Struct, rename="camel", gc=False):
    when_unsatisfiable: str = "DoNotSchedule"


class PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    node_selector: Text | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: Resources | None = None
    priority: int | None = None
    active_deadline_seconds: int | None = None
    restart_policy: str = "Always"
    host_network: bool = False
    volumes: list[Volume] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    resource_claims: list[Any] | None = None
    scheduling_gates: list[Any] | None = None
    hostname: str = ""
    subdomain: str = ""


class PodStatus(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    conditions: list[Condition] | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    container_statuses: list[dict[str, Any]] | None = None
    reason: str = ""
    resource_claim_statuses: list[dict[str, Any]] | None = None
    extended_resource_claim_status: dict[str, Any] | None = None


class Pod(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def is_finished(self) -> bool:
        """Whether all its containers have ended for good, so that it uses nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")


# --- Nodes -----------------------------------------------------------------------------------------------------------


class Taint(msgspec.Struct, rename="camel", gc=False):
    key: str
    value: str = ""
    effect: str = "NoSchedule"
    time_added: str | None = None

    def document(self) -> Text:
        """Return the taint as in a Node's spec."""
        whole = {"key": self.key, "value": self.value, "effect": self.effect, "timeAdded": self.time_added or ""}
        return {name: text for name, text in whole.items() if text}


class NodeSpec(msgspec.Struct, rename="camel"):
    unschedulable: bool = False
    taints: list[Taint] | None = None
    pod_cidrs: list[str] | None = msgspec.field(name="podCIDRs", default=None)


class NodeStatus(msgspec.Struct, rename="camel"):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[Condition] | None = None


class Node(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class WrittenClaim(DeviceClaim, frozen=True):
    """A ResourceClaim with its requests."""

    spec: dict[str, Any] = {}


class WrittenTemplate(Wire, frozen=True):
    """A ResourceClaimTemplate."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}


# --- Leases, claims, volumes -----------------------------------------------------------------------------------------


class LeaseSpec(msgspec.Struct, rename="camel", gc=False):
    renew_time: str | None = None


class Lease(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class ClaimSpec(msgspec.Struct, rename="camel"):
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    resources: Resources | None = None
    selector: LabelSelector | None = None


class Phase(msgspec.Struct, rename="camel", gc=False):
    phase: str = ""


class Claim(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: Phase = msgspec.field(default_factory=Phase)


class ClaimReference(msgspec.Struct, rename="camel", gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class HostPath(msgspec.Struct, rename="camel", gc=False):
    path: str = ""


class VolumeNodeAffinity(msgspec.Struct, rename="camel"):
    required: NodeSelector | None = None


class VolumeSpec(msgspec.Struct, rename="camel"):
    capacity: dict[str, str | int | float] | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    volume_mode: str | None = None
    host_path: HostPath | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: Phase = msgspec.field(default_factory=Phase)


class StorageClass(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    provisioner: str = ""
    reclaim_policy: str | None = "Delete"
    volume_binding_mode: str | None = "Immediate"


def is_true(conditions: list[Condition] | None, kind: str) -> bool:
    """Return whether the condition of this type is true; a missing one is not."""
    found = condition(conditions, kind)
    return found is not None and found.status == "True"


def condition(conditions: list[Condition] | None, kind: str) -> Condition | None:
    """Return the condition of this type, or None."""
    return next((c for c in conditions or () if c.type == kind), None)
