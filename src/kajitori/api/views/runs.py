"""Answers about runs, their members, logs and events."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated, Any, Literal

import msgspec

from kajitori.api.views.base import Time, View
from kajitori.api.views.notes import NoteView
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import type_of
from kajitori.core.gang import Member
from kajitori.core.gang.sweeps.results import MemberResult
from kajitori.core.placement.snapshot import natural_key
from kajitori.core.proxy.addresses import Target
from kajitori.core.spec.array import parse_array
from kajitori.core.spec.note import read_note
from kajitori.core.spec.parsing import parse_spec
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.run import to_document
from kajitori.core.spec.status import MemberCounts, RunStatus
from kajitori.core.spec.status import to_document as status_document
from kajitori.core.spec.stored import StoredSpec, read_stored
from kajitori.core.words import names
from kajitori.core.words.nodes.node_lists import compress
from kajitori.errors import FieldError, InvalidInput


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
    finding: Literal["", "stuck", "idle"]
    """stuck: a running run is suspected to make no progress. idle: it does not use GPUs that it holds. Else empty."""
    image: str
    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """Absent if it has none."""
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


class CallsAdded(View):
    """The calls of a run."""

    added: int
    """Number of calls that were added so far."""
    closed: bool
    """Whether no more calls come."""
    cancelled: int = 0
    """Number of calls that this request cancelled."""
    over: bool = False
    """Whether every call has ended and none will be added."""


class CallOutcome(View, omit_defaults=True):
    """The outcome of a call."""

    call: int
    kind: str
    """value, error, item (a generator goes on), end (a generator ended), lost (three workers died with it), or
    cancelled."""
    part: int = 0
    """Number of a generator's item, from 0."""
    value: str = ""
    """The pickled value in base64."""


class CallOutcomes(View):
    """Outcomes of calls in the order in which they came."""

    items: list[CallOutcome]
    next: int
    """Send it as `after` for later outcomes."""
    added: int
    ended: int
    """Number of calls that have ended."""
    closed: bool


class TakenCall(View):
    """A call that a worker is to do."""

    call: int
    arguments: str
    """The pickled arguments in base64."""


class CallWork(View):
    """Work for a worker."""

    calls: list[TakenCall]
    """Empty if there is nothing to do at the moment."""
    over: bool
    """Whether every call has ended and none will be added: the worker ends."""
    ended: list[int] = msgspec.field(default_factory=list)
    """Those of its calls in `doing` that have ended already, since they were cancelled: the worker stops doing them."""


class LogFrame(View):
    """The head of a frame of a log, with the number of bytes that follow."""

    rank: int
    attempt: int
    size: int
    """Number of bytes of the log that follow this line. They may end within a line of the log, which continues in the
    member's next frame."""
    cursor: str
    """Position after this frame; a request with it as `resume` continues there."""


class LogLine(View, omit_defaults=True):
    """One line that a member printed."""

    rank: int
    attempt: int
    time: Time
    line: str
    goes_on: bool = False
    """Whether this is only a part of a very long line that the member's next part continues."""


class LogWindowLine(View, omit_defaults=True):
    """One line of a window."""

    time: Time
    line: str
    nth: int = 1
    """Number of the line among consecutive lines with this time, from 1."""
    cut: bool = False
    """Whether the line is longer than what is shown of it."""


class LogWindow(View, omit_defaults=True):
    """Some lines of the log of one rank in one attempt."""

    rank: int
    attempt: int
    lines: list[LogWindowLine]
    live: bool = False
    """Whether lines may still be added."""
    before: str = ""
    """Send it as `before` for the lines before these; absent if these begin the log."""
    after: str = ""
    """Send it as `after` for the lines behind these, or as `resume` to follow the log; absent if there are no lines."""
    at_end: bool = False
    """Whether the log has no further lines now."""
    missing: str = ""
    """Why there is no log, if there is none."""
    first: int | None = None
    """Number of the first of these lines, from 1; only for a window that begins with a line of a given number."""


