"""The first of each shape in a long queue: who may start soon is among them, and nobody else need be looked at."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence

from kajitori.core.placement.planner import MemberRequest
from kajitori.core.queue.backfill import Queued

Shape = tuple[MemberRequest, frozenset[str]]
"""What gangs ask for each member, and which nodes they avoid: where one does not fit, a larger one does not either."""


class Heads:
    """All that wait, by shape, each in the queue's order as of the last look at the whole of it."""

    def __init__(self) -> None:
        self._groups: dict[Shape, list[tuple[int, int, Queued]]] = {}
        """Sorted: by priority, then by place."""
        self._latest = itertools.count(1 << 62)

    def order(self, queue: Sequence[Queued]) -> None:
        """All that wait, in order."""
        self._groups = {}
        for place, queued in enumerate(queue):
            self._groups.setdefault(_shape(queued), []).append((-queued.gang.priority, place, queued))

    def add(self, queued: Queued) -> None:
        """One that came since: behind all of its priority."""
        entry = (-queued.gang.priority, next(self._latest), queued)
        bisect.insort(self._groups.setdefault(_shape(queued), []), entry)

    def take(self, waits: Callable[[Queued], bool], most: int) -> list[Queued]:
        """Of each shape the first `most` that still wait, all in order; whoever does not wait any more is forgotten."""
        found = []
        for shape, group in list(self._groups.items()):
            taken: list[tuple[int, int, Queued]] = []
            seen = 0
            for entry in group:
                if len(taken) == most:
                    break
                seen += 1
                if waits(entry[2]):
                    taken.append(entry)
            group[:seen] = taken
            if not group:
                del self._groups[shape]
            found += taken
        found.sort(key=lambda entry: entry[:2])
        return [queued for _, _, queued in found]


def _shape(queued: Queued) -> Shape:
    return queued.gang.member, queued.gang.avoid
