"""Elastic gangs: the nodes that one may grow into, and the nodes that are kept for one between two attempts.

An attempt has a fixed size. A gang grows, or continues smaller after a loss, by ending its attempt and starting the
next one on nodes that were chosen before. These are kept for it meanwhile (`core.spec.status.Resize`), so that no gang
loses its nodes by growing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from kajitori.core.placement.choosing import choose
from kajitori.core.placement.planner import GangRequest, Placement, leftover_of, nodes_for, occupy, room_of
from kajitori.core.placement.snapshot import Counts, Mask, NodeTable, Snapshot
from kajitori.core.policy.runs.elastic import Elastic


@dataclass(frozen=True, slots=True)
class Growable:
    """An elastic gang that runs with fewer members than it may have."""

    gang: GangRequest
    """Its request, as if it asked for all of its members."""
    nodes: tuple[str, ...]
    """Nodes of its members, in rank order."""
    ran_seconds: float
    """Time since all of its members ran."""


def place_on_kept_nodes(state: Snapshot, gang: GangRequest, kept: Sequence[str]) -> Placement | None:
    """Return the gang's placement on those of its kept nodes that take its members now; None if they are too few.
    state: the usage by everything else.
    """
    table = state.table
    room = room_of(state, gang.member, _usable_nodes(table, gang))
    nodes = []
    for name in kept[: len(gang.ranks)]:
        row = table.index.get(name)
        if row is not None and room[row] > 0:
            room[row] -= 1
            nodes.append(name)
    if len(nodes) < gang.least:
        return None
    return Placement(gang.key, gang.ranks[: len(nodes)], tuple(nodes))


def larger_placement(
    state: Snapshot, gang: GangRequest, nodes: Sequence[str], waiting: Iterable[GangRequest]
) -> Placement:
    """Return the gang's placement on these nodes and on as many more as it may have. Its members stay on their nodes.

    It takes no node that a waiting gang could use, unless that gang has a lower priority or would not even fit into an
    empty cluster. state: the usage, these nodes included.
    """
    table = state.table
    room = room_of(state, gang.member, _usable_nodes(table, gang) & ~_nodes_wanted_by_others(table, gang, waiting))
    more = min(len(gang.ranks) - len(nodes), int(room.sum()))
    if more <= 0:
        return Placement(gang.key, gang.ranks[: len(nodes)], tuple(nodes))
    own = np.unique(np.array([table.index[name] for name in nodes if name in table.index], dtype=np.int64))
    rows: Counts = choose(room, more, table.domain_levels, leftover_of(state), own)
    names = (*nodes, *(table.nodes[row].name for row in rows.tolist()))
    return Placement(gang.key, gang.ranks[: len(names)], names)


class GrowthTimer:
    """Measures for how long each gang has had room to grow. A new leader begins to measure again, so gangs grow later
    then.
    """

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def forget(self, key: str) -> None:
        """Measure from now on for this gang."""
        self._since.pop(key, None)

    def due(
        self, state: Snapshot, gangs: Iterable[Growable], waiting: Sequence[GangRequest], rules: Elastic, now: datetime
    ) -> tuple[Placement, ...]:
        """Return the larger placements of the gangs that grow now; earlier gangs choose first. `state` is not
        changed."""
        state, seen, found = state.copy(), {}, []
        for growable in gangs if rules.grow else ():
            placement = larger_placement(state, growable.gang, growable.nodes, waiting)
            if len(placement.nodes) == len(growable.nodes):
                continue
            since = seen[growable.gang.key] = self._since.get(growable.gang.key, now)
            occupy(state, growable.gang.member, placement.nodes[len(growable.nodes) :])
            waited = now - since >= timedelta(seconds=rules.grow_after_seconds)
            if waited and growable.ran_seconds >= rules.minimum_run_seconds:
                found.append(placement)
        self._since = seen
        return tuple(found)


def _usable_nodes(table: NodeTable, gang: GangRequest) -> Mask:
    return nodes_for(table, gang) & table.usable_by(gang.member.tolerations)


def _nodes_wanted_by_others(table: NodeTable, gang: GangRequest, waiting: Iterable[GangRequest]) -> Mask:
    """Return the nodes that a waiting gang could use."""
    wanted = np.zeros(len(table), dtype=bool)
    nothing_runs = Snapshot.empty(table)
    seen: set[tuple[int, frozenset[str], int]] = set()
    for other in waiting:
        shape = id(other.member), other.avoid, other.least
        if other.key == gang.key or other.priority < gang.priority or shape in seen:
            continue
        seen.add(shape)
        usable = _usable_nodes(table, other)
        if int(room_of(nothing_runs, other.member, usable).sum()) >= other.least:
            wanted |= usable
    return wanted
