"""Statuses of Pods, reduced to a fixed set of states and reasons."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.runs.members import member_of
from kajitori.core.gang import Member, MemberState
from kajitori.core.naming import first_step, names
from kajitori.core.spec.reasons import NEVER_RESTARTED, START_FAILURES, Reason


def node(ready: str) -> Node:
    conditions = [{"type": "Ready", "status": ready}]
    return msgspec.convert({"metadata": {"name": "n1"}, "status": {"conditions": conditions}}, Node)


READY = {"n1": node("True")}


def pod(status: dict[str, Any], *, spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    labels = {names.LABEL_RANK: "3", names.LABEL_ATTEMPT: "2"}
    meta = {"name": "bert-2-3", "uid": "u", "labels": labels, **metadata}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "n1", **(spec or {})}, "status": status}, Pod)


def seen(status: dict[str, Any], **metadata: Any) -> Member:
    member = member_of(pod(status, **metadata), READY)
    assert member is not None
    return member


def ended(exit_code: int, *, phase: str = "Failed", **more: Any) -> dict[str, Any]:
    terminated = {"exitCode": exit_code, "finishedAt": "2026-11-21T12:00:00Z", **more}
    return {"phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}


def evicted(message: str) -> dict[str, Any]:
    """Return the status of a Pod that its kubelet evicted."""
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    return {**ended(137, reason="Error"), "reason": "Evicted", "message": message, "conditions": [disruption]}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]}


def disrupted(reason: str) -> dict[str, Any]:
    return {**ended(143), "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


UNBOUND = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        }
    ],
}
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}],
}


def test_rank_and_attempt_come_from_the_name() -> None:
    """Labels can be edited."""
    member = seen({"phase": "Pending"})
    assert (member.rank, member.attempt, member.node, member.node_ready) == (3, 2, "n1", True)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"), "Pending"),
        ({"phase": "Failed", "reason": "Unsupported", "message": "container 'main': runAsNonRoot, but …"}, "Failed"),
    ],
)
def test_a_refused_root_user_is_explained_with_a_remedy(status: dict[str, Any], state: str) -> None:
    """With the message of a kubelet and of the process kubelet; other configuration errors may pass."""
    member = seen(status)
    assert (member.state.value, member.reason) == (state, Reason.RUNS_AS_ROOT)
    assert "--user 1000" in member.message and "runAsNonRoot" in member.message
    assert seen(waiting("CreateContainerConfigError", "secret not found")).reason is Reason.CONTAINER_CONFIG
    other = {"phase": "Failed", "reason": "Unsupported", "message": "volume 'x' of kind nfs"}
    assert seen(other).reason is Reason.KUBELET_REFUSED


def test_edited_labels_and_other_names_are_not_trusted() -> None:
    assert seen({"phase": "Running"}, labels={names.LABEL_RANK: "7"}).rank == 3
    for name in ("bert", "bert-2-x", "bert-02-3", "bert-2--3", "bert-2-³"):
        assert member_of(pod({"phase": "Running"}, name=name), READY) is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (ended(1), Reason.PROGRAM_FAILED),
        (ended(137), Reason.PROGRAM_FAILED),
        (ended(137, reason="OOMKilled"), Reason.OUT_OF_MEMORY),
        (ended(0, reason="OOMKilled"), Reason.OUT_OF_MEMORY),
        (ended(127), Reason.COMMAND_NOT_FOUND),
        (ended(128, reason="StartError", message="no such file"), Reason.COMMAND_NOT_FOUND),
        ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}, Reason.EVICTED),
        ({**ended(137), "reason": "Evicted"}, Reason.EVICTED),
        ({"phase": "Failed", "reason": "OutOfcpu"}, Reason.KUBELET_REFUSED),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no"}, Reason.KUBELET_REFUSED),
        ({"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}, Reason.KUBELET_REFUSED),
        ({"phase": "Failed", "reason": "NodeAffinity"}, Reason.KUBELET_REFUSED),
        ({"phase": "Failed"}, Reason.KUBELET_REFUSED),
        (disrupted("PreemptionByScheduler"), Reason.PREEMPTED),
        (disrupted("DeletionByTaintManager"), Reason.NODE_LOST),
        (disrupted("EvictionByEvictionAPI"), Reason.DRAINED),
    ],
)
def test_the_end_of_a_member_becomes_a_reason(status: dict[str, Any], reason: Reason) -> None:
    """Culprits and victims are distinguished (rule 7): a kill over the member's own limit, and an eviction."""
    member = seen(status)
    assert (member.state, member.reason) == (MemberState.FAILED, reason)


