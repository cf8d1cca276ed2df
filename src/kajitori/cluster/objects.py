"""Objects of the cluster, reduced to the fields that are used here. Names are those of the Kubernetes API.

Times and quantities are text; `cluster.mirror.usage` converts quantities to numbers. A missing field has its empty
value. The garbage collector does not track the structs: they hold no cycles, and there are millions.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kajitori.core.naming import names
from kajitori.kube.metadata import ObjectMeta, Wire

Quantities = dict[str, str]
"""Resource name to quantity: `{"cpu": "500m", "nvidia.com/gpu": "8"}`."""


class Condition(Wire, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


# ---------------------------------------------------------------------------------------------- Pods


class ResourceRequirements(Wire, frozen=True):
    requests: Quantities = {}
    limits: Quantities = {}


class Probe(Wire, frozen=True):
    """A probe of a container. Nothing of it matters but that there is one."""


class Container(Wire, frozen=True):
    name: str
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    """`Always` makes an init container a sidecar: it counts as long as the Pod lives."""
    readiness_probe: Probe | None = None
    """Set if its readiness is the result of checks, as is that of a run with a health check."""


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Quantities = {}
    resources: ResourceRequirements | None = None
    """Requests of the Pod as a whole, which replace the sum of its containers' requests."""


class Waiting(Wire, frozen=True):
    reason: str = ""
    message: str = ""


class Running(Wire, frozen=True):
    started_at: str = ""


class Terminated(Wire, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str = ""
    finished_at: str = ""


class ContainerState(Wire, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Wire, frozen=True):
    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodIP(Wire, frozen=True):
    ip: str = ""


class PodStatus(Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] = msgspec.field(name="podIPs", default=())
    """All addresses, if there are several; a mirror drops them if `pod_ip` is the only one."""
    host_ip: str = msgspec.field(name="hostIP", default="")
    start_time: str = ""
    nominated_node_name: str = ""
    """The node on which the scheduler makes room for the Pod."""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Wire, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def member(self) -> names.MemberName | None:
        """Run, attempt and rank in the Pod's name, which can't be changed. It proves nothing, since any Pod may use
        such a name."""
        return names.read_pod_name(self.metadata.name)

    @property
    def owner_run_uid(self) -> str:
        """UID of the Run that is the Pod's controller; empty if the Pod's name is not that of a member of that Run.

        `cluster.mirror.pod_index` knows whether that Run exists in the Pod's namespace.
        """
        owner = self.metadata.controller
        if owner is None or owner.kind != names.KIND:
            return ""
        member = self.member
        return owner.uid if member is not None and owner.name == member.run else ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """All of its addresses, of both families."""
        status = self.status
        if status.pod_ips:
            return tuple(entry.ip for entry in status.pod_ips)
        return (status.pod_ip,) if status.pod_ip else ()

    @property
    def has_readiness_probe(self) -> bool:
        """Whether the readiness of one of its containers is the result of checks."""
        return any(container.readiness_probe is not None for container in self.spec.containers)

    @property
    def is_finished(self) -> bool:
        """Whether its containers have ended for good, so that it uses nothing of its node any more."""
        return self.status.phase in ("Succeeded", "Failed")


# ---------------------------------------------------------------------------------------------- Nodes


class Taint(Wire, frozen=True):
    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = msgspec.field(name="podCIDRs", default=())


class NodeAddress(Wire, frozen=True):
    type: str
    address: str


class NodeStatus(Wire, frozen=True):
    allocatable: Quantities = {}
    capacity: Quantities = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(Wire, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet reports that it can run Pods."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def drained_by(self) -> str:
        """The user who drains the node, and the reason; empty if it is not drained. Only a cordoned node can be
        drained."""
        return self.metadata.annotations.get(names.ANNOTATION_DRAIN, "") if self.spec.unschedulable else ""

    def address(self, *types: str) -> str:
        """Return the first address of the first of these types that it has (`InternalIP`, `Hostname`), or an empty
        text."""
        for wanted in types:
            for entry in self.status.addresses:
                if entry.type == wanted:
                    return entry.address
        return ""


# ---------------------------------------------------------------------------------------------- other kinds


class Namespace(Wire, frozen=True):
    metadata: ObjectMeta


class ClaimSpec(Wire, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()


class ClaimStatus(Wire, frozen=True):
    phase: str = ""
    capacity: Quantities = {}


class Claim(Wire, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class RequestStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()


class ProvisioningRequest(Wire, frozen=True):
    """The fields of an autoscaling.x-k8s.io ProvisioningRequest that hold the autoscaler's answer."""

    metadata: ObjectMeta
    status: RequestStatus = RequestStatus()


class NetworkPolicy(Wire, frozen=True):
    """A networking.k8s.io NetworkPolicy."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}

    @property
    def run_uid(self) -> str:
        """The UID of the run that it belongs to; empty if it belongs to none."""
        owners = self.metadata.owner_references
        return next((owner.uid for owner in owners if owner.kind == names.KIND), "")


class ObjectReference(Wire, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class EventSource(Wire, frozen=True):
    component: str = ""
    host: str = ""


class Event(Wire, frozen=True):
    """A core/v1 Event."""

    metadata: ObjectMeta
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: str = ""
    last_timestamp: str = ""
    event_time: str = ""
    source: EventSource = EventSource()
