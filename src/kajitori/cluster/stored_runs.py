"""What a Run as it is stored says of itself, in `core`'s words."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Literal

import msgspec

from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import Attempt, RunStatus
from kajitori.core.words import first_step, names
from kajitori.errors import InvalidInput
from kajitori.kube.mirror.usage import memory_limit, pod_usage
from kajitori.kube.objects import PodSpec, RunObject


class _Type(msgspec.Struct):
    type: str = "batch"


def member_of_template(attempt: Attempt, gpu_resource: str) -> MemberRequest:
    """What a member of a stored attempt takes: by the attempt's own template, whatever policy says meanwhile."""
    return _member_of(attempt.template, gpu_resource)


@lru_cache(maxsize=1024)
def _member_of(template: str, gpu_resource: str) -> MemberRequest:
    document = msgspec.json.decode(template) if template else {}
    spec = msgspec.convert(document.get("spec", {}), PodSpec)
    labels = document.get("metadata", {}).get("labels", {})
    usage = pod_usage(spec)
    return MemberRequest(
        cpu_millis=usage.cpu_millis,
        memory_bytes=usage.memory_bytes,
        gpus=usage.other(gpu_resource),
        whole_node=labels.get(names.LABEL_WHOLE_NODE) == "true",
        unlimited=not memory_limit(spec),
    )


def keeps_nodes(run: RunObject) -> bool:
    """Whether the run is about to go on with another size, on nodes that are kept for it: what its members have does
    not come free for others as they end."""
    status = run.status
    return (
        status is not None
        and status.resize is not None
        and not (status.phase.is_final or run.metadata.deletion_timestamp)
    )


def type_of(run: RunObject) -> Literal["batch", "service"]:
    """What kind of run a spec is of, whatever else is wrong with it."""
    try:
        return "service" if msgspec.json.decode(run.spec, type=_Type).type == "service" else "batch"
    except msgspec.ValidationError:
        return "batch"


def was_admitted(run: RunObject) -> bool:
    """Whether the controller has admitted the run before: it had an attempt, or it is queued with its present spec."""
    status = run.status
    if status is None:
        return False
    waits = status.phase is Phase.QUEUED and status.observed_generation == run.metadata.generation
    return status.attempts > 0 or waits


def code_digests(run: RunObject) -> set[str]:
    """The code that a stored Run asks for, and that its last attempt was made with."""
    found = set()
    with suppress(msgspec.DecodeError, KeyError, TypeError):  # there is none, or the spec is refused anyway
        found.add(str(msgspec.json.decode(run.spec)["code"]["digest"]))
    if run.status is not None and run.status.attempt is not None:
        with suppress(KeyError, TypeError, AttributeError, ValueError):  # somebody damaged the status
            found.add(first_step.code_of(run.status.attempt.pod_template["spec"]))
    return found - {""}


def secret_names(run: RunObject) -> set[str]:
    """The Secrets that a stored Run names."""
    with suppress(msgspec.DecodeError, KeyError, TypeError):  # the spec is refused anyway
        return {str(use["name"]) for use in msgspec.json.decode(run.spec).get("secrets") or ()}
    return set()


def life_of(run: RunObject, spec: RunSpec, decision: Decision, status: RunStatus) -> gang.Run:
    """A stored Run as `gang.next_step` takes it."""
    return gang.Run(
        type=spec.type,
        replicas=spec.members,
        limits=decision.limits,
        status=status,
        stopped=spec.stopped,
        deleting=bool(run.metadata.deletion_timestamp),
        resumes=spec.resumes,
        generation=run.metadata.generation,
        sweep=sweep_of(spec),
        fewest=spec.fewest,
    )


def sweep_of(spec: RunSpec) -> gang.Sweep | None:
    """What the life of a sweep depends on; None for a run that is none."""
    sweep = spec.sweep
    return gang.Sweep(sweep.indices, sweep.at_once, spec.stop_at or "") if sweep is not None else None


def check_begun_so(status: RunStatus | None, spec: RunSpec) -> None:
    """Raises InvalidInput where a gang that was begun is to become a sweep, or the other way round."""
    if status is None or not status.attempts or status.reason is Reason.STATUS_DAMAGED:
        return
    if (status.sweep is None) != (spec.array is None):
        was, other = ("a gang", "sweep") if status.sweep is None else ("a sweep", "gang")
        message = f"the run was begun as {was} and does not become a {other}"
        raise InvalidInput.one("spec.array", message, value=spec.array or "", hint="submit another run")
