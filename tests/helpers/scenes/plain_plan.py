"""The simplest planner without reservations. Tests compare the real planner with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kajitori.core.placement.planner import GangRequest, Placement, Shortage, occupy, place
from kajitori.core.placement.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Plan:
    placements: tuple[Placement, ...]
    shortages: tuple[Shortage, ...]


def plan(snapshot: Snapshot, queue: Iterable[GangRequest]) -> Plan:
    """Place the gangs on free nodes, one after the other. The snapshot is not changed.

    A gang that does not fit takes nothing, and later gangs may start before it. What it lacks is computed once all
    gangs have been tried.
    """
    state = snapshot.copy()
    placements: list[Placement] = []
    left: list[GangRequest] = []
    for gang in queue:
        chosen = place(state, gang)
        if isinstance(chosen, Shortage):
            left.append(gang)
            continue
        placements.append(chosen)
        occupy(state, gang.member, chosen.nodes)
    shortages = (place(state, gang) for gang in left)
    return Plan(tuple(placements), tuple(each for each in shortages if isinstance(each, Shortage)))