RUNC = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
RUNC += "unable to start container process: error during container init: error running hook #0: error running hook: "
RUNC += "exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: {}: unknown"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (RUNC.format("initialization error: nvml error: driver/library version mismatch"), Reason.CONTAINER_CONFIG),
        (RUNC.format("detection error: nvml error: unknown error"), Reason.CONTAINER_CONFIG),
        ("container_linux.go:349: running prestart hook 1 caused: exit status 1", Reason.CONTAINER_CONFIG),
        ("error executing hook `/usr/bin/nvidia-container-runtime-hook` (exit code: 1)", Reason.CONTAINER_CONFIG),
        (RUNC.format("requirement error: unsatisfied condition: cuda>=12.4"), Reason.COMMAND_NOT_FOUND),
        (RUNC.format("mount error: file creation failed: libcuda.so: file exists"), Reason.COMMAND_NOT_FOUND),
        ('exec: "trian": executable file not found in $PATH', Reason.COMMAND_NOT_FOUND),
    ],
)
def test_a_node_that_cannot_provide_gpus_is_no_program_failure(message: str, reason: Reason) -> None:
    """The program never ran, and may run elsewhere. An image that requires something unavailable fails on every
    node."""
    member = seen(ended(128, reason="StartError", message=message))
    assert (member.state, member.reason, member.message) == (MemberState.FAILED, reason, message)


LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. "
LIMITED = {"containers": [{"name": "main", "resources": {"limits": {"memory": "2Gi"}}}]}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (LOW, Reason.EVICTED),
        (
            LOW + "Container main was using 5Gi, request is 1Gi, has larger consumption of memory. ",
            Reason.OUT_OF_MEMORY,
        ),
        (LOW + "Container main was using 5242880Ki, which exceeds its request of 1Gi. ", Reason.OUT_OF_MEMORY),
        (
            LOW + "Container main was using 12345, request is 0, has larger consumption of memory. ",
            Reason.OUT_OF_MEMORY,
        ),
        (LOW + "Container main was using 1Gi, request is 1Gi, has larger consumption of memory. ", Reason.EVICTED),
        (LOW + "Container sidecar was using 5Gi, request is 1Gi, has larger consumption of memory. ", Reason.EVICTED),
        (LOW + "Container main was using lots, request is 1Gi, has larger consumption of memory. ", Reason.EVICTED),
        (LOW + "Container main was using 9999Xi, request is 1Gi, has larger consumption of memory. ", Reason.EVICTED),
        (
            "The node was low on resource: ephemeral-storage. Container main was using 5Gi, request is 0, has larger "
            "consumption of ephemeral-storage. ",
            Reason.EVICTED,
        ),
        ("The node had condition: [DiskPressure]. ", Reason.EVICTED),
        ('Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ', Reason.PROGRAM_FAILED),
        ('Container main exceeded its local ephemeral storage limit "1Gi". ', Reason.PROGRAM_FAILED),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", Reason.PROGRAM_FAILED),
    ],
)
def test_an_eviction_tells_culprits_from_victims(message: str, reason: Reason) -> None:
    """A member that used more memory than it requested is the culprit on any node, and so is one that wrote more than
    it may. A member within its request is a victim (rule 7). An unreadable message proves nothing."""
    assert seen(evicted(message)).reason is reason


