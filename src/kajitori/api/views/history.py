"""Answers about history: runs that were, usage, and the audit trail."""

from __future__ import annotations

import msgspec

from kajitori.api.views.base import Time, View
from kajitori.api.views.runs import RunView


class RecordedRun(View, omit_defaults=True):
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
    run: RunView | None = None
    """Its last spec and status; only with `details`."""


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


class BoardUse(View):
    """GPU-hours of one type or team."""

    name: str
    gpu_seconds: int


class BoardUsage(View):
    """What the board shows of the last 30 days."""

    since: Time
    until: Time
    gpu_seconds: int
    types: list[BoardUse]
    """By type of GPU, the largest first."""
    teams: list[BoardUse]
    """The ten teams (namespaces) that used most, the largest first."""
    team_count: int
    """Number of teams that used GPUs."""


class UsageAnswer(View):
    """Usage between two times, the largest first; by day or hour in the order of time."""

    by: str
    since: Time
    until: Time
    currency: str
    items: list[UsageRow]
    count: int
    """Number of teams, owners, GPU types, runs or nodes that used something, or of days or hours. With `limit` there
    may be fewer items."""
    total: UsageRow


class TimeOf(View):
    """Time in one category."""

    category: str
    """productive, saving, lost, unclear, hung, idle, starting, restarting or queued."""
    meaning: str
    """The category in words."""
    seconds: int
    """Time of the run as a whole; 0 in reports about several runs."""
    gpu_seconds: int
    member_seconds: int
    """Time of all members together."""


class CauseView(View):
    """The cost of one cause: lost work, time in which the run hung, the end of an attempt and the start of the next."""

    cause: str
    times: int
    """Number of attempts that it ended."""
    gpu_seconds: int
    member_seconds: int


class CheckpointsView(View):
    """A run's checkpoints, and the interval between them that would have cost least."""

    count: int
    last_at: str
    times: list[Time]
    """Times at which the newest 500 were written, the oldest first."""
    every_seconds: float | None
    """Median time between two of them, without the time to write one."""
    cost_seconds: float | None
    """Median time for which the training stood still to write one; null if it is not known."""
    failures: int
    """Attempts that were broken without notice."""
    between_failures: float | None
    """Mean running time between two failures, in seconds."""
    best_seconds: float | None
    """The interval that would have cost least, by Young and Daly; null if costs or failures are not known."""


class RunTimeView(View):
    """Where the time of one run went."""

    run: str
    namespace: str
    phase: str
    since: Time
    until: Time
    ratio: float | None
    """Effective training time ratio: productive time divided by the time since the run was submitted."""
    while_held: float | None
    """The same for the time in which members had nodes."""
    categories: list[TimeOf]
    causes: list[CauseView]
    checkpoints: CheckpointsView
    words: list[str]
    """The same in sentences."""


class TimeSum(View):
    """The time of one team, owner, cause or node."""

    key: str
    """For owners `namespace/owner`."""
    times: int
    """Number of attempts that were ended by something; for causes by this one."""
    gpu_seconds: int
    member_seconds: int
    categories: list[TimeOf]
    """Its parts, without those of no time."""


class TimeReport(View):
    """How the time of nodes that runs held was spent, on whole days (UTC)."""

    by: str
    since: Time
    until: Time
    ratio: float | None
    """Productive GPU-seconds divided by all that were held; of members' time if no run had GPUs."""
    total: TimeSum
    items: list[TimeSum]
    """The largest cost first. Causes and nodes have only the time that something cost."""


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
    namespaces: list[str] | None
    """Namespaces with runs that the caller may read about; null: all, and changes to the cluster as well."""
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back as `continue` for the next page; absent on the last."""
