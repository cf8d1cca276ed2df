"""What the API answers, as types: OpenAPI is made from them, and so is every answer."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated, Any, Literal

import msgspec

from kajitori.core import names
from kajitori.core.gang import Member
from kajitori.core.node_request import NodeRequest
from kajitori.core.reasons import Phase, Reason
from kajitori.core.results import MemberResult
from kajitori.core.run import parse_spec, to_document
from kajitori.core.status import Finding, MemberCounts, RunStatus
from kajitori.core.status import to_document as status_document
from kajitori.errors import Fault, InvalidInput
from kajitori.kube.objects import Pod, RunObject

Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


ExpectedFrom = Literal["similar", "limit", "corrected", "general", "unknown", "endless"]


class View(msgspec.Struct, rename="camel", kw_only=True):
    """Base of all answers."""


class RunView(View):
    """A run: what was asked for, and what became of it."""

    name: str
    namespace: str
    uid: str
    owner: str
    """Who submitted it, as the API server authenticated him; empty where it did not come through this API."""
    labels: dict[str, str]
    created_at: Time
    spec: Annotated[
        dict[str, Any],
        msgspec.Meta(description="As RunSpec, with what was left out filled in where that does not depend on policy."),
    ]
    status: Annotated[
        dict[str, Any],
        msgspec.Meta(description="As RunStatus.", extra_json_schema={"$ref": "#/components/schemas/RunStatus"}),
    ]
    deleting: bool = False
    """It is on its way out: its members are being ended."""


class RunList(View, omit_defaults=True):
    """One page of runs."""

    items: list[RunView]
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for the next page; absent on the last."""


class MemberView(View):
    """One member of a run, in the newest of its attempts that has a Pod for it."""

    rank: int
    attempt: int
    pod: str
    node: str
    phase: str
    """Pending, Running, Succeeded or Failed."""
    reason: str
    message: str
    address: str
    exit_code: int | None
    started_at: str
    restarts: int
    terminating: bool


class MemberList(View, omit_defaults=True):
    """One page of members, by rank."""

    items: list[MemberView]
    continue_: str | None = msgspec.field(name="continue", default=None)


class ResultList(View, omit_defaults=True):
    """One page of results, by index."""

    items: list[MemberResult]
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for the next page; absent on the last."""
    incomplete: str = ""
    """Why details of members whose Pods are gone are missing; absent where they are not."""


class LogLine(View):
    """One line that a member printed."""

    rank: int
    attempt: int
    time: Time
    line: str


class EventView(View):
    """Something that happened to a run or one of its members."""

    time: Time
    type: str
    reason: str
    object: str
    """`Run/bert`, `Pod/bert-1-0`."""
    message: str
    count: int


class EventList(View, omit_defaults=True):
    """One page of events, the newest first."""

    items: list[EventView]
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for older ones; absent on the last page."""


class Deleted(View):
    """A run that is on its way out."""

    name: str
    namespace: str


class Amount(View):
    """How much there is, and how much of it is in use. CPU in millicores, memory in bytes."""

    total: int
    used: int


class MemberOnNode(View):
    """What one Pod takes of a node."""

    holder: str
    """`namespace/name` of the run, or of the Pod where it belongs to none."""
    owner: str
    is_run: bool
    pod: str
    rank: int | None
    gpus: int
    cpu_millis: int
    memory_bytes: int
    since: str


class HealthEntry(View):
    """One thing that happened to a node: it left the pool, came back, was lost or tested."""

    at: Time
    what: str
    """out, back, lost, passed, failed or untested."""
    reason: str
    by: str
    """Who asked for it, where a person did."""
    evidence: list[str]
    run: str
    """Of a test: the run that was it."""
    times: int
    """So often in a row."""
    says: str
    """All of it in a line."""


class NodeTest(View):
    """A node's test: the one that is to come or goes on, else the last."""

    state: str
    """asked, testing, passed, failed or untested."""
    at: str = ""
    """When it ended."""
    run: str = ""
    namespace: str = ""
    by: str = ""
    says: str = ""


class Tested(View):
    """Nodes that are to be tested."""

    nodes: list[str]
    """Their names, as far as they are still there."""


class NodeView(View):
    """A node: what it has, what is in use, and why it takes no work."""

    name: str
    ready: bool
    schedulable: bool
    draining: bool
    """An operator wants it emptied: runs are moved away."""
    why: str
    """Why it takes no work; empty where it does."""
    labels: dict[str, str]
    taints: list[str]
    gpu_type: str
    gpus: Amount
    cpu_millis: Amount
    memory_bytes: Amount
    pods: Amount
    domains: dict[str, str]
    """Where it stands: the topology labels of policy that it has."""
    testable: bool
    """Policy has a test for it (`preflight`)."""
    test: NodeTest | None
    created_at: Time


