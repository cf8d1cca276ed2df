"""The types of a run's life: members as observed, limits, and the actions that `next_step` returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from kajitori.core.spec.reasons import AfterCondition, Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import PreemptedBy


class MemberState(StrEnum):
    """State of a member's Pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Member:
    """A Pod of this run, with what the run's life depends on."""

    rank: int
    attempt: int
    pod: str
    uid: str
    state: MemberState
    node: str = ""
    reason: Reason = Reason.NONE
    """Why the member is pending, or how it failed."""
    message: str = ""
    exit_code: int | None = None
    created_at: str = ""
    """Time at which its Pod was created."""
    started_at: str = ""
    """Time at which its program started."""
    ended_at: str = ""
    ready: bool = False
    """Its kubelet reports that it is ready: its last health check succeeded, or it has none."""
    ready_since: str = ""
    """Time at which `ready` changed last; known only of members with a health check."""
    terminating: bool = False
    held: bool = False
    """Another controller's finalizer keeps the Pod."""
    kept_for_exit_code: bool = False
    """Our own finalizer keeps the Pod until its exit code is in the run's status, and its log is kept."""
    grace_seconds: int | None = None
    """Seconds between SIGTERM and SIGKILL once the Pod is terminating; None if unknown."""
    node_ready: bool = True
    """False if the node no longer answers or is gone, so nothing on it can be confirmed any more."""
    node_draining: bool = False
    """An operator is emptying the node."""
    node_cordoned: bool = False
    """The node accepts no new Pods; it may or may not be drained next."""

    @property
    def is_over(self) -> bool:
        """Whether its processes have ended, as the kubelet reported."""
        return self.state in (MemberState.SUCCEEDED, MemberState.FAILED)

    @property
    def is_held(self) -> bool:
        """Whether it has ended and only another controller's finalizer keeps its Pod."""
        return self.is_over and self.held

    @property
    def blocks_restart(self) -> bool:
        """Whether it may still run beside its successor. A Pod on a dead node does not block (rule 6)."""
        return not self.is_over and self.node_ready

    def has_longer_than(self, seconds: int) -> bool:
        """Whether it was not asked to end yet, or its remaining grace is longer than `seconds`."""
        return not self.terminating or (self.grace_seconds or 0) > seconds


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run's life, resolved from spec and policy by `decide`."""

    restarts: int = 0
    memory_limited: bool = True
    """If False, a member killed for any reason that may be memory is not moved to another node: without a limit it
    may have exhausted the memory of the last one."""
    grace_seconds: int = 30
    restart_grace_seconds: int = 5
    start_deadline_seconds: int = 600
    time_limit_seconds: int | None = None
    start_pause_seconds: int = 10
    """Backoff after the first failed start; it doubles with each further failed start in a row."""
    start_pause_max_seconds: int = 600
    stop_grace_seconds: int | None = None
    """Grace used instead of `grace_seconds` when the run is stopped or deleted."""
    held_members: int = 1
    """Number of running members, from the lowest rank, with Pods that stay after a stop until their logs are kept. The
    Pod of rank 0 stays for its exit code as well."""
    restarts_stuck: bool = False
    """Whether the gang is restarted once it is stuck."""
    remove_after_seconds: int | None = None
    """A run that ended longer ago than this is deleted; None keeps it."""
    remove_created_after_seconds: int | None = None
    """The same for a run that was created stopped, as its own spec says: policy removes only runs that have ended."""

    @property
    def last_grace_seconds(self) -> int:
        """Seconds between SIGTERM and SIGKILL when the run is stopped or deleted; at least one.

        With a grace of zero an API server forgets the Pod at once, while its processes may still run.
        """
        return max(1, self.grace_seconds if self.stop_grace_seconds is None else self.stop_grace_seconds)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The part of a sweep's spec that its life depends on."""

    indices: tuple[int, ...]
    """Indices of its members, ascending."""
    at_once: int
    stop_at: Literal["", "first-failure", "first-success"] = ""


@dataclass(frozen=True, slots=True)
class HealthPace:
    """The pace of a run's health check."""

    failing_seconds: int
    """Shortest time in which a healthy member becomes unhealthy: its retries, one interval after another."""
    patience_seconds: int
    """Time after the start of its program after which a member is unhealthy if no check has succeeded."""


