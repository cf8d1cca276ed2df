"""Stored Runs in the types of `core`: their specs, their members' requests, and the state machine's input."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import msgspec

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.mirror.usage import memory_limit, pod_usage
from kajitori.cluster.objects import PodSpec
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.naming import first_step, names
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.spec.reading.stored import StoredSpec, read_stored
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.errors import InvalidInput
from kajitori.kube.resources import Resource


class StoredSpecs:
    """The specs of the Runs that the mirror holds, each decoded once per UID and generation."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._known: dict[Key, tuple[str, int, StoredSpec]] = {}
        """UID, generation and spec of each Run that was asked for."""
        self.close = mirror.on_change(self._note)
        """Stop following the mirror."""

    def of(self, run: RunObject) -> StoredSpec:
        """Return the readable part of a Run's spec. The Run need not be in the mirror."""
        meta = run.metadata
        key = meta.namespace, meta.name
        known = self._known.get(key)
        if known is not None and known[0] == meta.uid and known[1] == meta.generation:
            return known[2]
        spec = read_stored(run.spec)
        if key in self._mirror.runs:
            self._known[key] = meta.uid, meta.generation, spec
        return spec

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS and (namespace, name) not in self._mirror.runs:
            self._known.pop((namespace, name), None)


def member_of_template(attempt: Attempt, gpu_resource: str) -> MemberRequest:
    """Return the resources of a member of a stored attempt, by the attempt's own template and not by the present
    policy."""
    return _member_of(attempt.template, gpu_resource)


@lru_cache(maxsize=1024)
def _member_of(template: str, gpu_resource: str) -> MemberRequest:
    document = msgspec.json.decode(template) if template else {}
    spec = msgspec.convert(document.get("spec", {}), PodSpec)
    labels = document.get("metadata", {}).get("labels", {})
    usage = pod_usage(spec)
    annotations = document.get("metadata", {}).get("annotations") or {}
    written = annotations.get(names.ANNOTATION_GPU_REQUEST, "")
    gpus, gpu_type = names.read_gpus(written) if written else (usage.other(gpu_resource), "")
    return MemberRequest(
        cpu_millis=usage.cpu_millis,
        memory_bytes=usage.memory_bytes,
        gpus=gpus,
        gpu_type=gpu_type,
        whole_node=labels.get(names.LABEL_WHOLE_NODE) == "true",
        unlimited=not memory_limit(spec),
    )


def keeps_nodes(run: RunObject) -> bool:
    """Whether the run is about to start its next attempt, of another size, on nodes that are kept for it: its nodes do
    not become free for others when its members end."""
    status = run.status
    return (
        status is not None
        and status.resize is not None
        and not (status.phase.is_final or run.metadata.deletion_timestamp)
    )


def type_of(run: RunObject) -> Literal["batch", "service"]:
    """Return the type of a stored Run; "batch" if it cannot be read."""
    return read_stored(run.spec).type


def was_admitted(run: RunObject) -> bool:
    """Whether the controller has admitted the run before: it had an attempt, or it is queued with its present spec."""
    status = run.status
    if status is None:
        return False
    waits = status.phase is Phase.QUEUED and status.observed_generation == run.metadata.generation
    return status.attempts > 0 or waits


def code_digests(run: RunObject) -> set[str]:
    """Return the digests of the code and files that a stored Run asks for, and that its last attempt was made with."""
    stored = read_stored(run.spec)
    found = {stored.code_digest, stored.files_digest}
    if run.status is not None and run.status.attempt is not None:
        with suppress(KeyError, TypeError, AttributeError, ValueError):  # the status was damaged
            pod = run.status.attempt.pod_template["spec"]
            found |= {first_step.code_of(pod), first_step.files_of(pod)}
    return found - {""}


def secret_names(run: RunObject) -> frozenset[str]:
    """Return the names of the Secrets that a stored Run uses."""
    return read_stored(run.spec).secret_names


def life_of(
    run: RunObject, spec: RunSpec, decision: Decision, status: RunStatus, after: tuple[gang.Awaited, ...] = ()
) -> gang.Run:
    """Return a stored Run as the input of `gang.next_step`; `after`: the runs that it waits for."""
    life = gang.Run(
        type=spec.life,
        replicas=spec.members,
        limits=decision.limits,
        status=status,
        deleting=bool(run.metadata.deletion_timestamp),
        generation=run.metadata.generation,
        sweep=sweep_of(spec),
        fewest=spec.fewest,
        after=after,
        health=health_pace_of(spec),
    )
    return with_wishes(life, spec)


def with_wishes(life: gang.Run, spec: RunSpec) -> gang.Run:
    """Return a run with what its spec asks for beside its program: to be stopped, parked, or started again.

    A run that is asked to start again while it is active is stopped first. The counter alone says so, so nothing is
    lost if a client, the server or the controller ends in between, and nothing is done twice."""
    status = life.status
    parked_by_policy = is_parked(status, spec.resumes)
    restarting = not spec.stopped and spec.resumes > status.resumes and not status.phase.is_final
    limits = life.limits
    if limits.stop_grace_seconds is not None and not (spec.stopped or restarting or life.deleting):
        limits = replace(limits, stop_grace_seconds=None)  # that of an earlier restart
    return replace(
        life,
        limits=limits,
        stopped=spec.stopped or parked_by_policy or restarting,
        parked=spec.parked or parked_by_policy,
        restarting=restarting,
        resumes=spec.resumes,
    )


def is_parked(status: RunStatus, resumes: int) -> bool:
    """Whether policy parked the run, and no user has resumed it since."""
    return status.idle is not None and bool(status.idle.parked_at) and resumes <= status.resumes


def sweep_of(spec: RunSpec) -> gang.Sweep | None:
    """Return the part of a spec that the state machine of a sweep needs; None for a run that is no sweep."""
    sweep = spec.sweep
    return gang.Sweep(sweep.indices, sweep.at_once, spec.stop_at or "") if sweep is not None else None


def health_pace_of(spec: RunSpec) -> gang.HealthPace | None:
    """Return the pace of a run's health check; None if it has none."""
    check = spec.health
    return gang.HealthPace(check.retries * check.interval_seconds, check.patience_seconds) if check else None


def check_stays_gang_or_sweep(status: RunStatus | None, spec: RunSpec) -> None:
    """Raise InvalidInput if an edit turns a gang that has begun into a sweep, or a sweep into a gang."""
    if status is None or not status.attempts or status.reason is Reason.STATUS_DAMAGED:
        return
    if (status.sweep is None) != (spec.array is None):
        was, other = ("a gang", "sweep") if status.sweep is None else ("a sweep", "gang")
        message = f"the run started as {was} and cannot become a {other}"
        raise InvalidInput.one("spec.array", message, value=spec.array or "", hint="submit another run")