class NodeDetail(NodeView):
    """A node with all that runs on it."""

    members: list[MemberOnNode]
    health: list[HealthEntry]
    """How it left the pool and came back, the oldest first."""


class PoolView(View):
    """A pool of nodes that an autoscaler can make larger."""

    name: str
    gpu_type: str
    gpus: int
    """Of each node."""
    nodes: int
    """That it has."""
    max_nodes: int
    asked_for: int
    """Nodes that waiting runs asked for and that are not there yet."""


class NodeList(View):
    """All nodes, in topology order."""

    items: list[NodeView]
    pools: list[PoolView] | msgspec.UnsetType = msgspec.UNSET
    """Pools that can grow; absent where policy names none."""


class GpuType(View):
    """All GPUs of one type; used, free and broken add up to the total."""

    type: str
    total: int
    used: int
    free: int
    broken: int
    """Of nodes that take no work, or reported as unhealthy."""


class GpuHolding(View):
    """GPUs of one type that one run, or one foreign Pod, holds."""

    name: str
    namespace: str
    is_run: bool
    gpus: int
    type: str
    nodes: str
    """Compact node list."""
    since: str


class GpuUser(View):
    """All that one person holds; an empty owner is that of Pods that are no run's."""

    owner: str
    gpus: int
    types: dict[str, int]
    runs: list[GpuHolding]


class GpuBoard(View):
    """The GPUs of the cluster: of which type, how many are free, and who has the others."""

    types: list[GpuType]
    users: list[GpuUser]
    pools: list[PoolView] | msgspec.UnsetType = msgspec.UNSET
    """Pools that can grow; absent where policy names none."""


class HolderView(View):
    """What one run (or foreign Pod) holds of the nodes that a waiting run could use."""

    holder: str
    owner: str
    is_run: bool
    gpus: int
    cpu_millis: int
    memory_bytes: int
    nodes: str
    since: str
    until: str
    """When it is expected to have ended, which nobody promises; empty where nobody can tell."""


class RoomView(View):
    """For how many members there is room on nodes of the right kind, by what is in the way; never more than are asked
    for."""

    free: int
    """Nothing is in the way."""
    reserved: int
    """It is kept for runs before this one."""
    held: int
    """Others run there."""
    cordoned: int
    broken: int
    """On nodes that are not ready, unhealthy or not tested yet."""


class StepView(View):
    """Something that has to happen before a run can start."""

    kind: Literal["run", "member", "pod", "cordoned", "broken", "ahead"]
    """run: it ends. member: one of its own, such as of a sweep, ends. pod: somebody else's goes. cordoned, broken: the
    node takes work again. ahead: a waiting run that is looked at before this one is stopped."""
    name: str
    """`namespace/name` of the run or Pod; the node's name."""
    owner: str
    why: str
    """Of a node: why it takes no work."""
    nodes: str
    """Where it is, as a compact list, of all nodes."""
    gpus: int
    cpu_millis: int
    memory_bytes: int
    """What it takes there."""
    until: str
    """When that is expected; empty where nobody can tell."""


class BlockedView(View):
    """Nodes of the right kind that take no work now, and why."""

    why: str
    nodes: str
    count: int


class ExpectedView(View):
    """How long a run is expected to take. Nobody is held to it."""

    seconds: int
    """Of one that runs, from now on; of any other from its next start to its end."""
    expected_from: ExpectedFrom
    ends_at: Time | msgspec.UnsetType = msgspec.UNSET
    """Of one that runs: when it is expected to end."""


class PlaceView(View):
    """A place in the queue, with the numbers that put it there."""

    position: int
    """1 is first."""
    of: int
    waited_seconds: int
    """Since it was submitted or resumed; what it ran since then included."""
    expected_seconds: int
    """How long it is expected to take from its next start on. Nobody is held to it."""
    expected_from: ExpectedFrom
    """Where that is known from. similar: the longest of the last three of its kind, at most its time limit. limit: its
    time limit. corrected: it took longer than expected already. general: what most runs of its size take. endless: a
    service, which has no end; it has its place as if it took as long as this."""
    size: float
    """The part of the cluster that it asks for, of the resource that it asks for most: 0 to 1."""
    user_share: float
    """What its user had of the cluster lately, as an average in which policy's `queue.halfLife` ago counts half."""
    team_share: float
    """The same of its namespace."""
    score: float | None
    """Higher comes first, among runs of one priority; null where policy's formula has no value for it."""
    overdue: bool
    """It has waited longest of all, and longer than the bound: it comes first, whatever its score."""
    bound_seconds: int


