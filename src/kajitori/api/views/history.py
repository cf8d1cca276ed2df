"""Answers about history: runs that were, usage, and the audit trail."""

from __future__ import annotations

import msgspec

from kajitori.api.views.base import Time, View
from kajitori.api.views.runs import RunView


class RecordedRun(View):
    """One run in a list of history."""

    name: str
    namespace: str
    uid: str
    owner: str
    type: str
    """batch, service, notebook or sweep."""
    phase: str
    reason: str
    created_at: Time
    started_at: str
    ended_at: str
    removed_at: str
    """When its object was removed from the cluster; empty while it is there."""
    members: int
    gpus: int
    """GPUs of all members together."""
    attempts: int


class RecordedRuns(View, omit_defaults=True):
    """One page of history."""

    items: list[RecordedRun]
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back as `continue` for the next page; absent on the last."""


class RecordedAttempt(View):
    """One attempt of a run: its nodes, its times, and its end."""

    number: int
    nodes: str
    planned_at: str
    started_at: str
    ended_at: str
    reason: str
    message: str


class RecordedRunView(RunView, kw_only=True):
    """A run in history: what `GET /v1/runs/{namespace}/{name}` said of it last."""

    removed_at: str
    attempts: list[RecordedAttempt]
    """Its last attempts, at most 100."""


class UsageRow(View):
    """The usage of one team, owner, GPU type, run or node."""

    key: str
    """For runs `namespace/name/uid`; for GPU types empty for members without GPUs."""
    gpu_seconds: int
    core_seconds: float
    memory_gib_seconds: float
    member_seconds: int
    """Time that members held their nodes, together."""
    cost: float


class UsageAnswer(View):
    """Usage between two times, the largest first."""

    by: str
    since: Time
    until: Time
    currency: str
    items: list[UsageRow]
    total: UsageRow


class AuditRow(View):
    """One change, or one refused attempt to change something."""

    at: Time
    actor: str
    source: str
    action: str
    namespace: str
    object: str
    outcome: str
    """done, refused or failed."""
    rule: str
    message: str


class AuditAnswer(View, omit_defaults=True):
    """One page of the audit trail, newest first."""

    items: list[AuditRow]
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back as `continue` for the next page; absent on the last."""
