"""How long a run is expected to take, and where that is known from.

An expectation orders the queue, lets shorter runs pass and tells when a waiting run may start. It never ends anything:
a run that takes longer than expected just goes on, and is expected to take longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

SIMILAR_RUNS = 3
"""Of one kind: the last that finished. The longest of them counts."""

KINDS = 100_000
"""So many kinds are remembered, those that finished last."""

GENERAL_RUNS = 200
GENERAL_QUANTILE = 0.8
"""What a run without limit and history takes: four of five of the last runs of about its size took no longer."""

ENOUGH = 10
"""Fewer finished runs tell nothing in general."""

UNKNOWN_SECONDS = 6 * 3600.0
"""For the first runs of a cluster, which nothing is known about."""


class Source(StrEnum):
    """Where an expectation comes from."""

    SIMILAR = "similar"
    """The longest of the user's last runs of this kind, at most the time limit."""
    LIMIT = "limit"
    """There were none yet: the time limit."""
    CORRECTED = "corrected"
    """It has run longer than was expected: the limit, or twice as long as before."""
    GENERAL = "general"
    """Neither history nor limit: what most runs of about this size take."""
    UNKNOWN = "unknown"
    """Too few runs have ended here: a length is assumed, so that there is an order; it is no estimate."""
    ENDLESS = "endless"
    """A service without a time limit: nobody knows an end."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """From a run's start to its end, as far as anybody knows."""

    seconds: float
    source: Source


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over, as far as it tells about others."""

    user: str
    team: str
    kind: Hashable
    """Equal for runs that do the same, as `core.kinship` tells."""
    size: int
    """Members, or nodes: what is compared needs to be the same for all."""
    seconds: float
    """From the start of all members to the end, without waiting."""
    ended_at: float


class History:
    """Finished runs, as an index that costs the same however many there were."""

    def __init__(self) -> None:
        self._similar: dict[tuple[str, str, Hashable], deque[float]] = {}
        self._by_size: dict[int, deque[float]] = {}
        self._all: deque[float] = deque(maxlen=GENERAL_RUNS)
        self._general: dict[int | None, float] = {}

    def add(self, run: Finished) -> None:
        """Learns from one more run; they are told in the order in which they ended."""
        key = (run.team, run.user, run.kind)
        last = self._similar.pop(key, None)  # to the end of the dictionary: it is the one that was told of last
        if last is None:
            last = deque(maxlen=SIMILAR_RUNS)
            if len(self._similar) >= KINDS:
                del self._similar[next(iter(self._similar))]
        self._similar[key] = last
        last.append(run.seconds)
        self._by_size.setdefault(_size_class(run.size), deque(maxlen=GENERAL_RUNS)).append(run.seconds)
        self._all.append(run.seconds)
        self._general.clear()

    def expect(self, user: str, team: str, kind: Hashable, size: int, limit_seconds: float | None) -> Expectation:
        """How long a run will take that has not begun; at least a second."""
        similar = self._similar.get((team, user, kind))
        if similar:
            longest = max(similar)
            return Expectation(max(1.0, min(longest, limit_seconds or longest)), Source.SIMILAR)
        if limit_seconds:
            return Expectation(max(1.0, limit_seconds), Source.LIMIT)
        general = self._in_general(_size_class(size))
        if general is None:
            return Expectation(UNKNOWN_SECONDS, Source.UNKNOWN)
        return Expectation(max(1.0, general), Source.GENERAL)

    def _in_general(self, size_class: int) -> float | None:
        known = self._by_size.get(size_class, ())
        if len(known) < ENOUGH:
            known, key = self._all, None
        else:
            key = size_class
        if len(known) < ENOUGH:
            return None
        if key not in self._general:
            self._general[key] = float(np.quantile(np.array(known), GENERAL_QUANTILE))
        return self._general[key]


def endless() -> Expectation:
    """Of a service: it takes its place in the queue as a run that nothing is known about, and is never waited for."""
    return Expectation(UNKNOWN_SECONDS, Source.ENDLESS)


def remaining(whole: Expectation, ran_seconds: float, limit_seconds: float | None) -> Expectation:
    """What is expected from now on of a run that has run for so long already; at least a second."""
    if whole.source is Source.ENDLESS or not ran_seconds:
        return whole
    now = corrected(whole, ran_seconds, limit_seconds)
    return Expectation(max(1.0, now.seconds - ran_seconds), now.source)


def corrected(before: Expectation, elapsed_seconds: float, limit_seconds: float | None) -> Expectation:
    """What is expected of a run that has run for so long already: it is not over, so what was expected may be wrong."""
    if elapsed_seconds < before.seconds:
        return before
    if limit_seconds and elapsed_seconds < limit_seconds:
        return Expectation(limit_seconds, Source.CORRECTED)
    longer = max(before.seconds, limit_seconds or 0.0)
    while longer <= elapsed_seconds:
        longer *= 2
    return Expectation(longer, Source.CORRECTED)


def _size_class(size: int) -> int:
    """1, 2, 3-4, 5-8, …"""
    return max(0, size - 1).bit_length()
