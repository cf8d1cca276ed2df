"""Runs and members as answers show them."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from typing import Literal

import msgspec

from kajitori.api.views.runs import MemberView, NoteView, RunTableRow, RunView
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import type_of
from kajitori.core.formats.node_lists import compress, compress_set
from kajitori.core.gang import HealthPace, Member
from kajitori.core.gang.status.health import MemberHealth, member_health
from kajitori.core.naming import names
from kajitori.core.proxy.addresses import Target
from kajitori.core.spec.array import parse_array
from kajitori.core.spec.note import read_note
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.reading.stored import StoredSpec, read_stored
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.run import to_document
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status import to_document as status_document
from kajitori.core.spec.status_parts.health import RunHealth
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.errors import FieldError, InvalidInput


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
        annotations={key: text for key, text in meta.annotations.items() if not _is_internal(key)},
        note=_note(run),
        programs=_programs(run),
    )


def _note(run: RunObject) -> NoteView | msgspec.UnsetType:
    note = read_note(run.metadata.annotations.get(names.ANNOTATION_NOTE, ""))
    return NoteView(note.text, note.by, note.at) if note is not None else msgspec.UNSET


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


def _is_internal(key: str) -> bool:
    """Whether the platform itself or kubectl keeps this annotation for its own use."""
    domain = key.rpartition("/")[0]
    return domain == names.GROUP or domain.endswith("kubernetes.io")


def run_summary(run: RunObject, spec: StoredSpec, starts_at: str | msgspec.UnsetType = msgspec.UNSET) -> RunTableRow:
    """Return the row of a Run with this spec."""
    meta, status = run.metadata, run.current_status
    counts = status.members if run.status is not None else MemberCounts(total=_sizes(spec)[0])
    note = read_note(meta.annotations.get(names.ANNOTATION_NOTE, ""))
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
        health=_health_word(status.health),
        image=spec.image,
        labels=meta.labels or msgspec.UNSET,
        note=note.text if note is not None else msgspec.UNSET,
        interruptions=status.interruptions or msgspec.UNSET,
        starts_at=starts_at,
    )


def _finding(status: RunStatus) -> Literal["", "stuck", "idle", "unhealthy"]:
    if status.phase is not Phase.RUNNING:
        return ""
    if status.stuck is not None:
        return "stuck"
    if status.health is not None and status.health.unhealthy:
        return "unhealthy"
    return "idle" if status.idle is not None else ""


def _health_word(health: RunHealth | MemberHealth | None) -> Literal["", "starting", "healthy", "unhealthy"]:
    match health.status if health is not None else "":
        case "starting":
            return "starting"
        case "healthy":
            return "healthy"
        case "unhealthy":
            return "unhealthy"
    return ""  # there is none, or the status was damaged


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
        self._rendered: OrderedDict[tuple[str, str, str], msgspec.Raw] = OrderedDict()

    def render(self, run: RunObject) -> msgspec.Raw:
        """Return the view's JSON on one line."""
        nodes = nodes_of(self._mirror, run)
        key = (run.metadata.uid, run.metadata.resource_version, nodes)
        rendered = self._rendered.get(key)
        if rendered is None:
            rendered = self._rendered[key] = msgspec.Raw(msgspec.json.encode(run_view(run, nodes)))
            if len(self._rendered) > self._size:
                self._rendered.popitem(last=False)
        else:
            self._rendered.move_to_end(key)
        return rendered


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
            attempt_and_node = pod.member.attempt, pod.spec.node_name
            newest[pod.member.rank] = max(newest.get(pod.member.rank, attempt_and_node), attempt_and_node)
    nodes = [node for _, (_, node) in sorted(newest.items())]
    return compress(nodes) if status.sweep is None else compress_set(nodes)


def phase_of(run: RunObject) -> Phase:
    """Return the phase; Queued before a controller has written one."""
    return run.status.phase if run.status is not None else Phase.QUEUED


def member_view(pod: Pod, member: Member, pace: HealthPace | None, now: datetime) -> MemberView:
    """Return the view of one member. `pace` is that of the run's health check, if it has one."""
    health = member_health(pace, member, now) if pace is not None else None
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
        health=_health_word(health),
    )
