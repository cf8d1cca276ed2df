"""The nodes of one run: those of its plan, those of its Pods, and those that it was promised."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.spec.reasons import Reason

ENDING = (Reason.STOPPING, Reason.TIME_LIMIT, Reason.DELETING)
"""Reasons of runs with members that are being ended, although the phase is still STARTING or RUNNING."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Nodes that are promised to members of an attempt: no Pod is bound to them yet."""

    run: str
    """`namespace/name`."""
    attempt: int
    member: MemberRequest
    nodes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    """Ranks of these members; only of a sweep."""


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """The nodes of a stored attempt."""

    attempt: int
    member: MemberRequest
    """Equal requests are the same object."""
    nodes: dict[int, str]
    """Node by rank."""


@dataclass(frozen=True, slots=True)
class RunOccupancy:
    """All nodes that one run holds or was promised."""

    run: RunObject
    plan: AttemptPlan | None
    """Its last attempt; None if it has none."""
    members: tuple[Pod, ...] = ()
    """Pods that count as its members now, also finished and unbound ones."""
    bound: tuple[Pod, ...] = ()
    """All of its Pods, of any attempt, that are on a node of the table and have not finished."""
    promises: tuple[Promise, ...] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows of the node table, one for each member that has not ended; only of a running gang."""
    ranks: tuple[int, ...] = ()
    """Ranks of the same members."""
    since: float | None = None
    """Start of the attempt of a running gang in seconds since 1970: when all members ran, or, before that and for a
    sweep, when the last of them were given their nodes. None for every other run."""
    starts: tuple[float, ...] = ()
    """Starts of the same members, if it is a sweep: they start one by one."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.run.metadata.namespace}/{self.run.metadata.name}"

    @property
    def is_begun(self) -> bool:
        """Whether the run has an attempt, or nodes for the next one, and is not over."""
        return is_begun(self.run)

    @property
    def is_sweep(self) -> bool:
        return self.run.status is not None and self.run.status.sweep is not None

    @property
    def member(self) -> MemberRequest:
        """The request of each member of the last attempt."""
        assert self.plan is not None, "only a run with an attempt has members"
        return self.plan.member


def is_begun(run: RunObject) -> bool:
    """Whether a run may hold nodes or have some kept for it: it has an attempt or a next size, and is not over."""
    status = run.status
    if status is None or status.phase.is_final:
        return False
    return status.attempt is not None or status.resize is not None
