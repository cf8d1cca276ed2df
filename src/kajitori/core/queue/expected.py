"""How long a run is expected to take, and the evidence for it.

An expectation orders the queue, lets shorter runs pass, and tells when a waiting run may start. It never ends a run: a
run that takes longer than expected goes on, and is then expected to take longer.
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
"""Number of runs of one kind, the last ones with comparable resources, of which the longest counts."""

REMEMBERED_RUNS = 12
"""Number of finished runs of one kind among which comparable ones are searched, the last ones."""

COMPARABLE = 2.0
"""Runs are comparable if one asks for at most this many times as much as the other."""

SURE_RUNS, SURE_SPREAD = 2, 4.0
"""An estimate is sure if it rests on at least this many runs, of which the longest took at most this many times as long
as the shortest. Any other estimate orders the queue, but no time that depends on it is shown."""

KINDS = 100_000
"""Number of kinds that are kept, those that finished last."""

REMEMBERED_SIZES = 64
"""Number of sizes for which the comparable runs of one kind are kept."""

GENERAL_RUNS = 200
GENERAL_QUANTILE = 0.8
"""For a run without time limit and history: the quantile of the lengths of the last runs of about its size that is
expected.
"""

ENOUGH = 10
"""Minimum number of finished runs for an expectation by size."""

UNKNOWN_SECONDS = 6 * 3600.0
"""Assumed length of runs without any evidence."""


class Source(StrEnum):
    """The evidence of an expectation."""

    SIMILAR = "similar"
    """The longest of the user's last runs of this kind and about this size, at most the time limit."""
    LIMIT = "limit"
    """The time limit, since no similar run has finished yet."""
    CORRECTED = "corrected"
    """The limit, or twice the former expectation, since the run has exceeded that."""
    GENERAL = "general"
    """The length of most runs of about this size, since there is neither history nor limit."""
    UNKNOWN = "unknown"
    """An assumed length, because no comparable run has ended and the queue needs an order. It is no estimate."""
    ENDLESS = "endless"
    """A service without a time limit: it has no expected end."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected time from a run's start to its end."""

    seconds: float
    """The cautious, longer end of the evidence."""
    source: Source
    shortest: float = 0.0
    """The shorter end; 0 if it is not known."""
    runs: int = 0
    """Number of finished runs that it rests on."""
    sure: bool = False
    """Whether times that depend on it may be shown: the evidence is enough and agrees, or it is a time limit."""
    weak_seconds: float = 0.0
    """If no comparable run has ended: the length of the last runs of the same kind that asked for other amounts; 0 if
    there is none. It counts only for the order of the queue: neither times shown to users nor reservations depend on
    it.
    """

    @property
    def is_late(self) -> bool:
        """Whether the run has taken longer than was expected."""
        return self.source is Source.CORRECTED

    @property
    def order_seconds(self) -> float:
        """The length that the order of the queue compares the waiting time with.

        With weak evidence it is the geometric mean of `weak_seconds` and the expected length, so that a short trial run
        of a program does not put its large runs before all others.
        """
        return math.sqrt(self.weak_seconds * self.seconds) if self.weak_seconds else self.seconds


@dataclass(frozen=True, slots=True)
class Size:
    """How much a run asks for of its scarce resource, all of its members together."""

    amount: float
    """GPUs, else cores, else nodes; the same resource for all that are compared."""
    gpus: bool = False

    def is_comparable(self, other: Size) -> bool:
        """Whether the length of one run is evidence for the other."""
        if self.gpus != other.gpus:
            return False
        return self.amount <= COMPARABLE * other.amount and other.amount <= COMPARABLE * self.amount

    @property
    def size_class(self) -> tuple[bool, int]:
        """The resource, and the power of two that the amount does not exceed: 1, 2, 4, 8, …"""
        return self.gpus, max(0, math.ceil(self.amount) - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished run, as evidence about others."""

    user: str
    team: str
    kind: Hashable
    """Equal for runs of the same kind (`core.spec.kinds`)."""
    size: Size
    seconds: float
    """Time from the start of all members to the end, without waiting."""
    ended_at: float


class History:
    """An index of finished runs; its size and cost do not grow with their number."""

    def __init__(self) -> None:
        self._similar: dict[tuple[str, str, Hashable], deque[tuple[Size, float]]] = {}
        self._comparable: dict[tuple[str, str, Hashable], dict[Size, tuple[float, ...]]] = {}
        """Cached answers about each kind, by size, until another run of that kind has finished: a queue asks thousands
        of times about the same few sizes.
        """
        self._by_size: dict[tuple[bool, int], deque[float]] = {}
        self._general: dict[tuple[bool, int], Expectation] = {}

    def add(self, run: Finished) -> None:
        """Add a finished run. Runs are added in the order in which they ended."""
        key = (run.team, run.user, run.kind)
        self._comparable.pop(key, None)
        last = self._similar.pop(key, None)  # moves it to the end of the dictionary: it finished last
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
        """Return how long a run that has not started will take; at least a second."""
        similar = self._last_comparable((team, user, kind), size)
        if similar:
            return _at_most(_of_evidence(min(similar), max(similar), len(similar), Source.SIMILAR), limit_seconds)
        whole = of_limit(limit_seconds) if limit_seconds else self._in_general(size.size_class)
        weak = self._longest_of_kind((team, user, kind), size)
        return replace(whole, weak_seconds=max(1.0, min(weak, limit_seconds or weak))) if weak else whole

    def _longest_of_kind(self, key: tuple[str, str, Hashable], size: Size) -> float:
        """Return the longest of the last SIMILAR_RUNS runs of one kind, whatever amount of the same resource they asked
        for; 0 if there is none."""
        last = [seconds for other, seconds in self._similar.get(key, ()) if other.gpus == size.gpus]
        return max(last[-SIMILAR_RUNS:], default=0.0)

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
    """Return the expectation of a run that ends at its time limit at the latest."""
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
    """Return the expectation of a service: its place in the queue is that of a run without evidence, and no run waits
    for its end."""
    return Expectation(UNKNOWN_SECONDS, Source.ENDLESS, sure=True)


def remaining(whole: Expectation, ran_seconds: float, limit_seconds: float | None) -> Expectation:
    """Return the expected remaining time of a run that has already run for `ran_seconds`; at least a second."""
    if whole.source is Source.ENDLESS or not ran_seconds:
        return whole
    now = corrected(whole, ran_seconds, limit_seconds)
    shortest = max(1.0, now.shortest - ran_seconds) if now.shortest else 0.0
    weak = max(1.0, now.weak_seconds - ran_seconds) if now.weak_seconds > ran_seconds else 0.0
    return replace(now, seconds=max(1.0, now.seconds - ran_seconds), shortest=shortest, weak_seconds=weak)


def corrected(before: Expectation, elapsed_seconds: float, limit_seconds: float | None) -> Expectation:
    """Return the expectation of a run that has already run for `elapsed_seconds`. If it has exceeded the former
    expectation, its time limit counts; beyond that, the expectation doubles."""
    if elapsed_seconds < before.seconds:
        return before
    if limit_seconds and elapsed_seconds < limit_seconds:
        return Expectation(limit_seconds, Source.CORRECTED, sure=True)
    longer = max(before.seconds, limit_seconds or 0.0)
    while longer <= elapsed_seconds:
        longer *= 2
    return Expectation(longer, Source.CORRECTED)
