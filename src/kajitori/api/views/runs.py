"""Answers about runs, their members, results and events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from kajitori.api.views.base import Time, View
from kajitori.core.gang.sweeps.results import MemberResult
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.members import MemberCounts


class NoteView(View):
    """The note on a run."""

    text: str
    """Plain text, with line feeds."""
    by: str
    """The user who wrote it."""
    at: Time


class RunView(View):
    """A run: its spec and its status."""

    name: str
    namespace: str
    uid: str
    owner: str
    """User who submitted the run, as the API server authenticated them; empty if the run did not come through this
    API."""
    labels: dict[str, str]
    created_at: Time
    spec: Annotated[
        dict[str, Any],
        msgspec.Meta(
            description="With the defaults that do not depend on policy. An invalid spec, which only kubectl can "
            "write, is shown unchanged.",
            extra_json_schema={"$ref": "#/components/schemas/RunSpec"},
        ),
    ]
    status: Annotated[
        dict[str, Any],
        msgspec.Meta(
            description="Fields at their default are absent.",
            extra_json_schema={"$ref": "#/components/schemas/RunStatus"},
        ),
    ]
    nodes: str = ""
    """Nodes of the members as a compact list: of gangs and services in rank order, of a sweep each node once. The nodes
    in the status' attempt are those of the members that were started last."""
    gpus: int = 0
    """GPUs of all members. A sweep counts its current members, or as many as may run at once while it has none."""
    deleting: bool = False
    """Whether the run is being deleted; its members are ended first."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """Notes of other programs: those that were submitted with the run."""
    note: NoteView | msgspec.UnsetType = msgspec.UNSET
    """The note on the run; absent if it has none."""
    programs: list[str] = msgspec.field(default_factory=list)
    """Paths on this server at which browsers find what rank 0 serves at the run's ports; empty if it does not run."""


class StopView(RunView, kw_only=True):
    """A run that was asked to stop."""

    grace_seconds: int
    """Time between SIGTERM and SIGKILL. After that no member runs any more, if a controller is at work."""


class RunCounts(View):
    """Number of runs that match the filters of a list or stream."""

    total: int
    phases: dict[str, int]
    """Matching runs by phase, without regard to the filters `phase` and `active`: they show what another choice of
    phases would list. Phases without runs are absent."""


class RunList(View, omit_defaults=True):
    """One page of runs. With `fields`, each run has only these fields."""

    items: list[RunView]
    counts: RunCounts
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for the next page; absent on the last."""


class RunTableRow(View):
    """A run as one row of a table."""

    namespace: str
    name: str
    uid: str
    owner: str
    phase: Phase
    reason: str
    message: str
    members: MemberCounts
    """Number of members by state: the run's progress."""
    gpus: int
    """GPUs of all members. A sweep counts its current members, or as many as may run at once while it has none."""
    gpu_type: str
    """The requested type; empty if any will do."""
    restarts: int
    created_at: Time
    queued_at: str
    """Empty, here and below, if it has not happened yet."""
    started_at: str
    finished_at: str
    deleting: bool
    """Whether the run is being deleted; its members are ended first."""
    finding: Literal["", "stuck", "idle", "unhealthy"]
    """stuck: a running run is suspected to make no progress. unhealthy: its health check fails. idle: it does not use
    GPUs that it holds. Else empty."""
    health: Literal["", "starting", "healthy", "unhealthy"]
    """Health of all members that run; empty without a health check, and while none runs."""
    image: str
    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """Absent if it has none."""
    note: str | msgspec.UnsetType = msgspec.UNSET
    """Text of the note that people wrote about it. Absent if there is none."""
    interruptions: int | msgspec.UnsetType = msgspec.UNSET
    """Starts that were lost without a fault of the program, as by a preemption. Absent if there were none."""
    starts_at: str | msgspec.UnsetType = msgspec.UNSET
    """Only if `starts` asks for it: when a waiting run is expected to start. Empty if that is not known or the run does
    not wait."""