def test_the_message_for_a_culprit_of_an_eviction_has_the_figures() -> None:
    message = LOW + "Container main was using 5Gi, request is 1Gi, has larger consumption of memory. "
    assert seen(evicted(message)).message == (
        "evicted when its node ran short of memory: it used 5Gi and had requested 1Gi"
    )


@given(st.text(), st.from_regex(r"[0-9a-zA-Z. ,]{0,40}"), st.text(max_size=20))
def test_any_eviction_message_is_accepted(before: str, used: str, asked: str) -> None:
    """Kubelets of many versions write it."""
    message = f"{before}The node was low on resource: memory. Container main was using {used}, request is {asked}, has"
    assert seen(evicted(message)).reason in (Reason.EVICTED, Reason.OUT_OF_MEMORY, Reason.PROGRAM_FAILED)


def test_the_message_of_a_memory_kill_names_the_limit() -> None:
    status = ended(137, reason="OOMKilled")
    member = member_of(pod(status, spec=LIMITED), READY)
    assert member is not None and member.message == "used more memory than its limit of 2Gi"
    assert seen(status).message == "used more memory than its node has"


def test_a_member_killed_within_its_memory_request_is_a_victim() -> None:
    """If a node runs out of memory, its kernel may kill any process, and the kubelet's message is the same."""
    member = member_of(pod(ended(137, reason="OOMKilled")), READY, {"u"})
    assert member is not None and (member.reason, member.exit_code) == (Reason.NODE_OUT_OF_MEMORY, 137)
    other = member_of(pod(ended(137, reason="OOMKilled")), READY, {"v"})
    assert other is not None and other.reason is Reason.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Pending"}, Reason.CREATING),
        (waiting("ContainerCreating"), Reason.CREATING),
        (waiting("ImagePullBackOff", "no such image"), Reason.IMAGE_PULL),
        (waiting("CreateContainerConfigError", "secret not found"), Reason.CONTAINER_CONFIG),
        (UNSCHEDULABLE, Reason.UNSCHEDULED),
        (UNBOUND, Reason.STORAGE),
    ],
)
def test_a_waiting_member_has_a_reason(status: dict[str, Any], reason: Reason) -> None:
    """Capacity, image and configuration are distinguished."""
    member = seen(status)
    assert (member.state, member.reason) == (MemberState.PENDING, reason)


def test_a_member_in_its_first_step_says_so() -> None:
    """This explains why a gang did not start in time."""
    step = {"name": first_step.CONTAINER, "state": {"running": {}}}
    member = seen({**waiting("PodInitializing"), "initContainerStatuses": [step]})
    assert (member.state, member.reason) == (MemberState.PENDING, Reason.CREATING)
    assert "first step" in member.message


def first_step_ended(exit_code: int, message: str, **status: Any) -> dict[str, Any]:
    """Return the status of a Pod after its first step failed, so that the program never started."""
    terminated = {"exitCode": exit_code, "reason": "Error", "message": message}
    step = {"name": first_step.CONTAINER, "state": {"terminated": terminated}}
    main = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
    return {"phase": "Failed", "initContainerStatuses": [step], "containerStatuses": [main], **status}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (first_step_ended(first_step.NO_SERVER, "x"), Reason.FIRST_STEP_NO_SERVER),
        (first_step_ended(first_step.REFUSED, "x"), Reason.FIRST_STEP_REFUSED),
        (first_step_ended(first_step.NO_PEERS, "x"), Reason.FIRST_STEP_NO_PEERS),
        (first_step_ended(1, "x"), Reason.FIRST_STEP_FAILED),
        (first_step_ended(137, "", reason="Evicted"), Reason.EVICTED),
        (
            first_step_ended(
                143, "", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
            ),
            Reason.PREEMPTED,
        ),
    ],
)
def test_the_end_of_a_first_step_becomes_a_reason(status: dict[str, Any], reason: Reason) -> None:
    """Each failure has its own reason. A cause from outside that ended the whole Pod explains the end of the step,
    too."""
    member = seen(status)
    assert (member.state, member.reason, member.exit_code) == (MemberState.FAILED, reason, None)


