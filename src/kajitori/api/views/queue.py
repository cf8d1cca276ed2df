"""Types of the API's answers about waiting runs and about what-ifs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kajitori.api.views.base import Time, View
from kajitori.api.views.nodes import GuaranteeView
from kajitori.api.views.runs import RunView
from kajitori.api.views.server import ControllerView
from kajitori.core.spec.reasons import AfterCondition
from kajitori.core.spec.status import Finding
from kajitori.core.spec.status_parts.node_request import NodeRequest

ExpectedFrom = Literal["similar", "limit", "corrected", "general", "unknown", "endless"]


class HolderView(View):
    """A run or foreign Pod that holds nodes which a waiting run could use."""

    holder: str
    owner: str
    is_run: bool
    gpus: int
    cpu_millis: int
    memory_bytes: int
    nodes: str
    since: str
    until: str
    """Expected end, an estimate; empty if not known."""


class RoomView(View):
    """Number of members for which nodes of the right kind have room, by what is in the way; never more than are asked
    for."""

    free: int
    """Nothing is in the way."""
    reserved: int
    """The room is reserved for runs ahead."""
    held: int
    """Other runs are there."""
    cordoned: int
    broken: int
    """On nodes that are not ready, unhealthy or not tested yet."""


class StepView(View):
    """One thing that has to happen before a run can start."""

    kind: Literal["run", "member", "pod", "cordoned", "broken", "ahead"]
    """run: a run ends. member: one member of a sweep ends, perhaps of the waiting run itself. pod: a foreign Pod goes.
    cordoned, broken: the node takes work again. ahead: a waiting run that is looked at before this one is stopped, with
    everything that it has."""
    name: str
    """`namespace/name` of the run, member or Pod; or the node's name."""
    run: str
    """`namespace/name` of the run that ends, or of which a member ends; empty for other steps."""
    owner: str
    why: str
    """Why a node takes no work, or what keeps a run that holds nodes from starting (`cannot start: ImagePull`); empty
    for other steps."""
    nodes: str
    """Its nodes, as a compact list."""
    gpus: int
    cpu_millis: int
    memory_bytes: int
    """Amounts that it takes there, with `gpus` and `cpuMillis`."""
    until: str
    """Expected time; empty if not known."""


class BlockedView(View):
    """Nodes of the right kind that take no work now, and why."""

    why: str
    nodes: str
    count: int


class ExpectedView(View):
    """How long a run is expected to take. It is an estimate."""

    seconds: int
    """The longer end of the estimate: of a running run from now on, of any other run from its next start."""
    shortest_seconds: int
    """The shorter end of the estimate; 0 if not known."""
    expected_from: ExpectedFrom
    runs: int
    """Number of finished runs of comparable size that the estimate rests on."""
    sure: bool
    """Whether the evidence is enough and agrees, or is a time limit. Else the estimate only orders the queue."""
    goes_on: bool
    """Whether it runs now."""
    ends_at: Time | msgspec.UnsetType = msgspec.UNSET
    """Expected end of a running run; absent if not known."""


class PlaceView(View):
    """A place in the queue, with the numbers behind it."""

    position: int
    """1 is first."""
    of: int
    waited_seconds: int
    """Time since it was submitted or resumed, running time included."""
    expected_seconds: int
    """The longer end of its expected length, from its next start on. An estimate: it ends no run."""
    shortest_seconds: int
    """The shorter end of its expected length; 0 if not known."""
    expected_from: ExpectedFrom
    """The evidence. similar: the longest of the last three runs of its kind and of comparable size, at most its time
    limit. limit: its time limit. corrected: it has already taken longer than expected. general: the length of most runs
    of its size. unknown: no comparable run has ended, so this length is assumed for its place. endless: a service,
    which has no end; its place is as for unknown."""
    order_seconds: int
    """The length that its place is worked out with: its expected length. If no comparable run has ended, it is the
    geometric mean of that and of the length of its last runs of the same kind with other resources. Nothing is promised
    because of the latter."""
    expected_runs: int
    """Number of finished runs of comparable size that the estimate rests on."""
    expected_sure: bool
    """Whether the evidence is enough and agrees, or is a time limit. Else no time that depends on it is shown."""
    size: float
    """The part of the cluster that it asks for, of the resource that it asks for most: 0 to 1."""
    user_share: float
    """The part of the cluster that its user had recently: an average in which usage policy's `queue.halfLife` ago
    counts half."""
    team_share: float
    """The same of its namespace."""
    score: float | None
    """A higher score comes first among runs of one priority; null if policy's formula has no value for it."""
    overdue: bool
    """Whether it has waited longest of all, and longer than the bound: then it comes first, whatever its score."""
    bound_seconds: int


