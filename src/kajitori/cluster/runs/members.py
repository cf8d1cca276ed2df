"""Conversion of Pods into members: the reasons and messages of many kubelets become our fixed set of reasons."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from kajitori.cluster.mirror.usage import memory_limit
from kajitori.cluster.objects import ContainerStatus, Node, Pod, Terminated
from kajitori.cluster.runs.evictions import is_own_disk_limit, memory_excess
from kajitori.core.formats.quantities import parse_memory_bytes, round_memory
from kajitori.core.gang import Member, MemberState
from kajitori.core.gang.memory import MemberPeak
from kajitori.core.logs.last_words import last_line, last_words
from kajitori.core.naming import first_step, names
from kajitori.core.spec.reasons import Reason

_WAITING = {
    "ErrImagePull": Reason.IMAGE_PULL,
    "ImagePullBackOff": Reason.IMAGE_PULL,
    "InvalidImageName": Reason.IMAGE_PULL,
    "ErrImageNeverPull": Reason.IMAGE_PULL,
    "ImageInspectError": Reason.IMAGE_PULL,
    "RegistryUnavailable": Reason.IMAGE_PULL,
    "CreateContainerConfigError": Reason.CONTAINER_CONFIG,
    "CreateContainerError": Reason.CONTAINER_CONFIG,
    "RunContainerError": Reason.CONTAINER_CONFIG,
    "CrashLoopBackOff": Reason.PROGRAM_FAILED,  # a service's program, which its kubelet starts again
    "PodInitializing": Reason.CREATING,
    "ContainerCreating": Reason.CREATING,
}

_POD_FAILED = {
    "Evicted": Reason.EVICTED,
    "NodeLost": Reason.NODE_LOST,
    "NodeShutdown": Reason.NODE_LOST,
    "Terminated": Reason.NODE_LOST,  # graceful node shutdown
    "Shutdown": Reason.NODE_LOST,
    "Preempting": Reason.PREEMPTED,
    "DeadlineExceeded": Reason.TIME_LIMIT,
    "UnexpectedAdmissionError": Reason.KUBELET_REFUSED,
    "NodeAffinity": Reason.KUBELET_REFUSED,
    "NodePorts": Reason.KUBELET_REFUSED,
    "Taints": Reason.KUBELET_REFUSED,
    "MountsUnavailable": Reason.VOLUME,
    "NoCommand": Reason.COMMAND_NOT_FOUND,
}

_DISRUPTION = {
    "PreemptionByScheduler": Reason.PREEMPTED,
    "DeletionByTaintManager": Reason.NODE_LOST,
    "EvictionByEvictionAPI": Reason.DRAINED,
    "DeletionByPodGC": Reason.NODE_LOST,
    "TerminationByKubelet": Reason.EVICTED,
}

FIRST_STEP_REASONS = {
    first_step.NO_SERVER: Reason.FIRST_STEP_NO_SERVER,
    first_step.REFUSED: Reason.FIRST_STEP_REFUSED,
    first_step.NO_PEERS: Reason.FIRST_STEP_NO_PEERS,
    first_step.NO_CODE: Reason.FIRST_STEP_NO_CODE,
    first_step.UNFIT_IMAGE: Reason.IMAGE_UNFIT,
}

_LONGEST_NUMBER = 19
"""Maximum number of digits: that of 2**63."""

_UNSUPPORTED = "Unsupported"
"""The process kubelet's reason for Pods that it can never run."""

_NOT_ROOT = "runAsNonRoot"
"""Text in kubelets' messages about a container that would, or might, run as root although that is forbidden."""

_SPARED = "killed when its node ran out of memory, although it was within its memory request"

_CANNOT_RUN = ("ContainerCannotRun", "StartError")
_NOT_FOUND_EXIT_CODES = (126, 127)

_HOOK_FAILED = ("running hook", "running prestart hook", "executing hook")
"""Texts in messages of runc and crun if a hook failed that gives a container its GPUs: the drivers do not match, or a
GPU is gone."""

_CLAIM = "persistentvolumeclaim"
"""Text in schedulers' messages about a Pod with unbound or missing claims: it fits on no node."""
_HOOK_REFUSED = ("requirement error", "mount error")
"""Texts in messages of NVIDIA's hook if the image itself asks for something impossible."""


