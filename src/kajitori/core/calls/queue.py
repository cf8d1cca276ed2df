"""The queue of the function calls of a run: which calls wait, which worker does which call, and which have ended.

The state follows from an append-only log of entries, which all servers share; the number of an entry is its place in
the log. With one entry a worker takes calls and hands in outcomes. If a worker ends, the calls that it took are free
again, so a call is done at least once, perhaps several times. The first outcome of a call counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import chain, islice

import msgspec

MAX_TRIES = 3
"""Workers that a call may lose before it counts as the cause."""
MAX_BATCH = 256
"""Most calls that a worker takes at once."""


class Worker(msgspec.Struct, frozen=True, array_like=True):
    """A process that does calls: the member that it runs in, and a random word that another process does not have."""

    rank: int
    attempt: int
    process: str


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """The outcome of a call, or one item of a generator. The value is in the entry's payload of the same position."""

    call: int
    kind: str
    """value, error, item (a generator goes on), end (a generator ended), lost (its workers died), or cancelled."""
    part: int = 0
    """Number of the item, from 0."""

    @property
    def is_last(self) -> bool:
        return self.kind != "item"


class Entry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One entry of the log."""

    token: str = ""
    """SHA-256 of the workers' token; in the first entry."""
    first: int = 0
    """Number of the first added call."""
    added: int = 0
    """Number of added calls; their arguments are the payloads."""
    closed: bool = False
    """No more calls come, so workers without work end."""
    worker: Worker | None = None
    outcomes: list[Outcome] = []
    taken: list[int] = []
    """Calls that the worker took."""
    returned: list[int] = []
    """Calls that the worker had taken and not begun. Other workers may take them."""
    payloads: list[bytes] = []


@dataclass
class CallQueue:
    """The state of a queue after some entries of its log."""

    token: str = ""
    added: int = 0
    closed: bool = False
    places: int = 0
    """Number of entries that were taken into account."""
    ended: set[int] = field(default_factory=set)
    _starts: list[int] = field(default_factory=list)
    """First call of each entry that added calls."""
    _places: list[int] = field(default_factory=list)
    """Places of these entries in the log."""
    _next_call: int = 0
    """First call that no worker has taken yet."""
    _cancelled_early: set[int] = field(default_factory=set)
    """Calls that were cancelled before a worker took them."""
    _holders: dict[int, Worker] = field(default_factory=dict)
    """The worker of each call that was taken and has not ended."""
    _returned: set[int] = field(default_factory=set)
    """Calls that were taken and returned, and that no worker has taken since."""
    _tries: dict[int, int] = field(default_factory=dict)
    """Number of workers that took each call of `_holders` and `_returned`."""
    _newest: dict[int, Worker] = field(default_factory=dict)
    """The newest process of each rank."""

    def apply(self, place: int, entry: Entry) -> None:
        """Take the entry at this place of the log into account."""
        self.places = place + 1
        self.token = self.token or entry.token
        self.closed = self.closed or entry.closed
        if entry.added:
            self._starts.append(entry.first)
            self._places.append(place)
            self.added = entry.first + entry.added
        if entry.worker is not None:
            self._newest[entry.worker.rank] = entry.worker
            for call in entry.returned:
                if self._holders.get(call) == entry.worker:
                    del self._holders[call]
                    self._tries[call] -= 1
                    self._returned.add(call)
            for call in entry.taken:
                if self._holders.get(call) != entry.worker:
                    self._tries[call] = self._tries.get(call, 0) + 1
                self._holders[call] = entry.worker
                self._returned.discard(call)
                self._next_call = max(self._next_call, call + 1)
        for outcome in entry.outcomes:
            if outcome.is_last:
                self.ended.add(outcome.call)
                if outcome.call >= self._next_call:
                    self._cancelled_early.add(outcome.call)
                self._holders.pop(outcome.call, None)
                self._returned.discard(outcome.call)
                self._tries.pop(outcome.call, None)

    @property
    def is_over(self) -> bool:
        """Whether every call has ended and none will be added."""
        return self.closed and len(self.ended) == self.added

    def place_of(self, call: int) -> tuple[int, int]:
        """Return the place of the entry that added a call, and the position of its arguments there."""
        index = bisect_right(self._starts, call) - 1
        return self._places[index], call - self._starts[index]

    def cancelled(self, calls: Collection[int]) -> list[Outcome]:
        """Return the outcomes that cancel these calls; none for calls that have ended."""
        wanted = {call for call in calls if 0 <= call < self.added} - self.ended
        return [Outcome(call, "cancelled") for call in sorted(wanted)]

    def new_outcomes(self, outcomes: list[Outcome]) -> list[int]:
        """Return the positions of outcomes that count: those of calls that exist and have not ended."""
        seen = set(self.ended)
        kept = []
        for position, outcome in enumerate(outcomes):
            if 0 <= outcome.call < self.added and outcome.call not in seen:
                kept.append(position)
                if outcome.is_last:
                    seen.add(outcome.call)
        return kept

    def held_by(self, worker: Worker, calls: Collection[int]) -> list[int]:
        """Return which of these calls the worker has taken, and neither returned nor ended."""
        return sorted({call for call in calls if self._holders.get(call) == worker})

    def work_for(
        self, worker: Worker, want: int, done: Collection[int], is_alive: Callable[[Worker], bool]
    ) -> tuple[list[int], list[int]]:
        """Return the calls that a worker takes now, and the calls that are lost because MAX_TRIES workers died on them.

        `done` are the calls for which the worker hands in outcomes. Any other call that it took is assigned again: the
        answer that assigned it did not arrive. Calls of dead workers come first, and one at a time: if one of them
        kills its worker again, the others do not count as its cause. Then come returned calls, and calls that no worker
        has taken, in order. A worker takes at most half of its share of the free calls, so that all workers end at
        about the same time.
        """
        if want <= 0:
            return [], []
        lost: list[int] = []
        again: list[int] = []
        for call, holder in self._holders.items():
            if call in done:
                continue
            if holder == worker:
                again.append(call)
            elif holder.rank == worker.rank or self._newest[holder.rank] != holder or not is_alive(holder):
                (lost if self._tries[call] >= MAX_TRIES else again).append(call)
        if again:
            return [min(again)], lost
        alive = sum(1 for other in self._newest.values() if other.rank != worker.rank and is_alive(other)) + 1
        cancelled = {call for call in self._cancelled_early if call >= self._next_call}
        free = len(self._returned) + self.added - self._next_call - len(cancelled)
        count = min(want, MAX_BATCH, max(1, free // (2 * alive)))
        never_taken = (call for call in range(self._next_call, self.added) if call not in cancelled)
        return list(islice(chain(sorted(self._returned), never_taken), count)), lost
