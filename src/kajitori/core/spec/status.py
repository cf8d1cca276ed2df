"""The status of a Run. It is small by design (rule 8): counts, a compact node list, and a few notable members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kajitori.core.formats.node_lists import expand, expand_ranks
from kajitori.core.spec.health import RunHealth
from kajitori.core.spec.node_request import NodeRequest
from kajitori.core.spec.reasons import Phase, Reason

NOTABLE_LIMIT = 64
"""Maximum number of notable members in a status."""
SLOW_LIMIT = 8
"""Maximum number of slow places in a status."""


class Attempt(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One start of the gang. It is stored before its first Pod is created (rule 2)."""

    number: int
    nodes: str
    """Node of each rank in `ranks`, in rank order, as a compact list like `gpu-[001-016]`."""
    ranks: str = ""
    """Ranks of the attempt, as ranges (`0-3,7`); empty means all ranks."""
    template: str = ""
    """The resolved Pod template (`metadata` and `spec`), the same for every rank, as JSON text. Only Kajitori reads it,
    and an API server copies and stores one text far more cheaply than a tree of a hundred values."""
    launcher: str = ""
    """Launcher at the time of planning, as `core.pods.manifests.launcher_of` returns it."""
    world_size: int = 0
    """Number of members of the run at the time of planning; 0 means the number of ranks."""
    bind_direct: bool = False
    """Whether Kajitori itself binds the members, without the scheduler."""
    port: int = 0
    """Rendezvous port of this attempt; 0 if the run needs none."""
    created: bool = False
    """Whether all Pods have been created. If so, a missing Pod is lost, and not created again."""
    planned_at: str = ""
    started_at: str = ""
    """Time at which all members ran; empty until then. Times are RFC 3339 in UTC."""

    def node_by_rank(self) -> dict[int, str]:
        """Return the node of every rank that the attempt covers."""
        nodes = expand(self.nodes)
        return dict(zip(expand_ranks(self.ranks) if self.ranks else range(len(nodes)), nodes, strict=False))

    @property
    def pod_template(self) -> Mapping[str, Any]:
        """The template as a document; empty if there is none. Attempts share it, so callers must not change it.

        Raises ValueError if the text is not a document. A status that passed `status_check` has no such text.
        """
        return _parsed(self.template) if self.template else {}


@lru_cache(maxsize=1024)
def _parsed(template: str) -> Mapping[str, Any]:
    return msgspec.json.decode(template, type=dict[str, Any])


def template_text(template: Mapping[str, Any]) -> str:
    """Return a Pod template as text for an attempt. Equal templates have equal texts, an empty one has no text."""
    return msgspec.json.encode(template, order="sorted").decode() if template else ""


