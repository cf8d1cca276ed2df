"""The records that history keeps of a run, independent of Kubernetes and of any database."""

from __future__ import annotations

import msgspec

from kajitori.core.spec.status_parts.usage import Amounts, UsageTotal
from kajitori.core.usage.lost_time.slices import Mark


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Times are seconds since 1970."""

    uid: str
    namespace: str
    name: str
    owner: str
    type: str
    phase: str
    reason: str
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    removed_at: int | None = None
    """Time at which its object was removed from the cluster; None while it is there."""
    members: int = 0
    gpus: int = 0
    """GPUs of all members together."""
    attempts: int = 0
    seen_at: int = 0
    """Time of this state in milliseconds. A later one is never replaced by an earlier one."""
    document: bytes = b""
    """The Run as JSON, with metadata, spec and status; empty in lists."""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a run: its nodes, its times, and its end."""

    number: int
    nodes: str
    planned_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    reason: str = ""
    message: str = ""


class SegmentRecord(Amounts, frozen=True, kw_only=True):
    """Members of a run that held their nodes for the same time."""

    id: int
    attempt: int = 0
    members: int
    since: int
    until: int
    nodes: str
    """Node of each of these members, as a compact list; empty if they are not known."""
    started: int | None = None
    ended: int | None = None
    cause: str = ""
    culprit: str = ""
    after: str = ""
    saves_every: int = 0
    counts: int = 0
    """Number of ends of attempts that it stands for."""

    @property
    def member_seconds(self) -> int:
        """Time that all of these members held their nodes, together."""
        return self.members * (self.until - self.since)


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a run that history stores at one time. Storing it again changes nothing."""

    run: RunRecord
    attempts: tuple[AttemptRecord, ...] = ()
    segments: tuple[SegmentRecord, ...] = ()
    ledger: int = 0
    """Number of the first segment of the run's ledger."""
    last: int = 0
    """Number of its last closed segment."""
    totals: tuple[UsageTotal, ...] = ()
    marks: tuple[Mark, ...] = ()
    """Times in which its attempts were stuck or idle. A later end replaces an earlier one."""
    since: int = 0
    until: int = 0
    """Times between which segments lie that were left out."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change, or one refused attempt to change something."""

    key: str
    """Identifies the entry, so that it is not written twice."""
    at: int
    """Milliseconds since 1970."""
    actor: str
    """User as the API server authenticated them, or the part of Kajitori that decided."""
    source: str = ""
    """Address of the caller; empty for Kajitori's own decisions."""
    action: str
    namespace: str = ""
    object: str = ""
    outcome: str
    """`done`, `refused` or `failed`."""
    rule: str = ""
    """Rule or finding that refused or caused it."""
    message: str = ""