def member_of(pod: Pod, nodes: Mapping[str, Node], node_victims: Container[str] = ()) -> Member | None:
    """Return the member that a Pod stands for by its name; None if the name is not that of a member.

    nodes: all Nodes by name; a Pod on a node that is not among them, or not ready, is on a dead node.
    node_victims: UIDs of Pods that were killed for their node's memory although they were within their request:
    kubelets report them like Pods that exceeded their limit.
    """
    name = pod.member
    if name is None:
        return None
    node_name = pod.spec.node_name
    node = nodes.get(node_name)
    found = _condition_of(pod, node_victims)
    container = main_container(pod)
    return Member(
        rank=name.rank,
        attempt=name.attempt,
        pod=pod.metadata.name,
        uid=pod.metadata.uid,
        state=found.state,
        node=node_name,
        reason=found.reason,
        message=found.message,
        exit_code=found.exit_code,
        created_at=pod.metadata.creation_timestamp,
        started_at=started_at_of(pod),
        ended_at=found.ended_at,
        ready=container is not None and container.ready,
        ready_since=_ready_since(pod),
        terminating=bool(pod.metadata.deletion_timestamp),
        held=any(finalizer != names.FINALIZER_EXIT_CODE for finalizer in pod.metadata.finalizers),
        kept_for_exit_code=names.FINALIZER_EXIT_CODE in pod.metadata.finalizers,
        grace_seconds=pod.metadata.deletion_grace_period_seconds,
        node_ready=not node_name or (node is not None and node.is_ready),
        node_draining=node is not None and bool(node.drained_by),
        node_cordoned=node is not None and node.spec.unschedulable,
    )


def nodes_and_addresses(pods: Mapping[int, Pod]) -> tuple[dict[int, str], dict[int, str]]:
    """Return the node and the address of each rank's Pod. A Pod without an address yet is not among the addresses."""
    nodes = {rank: pod.spec.node_name for rank, pod in pods.items()}
    return nodes, {rank: pod.status.pod_ip for rank, pod in pods.items() if pod.status.pod_ip}


def peak_of(pod: Pod, *, used_bytes: int = 0, at: str = "") -> MemberPeak | None:
    """Return the known memory peak of a Pod's member; None if nothing is known.

    The sources are the observed `used_bytes`, the Pod's own report after its end, and its limit if a program that was
    started again had exceeded that.
    """
    container = main_container(pod)
    last = container.last_state.terminated if container is not None else None
    if not used_bytes and last is None and not pod.is_finished:
        return None  # the most frequent case
    member, limit = pod.member, _limit_bytes(pod)
    for condition in pod.status.conditions if pod.is_finished else ():
        if condition.type == names.CONDITION_MEMORY_PEAK:
            used_bytes = max(used_bytes, _reported_peak(condition.message))
    ran_out = last is not None and last.reason == "OOMKilled" and limit > 0
    used_bytes = max(used_bytes, limit) if ran_out else used_bytes
    if member is None or used_bytes <= 0:
        return None
    at, node = at or _ended_at(container), pod.spec.node_name
    return MemberPeak(member.rank, member.attempt, node, used_bytes, limit_bytes=limit, at=at, ran_out=ran_out)


def culprit_peak(pod: Pod, member: Member) -> MemberPeak | None:
    """Return the memory peak of a member that was killed for its memory: at least its limit, else the kubelet's
    figure."""
    if member.reason is not Reason.OUT_OF_MEMORY:
        return None
    limit, excess = _limit_bytes(pod), memory_excess(pod.status.message)
    known = peak_of(pod)
    used = max(excess.used_bytes if excess is not None else limit, known.size_bytes if known is not None else 0)
    return MemberPeak(
        member.rank, member.attempt, member.node, used, limit_bytes=limit, at=member.ended_at, ran_out=True
    )


def _limit_bytes(pod: Pod) -> int:
    try:
        return parse_memory_bytes(memory_limit(pod.spec) or "0")
    except ValueError:
        return 0


def _reported_peak(message: str) -> int:
    """Return the bytes of the program in a text such as `main=1048576,sidecar=4096`; 0 if there are none."""
    for part in message.split(","):
        name, _, text = part.partition("=")
        if name == names.MEMBER_CONTAINER and text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER:
            return int(text)
    return 0


class _Condition(NamedTuple):
    """A member's state, and what is known about the reason for it."""

    state: MemberState
    reason: Reason = Reason.NONE
    message: str = ""
    exit_code: int | None = None
    ended_at: str = ""