class KeptView(View):
    """The reservation of a run: other runs start on these nodes only if they are not expected to delay it."""

    nodes: str
    """As a compact list."""
    expected_at: Time | msgspec.UnsetType = msgspec.UNSET
    """Expected start on them, an estimate; absent if not known."""


class QueuedView(View):
    """A run that waits for nodes."""

    name: str
    namespace: str
    owner: str
    phase: str
    reason: str
    priority: int
    """Runs of higher priority come first."""
    members: int
    """Number of members that need a node; more, up to `mostMembers`, start if they fit."""
    most_members: int
    gpus: int
    """GPUs of all of these members together."""
    gpu_type: str
    place: PlaceView
    behind: list[str]
    """Runs (`namespace/name`) with reservations that would be delayed if this one took the room that there is."""
    kept: KeptView | msgspec.UnsetType = msgspec.UNSET
    """Its reservation; absent if it has none."""
    expected_at: Time | msgspec.UnsetType = msgspec.UNSET
    """Expected start, an estimate; absent if not known."""


class AwaitedView(View):
    """A run that another one waits for."""

    run: str
    """Its name; its namespace is that of the run that waits."""
    condition: AfterCondition


class DependentView(View):
    """A run that waits for other runs, before it waits for nodes. It has no place in the queue."""

    name: str
    namespace: str
    owner: str
    after: list[AwaitedView]
    """The runs that it still waits for."""


class AfterView(AwaitedView, kw_only=True):
    """A condition of a run's `after`, and the other run as it is now."""

    phase: str
    """Empty if there is no run of this name."""
    met: bool
    """Whether the condition was seen to hold. From then on it does not matter what becomes of the other run."""
    ends_at: Time | msgspec.UnsetType = msgspec.UNSET
    """Expected end of the other run, an estimate; absent if not known."""


class QueueView(View):
    """All runs that wait for nodes, in the order in which they are considered."""

    order: str
    """As policy's `queue.order`."""
    formula: str
    """As policy's `queue.formula`."""
    items: list[QueuedView]
    controller: ControllerView
    """While no controller is at work, no run starts, and `expectedAt` is absent."""
    dependents: list[DependentView] = msgspec.field(default_factory=list)
    """Runs that wait for other runs. They join the queue after that."""
    continue_: str | msgspec.UnsetType = msgspec.field(name="continue", default=msgspec.UNSET)
    """Send it back for the next page; absent on the last."""


class ExplanationView(View):
    """Why a run is in its phase. For a waiting run: what is missing, which runs hold it, what would start it sooner."""

    phase: str
    reason: str
    message: str
    members: int | msgspec.UnsetType = msgspec.UNSET
    """Number of members that have to start together."""
    most: int | msgspec.UnsetType = msgspec.UNSET
    """Number of members that start if there is room: more than `members` for a sweep or an elastic gang."""
    fit_now: int | msgspec.UnsetType = msgspec.UNSET
    missing: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Missing amounts by resource: gpu, cpuMillis, memoryBytes, members."""
    held: list[HolderView] | msgspec.UnsetType = msgspec.UNSET
    blocked: list[BlockedView] | msgspec.UnsetType = msgspec.UNSET
    room: RoomView | msgspec.UnsetType = msgspec.UNSET
    to_free: list[StepView] | msgspec.UnsetType = msgspec.UNSET
    """Once all of these steps have happened, and nothing else, the next cycle starts the run; without any one of them
    it does not. Empty for a run that starts now; absent if nothing starts it, since the cluster is too small, or if the
    search took too long."""
    exact: bool | msgspec.UnsetType = msgspec.UNSET
    """False: so many runs are ahead that the search took too long; `toFree` is enough, but perhaps more than needed, or
    absent."""
    sooner: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Changes with which it would start now, each by itself, as options of `kaji run`."""
    expected_at: Time | msgspec.UnsetType = msgspec.UNSET
    """Expected start if all running runs and all runs ahead take their expected time. An estimate; absent if not
    known."""
    ahead: int | msgspec.UnsetType = msgspec.UNSET
    """Number of waiting runs that are looked at before this one."""
    place: PlaceView | msgspec.UnsetType = msgspec.UNSET
    guarantees: list[GuaranteeView] | msgspec.UnsetType = msgspec.UNSET
    """Its team's guarantees for what it asks for, and how much of them the team's runs use."""
    behind: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Runs (`namespace/name`) with reservations that would be delayed if this one took the room that there is."""
    asks: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Runs (`namespace/name`) that it preempts now: it starts once they have left, whatever the other fields say."""
    kept: KeptView | msgspec.UnsetType = msgspec.UNSET
    """Its reservation; absent if it has none."""
    after: list[AfterView] | msgspec.UnsetType = msgspec.UNSET
    """Present while it waits for other runs: all conditions of its spec's `after`. `expectedAt` then follows from the
    expected ends of these runs and from the wait that it would have if it joined the queue now."""
    node_request: NodeRequest | msgspec.UnsetType = msgspec.UNSET
    """Its last request to an autoscaler; absent if it made none."""
    controller: ControllerView | msgspec.UnsetType = msgspec.UNSET
    """Present while no controller is at work: then nothing starts, even if there is room."""
    grows: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether an autoscaler was asked for nodes for it, or will be once it has waited long enough."""


class WhatIf(View):
    """The outlook of a run if it was submitted now. Nothing was created."""

    namespace: str
    starts: bool
    """Whether it would start in the next cycle."""
    nodes: str
    """Its nodes, a compact list in the order of ranks; empty if it would wait."""
    domains: dict[str, int]
    """Number of domains of these nodes, by policy's topology label."""
    findings: list[Finding]
    """Policy's changes and notices."""
    start: ExplanationView
    """When it would start, and what is missing, as for a waiting run."""


