"""What the cluster sends, reduced to the fields that are used here. Names as in the Kubernetes API.

Times are RFC 3339 text; quantities are text, too, and `kube.mirror.usage` makes numbers of them. A field that is not
there has its empty value. The structs are not tracked by the garbage collector: they hold no cycles, and there are
millions.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from kajitori.core.spec.status import RunStatus, template_text, to_document
from kajitori.core.spec.status_check import damage, damaged
from kajitori.core.words import names

Quantities = dict[str, str]
"""Resource name to quantity: `{"cpu": "500m", "nvidia.com/gpu": "8"}`."""


class _Wire(msgspec.Struct, rename="camel", omit_defaults=True, gc=False, frozen=True, kw_only=True):
    pass


class OwnerReference(_Wire, frozen=True):
    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(_Wire, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Condition(_Wire, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


# ---------------------------------------------------------------------------------------------- Pods


class ResourceRequirements(_Wire, frozen=True):
    requests: Quantities = {}
    limits: Quantities = {}


class Container(_Wire, frozen=True):
    name: str
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    """`Always` makes an init container a sidecar: it counts as long as the Pod lives."""


class PodSpec(_Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Quantities = {}
    resources: ResourceRequirements | None = None
    """Requests of the Pod as a whole, which replace the sum of its containers'."""


class Waiting(_Wire, frozen=True):
    reason: str = ""
    message: str = ""


class Running(_Wire, frozen=True):
    started_at: str = ""


class Terminated(_Wire, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str = ""
    finished_at: str = ""


class ContainerState(_Wire, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Wire, frozen=True):
    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodIP(_Wire, frozen=True):
    ip: str = ""


class PodStatus(_Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] = msgspec.field(name="podIPs", default=())
    """All of them where there are several; in a mirror nothing where `pod_ip` is all."""
    host_ip: str = msgspec.field(name="hostIP", default="")
    start_time: str = ""
    nominated_node_name: str = ""
    """Where the scheduler makes room for it."""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_Wire, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def member(self) -> names.MemberName | None:
        """Run, attempt and rank by its name, which nobody can change. It proves nothing: anyone may use such a name."""
        return names.read_pod_name(self.metadata.name)

    @property
    def owner_run_uid(self) -> str:
        """UID of the Run that its owner reference names as the controller; empty if the Pod's name is not that of a
        member of that Run. Whether that Run exists in the Pod's namespace is for `kube.mirror.pod_index` to say."""
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
            return tuple(each.ip for each in status.pod_ips)
        return (status.pod_ip,) if status.pod_ip else ()

    @property
    def is_finished(self) -> bool:
        """Its containers have ended for good: it takes nothing from its node any more."""
        return self.status.phase in ("Succeeded", "Failed")


# ---------------------------------------------------------------------------------------------- Nodes


class Taint(_Wire, frozen=True):
    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(_Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = msgspec.field(name="podCIDRs", default=())


class NodeAddress(_Wire, frozen=True):
    type: str
    address: str


class NodeStatus(_Wire, frozen=True):
    allocatable: Quantities = {}
    capacity: Quantities = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(_Wire, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Its kubelet reports, and says that it can run Pods."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def drained_by(self) -> str:
        """Who wants it emptied; nothing where nobody does. Only a node that takes nothing new can be emptied."""
        return self.metadata.annotations.get(names.ANNOTATION_DRAIN, "") if self.spec.unschedulable else ""

    def address(self, *types: str) -> str:
        """The first address of the first of these types that it has (`InternalIP`, `Hostname`), or nothing."""
        for wanted in types:
            for entry in self.status.addresses:
                if entry.type == wanted:
                    return entry.address
        return ""


# ---------------------------------------------------------------------------------------------- other kinds


class RunObject(_Wire, frozen=True):
    """A Run. `spec` is what its writer wrote, in bytes: `core.spec.run` reads it.

    A status that makes no sense is read as that of a run that is over for this reason: whoever looks at runs sees one
    that can be deleted and resumed, and the controller ends its members as those of any run that is over.
    """

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: RunStatus | None = None

    @property
    def standing(self) -> RunStatus:
        """Its status; where nobody has written one yet, that of a run that waits since it was made."""
        return self.status or RunStatus(queued_at=self.metadata.creation_timestamp)

    @property
    def owner(self) -> str:
        """Who submitted it through the Web API; empty where it came another way."""
        return self.metadata.annotations.get(names.ANNOTATION_OWNER, "")

    def __post_init__(self) -> None:
        why = damage(self.status) if self.status is not None else ""
        if why:
            raise ValueError(why)

    @staticmethod
    def mended(document: dict[str, Any], why: str) -> dict[str, Any]:
        """The document with a status that can be read in place of one that can't."""
        status: Any = document.get("status")
        match status:
            case {"attempt": {"template": dict() as template} as attempt}:  # as templates were stored at first
                earlier = {**status, "attempt": {**attempt, "template": template_text(template)}}
                with suppress(msgspec.ValidationError):
                    if not damage(msgspec.convert(earlier, RunStatus)):
                        return {**document, "status": earlier}
        return {**document, "status": to_document(damaged(status, why))}


class Namespace(_Wire, frozen=True):
    metadata: ObjectMeta


class ClaimSpec(_Wire, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()


class ClaimStatus(_Wire, frozen=True):
    phase: str = ""
    capacity: Quantities = {}


class Claim(_Wire, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class RequestStatus(_Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()


class ProvisioningRequest(_Wire, frozen=True):
    """An autoscaling.x-k8s.io ProvisioningRequest, as far as its answer goes."""

    metadata: ObjectMeta
    status: RequestStatus = RequestStatus()


class NetworkPolicy(_Wire, frozen=True):
    """A networking.k8s.io NetworkPolicy."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}

    @property
    def run_uid(self) -> str:
        """The UID of the run that it belongs to; empty where it is nobody's."""
        owners = (each for each in self.metadata.owner_references if each.kind == names.KIND)
        return next((each.uid for each in owners), "")


class ObjectReference(_Wire, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class EventSource(_Wire, frozen=True):
    component: str = ""
    host: str = ""


class Event(_Wire, frozen=True):
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
