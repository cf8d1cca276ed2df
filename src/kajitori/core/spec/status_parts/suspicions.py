"""Findings of the watchers about a running run, in its status: it is stuck, a part of it is slow, its GPUs are idle."""

from __future__ import annotations

import msgspec

SLOW_LIMIT = 8
"""Maximum number of slow places in a status."""


class Stuck(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The suspicion that the running attempt is stuck. It is removed when the run makes progress again."""

    since: str
    """End of the last minute with progress."""
    verdict: str = "suspected"
    """suspected: no progress for longer than ever before, or than `stuckAfter`. stuck: in addition, no process moved
    between two looks at the stacks of all ranks."""
    message: str = ""
    """One sentence for the owner."""
    attempt: int = 0
    ranks: str = ""
    """Ranks for which the others seem to wait, as ranges; empty if none stands out or stacks could not be taken."""
    looked_at: str = ""
    """Time at which the stacks of the ranks were looked at, or at which that failed; empty before."""


class SlowPlace(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A GPU, rank or node of an attempt that was persistently slower than its peers. It is evidence about the node."""

    attempt: int
    node: str
    ranks: str
    """Ranks of the attempt that it concerns, as ranges."""
    at: str
    """Time at which it was found."""
    sign: str
    """Quantity that showed it, such as `gpu.clock.sm`."""
    message: str = ""


class Stretch(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A time in which an attempt was stuck or its GPUs were idle, for reports of lost time. It is kept after the
    finding is removed."""

    attempt: int
    kind: str
    """hung or idle."""
    since: str
    until: str = ""
    """Empty while the finding stands."""


class IdleState(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Idle GPUs of the run, and the state of the question to its owner: keep the run, or park it?"""

    since: str
    attempt: int
    gpus: int
    """GPUs that the run holds."""
    gpu_type: str = ""
    """Their type; empty if they are of several."""
    fewest: int
    """Fewest GPUs that were idle in each minute since then. If all were, it is `gpus`."""
    most: int
    """Most GPUs that were idle in each minute since then."""
    confirmed: int = 0
    """If some are idle while others work: number of GPUs that were idle in the whole last hour, as their nodes say."""
    places: str = ""
    """Ranks and GPUs of these, as in `3:0-7;12:4`; the beginning if there are many."""
    peak_percent: int = 0
    """Highest utilisation of any GPU since then, rounded up."""
    works: bool = False
    """Whether processors, disks or network worked meanwhile."""
    asked_at: str = ""
    """Time of the question. Empty: the owner was not asked, or has answered that the run is kept."""
    warned_at: str = ""
    """Time of the warning that the run is going to be parked, if policy says so."""
    park_at: str = ""
    """Time at which it is parked unless the owner answers."""
    parked_at: str = ""
    """Time at which it was parked because the owner did not answer."""

    @property
    def is_certain(self) -> bool:
        """Whether all GPUs are idle. Otherwise some may be, while others work."""
        return self.fewest >= self.gpus

    @property
    def is_proven(self) -> bool:
        """Whether it is known which GPUs are idle: all, or those that nodes named."""
        return self.is_certain or self.confirmed > 0


class KeepLimit(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A `keepIdleUntil` that was later than policy allowed when it was first seen. From then on policy's `longestKeep`
    counts instead."""

    asked: str
    """The time in the spec. Another one is another answer, with a limit of its own."""
    until: str
    """The time until which the run is kept."""