class KeptView(View):
    """Nodes that are kept for a run: others start there only if they are not expected to delay it."""

    nodes: str
    """As a compact list."""
    expected_at: Time
    """When it is expected to start on them; an estimate, never a promise."""


class QueuedView(View):
    """A run that waits for nodes."""

    name: str
    namespace: str
    owner: str
    phase: str
    reason: str
    priority: int
    """Higher goes before everything else."""
    members: int
    """So many need a node; more, up to `mostMembers`, take what fits."""
    most_members: int
    gpus: int
    """Of all of these together."""
    gpu_type: str
    place: PlaceView
    behind: list[str]
    """There is room for it, and these runs (`namespace/name`), for which nodes are kept, would be delayed by it."""
    kept: KeptView | msgspec.UnsetType = msgspec.UNSET
    """Nodes that are kept for it; absent where none are."""
    expected_at: Time | msgspec.UnsetType = msgspec.UNSET
    """When it is expected to start; an estimate, never a promise. Absent where nobody can tell."""


class QueueView(View):
    """All runs that wait for nodes, in the order in which they are looked at."""

    order: str
    """As policy's `queue.order`."""
    formula: str
    """As policy's `queue.formula`."""
    items: list[QueuedView]


class ExplanationView(View):
    """Why a run is in its phase. For one that waits: what is missing, who holds it, what would start sooner."""

    phase: str
    reason: str
    message: str
    members: int | msgspec.UnsetType = msgspec.UNSET
    """So many have to start together."""
    most: int | msgspec.UnsetType = msgspec.UNSET
    """So many start if there is room: more than `members` of a sweep and of an elastic gang."""
    fit_now: int | msgspec.UnsetType = msgspec.UNSET
    missing: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """By kind: gpu, cpuMillis, memoryBytes, members."""
    held: list[HolderView] | msgspec.UnsetType = msgspec.UNSET
    blocked: list[BlockedView] | msgspec.UnsetType = msgspec.UNSET
    room: RoomView | msgspec.UnsetType = msgspec.UNSET
    to_free: list[StepView] | msgspec.UnsetType = msgspec.UNSET
    """Once all of this has happened, and nothing else, the next cycle starts the run; leave any one out, and it does
    not. Empty for a run that starts now; absent where nothing starts it, since the cluster is too small, and where
    nobody can tell."""
    exact: bool | msgspec.UnsetType = msgspec.UNSET
    """False: so many runs are before this one that it takes too long to tell; `toFree` is enough, but perhaps more than
    is needed, or absent."""
    sooner: list[str] | msgspec.UnsetType = msgspec.UNSET
    """What it could ask for instead to start now, each by itself, as options of `kaji run`."""
    expected_at: Time | msgspec.UnsetType = msgspec.UNSET
    """When it is expected to start, if everything that runs and waits before it takes as long as expected. An estimate,
    never a promise; absent where nobody can tell."""
    ahead: int | msgspec.UnsetType = msgspec.UNSET
    """Waiting runs that are looked at before this one."""
    place: PlaceView | msgspec.UnsetType = msgspec.UNSET
    behind: list[str] | msgspec.UnsetType = msgspec.UNSET
    """There is room for it, and these runs (`namespace/name`), for which nodes are kept, would be delayed by it."""
    asks: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Runs (`namespace/name`) that it asks to give way now: it starts once they have, whatever else is said here."""
    kept: KeptView | msgspec.UnsetType = msgspec.UNSET
    """Nodes that are kept for it; absent where none are."""
    node_request: NodeRequest | msgspec.UnsetType = msgspec.UNSET
    """What it asked an autoscaler for last; absent where it asked for nothing."""
    grows: bool | msgspec.UnsetType = msgspec.UNSET
    """An autoscaler was asked for nodes for it, or will be once it has waited for long enough."""


class WhatIf(View):
    """What would become of a run if it was submitted now. Nothing was made."""

    namespace: str
    starts: bool
    """It would start in the next cycle."""
    nodes: str
    """Where; a compact list in the order of ranks. Empty where it would wait."""
    domains: dict[str, int]
    """Over how many domains of each topology label of policy these are spread."""
    findings: list[Finding]
    """What policy changes in it or wants known."""
    start: ExplanationView
    """When it would start, and what that would take; as for a run that waits."""


class DryRun(View):
    """What would be made of a request."""

    run: RunView
    manifests: list[dict[str, Any]]
    """The Run, its first member's Pod, its Service and, where policy wants one, the claim of its checkpoint."""
    findings: list[Finding]
    start: ExplanationView


