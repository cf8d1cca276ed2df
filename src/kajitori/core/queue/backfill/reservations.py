"""Reservations of one pass over the queue, and the times by which other runs must end so that they delay none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kajitori.core.placement.planner import Placement, Shortage
from kajitori.core.placement.rooms import Shape

SOON_SECONDS = 1.0
"""The shortest expected remaining time of a run, even if the run is late. Starts of reservations are not known more
exactly than this.
"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are reserved for a run, and the time at which it is expected to start on them."""

    placement: Placement
    starts_at: float
    overdue: bool = False

    @property
    def key(self) -> str:
        """The run, as `namespace/name`."""
        return self.placement.key


@dataclass(eq=False, slots=True)
class QueuedShape(Shape):
    """A shape, with what one pass over the queue has found out about it."""

    shortage: Shortage | None = None
    must_end_by: float = math.inf
    should_end_by: float = math.inf
    """A run of this shape delays no reservation if it ends by `must_end_by` even if it takes all of its expected
    length, and by `should_end_by` if it takes the likely part of it.
    """
    respected: list[Claim] = field(default_factory=list)
    """All reservations on nodes that runs of this shape could use."""
    never_fits_from: int = 1 << 62
    """A gang of this many members, or more, does not fit even once all runs with an expected end have ended."""
    smallest_failed: tuple[int, float, float] | None = None
    """The smallest run of the present priority that did not start: (members, expected length, likely length)."""

    @property
    def has_reservations(self) -> bool:
        """Whether a run of this shape could delay a reservation."""
        return min(self.must_end_by, self.should_end_by) < math.inf

    def respect(self, claim: Claim, priority: int) -> None:
        """Let runs of this shape and priority respect a reservation if both could use some of the same nodes."""
        if not self.overlaps(claim.shape):
            return
        self.respected.append(claim)
        by = claim.must_end_by(priority)
        if by is not None:
            self.must_end_by = min(self.must_end_by, by)
        else:
            self.should_end_by = min(self.should_end_by, claim.reservation.starts_at)

    def begin_priority(self, priority: int) -> None:
        """Compute again what depends on the priority of the runs that are looked at."""
        respected, self.respected = self.respected, []
        self.must_end_by = self.should_end_by = math.inf
        self.smallest_failed = None
        for claim in respected:
            self.respect(claim, priority)

    def note_failed(self, members: int, expected_seconds: float, likely_seconds: float) -> None:
        """Note a run that did not start, if no run is known that asked for less in any respect."""
        asked = members, expected_seconds, likely_seconds
        known = self.smallest_failed
        if known is None or all(one <= other for one, other in zip(asked, known, strict=True)):
            self.smallest_failed = asked


@dataclass(eq=False, slots=True)
class Claim:
    """A reservation, with the shape and the priority of its run."""

    reservation: Reservation
    shape: QueuedShape
    priority: int
    free_by: float
    """When the nodes are needed if no run that passed the reservation is late; at most `starts_at`."""

    def must_end_by(self, priority: int) -> float | None:
        """Return the time by which runs of this priority must end even if they take all of their expected length. None
        if it is enough that they likely end before the reservation starts: the reserved run is not overdue and has
        no higher priority.
        """
        if self.priority > priority:
            return self.free_by - SOON_SECONDS
        return self.free_by if self.reservation.overdue else None

    def is_delayed_by(self, priority: int, ends_at: float, likely_ends_at: float) -> bool:
        """Return whether a run of this priority, with these expected ends, would delay the reservation."""
        by = self.must_end_by(priority)
        return likely_ends_at > self.reservation.starts_at if by is None else ends_at > by


def delayed_by(claims: Sequence[Claim], priority: int, ends_at: float, likely_ends_at: float) -> tuple[str, ...]:
    """Return the runs of the reservations that a run of this priority, with these expected ends, would delay."""
    return tuple(each.reservation.key for each in claims if each.is_delayed_by(priority, ends_at, likely_ends_at))