class RunTable(View, omit_defaults=True):
    """One page of runs as rows of a table."""

    items: list[RunTableRow]
    counts: RunCounts
    version: str
    """Version of the list: with this as `since` and the same filters, `GET /v1/runs/changes` begins with the changes
    after this answer."""
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for the next page; absent on the last."""


class RunKey(View):
    """Names one run."""

    namespace: str
    name: str
    uid: str


class RunSnapshot(View):
    """Data of the event `snapshot`: all matching runs, in no particular order. It replaces all that came before."""

    items: list[RunTableRow]
    """Empty if the stream was asked for no items in snapshots."""
    counts: RunCounts


class RunChanges(View):
    """Data of the event `changes`: matching runs that changed since the event before."""

    added: list[RunTableRow]
    """Runs that did not match before."""
    changed: list[RunTableRow]
    removed: list[RunKey]
    """Runs that were deleted or match no more."""
    counts: RunCounts


class RunNames(View):
    """Completions of the name of a run, for a shell."""

    names: list[str]
    """Whole names."""
    beginnings: list[str]
    """Common beginnings of several names, if there are too many names to list."""


class MemberView(View):
    """One member of a run, in the newest of its attempts that has a Pod for it."""

    rank: int
    attempt: int
    pod: str
    node: str
    phase: str
    """Pending, Running, Succeeded or Failed."""
    reason: str
    message: str
    address: str
    exit_code: int | None
    started_at: str
    restarts: int
    """Number of times that its program was started again in the same Pod, as programs of services are."""
    last_exit_code: int | None
    """Exit code with which its program ended last, also if it was started again since."""
    terminating: bool
    health: Literal["", "starting", "healthy", "unhealthy"]
    """Its health by the run's health check; empty without a check, and while its program does not run."""


class MemberList(View, omit_defaults=True):
    """One page of members, by rank."""

    items: list[MemberView]
    continue_: str | None = msgspec.field(name="continue", default=None)


class ResultList(View, omit_defaults=True):
    """One page of results, by index; with `best`, the best first."""

    items: list[MemberResult]
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for the next page; absent on the last."""
    incomplete: str = ""
    """Why details of members whose Pods are gone are missing; absent if none are missing."""
    by: str = ""
    """With `best`: name of the value that orders the list; absent if no name in the results tells which it is."""
    order: Literal["", "lowest", "highest"] = ""
    """With `best`: which values are better."""
    names: list[str] = msgspec.field(default_factory=list)
    """With `best`: names of all numbers in the results."""


class CommandLineView(View):
    """The `kaji run` command for a request."""

    text: str
    """The command with quotes, for a shell. A comment at its end names what it leaves out."""
    left_out: list[str]
    """Fields of the spec that no option can express, such as `qos`."""


class EventView(View):
    """Something that happened to a run or one of its members."""

    namespace: str
    time: Time
    type: str
    reason: str
    object: str
    """Kind and name of the object, such as `Run/bert` or `Pod/bert-1-0`."""
    message: str
    count: int


class EventList(View, omit_defaults=True):
    """One page of events, the newest first."""

    items: list[EventView]
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send it back for older ones; absent on the last page."""
    left_out: int = 0
    """Number of namespaces that `everywhere` leaves out: those beyond 64 that may have runs which the caller may see.
    Absent if there are none."""


class RunningProcess(View):
    """A process of a member."""

    pid: int
    ppid: int
    cpu_seconds: float
    """Processor time since its start."""
    memory_bytes: int
    """Resident memory."""
    age_seconds: float
    command: str


class ProcessList(View):
    """The processes of a member, by their numbers."""

    rank: int
    node: str
    items: list[RunningProcess]


class SignalledProgram(View):
    """The program of a member that was to get a signal."""

    rank: int
    pid: int = 0
    """0 if it is not known."""
    ignored: bool = False
    """It did not get the signal: it is the first process of its container, and has no handler for this signal."""
    error: str = ""
    """Why it did not get the signal; empty if it did, or ignores it."""


class SignalledPrograms(View):
    """The programs of a run that were to get a signal, by rank."""

    signal: str
    items: list[SignalledProgram]


class Signalled(View):
    """A process that got a signal."""

    rank: int
    pid: int
    signal: str
