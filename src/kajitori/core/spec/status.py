"""What a Run's status holds. Small by construction (rule 8): counts, a compact node list, few members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kajitori.core.spec.node_request import NodeRequest
from kajitori.core.spec.reasons import Phase, Reason

NOTABLE_LIMIT = 64


class Attempt(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One start of the gang; written before its first Pod exists (rule 2)."""

    number: int
    nodes: str
    """Node of every covered rank, in rank order, as `core.words.node_lists` writes it."""
    ranks: str = ""
    """The ranks covered, as ranges (`0-3,7`); empty means all."""
    template: str = ""
    """The resolved Pod template (`metadata` and `spec`), the same for every rank, as JSON text: nobody but us reads it,
    and an API server copies and keeps one text for far less than a tree of a hundred values."""
    launcher: str = ""
    """What starts its members, as the spec said when it was planned; empty in a service, whose members do not meet."""
    world_size: int = 0
    """How many members the run had then; 0 means as many as are covered."""
    bind_direct: bool = False
    """Its members are bound by us, not by the scheduler."""
    port: int = 0
    """A port of this attempt's own, for members to meet on; 0 where the run needs none."""
    created: bool = False
    """All Pods were created once; a missing one is lost from now on, not still to be made."""
    planned_at: str = ""
    started_at: str = ""
    """When all members ran; empty until then. Times are RFC 3339 in UTC."""

    @property
    def pod_template(self) -> Mapping[str, Any]:
        """The template as a document, which attempts share: it is not for changing. Empty where there is none.

        Raises ValueError where it is none, which no status that `status_check` let through has.
        """
        return _parsed(self.template) if self.template else {}


@lru_cache(maxsize=1024)
def _parsed(template: str) -> Mapping[str, Any]:
    return msgspec.json.decode(template, type=dict[str, Any])


def template_text(template: Mapping[str, Any]) -> str:
    """A Pod template as an attempt stores it: the same text for equal templates, none for one without anything."""
    return msgspec.json.encode(template, order="sorted").decode() if template else ""


