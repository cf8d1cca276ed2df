"""Leader election of controllers by a shared Lease, which also shows all other parts whether a controller works.

A Lease's age is measured from when an observer saw it change, by the observer's own clock. The timestamps inside were
written by another machine's clock and prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

LEASE_NAME = "kajitori-controller"

ABSENT_SECONDS = 20.0
"""A Lease that was not renewed for this long has no living controller behind it: a follower would have taken over."""

LOOK_PATIENCE_SECONDS = 30.0
"""An observer that could not read the Lease for this long says that it does not know."""


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Times of the election, in seconds. A leader stops well before a follower may begin, and a killed leader is
    followed within 15 s.

    A follower sees the last renewal at most `look_seconds` late, and takes over `lease_seconds` after it saw it; the
    rest of the 15 s is for the first look at the cluster.
    """

    lease_seconds: float = 12.0
    """A follower takes over after it saw no change for this long."""
    lead_seconds: float = 9.0
    """A leader leads for this long after it began the last renewal that succeeded."""
    interval_seconds: float = 2.0
    """Between two renewals of a leader."""
    look_seconds: float = 1.0
    """Between two looks of a follower."""


class ObservedLease:
    """The Lease as an observer last saw it, and the time of its last change. Times are the observer's monotonic
    seconds."""

    def __init__(self) -> None:
        self.holder = ""
        self._version: str | None = None
        self._changed_at = 0.0

    def observe(self, holder: str, version: str, now: float) -> None:
        """Note a look at the Lease: its holder and its resource version (both empty if there is no Lease)."""
        if (holder, version) != (self.holder, self._version):
            self.holder, self._version, self._changed_at = holder, version, now

    def unchanged_seconds(self, now: float) -> float:
        """Return for how long the Lease has been seen unchanged; at first that is the time since the first look."""
        return now - self._changed_at


class Election:
    """The knowledge of one candidate: a pure state machine with the time as an argument (monotonic seconds)."""

    def __init__(self, identity: str, terms: LeaseTimings) -> None:
        self.identity = identity
        self.terms = terms
        self._seen = ObservedLease()

    def observe(self, holder: str, version: str, now: float) -> None:
        """Note a look at the Lease: its holder and its resource version."""
        self._seen.observe(holder, version, now)

    def may_take(self, now: float) -> bool:
        """Return whether the Lease is this candidate's or free, or was seen unchanged for its whole duration."""
        return self._seen.holder in ("", self.identity) or self._left_seconds(now) <= 0

    def pause_seconds(self, now: float, *, renewed: bool) -> float:
        """Return how long to wait before the next renewal or look; a follower looks at the moment of expiry."""
        if renewed:
            return self.terms.interval_seconds
        left = self._left_seconds(now)
        return min(self.terms.look_seconds, left) if left > 0 else self.terms.look_seconds

    def _left_seconds(self, now: float) -> float:
        return self.terms.lease_seconds - self._seen.unchanged_seconds(now)


@dataclass(frozen=True, slots=True)
class LeaderState:
    """Whether a controller is at work, as far as an observer knows."""

    holder: str = ""
    """The holder of the Lease; empty if there is none."""
    age_seconds: float | None = None
    """How long ago the Lease was last seen to change; None if that is not known."""
    trouble: str = ""
    """Why it is not known."""

    @property
    def is_absent(self) -> bool:
        """Whether no controller is at work: runs neither start nor stop."""
        return self.age_seconds is not None and self.age_seconds >= ABSENT_SECONDS

    @property
    def says(self) -> str:
        """The problem as a text; empty if there is none."""
        if self.age_seconds is None:
            return f"whether a controller is at work is not known: {self.trouble}" if self.trouble else ""
        if not self.is_absent:
            return ""
        since = f"no controller has renewed its lease for {self.age_seconds:.0f} s"
        return f"{since}; runs do not start or stop until one is back"
