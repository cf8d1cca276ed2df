"""What teams are guaranteed: which gangs stand within it, and which are borrowed from whoever wants his own back.

Of a team's gangs those come first that are of the highest priority, then those that run for longest. Each for which the
guaranteed amount still reaches stands within it; one for which it does not is borrowed, and takes nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kajitori.core.planner import GangRequest, eligible_nodes
from kajitori.core.preemption import Running
from kajitori.core.preemption_policy import Guarantee
from kajitori.core.snapshot import GPU, NodeTable


class Guaranteed:
    """Who holds what of his own, at one moment."""

    def __init__(self, guarantees: Sequence[Guarantee], table: NodeTable, running: Sequence[Running]) -> None:
        self._table = table
        self._guarantees = guarantees
        self._held = [0] * len(guarantees)
        self._within: set[tuple[str, int | None]] = set()
        for number, guarantee in enumerate(guarantees):
            theirs = [gang for gang in running if gang.namespace == guarantee.namespace and not gang.leaving]
            within = 0
            for gang in sorted(theirs, key=_most_theirs_first):
                gpus = self._gpus_of(gang, guarantee.gpu_type)
                self._held[number] += gpus
                if gpus and within + gpus <= guarantee.gpus:
                    within += gpus
                    self._within.add((gang.key, gang.rank))

    def is_borrowed(self, gang: Running) -> bool:
        """Whether it holds what its team is not guaranteed."""
        return (gang.key, gang.rank) not in self._within

    def covers(self, namespace: str, gang: GangRequest) -> bool:
        """Whether the team is guaranteed what this gang asks for, with all that it holds already."""
        return any(
            guarantee.namespace == namespace and held + _asked(gang) <= guarantee.gpus
            for guarantee, held in self._for(gang)
        )

    def take(self, namespace: str, gang: GangRequest) -> None:
        """The gang is about to get its nodes."""
        mine = {id(guarantee) for guarantee, _ in self._for(gang) if guarantee.namespace == namespace}
        for number, guarantee in enumerate(self._guarantees):
            if id(guarantee) in mine:
                self._held[number] += _asked(gang)

    def _for(self, gang: GangRequest) -> list[tuple[Guarantee, int]]:
        """Guarantees of what the gang asks for, and how much of each is held."""
        if not gang.member.gpus or not self._guarantees:
            return []
        gpu_type = self._type_of(gang)
        return [
            (guarantee, held)
            for guarantee, held in zip(self._guarantees, self._held, strict=True)
            if guarantee.gpu_type in (None, gpu_type)
        ]

    def _type_of(self, gang: GangRequest) -> str:
        """The type that it asks for, or the only one that it could get; empty where it may be several."""
        if gang.member.gpu_type:
            return gang.member.gpu_type
        rows = np.flatnonzero(eligible_nodes(self._table, gang.member))
        types = {self._table.nodes[row].gpu_type for row in rows.tolist()}
        return types.pop() if len(types) == 1 else ""

    def _gpus_of(self, gang: Running, gpu_type: str | None) -> int:
        of_type = gang.rows if gpu_type is None else gang.rows[self._table.type_mask(gpu_type)[gang.rows]]
        return int(of_type.size) * gang.member.gpus


def beyond(guarantees: Sequence[Guarantee], table: NodeTable) -> list[str]:
    """What the cluster, as it is, cannot keep if all teams want theirs at once. It may be meant so."""
    gpus, found = table.total[:, GPU], []
    for gpu_type in sorted({each.gpu_type for each in guarantees if each.gpu_type is not None}):
        promised = sum(each.gpus for each in guarantees if each.gpu_type == gpu_type)
        there = int(gpus[table.type_mask(gpu_type)].sum())
        if promised > there:
            found.append(f"{promised} {gpu_type} are guaranteed, and the cluster has {there}")
    promised, there = sum(each.gpus for each in guarantees), int(gpus.sum())
    if promised > there:
        found.append(f"{promised} GPUs are guaranteed in all, and the cluster has {there}")
    return found


def _most_theirs_first(gang: Running) -> tuple[float, float, str, float, int]:
    """Of the members of one sweep, those that would lose most."""
    return -gang.priority, -gang.ran_seconds, gang.key, -gang.unsaved_seconds, gang.rank or 0


def _asked(gang: GangRequest) -> int:
    return gang.member.gpus * gang.least