def image_step_ended(exit_code: int, why: str = "Error", message: str = "") -> dict[str, Any]:
    status = first_step_ended(exit_code, message)
    status["initContainerStatuses"][0]["name"] = first_step.IMAGE_STEP
    status["initContainerStatuses"][0]["state"]["terminated"]["reason"] = why
    return status


def test_an_image_without_what_its_launcher_needs_is_unfit() -> None:
    """It is not tried again, since another start changes nothing, and it costs no restart of the program."""
    for status in (image_step_ended(first_step.UNFIT_IMAGE, message="no sshd"), image_step_ended(128, "StartError")):
        assert seen(status).reason is Reason.IMAGE_UNFIT
    assert "no sshd" in seen(image_step_ended(first_step.UNFIT_IMAGE, message="no sshd")).message
    assert Reason.IMAGE_UNFIT in START_FAILURES & NEVER_RESTARTED
    assert seen(image_step_ended(2)).reason is Reason.FIRST_STEP_FAILED
    no_gpus = image_step_ended(128, "StartError", RUNC.format("initialization error: nvml error: driver not loaded"))
    assert seen(no_gpus).reason is Reason.CONTAINER_CONFIG


def test_a_first_step_that_failed_is_a_failed_start() -> None:
    """The program never ran, so it costs no restart (rules 4 and 7)."""
    steps = {reason for reason in Reason if reason.value.startswith("FirstStep")}
    assert steps and steps <= START_FAILURES
    message = seen(first_step_ended(first_step.NO_SERVER, "trying\nhttp://x: refused\n")).message
    assert message == "its first step failed: exit code 20: http://x: refused"


def test_a_failed_foreign_init_container_is_a_configuration_error() -> None:
    """The exit code of a container that a webhook added has no known meaning."""
    status = first_step_ended(first_step.REFUSED, "x")
    status["initContainerStatuses"][0]["name"] = "sidecar-setup"
    assert seen(status).reason is Reason.CONTAINER_CONFIG


def test_the_message_has_the_last_line_of_the_program() -> None:
    member = seen(ended(1, message="Traceback …\nValueError: bad shape\n"))
    assert member.message == "exit code 1: ValueError: bad shape"
    assert seen(ended(139)).message == "killed by signal 11"
    framed = "------\nPrimary job terminated; 1 process returned\na non-zero exit code.\n------\n"  # as mpirun ends
    assert seen(ended(7, message=framed)).message == "exit code 7: a non-zero exit code."
    assert seen(ended(7, message="=====\n")).message == "exit code 7"


def test_a_node_that_is_gone_or_silent_is_not_ready() -> None:
    running = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    for nodes in ({}, {"n1": node("Unknown")}):
        member = member_of(pod(running), nodes)
        assert member is not None and not member.node_ready
    alive = member_of(pod(running), READY)
    assert alive is not None and alive.state is MemberState.RUNNING


def test_a_deleted_member_is_terminating() -> None:
    assert seen({"phase": "Running"}, deletionTimestamp="2026-11-21T12:00:00Z").terminating


def test_readiness_has_a_time_if_it_is_a_result_of_checks() -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": "t0"}}}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t1"}],
    }
    probed = {"containers": [{"name": "main", "readinessProbe": {"exec": {"command": ["a"]}}}]}
    member, plain = member_of(pod(status, spec=probed), READY), seen(status)
    assert member is not None and (member.ready, member.ready_since) == (True, "t1")
    assert (plain.ready, plain.ready_since) == (True, "")