class Notable(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A member that a user should look at, because it failed, is slow or did not start."""

    rank: int
    node: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    attempt: int = 0
    since: str = ""


class MemberCounts(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Number of members by state."""

    total: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def left(self) -> int | None:
        """Members of a gang that have not ended; None if none has."""
        return self.total - self.succeeded if 0 < self.succeeded < self.total else None


class Finding(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A change by the policy, or a warning, with its reason."""

    code: str
    message: str
    field: str = ""


class MemoryPeak(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Peak memory of any member in any attempt: its working set, as kubelets measure it."""

    peak_bytes: int
    rank: int = 0
    """Rank of the member with the peak."""
    attempt: int = 0
    """Attempt of the peak."""
    node: str = ""
    """Node of the member with the peak."""
    limit_bytes: int = 0
    """Memory limit of that member; 0 if it has none."""
    at: str = ""
    """Time of the measurement."""
    total_bytes: int = 0
    """Largest sum over all members in one measurement."""
    ran_out: bool = False
    """Whether a member was killed because it exceeded its memory limit."""


class PreemptedBy(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The preemption of a run, or of some members of a sweep, for another run: the preemptor."""

    by: str
    """`namespace/name` of the preemptor."""
    uid: str
    """UID of the preemptor."""
    attempts: int = 0
    """Number of the preemptor's attempts at that time. Once it has more, it has the nodes that it waited for."""
    who: str = ""
    """The preemptor, as messages name it."""
    guaranteed: bool = False
    """Whether the preemptor's team is guaranteed what it asks for; else it has a higher priority."""
    since: str = ""
    ends_at: str = ""
    """When the preempted members are asked to end, if the run is given notice; empty: at once."""
    ranks: str = ""
    """The preempted members of a sweep, as ranges; its other members go on. Empty: the whole run is preempted."""
    attempt: int = 0
    """With `ranks`: the last attempt at that time. Members of later attempts are not preempted."""

    @property
    def waiting(self) -> tuple[str, int]:
        """UID and attempts of the preemptor. Each of its starts counts as another preemptor."""
        return self.uid, self.attempts


class Preempted(PreemptedBy, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The preemption of a run: written before any of its members is asked to end, kept until it starts again."""

    others: tuple[PreemptedBy, ...] = ()
    """Earlier preemptions of other members of a sweep, the latest first."""

    @classmethod
    def of(cls, asks: Sequence[PreemptedBy]) -> Preempted:
        """Combine several preemptions, at least one."""
        first, *others = asks
        return cls(**_fields(first), others=tuple(others))

    @property
    def each(self) -> tuple[PreemptedBy, ...]:
        """All preemptions as a flat sequence."""
        return PreemptedBy(**_fields(self)), *self.others


def _fields(asked: PreemptedBy) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in PreemptedBy.__struct_fields__}


class AfterState(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The progress of one entry of the spec's `after`."""

    run: str
    condition: str = "succeeded"
    uid: str = ""
    """UID of the run that is waited for; empty until there was a run of this name. A later run of the same name does
    not count."""
    since: str = ""
    """Time at which this run began to wait for it."""
    met_at: str = ""
    """Time at which the condition was seen to hold. From then on it is not looked at again."""


class Resize(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The nodes of an elastic gang's next attempt. They are stored before the present attempt is ended, or when it has
    lost members, and stay reserved until the next attempt is planned."""

    nodes: str
    """Nodes in rank order, as a compact list like `gpu-[001-016]`."""
    fewest: int
    """Minimum number of these nodes for a start. If fewer are usable, the reservation is dropped."""
    since: str = ""


class Ran(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Running time of a run in all attempts that are over. The expected length of later runs of its kind and the usage
    of its user are derived from it."""

    seconds: int
    """Time from the start of all members to the end, without the time between attempts. For a sweep or a service: from
    the first start to the end. For an elastic gang it is scaled to the full size: an hour with half of the members
    counts as half an hour."""
    until: str
    """Time at which the last of these attempts ended."""


class Setback(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The last failure or interruption of an attempt, or of a sweep's member, after which the run went on."""

    reason: str
    message: str = ""
    attempt: int = 0
    at: str = ""


class Stuck(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The suspicion that the running attempt is stuck. It is removed when the run makes progress again."""

    since: str
    """End of the last minute with progress."""
    verdict: str = "suspected"
    """suspected: no progress for longer than ever before, or than `stuckAfter`. stuck: in addition, no process moved
    between two looks at the stacks of all ranks."""
    message: str = ""
    """One sentence for the owner."""
    attempt: int = 0
    ranks: str = ""
    """Ranks for which the others seem to wait, as ranges; empty if none stands out or stacks could not be taken."""
    looked_at: str = ""
    """Time at which the stacks of the ranks were looked at, or at which that failed; empty before."""


class SlowPlace(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A GPU, rank or node of an attempt that was persistently slower than its peers. It is evidence about the node."""

    attempt: int
    node: str
    ranks: str
    """Ranks of the attempt that it concerns, as ranges."""
    at: str
    """Time at which it was found."""
    sign: str
    """Quantity that showed it, such as `gpu.clock.sm`."""
    message: str = ""


class Stretch(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A time in which an attempt was stuck or its GPUs were idle, for reports of lost time. It is kept after the
    finding is removed."""

    attempt: int
    kind: str
    """hung or idle, as `core.usage.lost_time.Kind` has them."""
    since: str
    until: str = ""
    """Empty while the finding stands."""


class SweepState(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The states of a sweep's members, as ranges of indices (`0-511,600`). A member in none of them runs or has not
    started yet. A member takes at most twelve bytes."""

    succeeded: str = ""
    failed: str = ""
    """Members that failed and have no restarts left."""
    again: str = ""
    """Members that lost their last Pod, and wait for a new placement."""
    restarts: dict[str, str] = {}
    """Members that were restarted after a failure, by their number of restarts."""
    longest_seconds: int = 0
    """Expected running time of a member: the longest time that a member took to succeed, or twice that if other members
    have been running for longer."""
    member_seconds: int = 0
    """Sum of the running times of all Pods that are over, for the sweep's usage."""


class Amounts(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The resources of one member: its requests, and the type of the GPUs on its node."""

    gpu_type: str = ""
    """Type of the node's GPUs; empty if the member holds none."""
    gpus: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0


class Holding(Amounts, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Members of one attempt that hold their nodes since the attempt was planned."""

    attempt: int
    ranks: str
    """Ranks of these members as ranges, ascending."""
    nodes: str = ""
    """Node of each of these ranks. Empty: as in the status' attempt, which has the same number."""
    since: str = ""
    started: str = ""
    """Time at which the programs of all members of the attempt ran, from their Pods; empty until then."""
    ended: str = ""
    """Time at which the attempt was broken, from the Pod that broke it, or of the decision to end it."""
    cause: str = ""
    """Why the attempt ended, as a Reason; empty if it succeeded, or goes on."""
    culprit: str = ""
    """Node of the member that broke the attempt; empty if no member did."""
    after: str = ""
    """Why the attempt before this one was interrupted; empty if this one was not made for that."""
    saves_every: int = 0
    """Seconds between checkpoints as the spec declares them; 0 or less: a constant of `core.usage.lost_time`."""


class Segment(Holding, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Members that held their nodes for the same time, and gave them back."""

    id: int
    """Number of the segment; later segments of the run have greater numbers."""
    until: str = ""


class UsageTotal(Amounts, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Sum over all closed segments of members that held the same amounts."""

    member_seconds: int = 0


class Usage(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The past and present resources of the run, for the usage ledger of history.

    It is written together with the decision that changes the run's resources, so a controller that is killed between
    this status and the database loses nothing and counts nothing twice.
    """

    first: int
    """Segments with this number or a greater one are part of `totals`."""
    last: int = 0
    """Greatest number of a closed segment; 0 if none is closed."""
    open: list[Holding] = []
    closed: list[Segment] = []
    """Closed segments that history has not confirmed yet, the oldest first. If they take too much room, the oldest are
    left out; their time stays in `totals`."""
    totals: list[UsageTotal] = []


class Notice(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """An event of the run for a message to its owner or team."""

    id: str
    """Its name within the run: kind and mark."""
    kind: str
    at: str
    text: str = ""


class Notices(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Events for messages. They wait here until the recipients' outboxes have the messages."""

    noted: dict[str, str] = {}
    """Mark of the last noted event of each kind, so that none is noted twice."""
    waiting: tuple[Notice, ...] = ()


class IdleState(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Idle GPUs of the run, and the state of the question to its owner: keep the run, or park it?"""

    since: str
    attempt: int
    gpus: int
    """GPUs that the run holds."""
    gpu_type: str = ""
    """Their type; empty if they are of several."""
    fewest: int
    """Fewest GPUs that were idle in each minute since then. If all were, it is `gpus`."""
    most: int
    """Most GPUs that were idle in each minute since then."""
    confirmed: int = 0
    """If some are idle while others work: number of GPUs that were idle in the whole last hour, as their nodes say."""
    places: str = ""
    """Ranks and GPUs of these, as in `3:0-7;12:4`; the beginning if there are many."""
    peak_percent: int = 0
    """Highest utilisation of any GPU since then, rounded up."""
    works: bool = False
    """Whether processors, disks or network worked meanwhile."""
    asked_at: str = ""
    """Time of the question. Empty: the owner was not asked, or has answered that the run is kept."""
    warned_at: str = ""
    """Time of the warning that the run is going to be parked, if policy says so."""
    park_at: str = ""
    """Time at which it is parked unless the owner answers."""
    parked_at: str = ""
    """Time at which it was parked because the owner did not answer."""

    @property
    def is_certain(self) -> bool:
        """Whether all GPUs are idle. Otherwise some may be, while others work."""
        return self.fewest >= self.gpus

    @property
    def is_proven(self) -> bool:
        """Whether it is known which GPUs are idle: all, or those that nodes named."""
        return self.is_certain or self.confirmed > 0


class KeepLimit(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A `keepIdleUntil` that was later than policy allowed when it was first seen. From then on policy's `longestKeep`
    counts instead."""

    asked: str
    """The time in the spec. Another one is another answer, with a limit of its own."""
    until: str
    """The time until which the run is kept."""


class RunStatus(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The status that the controller writes. It contains everything that another controller needs to continue."""

    phase: Phase = Phase.QUEUED
    reason: Reason = Reason.NONE
    message: str = ""
    attempt: Attempt | None = None
    attempts: int = 0
    """The highest attempt number ever used; numbers are never used twice."""
    restarts: int = 0
    """Restarts that the program caused; they count against the spec's `restarts` (rule 7)."""
    interruptions: int = 0
    """Restarts that do not count: node loss, eviction, preemption, failed starts."""
    failed_starts: int = 0
    """Number of failed starts in a row; the pause before the next start grows with it."""
    not_before: str = ""
    """Time before which the next attempt is not planned."""
    resumes: int = 0
    """Value of the spec's `resumes` that was last acted on."""
    exit_code: int | None = None
    members: MemberCounts = MemberCounts()
    sweep: SweepState | None = None
    """States of members; only for sweeps."""
    notable: list[Notable] = []
    findings: list[Finding] = []
    health: RunHealth | None = None
    """Health of the members; None without a health check, and while no member runs."""
    memory: MemoryPeak | None = None
    """Peak memory of members; None before the first measurement."""
    setback: Setback | None = None
    """The last interruption or failure. It stays when the run runs again."""
    stuck: Stuck | None = None
    """Set while the running attempt is suspected to be stuck."""
    preemption: Preempted | None = None
    """The run that preempts it; kept until it starts again. Members of a sweep may be preempted by several runs."""
    after: list[AfterState] = []
    """Progress of each entry of the spec's `after`; it stays as it was when the first attempt was planned."""
    resize: Resize | None = None
    """Reserved nodes of an elastic gang that is about to change its size."""
    ran: Ran | None = None
    """Running time of attempts that are over; None before the first attempt that started has ended."""
    avoid_nodes: dict[str, int] = {}
    """Nodes on which members of this run failed, with the number of failures. At two the run avoids the node; a sweep,
    if these are also more than half of its failures."""
    unstarted: list[Notable] = []
    """Nodes that alone prevented an attempt from starting: for each, its last member that did not start, and the time.
    If the run then starts on other nodes, this is evidence against the node."""
    usage: Usage | None = None
    """Nodes that the run holds and held; None before the first attempt."""
    stretches: list[Stretch] = []
    """The latest times in which the run was stuck or idle. History has the earlier ones, too."""
    slow: list[SlowPlace] = []
    """The latest stragglers of the run, each once for an attempt."""
    rested_seconds: int = 0
    """Time between ends of the run and the moments at which its user resumed it."""
    notices: Notices | None = None
    """Events for messages to the owner or the team; None if neither has channels."""
    idle: IdleState | None = None
    """Idle GPUs that the run holds; None while they are used, and while their use is not known."""
    keep_limit: KeepLimit | None = None
    """Set while the spec's `keepIdleUntil` is later than policy allows."""
    node_request: NodeRequest | None = None
    """Latest request to an autoscaler, while the run waits."""
    removal_waits: str = ""
    """Why the object of a deleted run is still there, although none of its members is left."""
    queued_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    observed_generation: int = 0


def to_document(status: RunStatus) -> dict[str, Any]:
    """Return the status as it is stored: without fields at their default, but always with phase and counts."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    document["phase"] = status.phase.value
    document["members"] = msgspec.to_builtins(status.members)
    return document
