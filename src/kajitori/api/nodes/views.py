"""What the API answers about nodes and their GPUs, as types."""

from __future__ import annotations

import msgspec

from kajitori.api.runs.views import Time, View


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
    """Its kubelet says that it is, as `kubectl get nodes` shows it."""
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
    """A node with everything that runs on it."""

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
    """All GPUs of one type; used, free and broken add up to the total. Those of members that are still starting are
    used."""

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
    """Everything that one user holds; an empty owner stands for Pods that belong to no run."""

    owner: str
    gpus: int
    types: dict[str, int]
    runs: list[GpuHolding]


class GpuTeam(View):
    """Everything that the runs of one namespace hold."""

    namespace: str
    gpus: int
    types: dict[str, int]
    runs: list[GpuHolding]


class GuaranteeView(View):
    """What policy guarantees a team, and how much of that its runs use. What they use beyond it is borrowed."""

    namespace: str
    gpu_type: str | None
    """The type of these GPUs; null if any will do."""
    gpus: Amount | None
    """`total` is guaranteed; null where the guarantee says nothing of it, here and below."""
    cpu_millis: Amount | None
    memory_bytes: Amount | None
    nodes: Amount | None
    """Whole nodes."""


class GpuBoard(View):
    """The GPUs of the cluster: types, free ones, and the users of the others."""

    types: list[GpuType]
    users: list[GpuUser]
    teams: list[GpuTeam]
    guarantees: list[GuaranteeView]
    """In policy's order."""
    pools: list[PoolView] | msgspec.UnsetType = msgspec.UNSET
    """Pools that can grow; absent where policy names none."""
