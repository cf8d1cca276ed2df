"""The closed sets of phases and reasons in a run's status, and of conditions on other runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

AfterCondition = Literal["succeeded", "healthy", "ended"]
"""Condition that a run has to meet before a run that names it in `after` starts."""


class Phase(StrEnum):
    """Stage of a run's life."""

    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        """Whether the run has ended. Only a resume can start it again."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class Reason(StrEnum):
    """Why a run is in its phase. Users see it in the column REASON."""

    NONE = ""

    # Queued
    NOT_PLANNED_YET = "NotPlannedYet"
    WAITING_FOR_GPU = "WaitingForGPU"
    WAITING_FOR_CPU = "WaitingForCPU"
    WAITING_FOR_MEMORY = "WaitingForMemory"
    WAITING_FOR_NODES = "WaitingForNodes"
    PROVISIONING_NODES = "ProvisioningNodes"
    WAITING_ITS_TURN = "WaitingItsTurn"
    TOO_LARGE_NOW = "ClusterTooSmall"
    WAITING_FOR_RUN = "WaitingForRun"

    # Starting: what the slowest member waits for. The same reasons say why a start failed.
    CREATING = "Creating"
    UNSCHEDULED = "Unscheduled"
    IMAGE_PULL = "ImagePull"
    VOLUME = "Volume"
    STORAGE = "Storage"
    CONTAINER_CONFIG = "ContainerConfig"
    QUOTA = "Quota"
    ADMISSION = "Admission"
    KUBELET_REFUSED = "KubeletRefused"
    RUNS_AS_ROOT = "RunsAsRoot"
    START_DEADLINE = "StartDeadline"
    FIRST_STEP_NO_SERVER = "FirstStepNoServer"
    FIRST_STEP_REFUSED = "FirstStepRefused"
    FIRST_STEP_NO_PEERS = "FirstStepNoPeers"
    FIRST_STEP_NO_CODE = "FirstStepNoCode"
    FIRST_STEP_FAILED = "FirstStepFailed"
    IMAGE_UNFIT = "ImageUnfit"

    # Running: no progress for long
    SUSPECTED_STUCK = "SuspectedStuck"
    STUCK = "Stuck"

    # Why a member, an attempt or the run ended
    PROGRAM_FAILED = "ProgramFailed"
    COMMAND_NOT_FOUND = "CommandNotFound"
    OUT_OF_MEMORY = "OutOfMemory"
    NODE_LOST = "NodeLost"
    NODE_OUT_OF_MEMORY = "NodeOutOfMemory"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    MEMBER_DELETED = "MemberDeleted"
    DRAINED = "Drained"
    GROWS = "Grows"
    RESTORED = "Restored"
    TIME_LIMIT = "TimeLimit"
    REFUSED = "Refused"
    DEPENDENCY_NEVER_SATISFIED = "DependencyNeverSatisfied"
    STATUS_DAMAGED = "StatusDamaged"
    STOPPING = "Stopping"
    NOT_STARTED = "NotStarted"
    STOPPED_BY_USER = "StoppedByUser"
    RESTARTED_BY_USER = "RestartedByUser"
    PARKED = "Parked"
    DELETING = "Deleting"


WAITING = frozenset({reason for reason in Reason if reason.value.startswith("Waiting")} | {Reason.TOO_LARGE_NOW})
"""Reasons of queued runs that wait for nodes or for other runs."""

COUNTS_AS_RESTART = frozenset({Reason.PROGRAM_FAILED, Reason.STUCK})
"""Failures of the program itself, which use up `restarts` (rule 7)."""

NEVER_RESTARTED = frozenset(
    {
        Reason.OUT_OF_MEMORY,
        Reason.COMMAND_NOT_FOUND,
        Reason.RUNS_AS_ROOT,
        Reason.IMAGE_UNFIT,
        Reason.TIME_LIMIT,
        Reason.REFUSED,
        Reason.STATUS_DAMAGED,
    }
)
"""Reasons after which a run is not restarted, because that would repeat the failure or harm another node."""

START_FAILURES = frozenset(
    {
        Reason.UNSCHEDULED,
        Reason.IMAGE_PULL,
        Reason.VOLUME,
        Reason.STORAGE,
        Reason.CONTAINER_CONFIG,
        Reason.QUOTA,
        Reason.ADMISSION,
        Reason.KUBELET_REFUSED,
        Reason.RUNS_AS_ROOT,
        Reason.IMAGE_UNFIT,
        Reason.START_DEADLINE,
        Reason.FIRST_STEP_NO_SERVER,
        Reason.FIRST_STEP_REFUSED,
        Reason.FIRST_STEP_NO_PEERS,
        Reason.FIRST_STEP_NO_CODE,
        Reason.FIRST_STEP_FAILED,
    }
)
"""Reasons for which the program never ran. The start is retried with backoff, and does not count as a restart
(rule 4)."""

NEVER_COUNTED = frozenset(
    {
        Reason.NODE_LOST,
        Reason.NODE_OUT_OF_MEMORY,
        Reason.EVICTED,
        Reason.PREEMPTED,
        Reason.MEMBER_DELETED,
        Reason.DRAINED,
    }
)
"""Interruptions that the run did not cause, which do not count as restarts."""

MAY_BE_ITS_MEMORY = NEVER_COUNTED - {Reason.PREEMPTED, Reason.DRAINED}
"""Interruptions that a program without a memory limit may have caused itself, by exhausting the memory of its node.
Preemptions and drains are decided by Kajitori and by operators, so they are excluded."""
