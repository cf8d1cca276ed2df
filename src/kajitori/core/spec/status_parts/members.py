"""Members of a run in its status: counts, those that a user should look at, their peak memory, and a sweep's states."""

from __future__ import annotations

import msgspec

NOTABLE_LIMIT = 64
"""Maximum number of notable members in a status."""


class Notable(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A member that a user should look at, because it failed, is slow or did not start."""

    rank: int
    node: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    attempt: int = 0
    since: str = ""


class MemberCounts(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Number of members by state."""

    total: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def left(self) -> int | None:
        """Members of a gang that have not ended; None if none has."""
        return self.total - self.succeeded if 0 < self.succeeded < self.total else None


class MemoryPeak(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Peak memory of any member in any attempt: its working set, as kubelets measure it."""

    peak_bytes: int
    rank: int = 0
    """Rank of the member with the peak."""
    attempt: int = 0
    """Attempt of the peak."""
    node: str = ""
    """Node of the member with the peak."""
    limit_bytes: int = 0
    """Memory limit of that member; 0 if it has none."""
    at: str = ""
    """Time of the measurement."""
    total_bytes: int = 0
    """Largest sum over all members in one measurement."""
    ran_out: bool = False
    """Whether a member was killed because it exceeded its memory limit."""


class SweepState(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The states of a sweep's members, as ranges of indices (`0-511,600`). A member in none of them runs or has not
    started yet. A member takes at most twelve bytes."""

    succeeded: str = ""
    failed: str = ""
    """Members that failed and have no restarts left."""
    again: str = ""
    """Members that lost their last Pod, and wait for a new placement."""
    restarts: dict[str, str] = {}
    """Members that were restarted after a failure, by their number of restarts."""
    longest_seconds: int = 0
    """Expected running time of a member: the longest time that a member took to succeed, or twice that if other members
    have been running for longer."""
    member_seconds: int = 0
    """Sum of the running times of all Pods that are over, for the sweep's usage."""
