"""Types of the API's answers about nodes and GPUs."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kajitori.api.views.base import Time, View


class Amount(View):
    """Total and used amount of a resource. CPU in millicores, memory in bytes."""

    total: int
    used: int


class MemberOnNode(View):
    """Resources that one Pod takes on a node."""

    holder: str
    """`namespace/name` of the run, or of the Pod if it belongs to no run."""
    owner: str
    is_run: bool
    pod: str
    rank: int | None
    gpus: int
    cpu_millis: int
    memory_bytes: int
    since: str


class HealthEntry(View):
    """An entry of a node's health history: it left the pool, returned, was lost, tested, drained or uncordoned."""

    at: Time
    what: str
    """out, back, lost, passed, failed, untested, drained or uncordoned."""
    reason: str
    by: str
    """The user who requested it; empty if no person did."""
    evidence: list[str]
    run: str
    """The run that tested the node; empty if this is no test."""
    times: int
    """How often the same thing happened in a row."""
    says: str
    """The whole entry in one line."""


class NodeTest(View):
    """The requested or running test of a node, else its last one."""

    state: str
    """asked, testing, passed, failed or untested."""
    at: str = ""
    """When the test ended."""
    run: str = ""
    namespace: str = ""
    by: str = ""
    says: str = ""


class Tested(View):
    """Nodes that will be tested."""

    nodes: list[str]
    """Names of the nodes that still exist."""


class NodeView(View):
    """A node: its resources, how much is in use, and why it takes no work."""

    name: str
    ready: bool
    """The Ready condition that its kubelet reports, as in `kubectl get nodes`."""
    schedulable: bool
    draining: bool
    """An operator drains the node: its runs are moved away."""
    why: str
    """Why the node takes no work; empty if it does."""
    labels: dict[str, str]
    taints: list[str]
    gpu_type: str
    gpus: Amount
    """Whole GPUs."""
    partial_gpus: dict[str, Amount]
    """MIG slices, other partitions and shared GPUs by type."""
    cpu_millis: Amount
    memory_bytes: Amount
    pods: Amount
    domains: dict[str, str]
    """The node's values of the policy's topology labels."""
    testable: bool
    """Whether the policy has a test for the node (`preflight`)."""
    test: NodeTest | None
    created_at: Time


class NodeDetail(NodeView):
    """A node with everything that runs on it."""

    members: list[MemberOnNode]
    health: list[HealthEntry]
    """The node's health history, the oldest entry first."""
    changeable: bool
    """Whether the caller may drain the node and return it to the pool."""


class NodeState(StrEnum):
    """Whether a node takes work, or the first reason why it does not."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    UNTESTED = "untested"
    UNHEALTHY = "unhealthy"
    NOT_READY = "notReady"


class NodeTableRow(View):
    """A node as one row of a table, or one cell of a map."""

    name: str
    state: NodeState
    why: str
    """Why the node takes no work; empty if it does."""
    gpu_type: str
    gpus: Amount
    """Whole GPUs."""
    partial_gpus: dict[str, Amount]
    cpu_millis: Amount
    memory_bytes: Amount
    pods: Amount
    pool: str
    """The policy's pool that the node belongs to; empty if it is in none."""
    places: list[str]
    """The node's values of the policy's topology labels, the widest first; levels without a value are left out."""
    holders: list[str]
    """`namespace/name` of the runs on it, and of other Pods that hold GPUs: the four with the most GPUs there."""
    owner: str
    """The user of the first of them."""


class NodeCounts(View):
    """Number of nodes that match the filters of a list or stream."""

    total: int
    states: dict[str, int]
    """Matching nodes by state, without regard to the filter `state`. States without nodes are absent."""


