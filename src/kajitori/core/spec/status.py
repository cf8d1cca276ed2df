"""The status of a Run. It is small by design (rule 8): counts, a compact node list, and a few notable members."""

from __future__ import annotations

from typing import Any

import msgspec

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.attempts import Attempt, Ran, Resize, Setback
from kajitori.core.spec.status_parts.dependencies import AfterState
from kajitori.core.spec.status_parts.health import RunHealth
from kajitori.core.spec.status_parts.members import MemberCounts, MemoryPeak, Notable, SweepState
from kajitori.core.spec.status_parts.node_request import NodeRequest
from kajitori.core.spec.status_parts.notices import Notices
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.core.spec.status_parts.suspicions import IdleState, KeepLimit, SlowPlace, Stretch, Stuck
from kajitori.core.spec.status_parts.usage import Usage


class Finding(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A change by the policy, or a warning, with its reason."""

    code: str
    message: str
    field: str = ""


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