class PolicyView(View):
    """The policy in force. With faults, the newest file was not taken and an older policy counts."""

    path: str
    """The file that it was read from, or that has the faults; empty where there is none."""
    version: int
    policy: dict[str, Any]
    faults: list[Fault]
    findings: list[str]
    """What may not be meant so: guarantees that the cluster, as it is, cannot keep all at once."""


class PolicyCheck(View):
    """A policy without faults, with its defaults."""

    policy: dict[str, Any]


class NetworkRange(View, omit_defaults=True):
    """A range of addresses, whose it is, and how it is reached from outside of its cluster."""

    cidr: str
    kind: Literal["researchers", "nodes", "pods", "services"]
    cluster: str = ""
    """Empty for researchers."""
    public: str = ""
    """The range that stands for it outside; empty where the addresses themselves do, or where there is no way."""
    via: list[str] = []
    """Next hops from the hub; empty where the network around it routes by itself."""
    nat_host: str = ""


class NetworksView(View):
    """The address registry in force. With faults, the newest file was not taken and an older registry counts."""

    path: str
    """The file that it was read from, or that has the faults; empty where there is none."""
    version: int
    networks: dict[str, Any]
    """As the file says it, with what it leaves out."""
    ranges: list[NetworkRange]
    faults: list[Fault]
    findings: list[Finding]
    """What may not be meant so."""


class NodeNetwork(View):
    """Addresses for Pods on one node."""

    name: str
    pod_cidrs: list[str]
    """Its own ranges; none where addresses are given one by one."""
    addresses: int | None
    """For Pods; null where the node has no range of its own."""
    most_pods: int
    """That its kubelet takes."""
    pods: int
    """There now, with an address of their own."""
    runs_out: str
    """Why its addresses do not suffice; empty where they do."""


class NetworkUse(View):
    """How addresses for Pods are used on the nodes that are there."""

    items: list[NodeNetwork]


class NetworksCheck(View):
    """A registry without faults, with its defaults."""

    networks: dict[str, Any]
    findings: list[Finding]


class Version(View):
    """Versions of this server and of Kubernetes, and who the caller is."""

    version: str
    kubernetes: str
    user: str


class Health(View):
    """This server works."""

    status: str


def run_view(run: RunObject) -> RunView:
    """The view of a Run. A spec that nobody can read, from `kubectl`, is shown as it stands."""
    meta = run.metadata
    document = msgspec.json.decode(run.spec)
    try:
        spec = parse_spec(document)
    except InvalidInput:
        shown, replicas = document, 0
    else:
        shown, replicas = to_document(spec, with_defaults=True), spec.members
    status = run.status or RunStatus(reason=Reason.NOT_PLANNED_YET, members=MemberCounts(total=replicas))
    if status.attempt is not None:
        status = msgspec.structs.replace(status, attempt=msgspec.structs.replace(status.attempt, template={}))
    return RunView(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        owner=meta.annotations.get(names.ANNOTATION_OWNER, ""),
        labels=meta.labels,
        created_at=meta.creation_timestamp,
        spec=shown if isinstance(shown, dict) else {},
        status=status_document(status),
        deleting=bool(meta.deletion_timestamp),
    )


class RunRenderer:
    """Run views as JSON, each version of a run worked out once however many look at it."""

    def __init__(self, size: int = 2048) -> None:
        self._size = size
        self._known: OrderedDict[tuple[str, str], msgspec.Raw] = OrderedDict()

    def render(self, run: RunObject) -> msgspec.Raw:
        """The view's JSON, on one line."""
        key = (run.metadata.uid, run.metadata.resource_version)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = msgspec.Raw(msgspec.json.encode(run_view(run)))
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known


def phase_of(run: RunObject) -> Phase:
    """The phase; a run that no controller has looked at yet is queued."""
    return run.status.phase if run.status is not None else Phase.QUEUED


def member_view(pod: Pod, member: Member) -> MemberView:
    """The view of one member."""
    container = next((c for c in pod.status.container_statuses if c.name == names.MEMBER_CONTAINER), None)
    state = container.state if container is not None else None
    started = ""
    if state is not None:
        started = (state.running or state.terminated or _NEVER).started_at
    return MemberView(
        rank=member.rank,
        attempt=member.attempt,
        pod=member.pod,
        node=member.node,
        phase=member.state.value,
        reason=member.reason.value,
        message=member.message,
        address=pod.status.pod_ip,
        exit_code=member.exit_code,
        started_at=started,
        restarts=container.restart_count if container is not None else 0,
        terminating=member.terminating,
    )


class _Never:
    started_at = ""


_NEVER = _Never()