class NodeTable(View, omit_defaults=True):
    """One page of nodes as rows of a table."""

    items: list[NodeTableRow]
    counts: NodeCounts
    topology: list[str]
    """The policy's topology labels, the widest first."""
    version: str
    """Version of the list: with this as `since` and the same filters, `GET /v1/nodes/changes` begins with the changes
    after this answer."""
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for the next page; absent on the last."""


class NodeKey(View):
    """Names one node."""

    name: str


class NodeSnapshot(View):
    """Data of the event `snapshot`: all matching nodes, in no particular order. It replaces all that came before."""

    items: list[NodeTableRow]
    """Empty if the stream was asked for no items in snapshots."""
    counts: NodeCounts


class NodeChanges(View):
    """Data of the event `changes`: matching nodes that changed since the event before."""

    added: list[NodeTableRow]
    """Nodes that did not match before."""
    changed: list[NodeTableRow]
    removed: list[NodeKey]
    """Nodes that were deleted or match no more."""
    counts: NodeCounts


class PoolView(View):
    """A pool of nodes that an autoscaler can make larger."""

    name: str
    gpu_type: str
    gpus: int
    """GPUs of each node."""
    nodes: int
    """Current number of nodes."""
    max_nodes: int
    asked_for: int
    """Nodes that waiting runs requested and that have not arrived yet."""


class NodeList(View):
    """All nodes, in topology order."""

    items: list[NodeView]
    pools: list[PoolView] | msgspec.UnsetType = msgspec.UNSET
    """Pools that can grow; absent if the policy has no pools."""
    counts: NodeCounts | msgspec.UnsetType = msgspec.UNSET
    """Absent if all nodes were asked for."""
    continue_: str | msgspec.UnsetType = msgspec.field(name="continue", default=msgspec.UNSET)
    """Send it back for the next page; absent on the last."""


class GpuType(View):
    """All GPUs of one type; used, free and broken add up to the total. GPUs of members that are still starting count as
    used."""

    type: str
    total: int
    used: int
    idle: int
    """Those of the used GPUs that their runs have not used for long; see `GET /v1/idle`."""
    free: int
    broken: int
    """Unused GPUs that no run can use: their node takes no work, or they are reported as unhealthy."""


class GpuHolding(View):
    """GPUs of one type that one run, or one Pod outside of Kajitori, holds."""

    name: str
    namespace: str
    is_run: bool
    gpus: int
    idle: int
    """Those that the run has not used for long."""
    type: str
    nodes: str
    """Compact node list, such as `gpu-[00001-00004]`."""
    since: str


class GpuUser(View):
    """All GPUs that one user holds; an empty owner stands for Pods that belong to no run."""

    owner: str
    gpus: int
    idle: int
    since: str
    """When the user got the first of them."""
    types: dict[str, int]
    runs: list[GpuHolding]


class GpuTeam(View):
    """All GPUs that the runs of one namespace hold."""

    namespace: str
    gpus: int
    idle: int
    since: str
    """When the team got the first of them."""
    types: dict[str, int]
    runs: list[GpuHolding]


class BoardHolding(View):
    """GPUs of one type that an owner holds since one time."""

    owner: str
    """Empty for Pods that belong to no run."""
    namespace: str
    """The team; empty for Pods that belong to no run."""
    type: str
    gpus: int
    idle: int
    """Those that have not been used for long."""
    since: str


class PublicBoard(View):
    """The GPUs of the cluster by type, and who holds them since when: without names of runs and nodes."""

    at: Time
    types: list[GpuType]
    holdings: list[BoardHolding]
    """The largest first."""


class GuaranteeView(View):
    """Resources that the policy guarantees a team, and how much the team's runs use. Use beyond the guarantee is
    borrowed."""

    namespace: str
    gpu_type: str | None
    """The type of these GPUs; null if any will do."""
    gpus: Amount | None
    """`total` is the guaranteed amount; null, here and below, if the guarantee does not name this resource."""
    cpu_millis: Amount | None
    memory_bytes: Amount | None
    nodes: Amount | None
    """Whole nodes."""


class GpuBoard(View):
    """The GPUs of the cluster by type, and the users and teams that hold them."""

    types: list[GpuType]
    users: list[GpuUser]
    teams: list[GpuTeam]
    guarantees: list[GuaranteeView]
    """In the order of the policy."""
    pools: list[PoolView] | msgspec.UnsetType = msgspec.UNSET
    """Pools that can grow; absent if the policy has no pools."""


class ImageView(View):
    """An image that nodes have."""

    names: list[str]
    """Its names with tags and digests, such as `docker.io/library/python:3.12`."""
    size_bytes: int
    nodes: int
    """Number of nodes that have it."""


class ImageList(View):
    """The images that nodes have; those that most nodes have come first."""

    items: list[ImageView]
