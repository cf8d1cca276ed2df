"""How long a run is expected to take, and where that is known from.

An expectation orders the queue, lets shorter runs pass and tells when a waiting run may start. It never ends anything:
a run that takes longer than expected just goes on, and is expected to take longer.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

SIMILAR_RUNS = 3
"""Of one kind: the last that finished and that asked for comparable resources. The longest of them counts."""

REMEMBERED_RUNS = 12
"""Of one kind: among these, the last that finished, comparable ones are looked for."""

COMPARABLE = 2.0
"""Runs are comparable if one asks for at most this many times as much as the other."""

SURE_RUNS, SURE_SPREAD = 2, 4.0
"""An estimate is sure if it rests on so many runs at least, of which the longest took at most so many times as long as
the shortest. Any other one orders the queue, but no time is told that rests on it."""

KINDS = 100_000
"""So many kinds are remembered, those that finished last."""

REMEMBERED_SIZES = 64
"""Number of sizes of one kind whose answers are kept."""

GENERAL_RUNS = 200
GENERAL_QUANTILE = 0.8
"""What a run without limit and history takes: four of five of the last runs of about its size took no longer."""

ENOUGH = 10
"""Fewer finished runs tell nothing in general."""

UNKNOWN_SECONDS = 6 * 3600.0
"""For runs that nothing is known about."""


class Source(StrEnum):
    """Where an expectation comes from."""

    SIMILAR = "similar"
    """The longest of the user's last runs of this kind and about this size, at most the time limit."""
    LIMIT = "limit"
    """There were none yet: the time limit."""
    CORRECTED = "corrected"
    """It has run longer than was expected: the limit, or twice as long as before."""
    GENERAL = "general"
    """Neither history nor limit: what most runs of about this size take."""
    UNKNOWN = "unknown"
    """No comparable run has ended here: a length is assumed, so that there is an order; it is no estimate."""
    ENDLESS = "endless"
    """A service without a time limit: nobody knows an end."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """From a run's start to its end, as far as anybody knows."""

    seconds: float
    """The cautious end of what the evidence tells."""
    source: Source
    shortest: float = 0.0
    """The other end; 0 if nothing tells how short it may be."""
    runs: int = 0
    """How many finished runs it rests on."""
    sure: bool = False
    """Whether a time may be told that rests on it: the evidence is enough and lies close together, or it is a limit."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much a run asks for of what is scarce for it, all of its members together."""

    amount: float
    """GPUs, else cores, else nodes: what is compared needs to be the same for all."""
    gpus: bool = False

    def is_comparable(self, other: Size) -> bool:
        """Whether what one took tells how long the other will take."""
        if self.gpus != other.gpus:
            return False
        return self.amount <= COMPARABLE * other.amount and other.amount <= COMPARABLE * self.amount

    @property
    def size_class(self) -> tuple[bool, int]:
        """1, 2, 3-4, 5-8, … of the same."""
        return self.gpus, max(0, math.ceil(self.amount) - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over, as far as it tells about others."""

    user: str
    team: str
    kind: Hashable
    """Equal for runs that do the same, as `core.spec.kinds` tells."""
    size: Size
    seconds: float
    """From the start of all members to the end, without waiting."""
    ended_at: float


class History:
    """Finished runs, as an index that costs the same however many there were."""

    def __init__(self) -> None:
        self._similar: dict[tuple[str, str, Hashable], deque[tuple[Size, float]]] = {}
        self._comparable: dict[tuple[str, str, Hashable], dict[Size, tuple[float, ...]]] = {}
        """Answers about each kind by size, until another run of that kind has finished: a queue asks thousands of times
        about the same few."""
        self._by_size: dict[tuple[bool, int], deque[float]] = {}
        self._general: dict[tuple[bool, int], Expectation] = {}

    def add(self, run: Finished) -> None:
        """Learns from one more run; they are told in the order in which they ended."""
        key = (run.team, run.user, run.kind)
        self._comparable.pop(key, None)
        last = self._similar.pop(key, None)  # to the end of the dictionary: it is the one that was told of last
        if last is None:
            last = deque(maxlen=REMEMBERED_RUNS)
            if len(self._similar) >= KINDS:
                oldest = next(iter(self._similar))
                del self._similar[oldest]
                self._comparable.pop(oldest, None)
        self._similar[key] = last
        last.append((run.size, run.seconds))
        self._by_size.setdefault(run.size.size_class, deque(maxlen=GENERAL_RUNS)).append(run.seconds)
        self._general.pop(run.size.size_class, None)

    def expect(self, user: str, team: str, kind: Hashable, size: Size, limit_seconds: float | None) -> Expectation:
        """How long a run will take that has not begun; at least a second."""
        similar = self._last_comparable((team, user, kind), size)
        if similar:
            return _at_most(_of_evidence(min(similar), max(similar), len(similar), Source.SIMILAR), limit_seconds)
        if limit_seconds:
            return of_limit(limit_seconds)
        return self._in_general(size.size_class)

    def _last_comparable(self, key: tuple[str, str, Hashable], size: Size) -> tuple[float, ...]:
        """Return the seconds of the last runs of one kind that asked for comparable resources, at most SIMILAR_RUNS."""
        answers = self._comparable.get(key)
        if answers is None:
            if key not in self._similar:
                return ()
            answers = self._comparable[key] = {}
        if size not in answers:
            if len(answers) >= REMEMBERED_SIZES:
                answers.clear()
            newest_first = (seconds for other, seconds in reversed(self._similar[key]) if size.is_comparable(other))
            answers[size] = tuple(itertools.islice(newest_first, SIMILAR_RUNS))
        return answers[size]

    def _in_general(self, size_class: tuple[bool, int]) -> Expectation:
        known = self._by_size.get(size_class, ())
        if len(known) < ENOUGH:
            return Expectation(UNKNOWN_SECONDS, Source.UNKNOWN)
        if size_class not in self._general:
            shortest, longest = np.quantile(np.array(known), (1 - GENERAL_QUANTILE, GENERAL_QUANTILE)).tolist()
            self._general[size_class] = _of_evidence(shortest, longest, len(known), Source.GENERAL)
        return self._general[size_class]


def of_limit(seconds: float) -> Expectation:
    """It is known to end by then, one way or the other."""
    return Expectation(max(1.0, seconds), Source.LIMIT, sure=True)


def _of_evidence(shortest: float, longest: float, runs: int, source: Source) -> Expectation:
    shortest, longest = max(1.0, shortest), max(1.0, longest)
    sure = runs >= SURE_RUNS and longest <= SURE_SPREAD * shortest
    return Expectation(longest, source, shortest, runs, sure)


def _at_most(expectation: Expectation, limit_seconds: float | None) -> Expectation:
    if not limit_seconds or expectation.seconds <= limit_seconds:
        return expectation
    seconds = max(1.0, limit_seconds)
    return replace(expectation, seconds=seconds, shortest=min(expectation.shortest, seconds))


def endless() -> Expectation:
    """Of a service: it takes its place in the queue as a run that nothing is known about, and is never waited for."""
    return Expectation(UNKNOWN_SECONDS, Source.ENDLESS, sure=True)


def remaining(whole: Expectation, ran_seconds: float, limit_seconds: float | None) -> Expectation:
    """What is expected from now on of a run that has run for so long already; at least a second."""
    if whole.source is Source.ENDLESS or not ran_seconds:
        return whole
    now = corrected(whole, ran_seconds, limit_seconds)
    shortest = max(1.0, now.shortest - ran_seconds) if now.shortest else 0.0
    return replace(now, seconds=max(1.0, now.seconds - ran_seconds), shortest=shortest)


def corrected(before: Expectation, elapsed_seconds: float, limit_seconds: float | None) -> Expectation:
    """What is expected of a run that has run for so long already: it is not over, so what was expected may be wrong.
    Up to its limit it may take all of that; beyond, nobody knows."""
    if elapsed_seconds < before.seconds:
        return before
    if limit_seconds and elapsed_seconds < limit_seconds:
        return Expectation(limit_seconds, Source.CORRECTED, sure=True)
    longer = max(before.seconds, limit_seconds or 0.0)
    while longer <= elapsed_seconds:
        longer *= 2
    return Expectation(longer, Source.CORRECTED)
