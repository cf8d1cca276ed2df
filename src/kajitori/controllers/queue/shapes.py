"""The first runs of each shape in a long queue. Only these may start soon, so a partial cycle looks at no others."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence

from kajitori.core.placement.planner import MemberRequest
from kajitori.core.queue.waiting import WaitingRun

Shape = tuple[MemberRequest, frozenset[str]]
"""The request for each member, and the nodes that the gang avoids: if one does not fit, a larger one does not
either."""


class QueueByShape:
    """All waiting runs by shape, each group in the order of the last full cycle."""

    def __init__(self) -> None:
        self._groups: dict[Shape, list[tuple[int, int, WaitingRun]]] = {}
        """Sorted by priority, then by place."""
        self._latest = itertools.count(1 << 62)

    def replace(self, queue: Sequence[WaitingRun]) -> None:
        """Take over all waiting runs, in order."""
        self._groups = {}
        for place, run in enumerate(queue):
            self._groups.setdefault(_shape_of(run), []).append((-run.gang.priority, place, run))

    def add(self, run: WaitingRun) -> None:
        """Add a run that was submitted since, behind all runs of its priority."""
        entry = (-run.gang.priority, next(self._latest), run)
        bisect.insort(self._groups.setdefault(_shape_of(run), []), entry)

    def first_of_each(self, still_waits: Callable[[WaitingRun], bool], limit: int) -> list[WaitingRun]:
        """Return, of each shape, the first `limit` runs that still wait, all in order. Forget the runs before them that
        do not wait any more."""
        found = []
        for shape, group in list(self._groups.items()):
            taken: list[tuple[int, int, WaitingRun]] = []
            seen = 0
            for entry in group:
                if len(taken) == limit:
                    break
                seen += 1
                if still_waits(entry[2]):
                    taken.append(entry)
            group[:seen] = taken
            if not group:
                del self._groups[shape]
            found += taken
        found.sort(key=lambda entry: entry[:2])
        return [run for _, _, run in found]


def _shape_of(run: WaitingRun) -> Shape:
    return run.gang.member, run.gang.avoid
