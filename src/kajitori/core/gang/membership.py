"""Decide which Pods of a run count as its members now.

A run owns a Pod if namespace and owner reference or signature prove it (`cluster.mirror.pod_index`). Anyone who may
create Pods in the namespace can write an owner reference, so ownership alone makes no member: the attempt and rank in
the Pod's name, which cannot be changed, must be ones that the run has planned.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from kajitori.core.formats.node_lists import expand, expand_ranks
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt


@dataclass(frozen=True, slots=True)
class Coverage:
    """The attempts and ranks that a run has planned."""

    attempts: range
    ranks: Container[int]

    def covers(self, attempt: int, rank: int) -> bool:
        """Return whether the Pod of this attempt and rank counts as a member."""
        return attempt in self.attempts and rank in self.ranks


NOTHING = Coverage(range(0), range(0))
_ANY_RANK = range(100_000)


def coverage(
    status: RunStatus | None, kind: Literal["batch", "service"], indices: Container[int] | None = None
) -> Coverage:
    """Return the attempts and ranks that count as members of a run with this status.

    The attempt of a gang replaces the one before. Members of services and sweeps outlive the attempt that made them, so
    all attempts so far count. `indices` are those of a sweep; None if the spec no longer has them.
    """
    if status is None or not status.attempts:
        return NOTHING
    attempt = status.attempt
    if attempt is None:  # the status was damaged or lost: only the number of the last attempt is known
        return Coverage(range(1, status.attempts + 1), _ANY_RANK)
    if status.sweep is not None:
        return Coverage(range(1, attempt.number + 1), _ANY_RANK if indices is None else indices)
    first = 1 if kind == "service" else attempt.number
    return Coverage(range(first, attempt.number + 1), _ranks_of(attempt))


def _ranks_of(attempt: Attempt) -> Container[int]:
    if attempt.world_size:
        return range(attempt.world_size)
    return _ranks_in(attempt.nodes, attempt.ranks)


@lru_cache(maxsize=1024)
def _ranks_in(nodes: str, ranks: str) -> Container[int]:
    return frozenset(expand_ranks(ranks)) if ranks else range(len(expand(nodes)))
