"""The progress of a sweep's members, as sets of indices. The status stores the same as ranges (`0-511,600`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from kajitori.core.formats.node_lists import compress_ranks, expand_ranks
from kajitori.core.formats.times import parse_time
from kajitori.core.gang.types import Member
from kajitori.core.spec.status_parts.members import SweepState


@dataclass(slots=True)
class Ledger:
    """Members that succeeded, failed for good or need another start, with the restarts of each."""

    succeeded: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    restarts: dict[int, int] = field(default_factory=dict)
    longest_seconds: int = 0
    member_seconds: int = 0

    @classmethod
    def of(cls, state: SweepState | None) -> Ledger:
        """Return the ledger stored in a status; an empty one for None."""
        if state is None:
            return cls()
        return cls(
            set(indices_of(state.succeeded)),
            set(indices_of(state.failed)),
            set(indices_of(state.again)),
            {index: int(count) for count, indices in state.restarts.items() for index in indices_of(indices)},
            state.longest_seconds,
            state.member_seconds,
        )

    def state(self) -> SweepState:
        """Return the ledger as a status stores it."""
        by_count: dict[int, list[int]] = {}
        for index, count in self.restarts.items():
            by_count.setdefault(count, []).append(index)
        return SweepState(
            succeeded=ranges(self.succeeded),
            failed=ranges(self.failed),
            again=ranges(self.again),
            restarts={str(count): ranges(by_count[count]) for count in sorted(by_count)},
            longest_seconds=self.longest_seconds,
            member_seconds=self.member_seconds,
        )

    def has_ended(self, index: int) -> bool:
        """Return whether this member needs nothing more."""
        return index in self.succeeded or index in self.failed

    def succeed(self, index: int, seconds: int = 0) -> None:
        """Record that this member succeeded after `seconds`."""
        self.succeeded.add(index)
        self.again.discard(index)
        self.longest_seconds = max(self.longest_seconds, seconds)

    def note_running(self, started: datetime | None, now: datetime) -> None:
        """Double the expected length of a member while this running member exceeds it."""
        while self.longest_seconds and started and now - started > timedelta(seconds=self.longest_seconds):
            self.longest_seconds *= 2

    def add_member_seconds(self, members: Iterable[Member], now: datetime) -> None:
        """Add the run time of these members; their Pods have ended or are given up now."""
        self.member_seconds += sum(seconds_of(member, now) for member in members)

    def fail(self, index: int) -> None:
        """Record that this member failed for good."""
        self.failed.add(index)
        self.again.discard(index)

    def restart(self, index: int) -> None:
        """Record that this member's program failed and is started again."""
        self.restarts[index] = self.restarts.get(index, 0) + 1
        self.again.add(index)

    def resume(self, begun: Iterable[int]) -> None:
        """Requeue every member that did not succeed, with fresh restart counts. `begun` members lose their Pods."""
        self.again = (self.failed | set(begun)) - self.succeeded
        self.restarts = {index: count for index, count in self.restarts.items() if index in self.succeeded}
        self.failed = set()


def seconds_of(member: Member, now: datetime) -> int:
    """Return how long the member's program ran, until `now` if it still runs."""
    started = parse_time(member.started_at)
    ended = parse_time(member.ended_at) or now
    return max(0, round((ended - started).total_seconds())) if started is not None else 0


def ranges(indices: Iterable[int]) -> str:
    """Return indices as ranges: `0-511,600`."""
    return compress_ranks(sorted(indices))


@lru_cache(maxsize=256)
def indices_of(text: str) -> frozenset[int]:
    """Return the indices in a text of ranges; cached."""
    return frozenset(expand_ranks(text))


def members_without_nodes(state: SweepState) -> frozenset[int]:
    """Return the members that need no node now, whatever the attempt says: they have ended or wait for placement."""
    return indices_of(state.succeeded) | indices_of(state.failed) | indices_of(state.again)
