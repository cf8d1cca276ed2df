"""Chooses which elastic gangs that run with fewer members than they may have grow now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kajitori.cluster.mirror.mirror import Key
from kajitori.cluster.queue.growable import growable, may_grow
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.core.placement.planner import GangRequest, MemberRequest
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.elastic import Growable, GrowthTimer

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0


@dataclass(frozen=True, slots=True)
class Growth:
    """An elastic gang that starts again with more members."""

    key: Key
    run: RunObject
    """As the mirror showed it."""
    fewest: int
    nodes: tuple[str, ...]
    """Nodes of its next attempt, in rank order: the nodes of its present members come first."""
    more: tuple[str, ...]
    """Nodes that it does not have yet."""
    member: MemberRequest


class Growing:
    """Looks for free nodes for running elastic gangs. It remembers only since when each gang could grow."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._growth_timer = GrowthTimer()

    @property
    def pause_seconds(self) -> float:
        """Time between two searches."""
        patience = self._cluster.policy.elastic.grow_after_seconds
        return min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, patience / 4))

    def is_needed(self) -> bool:
        """Whether any gang could grow if there was room."""
        return self._cluster.policy.elastic.grow and bool(self._growable_runs())

    def look(self, state: Snapshot, waiting: Sequence[GangRequest], now: datetime) -> list[Growth]:
        """Return the gangs that grow now. state: the usage by Pods and by promises to runs. waiting: the requests of
        all waiting runs.
        """
        found = ((key, run, growable(self._cluster, run, now)) for key, run in self._growable_runs())
        gangs = {grown.gang.key: (key, run, grown) for key, run, grown in found if grown is not None}
        order = sorted((grown for _, _, grown in gangs.values()), key=_growing_order)
        grows = []
        for placement in self._growth_timer.due(state, order, waiting, self._cluster.policy.elastic, now):
            key, run, before = gangs[placement.key]
            more = placement.nodes[len(before.nodes) :]
            grows.append(Growth(key, run, before.gang.least, placement.nodes, more, before.gang.member))
        return grows

    def put_off(self, key: Key) -> None:
        """Note that a gang cannot grow now after all: it has to wait the whole time again."""
        self._growth_timer.forget("/".join(key))

    def _growable_runs(self) -> list[tuple[Key, RunObject]]:
        """Return the gangs that would grow if there was room."""
        specs = self._cluster.specs
        return [
            ((run.metadata.namespace, run.metadata.name), run)
            for run in self._cluster.occupancy.begun()
            if may_grow(run, specs.of(run))
        ]


def _growing_order(growable: Growable) -> tuple[int, str, str]:
    """Return a sort key: highest priority first, then the earliest submission."""
    return -growable.gang.priority, growable.gang.queued_at, growable.gang.key