RunType = Literal["batch", "service", "notebook"]


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run that another run waits for, as it is now."""

    uid: str
    phase: Phase
    reason: Reason = Reason.NONE
    type: RunType = "batch"
    deleting: bool = False
    has_health_check: bool = False
    is_healthy: bool = False
    """Whether all of its members run and are healthy now."""

    @property
    def is_parked(self) -> bool:
        """Whether it was stopped to free idle GPUs, and is meant to be resumed."""
        return self.phase is Phase.STOPPED and self.reason is Reason.PARKED


@dataclass(frozen=True, slots=True)
class Awaited:
    """An entry of a run's `after`, with what is known of the run that it names."""

    run: str
    condition: AfterCondition = "succeeded"
    seen: SeenRun | None = None
    """None if there is no run of this name."""
    cycle: tuple[str, ...] = ()
    """If these runs wait for each other: their names, from this run's own to its own again."""


@dataclass(frozen=True, slots=True)
class Run:
    """The part of a Run object that its life depends on."""

    type: Literal["batch", "service"]
    replicas: int
    limits: Limits
    status: RunStatus
    stopped: bool = False
    parked: bool = False
    """With `stopped`: it is stopped to free idle GPUs."""
    restarting: bool = False
    """With `stopped`: it is stopped to be started again. Its `resumes` is ahead of the status, so it is resumed once it
    has ended."""
    deleting: bool = False
    resumes: int = 0
    generation: int = 0
    withdrawn: frozenset[tuple[str, int]] = frozenset()
    """Preemptions of this run (`PreemptedBy.waiting`) that were withdrawn: the preemptor no longer waits."""
    sweep: Sweep | None = None
    """Set for a sweep: its members are independent, and `replicas` is their number."""
    fewest: int | None = None
    """Set for an elastic gang: the fewest members it can start with; `replicas` is the most."""
    after: tuple[Awaited, ...] = ()
    """Runs that have to end before the first attempt is planned."""
    health: HealthPace | None = None
    """Set for a run with a health check."""
    confirmed: int = 0
    """History has the closed segments of the usage up to this number."""

    @property
    def was_never_started(self) -> bool:
        """Whether it was created stopped, as `docker create` does it, and its spec has not been changed since."""
        return self.stopped and not self.parked and self.generation == 1 and not self.status.attempts

    def preemptor_waits(self, preemption: PreemptedBy) -> bool:
        """Return whether the preemptor of this preemption still waits for the run's nodes."""
        return preemption.waiting not in self.withdrawn


@dataclass(frozen=True, slots=True)
class NeedsNodes:
    """The run waits for the planner: these ranks need a node each."""

    ranks: tuple[int, ...]
    previous: dict[int, str]
    avoid: frozenset[str]
    fewest: int | None = None
    """The run accepts any number of nodes from this many on; None means all or nothing."""
    grows: bool = False
    """The run can get more members later; other runs are preempted only for the fewest."""
    since: str = ""
    """Start of the waiting time, if it differs from the time at which the run was queued."""


@dataclass(frozen=True, slots=True)
class CreateMembers:
    """Create these Pods of the attempt in the status."""

    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeleteMembers:
    """Delete the run's Pods by collection and label (rule 10)."""

    grace_seconds: int
    attempt: int | None = None
    """If set, delete only the Pods of this attempt."""
    unfinished_only: bool = False
    """Keep the Pods that have ended, so that their logs can still be read."""


@dataclass(frozen=True, slots=True)
class DeleteMember:
    """Delete one Pod if it is still the Pod that was observed."""

    pod: str
    uid: str
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class HoldMember:
    """Put our finalizer on a Pod that is about to be deleted, so that its log and exit code can be read afterwards."""

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class ReleaseMember:
    """Remove our finalizer from a Pod: its exit code is in the run's status, and its log is kept, or neither is of
    interest any more."""

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class Release:
    """Remove the finalizer of the Run object: none of its Pods is left."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the Run object: its retention time has passed."""


Action = NeedsNodes | CreateMembers | DeleteMembers | DeleteMember | HoldMember | ReleaseMember | Release | Remove


@dataclass(frozen=True, slots=True)
class Step:
    """The status to write, the actions to take after that, and the latest time to call `next_step` again."""

    status: RunStatus
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
