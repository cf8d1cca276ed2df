"""Elastic gangs that run with fewer members than they may have: which of them are to grow now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kajitori.cluster.growable import growable, may_grow
from kajitori.cluster.view import ClusterView
from kajitori.core.placement.planner import GangRequest, MemberRequest
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.elastic import Growable, Patience
from kajitori.kube.mirror.mirror import Key
from kajitori.kube.objects import RunObject

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0


@dataclass(frozen=True, slots=True)
class Grows:
    """A gang that is to be started again with more members."""

    key: Key
    run: RunObject
    """As it was looked at."""
    fewest: int
    nodes: tuple[str, ...]
    """Of its next attempt, in rank order: those of its members first."""
    more: tuple[str, ...]
    """Those that it does not have yet."""
    member: MemberRequest


class Growing:
    """Looks for room for running elastic gangs. It remembers since when there is some, and nothing else."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._patience = Patience()

    @property
    def pause_seconds(self) -> float:
        """How long to wait between two looks."""
        patience = self._cluster.policy.elastic.grow_after_seconds
        return min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, patience / 4))

    def is_needed(self) -> bool:
        """Whether any gang could grow if there was room."""
        return self._cluster.policy.elastic.grow and bool(self._candidates())

    def look(self, state: Snapshot, waiting: Sequence[GangRequest], now: datetime) -> list[Grows]:
        """Those that grow now. state: what is used, and what is promised to somebody. waiting: all that want nodes."""
        found = ((key, run, growable(self._cluster, run, now)) for key, run in self._candidates())
        gangs = {each.gang.key: (key, run, each) for key, run, each in found if each is not None}
        order = sorted((each for _, _, each in gangs.values()), key=_first)
        grows = []
        for placement in self._patience.due(state, order, waiting, self._cluster.policy.elastic, now):
            key, run, before = gangs[placement.key]
            more = placement.nodes[len(before.nodes) :]
            grows.append(Grows(key, run, before.gang.least, placement.nodes, more, before.gang.member))
        return grows

    def put_off(self, key: Key) -> None:
        """This gang can't grow now after all: the time for which there has been room begins anew."""
        self._patience.forget("/".join(key))

    def _candidates(self) -> list[tuple[Key, RunObject]]:
        """Return the gangs that would grow if there was room."""
        specs = self._cluster.specs
        return [
            ((run.metadata.namespace, run.metadata.name), run)
            for run in self._cluster.occupancy.begun()
            if may_grow(run, specs.of(run))
        ]


def _first(each: Growable) -> tuple[int, str, str]:
    """Whoever waits for longest, by the queue's own times, comes first among equals in priority."""
    return -each.gang.priority, each.gang.queued_at, each.gang.key