class DryRun(View):
    """The objects that a request would create."""

    run: RunView
    manifests: list[dict[str, Any]]
    """The Run, its first member's Pod, its Service, its NetworkPolicy if it has one, and the claim of its checkpoint if
    policy requires one."""
    findings: list[Finding]
    start: ExplanationView


class QueueTableRow(View):
    """A run that waits for nodes or runs on them, as one row of a table or one bar of a timeline. Expected times are
    rounded up to half a minute."""

    namespace: str
    name: str
    uid: str
    owner: str
    state: Literal["waiting", "running", "dependent"]
    """waiting: for nodes. dependent: for other runs; such a run has no place in the queue yet."""
    reason: str
    """Why it waits; empty for a running one."""
    position: int
    """Its place among the waiting runs, 1 is first; 0 for a running one."""
    priority: int
    """0 for a running one."""
    members: int
    """Members that run, or that have to start together."""
    gpus: int
    gpu_type: str
    """The type of its nodes, also of reserved ones, or the type that it waits for; empty if any will do."""
    nodes: str
    """The nodes that it has, or that are reserved for it, as a compact list."""
    queued_at: str
    starts_at: str
    """When its members were started, or its expected start; empty if not known. For a dependent run: when the runs that
    it waits for are expected to have ended, so its earliest start."""
    ends_at: str
    """The later end of its expected end; empty if not known. No run is ended then."""
    ends_at_earliest: str
    """The earlier end; empty if not known."""
    expected_seconds: int
    """The longer end of its expected length, from its start on; 0 if it has no end."""
    sure: bool
    """Whether the evidence for its length is enough and agrees, or is a time limit."""
    behind: list[str]
    """Runs (`namespace/name`) with reservations that would be delayed if it took the room that there is."""
    after: list[AwaitedView] = msgspec.field(default_factory=list)
    """For a dependent run: the runs that it still waits for."""


class QueueCounts(View):
    """Number of runs that match the filters of a list or stream."""

    total: int
    states: dict[str, int]
    """Matching runs by state, without regard to the filter `state`. States without runs are absent."""


class QueueTable(View, omit_defaults=True):
    """One page of the queue as rows of a table."""

    items: list[QueueTableRow]
    counts: QueueCounts
    controller: ControllerView
    version: str
    """Version of the list: with this as `since` and the same filters, `GET /v1/queue/changes` begins with the changes
    after this answer."""
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for the next page; absent on the last."""


class QueueKey(View):
    """Names one run."""

    namespace: str
    name: str


class QueueSnapshot(View):
    """Data of the event `snapshot`: all matching runs, in no particular order. It replaces all that came before."""

    items: list[QueueTableRow]
    """Empty if the stream was asked for no items in snapshots."""
    counts: QueueCounts


class QueueChanges(View):
    """Data of the event `changes`: matching runs that changed since the event before."""

    added: list[QueueTableRow]
    changed: list[QueueTableRow]
    removed: list[QueueKey]
    """Runs that ended, or that match no more."""
    counts: QueueCounts
