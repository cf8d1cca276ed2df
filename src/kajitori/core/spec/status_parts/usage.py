"""Usage of resources in the status of a run: what it holds now, what it held, and sums of both."""

from __future__ import annotations

import msgspec


class Amounts(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The resources of one member: its requests, and the type of the GPUs on its node."""

    gpu_type: str = ""
    """Type of the node's GPUs; empty if the member holds none."""
    gpus: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0


class Holding(Amounts, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Members of one attempt that hold their nodes since the attempt was planned."""

    attempt: int
    ranks: str
    """Ranks of these members as ranges, ascending."""
    nodes: str = ""
    """Node of each of these ranks. Empty: as in the status' attempt, which has the same number."""
    since: str = ""
    started: str = ""
    """Time at which the programs of all members of the attempt ran, from their Pods; empty until then."""
    ended: str = ""
    """Time at which the attempt was broken, from the Pod that broke it, or of the decision to end it."""
    cause: str = ""
    """Why the attempt ended, as a Reason; empty if it succeeded, or goes on."""
    culprit: str = ""
    """Node of the member that broke the attempt; empty if no member did."""
    after: str = ""
    """Why the attempt before this one was interrupted; empty if this one was not made for that."""
    saves_every: int = 0
    """Seconds between checkpoints as the spec declares them; 0 or less: a constant of `core.usage.lost_time.slices`."""


class Segment(Holding, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Members that held their nodes for the same time, and gave them back."""

    id: int
    """Number of the segment; later segments of the run have greater numbers."""
    until: str = ""


class UsageTotal(Amounts, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Sum over all closed segments of members that held the same amounts."""

    member_seconds: int = 0


class Usage(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The past and present resources of the run, for the usage ledger of history.

    It is written together with the decision that changes the run's resources, so a controller that is killed between
    this status and the database loses nothing and counts nothing twice.
    """

    first: int
    """Segments with this number or a greater one are part of `totals`."""
    last: int = 0
    """Greatest number of a closed segment; 0 if none is closed."""
    open: list[Holding] = []
    closed: list[Segment] = []
    """Closed segments that history has not confirmed yet, the oldest first. If they take too much room, the oldest are
    left out; their time stays in `totals`."""
    totals: list[UsageTotal] = []