class _Failure(NamedTuple):
    """Why a Pod failed."""

    reason: Reason
    message: str
    exit_code: int | None


def _condition_of(pod: Pod, node_victims: Container[str]) -> _Condition:
    status = pod.status
    container = main_container(pod)
    if status.phase == "Succeeded":
        return _Condition(MemberState.SUCCEEDED, exit_code=0, ended_at=_ended_at(container))
    if status.phase == "Failed":
        failure = _why_failed(pod, container, node_victims)
        return _Condition(MemberState.FAILED, *failure, ended_at=_ended_at(container))
    disruption = _disruption_reason(pod)
    if status.phase == "Running" and container is not None and container.state.running is not None:
        return _Condition(MemberState.RUNNING, disruption)
    reason, message = _why_pending(pod, container)
    return _Condition(MemberState.PENDING, disruption or reason, message)


def main_container(pod: Pod) -> ContainerStatus | None:
    """Return the status of the container that runs the user's program."""
    for container in pod.status.container_statuses:
        if container.name == names.MEMBER_CONTAINER:
            return container
    return None


def _ready_since(pod: Pod) -> str:
    """Return when its readiness changed last; empty if its readiness is no result of checks."""
    if not pod.has_readiness_probe:
        return ""
    return next((one.last_transition_time for one in pod.status.conditions if one.type == "Ready"), "")


def has_started(pod: Pod) -> bool:
    """Whether the user's program was ever started."""
    container = main_container(pod)
    if container is None:
        return False
    return bool(container.state.running or container.state.terminated or container.last_state.terminated)


def started_at_of(pod: Pod) -> str:
    """Return when the user's program started last; empty if it has not started."""
    container = main_container(pod)
    state = container.state.running or container.state.terminated if container is not None else None
    return state.started_at if state is not None else ""


def _why_failed(pod: Pod, container: ContainerStatus | None, node_victims: Container[str]) -> _Failure:
    """Return why a Pod failed. The kubelet's reason for the Pod counts before the container's exit code."""
    terminated = container.state.terminated if container else None
    failure = _memory_failure(pod, terminated, node_victims) or _pod_failure(pod, terminated)
    if failure is not None:
        return failure
    if terminated is None:
        message = pod.status.message or pod.status.reason or "failed without having run"
        return _Failure(Reason.KUBELET_REFUSED, message, None)
    return _program_failure(terminated)


def _memory_failure(pod: Pod, terminated: Terminated | None, node_victims: Container[str]) -> _Failure | None:
    """Return the failure of a Pod if the Pod or its node ran out of memory; None if memory was not the reason."""
    if terminated is not None and terminated.reason == "OOMKilled":
        if pod.metadata.uid in node_victims:
            return _Failure(Reason.NODE_OUT_OF_MEMORY, _SPARED, terminated.exit_code)
        limit = memory_limit(pod.spec)
        words = f"used more memory than its limit of {limit}" if limit else "used more memory than its node has"
        return _Failure(Reason.OUT_OF_MEMORY, words, terminated.exit_code)
    if pod.status.reason == "Evicted" and (excess := memory_excess(pod.status.message)) is not None:
        used, asked = round_memory(excess.used_bytes), round_memory(excess.asked_bytes)
        words = f"evicted when its node ran short of memory: it used {used} and had requested {asked}"
        return _Failure(Reason.OUT_OF_MEMORY, words, terminated.exit_code if terminated else None)
    return None


def _pod_failure(pod: Pod, terminated: Terminated | None) -> _Failure | None:
    """Return the failure that the Pod's status names; None if it says nothing beyond the end of the program."""
    status = pod.status
    exit_code = terminated.exit_code if terminated is not None else None
    if status.reason == "Evicted" and is_own_disk_limit(status.message):
        return _Failure(Reason.PROGRAM_FAILED, status.message.strip(), exit_code)
    disruption = _disruption_reason(pod)
    for init in pod.status.init_container_statuses:
        if init.state.terminated is not None and init.state.terminated.exit_code:
            from_outside = disruption or _POD_FAILED.get(status.reason, Reason.NONE)
            return _Failure(from_outside or _why_init_failed(init), _init_message(init.state.terminated), None)
    if disruption is not Reason.NONE:
        return _Failure(disruption, status.message, exit_code)
    if status.reason == _UNSUPPORTED and _NOT_ROOT in status.message:
        return _Failure(Reason.RUNS_AS_ROOT, _not_as_root(status.message), None)
    if status.reason in _POD_FAILED:
        return _Failure(_POD_FAILED[status.reason], status.message, exit_code)
    if status.reason.startswith("OutOf"):
        return _Failure(Reason.KUBELET_REFUSED, status.message or status.reason, None)
    return None


