"""A run that waits for nodes, as the queue's cycle sees it: its request, and the numbers that decide its place."""

from __future__ import annotations

from dataclasses import dataclass

from kajitori.core.placement.planner import GangRequest


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """One run of the queue. Times are seconds since the epoch."""

    gang: GangRequest
    expected_seconds: float
    """Expected time from its start until it frees its nodes; infinite if no end is known."""
    overdue: bool = False
    """It waited longer than the bound: no run that is expected to delay it may pass it."""
    user: str = ""
    """The account of its user's share."""
    team: str = ""
    """Its namespace."""
    queued_at: float = 0.0
    size: float = 0.0
    """The part of the cluster that it asks for, of the resource that it asks for most: 0 to 1."""
    work_seconds: float | None = None
    """Expected length with which the order compares the waiting time; for a sweep, of all work that is left. None:
    `expected_seconds`.
    """
    may_preempt: bool = True
    """False for tests of nodes: they wait."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.gang.key

    @property
    def length_seconds(self) -> float:
        """The length that the order compares the waiting time with."""
        return self.expected_seconds if self.work_seconds is None else self.work_seconds
