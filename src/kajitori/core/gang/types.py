"""What the life of a run is made of: members as they are seen, limits, and the actions that come out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status import GivesWayTo, RunStatus


class MemberState(StrEnum):
    """How far a member's Pod has come."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Member:
    """A Pod of this run, as far as its life is concerned."""

    rank: int
    attempt: int
    pod: str
    uid: str
    state: MemberState
    node: str = ""
    reason: Reason = Reason.NONE
    """Why it is pending, or how it failed."""
    message: str = ""
    exit_code: int | None = None
    created_at: str = ""
    """When its Pod was made."""
    started_at: str = ""
    """When its program did."""
    ended_at: str = ""
    terminating: bool = False
    held: bool = False
    """Somebody else's finalizer keeps its Pod."""
    grace_seconds: int | None = None
    """How long it has between SIGTERM and SIGKILL, once it is terminating; None where nobody knows."""
    node_ready: bool = True
    """False where the node does not answer any more, or is gone: nothing there will ever be confirmed."""
    node_draining: bool = False
    """An operator wants the node emptied."""
    node_cordoned: bool = False
    """The node takes nothing new; it may be on its way to be emptied, or not."""

    @property
    def is_over(self) -> bool:
        """Its processes have ended, as its kubelet reported."""
        return self.state in (MemberState.SUCCEEDED, MemberState.FAILED)

    @property
    def is_held(self) -> bool:
        """It has ended, and would be gone but for somebody else's finalizer."""
        return self.is_over and self.held

    @property
    def blocks_restart(self) -> bool:
        """It may still run beside a successor. A Pod on a dead node is not waited for (rule 6)."""
        return not self.is_over and self.node_ready

    def has_longer_than(self, seconds: int) -> bool:
        """Whether it was not asked to end yet, or has more time for that than this."""
        return not self.terminating or (self.grace_seconds or 0) > seconds


@dataclass(frozen=True, slots=True)
class Limits:
    """What `decide` resolved from spec and policy for the life of a run."""

    restarts: int = 0
    memory_limited: bool = True
    """Without a limit it is not carried to another node, whatever ended it: it may have been what ate the last one's
    memory."""
    grace_seconds: int = 30
    restart_grace_seconds: int = 5
    start_deadline_seconds: int = 600
    time_limit_seconds: int | None = None
    start_pause_seconds: int = 10
    """The pause after a first failed start; it doubles with each further one in a row."""
    start_pause_max_seconds: int = 600
    stop_grace_seconds: int | None = None
    """Instead of `grace_seconds` when the run is stopped or deleted."""
    remove_after_seconds: int | None = None
    """A run that ended longer ago is deleted; None: it stays."""

    @property
    def last_grace_seconds(self) -> int:
        """Between SIGTERM and SIGKILL when the run is stopped or deleted. At least a second: an API server forgets a
        Pod that has no grace at once, while its processes may still run."""
        return max(1, self.grace_seconds if self.stop_grace_seconds is None else self.stop_grace_seconds)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What of a sweep's spec its life depends on."""

    indices: tuple[int, ...]
    """Of its members, upwards."""
    at_once: int
    stop_at: Literal["", "first-failure", "first-success"] = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What of a Run's object its life depends on."""

    type: Literal["batch", "service"]
    replicas: int
    limits: Limits
    status: RunStatus
    stopped: bool = False
    deleting: bool = False
    resumes: int = 0
    generation: int = 0
    withdrawn: frozenset[tuple[str, int]] = frozenset()
    """Of those that it gives way to (`GivesWayTo.waiting`): who does not wait for its nodes any more."""
    sweep: Sweep | None = None
    """Its members are independent of each other; `replicas` is their number."""
    fewest: int | None = None
    """Of an elastic gang: so many members are enough to start with, `replicas` are the most."""

    def preemptor_waits(self, asked: GivesWayTo) -> bool:
        """Whether whoever it gives way to so still waits for its nodes."""
        return asked.waiting not in self.withdrawn


@dataclass(frozen=True, slots=True)
class NeedsNodes:
    """The run waits for the planner: these ranks need a node."""

    ranks: tuple[int, ...]
    previous: dict[int, str]
    avoid: frozenset[str]
    fewest: int | None = None
    """It takes what it gets, from so many members on; None: all or nothing."""
    grows: bool = False
    """It can have more members later; nobody is asked to give way for more than the fewest."""
    since: str = ""
    """Since when it waits, where that is not the time since the run was queued."""


@dataclass(frozen=True, slots=True)
class CreateMembers:
    """Create these Pods of the attempt that stands in the status."""

    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeleteMembers:
    """Delete the run's Pods by collection and label (rule 10)."""

    grace_seconds: int
    attempt: int | None = None
    """Only this attempt's."""
    unfinished_only: bool = False
    """Leave those that ended: their logs are still to be read."""


@dataclass(frozen=True, slots=True)
class DeleteMember:
    """Delete one Pod, if it still is the one that was seen."""

    pod: str
    uid: str
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing of the run is left: let its object go."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the run's object: the run ended long enough ago."""


Action = NeedsNodes | CreateMembers | DeleteMembers | DeleteMember | Release | Remove


@dataclass(frozen=True, slots=True)
class Step:
    """What to write, what to do then, and when to ask again at the latest even if nothing is seen to change."""

    status: RunStatus
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