class LogMatch(View, omit_defaults=True):
    """A line that a search found."""

    rank: int
    attempt: int
    time: Time
    line: str
    cursor: str
    """Send it as `at` for the lines around this one."""
    nth: int = 1
    """Number of the line among consecutive lines with this time, from 1."""
    number: int | None = None
    """Number of the line, from 1; absent if the search began inside of the log."""
    cut: bool = False
    """Whether the line is longer than what is shown of it."""


class LogSearchState(View, omit_defaults=True):
    """How far a search of one rank's log is."""

    rank: int
    attempt: int
    matches: int
    """Lines that were found so far, including those that are over the limit and therefore not in the answer."""
    searched: int
    """Bytes that were searched so far."""
    done: bool = False
    """Whether the search of this log is over."""
    next: str = ""
    """If the search is over, but the log is not: send it as `after` to go on."""


class EventView(View):
    """Something that happened to a run or one of its members."""

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


def run_view(run: RunObject, nodes: str = "") -> RunView:
    """Return the view of a Run whose members are on `nodes`. An invalid spec, written with kubectl, is shown
    unchanged."""
    meta = run.metadata
    document = msgspec.json.decode(run.spec)
    try:
        spec = parse_spec(document)
    except InvalidInput:
        shown, replicas = document, 0
    else:
        shown, replicas = to_document(spec, with_defaults=True), spec.members
    status = run.status or RunStatus(reason=Reason.NOT_PLANNED_YET, members=MemberCounts(total=replicas))
    if status.attempt is not None:
        attempt = msgspec.structs.replace(status.attempt, template="")
        status = msgspec.structs.replace(status, attempt=attempt, usage=None)  # `GET /v1/usage` sums it up
    return RunView(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        owner=run.owner,
        labels=meta.labels,
        created_at=meta.creation_timestamp,
        spec=shown if isinstance(shown, dict) else {},
        status=status_document(status),
        nodes=nodes,
        gpus=_gpus(run, read_stored(run.spec)),
        deleting=bool(meta.deletion_timestamp),
        annotations={key: text for key, text in meta.annotations.items() if not _is_of_a_system(key)},
        note=_note(run),
        programs=_programs(run),
    )


def _note(run: RunObject) -> NoteView | msgspec.UnsetType:
    found = read_note(run.metadata.annotations.get(names.ANNOTATION_NOTE, ""))
    return NoteView(found.text, found.by, found.at) if found is not None else msgspec.UNSET


def _programs(run: RunObject) -> list[str]:
    """Return the paths of the programs that a running run serves, at the ports of its present attempt's Pods."""
    status = run.status
    if status is None or status.attempt is None or status.phase is not Phase.RUNNING:
        return []
    if not read_stored(run.spec).has_ports:
        return []
    try:
        container = status.attempt.pod_template["spec"]["containers"][0]
        ports = [int(port["containerPort"]) for port in container.get("ports", ())]
    except (LookupError, TypeError, ValueError):  # the status was damaged
        return []
    return [f"{Target(run.metadata.namespace, run.metadata.name, port).path}/" for port in ports]


def _is_of_a_system(key: str) -> bool:
    """Whether the platform itself or kubectl keeps this annotation for its own use."""
    domain = key.rpartition("/")[0]
    return domain == names.GROUP or domain.endswith("kubernetes.io")


def run_summary(run: RunObject, spec: StoredSpec, starts_at: str | msgspec.UnsetType = msgspec.UNSET) -> RunTableRow:
    """Return the row of a Run with this spec."""
    meta, status = run.metadata, run.current_status
    counts = status.members if run.status is not None else MemberCounts(total=_sizes(spec)[0])
    return RunTableRow(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        owner=run.owner,
        phase=phase_of(run),
        reason=(status.reason if run.status is not None else Reason.NOT_PLANNED_YET).value,
        message=status.message,
        members=counts,
        gpus=_gpus(run, spec),
        gpu_type=spec.gpu_type,
        restarts=status.restarts,
        created_at=meta.creation_timestamp,
        queued_at=status.queued_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        deleting=bool(meta.deletion_timestamp),
        finding=_finding(status),
        image=spec.image,
        labels=meta.labels or msgspec.UNSET,
        starts_at=starts_at,
    )


