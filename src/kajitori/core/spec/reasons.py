"""The closed sets of phases and reasons: every word that a run's status can say."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """How far a run has come."""

    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        """Nothing happens any more unless somebody resumes the run."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class Reason(StrEnum):
    """Why a run is in its phase. What a user reads under REASON."""

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

    # Starting: what the slowest member waits for; the same words name why a start failed
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

    # What ended a member, a whole attempt or the run
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
    TIME_LIMIT = "TimeLimit"
    REFUSED = "Refused"
    STATUS_DAMAGED = "StatusDamaged"
    STOPPING = "Stopping"
    STOPPED_BY_USER = "StoppedByUser"
    DELETING = "Deleting"


WAITING = frozenset({each for each in Reason if each.value.startswith("Waiting")} | {Reason.TOO_LARGE_NOW})
"""What the queue says of a run that nodes are missing for."""

COUNTS_AS_RESTART = frozenset({Reason.PROGRAM_FAILED})
"""Failures of the program itself: they use up `restarts` (rule 7)."""

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
"""Starting these again would only repeat them, or carry the harm to another node."""

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
"""The program never ran: not a restart of it; tried again after a pause that grows (rule 4)."""

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
"""Done to the run, not by it."""

MAY_BE_ITS_MEMORY = NEVER_COUNTED - {Reason.PREEMPTED, Reason.DRAINED}
"""What a node suffers, or does, when a program without a memory limit eats all it has. Only what an operator or a
scheduler decides has other causes for certain."""
