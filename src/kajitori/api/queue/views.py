"""What the API answers about runs that wait, and about those that would, as types."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kajitori.api.nodes.views import GuaranteeView
from kajitori.api.runs.views import ControllerView, RunView, Time, View
from kajitori.core.spec.node_request import NodeRequest
from kajitori.core.spec.status import Finding

ExpectedFrom = Literal["similar", "limit", "corrected", "general", "unknown", "endless"]


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
    """Number of members for which nodes of the right kind have room, by what is in the way; never more than are asked
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
    """run: it ends. member: one of a sweep ends, which others of it do not depend on; perhaps of the run's own. pod:
    somebody else's goes. cordoned, broken: the node takes work again. ahead: a waiting run that is looked at before
    this one is stopped, with what it has."""
    name: str
    """`namespace/name` of the run or Pod, also of a member; the node's name."""
    run: str
    """`namespace/name` of the run that ends, or one of whose members does; empty where it is none."""
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
    """How long a run is expected to take. It is an estimate."""

    seconds: int
    """At most so long, as far as the evidence goes: of one that runs from now on, of any other from its next start to
    its end."""
    shortest_seconds: int
    """At least so long, as far as the evidence goes; 0 if nothing tells."""
    expected_from: ExpectedFrom
    runs: int
    """How many finished runs of comparable size that rests on."""
    sure: bool
    """The evidence is enough and lies close together, or it is a limit. Else it orders the queue, and no more."""
    goes_on: bool
    """It runs now."""
    ends_at: Time | msgspec.UnsetType = msgspec.UNSET
    """Of one that runs: when it is expected to end; absent where nobody can tell."""


class PlaceView(View):
    """A place in the queue, with the numbers behind it."""

    position: int
    """1 is first."""
    of: int
    waited_seconds: int
    """Since it was submitted or resumed; what it ran since then included."""
    expected_seconds: int
    """How long it is expected to take from its next start on, at most. Nobody is held to it."""
    shortest_seconds: int
    """And at least, as far as the evidence goes; 0 if nothing tells."""
    expected_from: ExpectedFrom
    """Where that is known from. similar: the longest of the last three of its kind and of comparable size, at most its
    time limit. limit: its time limit. corrected: it took longer than expected already. general: what most runs of its
    size take. unknown: no comparable run has ended here; it has its place as if it took as long as this. endless: a
    service, which has no end; as unknown."""
    expected_runs: int
    """How many finished runs of comparable size that rests on."""
    expected_sure: bool
    """The evidence is enough and lies close together, or it is a limit. Else no time is told that rests on it."""
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
    expected_at: Time | msgspec.UnsetType = msgspec.UNSET
    """When it is expected to start on them; an estimate, never a promise. Absent where nobody can tell."""


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
    """All runs that wait for nodes, in the order in which they are considered."""

    order: str
    """As policy's `queue.order`."""
    formula: str
    """As policy's `queue.formula`."""
    items: list[QueuedView]
    controller: ControllerView
    """While no controller is at work, none of them starts: `expectedAt` is absent."""


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
    guarantees: list[GuaranteeView] | msgspec.UnsetType = msgspec.UNSET
    """What its team is guaranteed of what it asks for, and how much of that the team's runs use."""
    behind: list[str] | msgspec.UnsetType = msgspec.UNSET
    """There is room for it, and these runs (`namespace/name`), for which nodes are kept, would be delayed by it."""
    asks: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Runs (`namespace/name`) that it asks to give way now: it starts once they have, whatever else is said here."""
    kept: KeptView | msgspec.UnsetType = msgspec.UNSET
    """Nodes that are kept for it; absent where none are."""
    node_request: NodeRequest | msgspec.UnsetType = msgspec.UNSET
    """What it asked an autoscaler for last; absent where it asked for nothing."""
    controller: ControllerView | msgspec.UnsetType = msgspec.UNSET
    """Present while no controller is at work: then nothing starts, whatever room there is."""
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
    """The objects that a request would create."""

    run: RunView
    manifests: list[dict[str, Any]]
    """The Run, its first member's Pod, its Service, its NetworkPolicy where it has one and, where policy
    wants one, the claim of its checkpoint."""
    findings: list[Finding]
    start: ExplanationView