def _finding(status: RunStatus) -> Literal["", "stuck", "idle"]:
    if status.phase is not Phase.RUNNING:
        return ""
    return "stuck" if status.stuck is not None else "idle" if status.idle is not None else ""


def _gpus(run: RunObject, spec: StoredSpec) -> int:
    """Return the number of GPUs of all members."""
    counts = run.status.members if run.status is not None and spec.is_sweep else MemberCounts()
    return spec.gpus * (counts.running + counts.pending or _sizes(spec)[1])


def _sizes(spec: StoredSpec) -> tuple[int, int]:
    """Return the number of members, in total and at the same time; 0 for a sweep with invalid indices."""
    if not spec.is_sweep:
        return spec.members, spec.members
    try:
        sweep = parse_array(spec.array)
    except FieldError:
        return 0, 0
    return len(sweep.indices), sweep.at_once


class RunRenderer:
    """Cache of run views in JSON: each version of a run is rendered once, however many callers ask for it."""

    def __init__(self, mirror: Mirror, size: int = 2048) -> None:
        self._mirror = mirror
        self._size = size
        self._known: OrderedDict[tuple[str, str, str], msgspec.Raw] = OrderedDict()

    def render(self, run: RunObject) -> msgspec.Raw:
        """Return the view's JSON on one line."""
        nodes = nodes_of(self._mirror, run)
        key = (run.metadata.uid, run.metadata.resource_version, nodes)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = msgspec.Raw(msgspec.json.encode(run_view(run, nodes)))
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known


def nodes_of(mirror: Mirror, run: RunObject) -> str:
    """Return the nodes of a run's members as a compact list; of an ended run, its last nodes.

    The attempt of a gang names the nodes of all members. Members of services and sweeps outlive the attempt that
    started them, so their nodes are taken from their Pods.
    """
    status = run.status
    if status is None or status.attempt is None:
        return ""
    if status.sweep is None and type_of(run) == "batch":
        return status.attempt.nodes
    newest: dict[int, tuple[int, str]] = {}
    for pod in mirror.pods_of_run(run):
        if pod.member is not None and pod.spec.node_name and (status.phase.is_final or not pod.is_finished):
            found = pod.member.attempt, pod.spec.node_name
            newest[pod.member.rank] = max(newest.get(pod.member.rank, found), found)
    nodes = [node for _, (_, node) in sorted(newest.items())]
    return compress(nodes if status.sweep is None else sorted(set(nodes), key=natural_key))


def phase_of(run: RunObject) -> Phase:
    """Return the phase; Queued before a controller has written one."""
    return run.status.phase if run.status is not None else Phase.QUEUED


def member_view(pod: Pod, member: Member) -> MemberView:
    """Return the view of one member."""
    container = next((c for c in pod.status.container_statuses if c.name == names.MEMBER_CONTAINER), None)
    started = (container.state.running or container.state.terminated) if container is not None else None
    last = (container.state.terminated or container.last_state.terminated) if container is not None else None
    return MemberView(
        rank=member.rank,
        attempt=member.attempt,
        pod=member.pod,
        node=member.node,
        phase=member.state.value,
        reason=member.reason.value,
        message=member.message,
        address=pod.status.pod_ip,
        exit_code=member.exit_code,
        started_at=started.started_at if started is not None else "",
        restarts=container.restart_count if container is not None else 0,
        last_exit_code=last.exit_code if last is not None else member.exit_code,
        terminating=member.terminating,
    )


class CommandLineView(View):
    """The `kaji run` command for a request."""

    text: str
    """The command with quotes, for a shell. A comment at its end names what it leaves out."""
    left_out: list[str]
    """Fields of the spec that no option can express, such as `qos`."""