class Notable(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A member worth a look: failed, slow or not started."""

    rank: int
    node: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    attempt: int = 0
    since: str = ""


class MemberCounts(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """How many members there are, and in which state."""

    total: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class Finding(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Something that policy changed or wants known: what, and why."""

    code: str
    message: str
    field: str = ""


class MemoryPeak(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The most memory that a member of a run held in any attempt: its working set, as kubelets count it."""

    peak_bytes: int
    rank: int = 0
    attempt: int = 0
    node: str = ""
    """Who held that much, in which attempt, and where."""
    limit_bytes: int = 0
    """What that member may use; 0 where nothing limits it."""
    at: str = ""
    """When it was seen."""
    total_bytes: int = 0
    """The most that all members together held at one look."""
    ran_out: bool = False
    """A member was ended because it used more than it may."""


class PreemptedBy(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A run for which another run, or some of its members, are preempted."""

    by: str
    """`namespace/name` of the run that waits."""
    uid: str
    attempts: int = 0
    """Number of attempts that it had had: once it has more, it has the nodes that it waited for."""
    who: str = ""
    """The same run, in words."""
    guaranteed: bool = False
    """Whether its team is guaranteed what it asks for; else it has a higher priority."""
    since: str = ""
    ranks: str = ""
    """The preempted members of a sweep, as ranges; its other members go on. Empty: the whole run is preempted."""
    attempt: int = 0
    """With `ranks`: the last attempt at that time. Members of later attempts are not preempted."""

    @property
    def waiting(self) -> tuple[str, int]:
        """UID and attempts of the run that waits: each start of it is a preemptor of its own."""
        return self.uid, self.attempts


class Preempted(PreemptedBy, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The preemption of a run: written before any of its members is asked to end, kept until it starts again."""

    others: tuple[PreemptedBy, ...] = ()
    """Earlier preemptions of other members of a sweep, the latest first."""

    @classmethod
    def of(cls, asks: Sequence[PreemptedBy]) -> Preempted:
        """Return these as one; at least one is needed."""
        first, *others = asks
        return cls(**_fields(first), others=tuple(others))

    @property
    def each(self) -> tuple[PreemptedBy, ...]:
        """All of these, one by one."""
        return PreemptedBy(**_fields(self)), *self.others


def _fields(asked: PreemptedBy) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in PreemptedBy.__struct_fields__}


class Resize(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The nodes of an elastic gang's next attempt: written before the present one is ended, or when it has lost
    members. They are kept for it until it has been planned."""

    nodes: str
    """In rank order, as `core.words.node_lists` writes it."""
    fewest: int
    """With fewer of them it does not start; then none is kept."""
    since: str = ""


class Ran(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """How long a run's members ran, in all attempts that are over: what is expected of the next of its kind, and what
    its user had of the cluster, follows from it."""

    seconds: int
    """From the start of all members to the end, without the time between attempts; of a sweep, and of a service, from
    the first start to the end. Of an elastic gang as if it had had its full size: an hour with half of its members is
    half an hour."""
    until: str
    """When the last of these attempts ended."""


class Setback(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The last time that an attempt, or of a sweep a member, ended otherwise than wanted and the run went on."""

    reason: str
    message: str = ""
    attempt: int = 0
    at: str = ""


class SweepState(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """How the members of a sweep stand, as ranges of indices (`0-511,600`). Who is in none of these was not started
    yet, or runs. At worst a member takes twelve bytes."""

    succeeded: str = ""
    failed: str = ""
    """For good."""
    again: str = ""
    """Those whose last Pod is given up, and who were not placed anew yet."""
    restarts: dict[str, str] = {}
    """By how often: those whose program failed and was started again."""
    longest_seconds: int = 0
    """How long the program of a member ran that succeeded, of all the longest; twice as long where others run for
    longer. It is what is expected of the others."""
    member_seconds: int = 0
    """How long members ran whose Pods are over, all together: what it had of the cluster."""


class RunStatus(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """How a run stands, as the controller writes it: all that another one has to know to go on."""

    phase: Phase = Phase.QUEUED
    reason: Reason = Reason.NONE
    message: str = ""
    attempt: Attempt | None = None
    attempts: int = 0
    """The highest attempt number ever used; numbers are never used twice."""
    restarts: int = 0
    """Restarts that count against the spec's `restarts`: those the program caused (rule 7)."""
    interruptions: int = 0
    """Restarts that do not count: node loss, eviction, preemption, failed starts."""
    failed_starts: int = 0
    """Starts in a row that did not come up; the pause before the next grows with it."""
    not_before: str = ""
    """The next attempt is not planned before this time."""
    resumes: int = 0
    """The value of the spec's `resumes` that was acted on."""
    exit_code: int | None = None
    members: MemberCounts = MemberCounts()
    sweep: SweepState | None = None
    """Of a sweep only."""
    notable: list[Notable] = []
    findings: list[Finding] = []
    memory: MemoryPeak | None = None
    """What members needed; None until somebody has seen it."""
    setback: Setback | None = None
    """Why it was interrupted or started again last; it stays when the run runs again."""
    preemption: Preempted | None = None
    """The run that preempts it; kept until it starts again. Members of a sweep may be preempted by several runs."""
    resize: Resize | None = None
    """Of an elastic gang that is about to go on with another size."""
    ran: Ran | None = None
    """Of attempts that are over; None until one is that had started."""
    avoid_nodes: dict[str, int] = {}
    """Nodes on which members of this run failed, with how often; at two the run avoids the node."""
    unstarted: list[Notable] = []
    """Nodes that alone kept an attempt from starting: the last member of each that did not come up there, and when. If
    the run then starts elsewhere, that tells something about the node."""
    node_request: NodeRequest | None = None
    """What it asked an autoscaler for last, while it waits."""
    queued_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    observed_generation: int = 0


def to_document(status: RunStatus) -> dict[str, Any]:
    """The status as it is stored: what is at its default is left out, but never the phase or the counts."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    document["phase"] = status.phase.value
    document["members"] = msgspec.to_builtins(status.members)
    return document