def _program_failure(terminated: Terminated) -> _Failure:
    """Return the failure of a program that ended, or that could not be started."""
    if terminated.reason in _CANNOT_RUN and _is_hook_failure(terminated.message):
        return _Failure(Reason.CONTAINER_CONFIG, terminated.message.strip(), None)
    exit_code = terminated.exit_code
    if terminated.reason in _CANNOT_RUN or exit_code in _NOT_FOUND_EXIT_CODES:
        words = terminated.message.strip() or "the command was not found, or is not executable"
        return _Failure(Reason.COMMAND_NOT_FOUND, words, exit_code)
    return _Failure(Reason.PROGRAM_FAILED, _program_message(exit_code, terminated.message), exit_code)


def _is_hook_failure(message: str) -> bool:
    """Whether the node could not start a container, by its runtime's message."""
    return any(phrase in message for phrase in _HOOK_FAILED) and not any(phrase in message for phrase in _HOOK_REFUSED)


def _why_init_failed(init: ContainerStatus) -> Reason:
    """Return why an init container failed. Only the exit codes of our own steps have a known meaning."""
    if init.name not in (first_step.CONTAINER, first_step.IMAGE_STEP):
        return Reason.CONTAINER_CONFIG
    terminated = init.state.terminated
    assert terminated is not None
    cannot_run = terminated.reason in _CANNOT_RUN
    if cannot_run and _is_hook_failure(terminated.message):
        return Reason.CONTAINER_CONFIG
    if cannot_run and init.name == first_step.IMAGE_STEP:
        return Reason.IMAGE_UNFIT  # it has no shell
    return FIRST_STEP_REASONS.get(terminated.exit_code, Reason.FIRST_STEP_FAILED)


def _init_message(terminated: Terminated) -> str:
    if terminated.reason == "OOMKilled":
        return "its first step used more memory than its limit"
    return f"its first step failed: {_program_message(terminated.exit_code, terminated.message)}"


def _not_as_root(message: str) -> str:
    """Return a kubelet's message, with a hint."""
    return f"its program would run as root, which policy does not allow; name another user (--user 1000): {message}"


def _program_message(exit_code: int, output: str) -> str:
    """Return the exit code with the program's error, or with its last line if a signal killed it."""
    if exit_code > 128:
        return f"killed by signal {exit_code - 128}{_as_suffix(last_line(output))}"
    return f"exit code {exit_code}{_as_suffix(last_words(output))}"


def _as_suffix(message: str) -> str:
    return f": {message[:200]}" if message else ""


def _why_pending(pod: Pod, container: ContainerStatus | None) -> tuple[Reason, str]:
    status = pod.status
    for part in [*status.init_container_statuses, *([container] if container else [])]:
        waiting = part.state.waiting
        if waiting is not None and waiting.reason == "CreateContainerConfigError" and _NOT_ROOT in waiting.message:
            return Reason.RUNS_AS_ROOT, _not_as_root(waiting.message)
        if waiting is not None and _WAITING.get(waiting.reason, Reason.CREATING) is not Reason.CREATING:
            return _WAITING[waiting.reason], waiting.message
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            lacks_storage = _CLAIM in condition.message.lower()
            return Reason.STORAGE if lacks_storage else Reason.UNSCHEDULED, condition.message
    if status.reason == "FailedMount":
        return Reason.VOLUME, status.message
    if any(init.name == first_step.CONTAINER and init.state.running for init in status.init_container_statuses):
        return Reason.CREATING, "it is in its first step, which asks the Web API for what its program needs"
    return Reason.CREATING, ""


def _disruption_reason(pod: Pod) -> Reason:
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return _DISRUPTION.get(condition.reason, Reason.EVICTED)
    return Reason.NONE


def _ended_at(container: ContainerStatus | None) -> str:
    return container.state.terminated.finished_at if container and container.state.terminated else ""
