"""Guarantees of teams: which running gangs are within their team's guarantee, and which use borrowed capacity. A
guarantee applies to gangs if it names their scarce resource: GPUs if the members ask for some, else whole nodes if they
share them with no other run, else cores or memory. It counts all amounts that it names.

A team's gangs are counted by priority, the highest first, then by running time, the longest first. A gang for which the
guaranteed amounts still suffice is within the guarantee. Any other gang is borrowed and uses up none of the guarantee.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import add

import numpy as np

from kajitori.core.formats.quantities import round_memory
from kajitori.core.kubernetes.taints import Toleration
from kajitori.core.placement.planner import CpuRunsOnGpuNodes, GangRequest, MemberRequest, eligible_nodes
from kajitori.core.placement.snapshot import PODS, Mask, NodeTable
from kajitori.core.policy.queue.preemption import Guarantee
from kajitori.core.queue.victims import RunningGang

Amounts = tuple[int, ...]
"""Millicores, bytes, GPUs, whole nodes, as `Guarantee.amounts` has them."""

_NOTHING: Amounts = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Holding:
    """A guarantee and its team's use of the guaranteed resources, for reports."""

    guarantee: Guarantee
    held: Amounts
    within: Amounts
    """The part of `held` that is within the guarantee; the rest is borrowed."""


@dataclass(slots=True)
class _GuaranteeUse:
    """A guarantee and its team's use of the guaranteed resources, while gangs are being counted."""

    guarantee: Guarantee
    amounts: Amounts = _NOTHING
    within: Amounts = _NOTHING
    """The part of `amounts` that is within the guarantee."""

    def covers(self, more: Amounts) -> bool:
        """Whether the team stays within the guarantee if it gets these amounts in addition."""
        return _is_within(_add_amounts(self.amounts, more), self.guarantee)


@dataclass(slots=True)
class _Team:
    """A team's guarantees and its running gangs."""

    guarantees: list[_GuaranteeUse] = field(default_factory=list)
    running: list[RunningGang] = field(default_factory=list)


class Guaranteed:
    """The guarantees of all teams, and their use at one moment."""

    def __init__(self, guarantees: Sequence[Guarantee], table: NodeTable, running: Iterable[RunningGang]) -> None:
        self._table = table
        self._teams: dict[str, _Team] = defaultdict(_Team)
        self._within: set[tuple[str, int | None]] = set()
        for guarantee in guarantees:
            self._teams[guarantee.namespace].guarantees.append(_GuaranteeUse(guarantee))
        for gang in running:
            if gang.namespace in self._teams and not gang.leaving:
                self._teams[gang.namespace].running.append(gang)
        for team in self._teams.values():
            team.running.sort(key=_guarantee_order)
            for held in team.guarantees:
                self._count_running(held, team.running)

    def _count_running(self, held: _GuaranteeUse, running: Iterable[RunningGang]) -> None:
        for gang in running:
            amounts = self._held_by(gang, held.guarantee)
            held.amounts = _add_amounts(held.amounts, amounts)
            if any(amounts) and _is_within(_add_amounts(held.within, amounts), held.guarantee):
                held.within = _add_amounts(held.within, amounts)
                self._within.add((gang.key, gang.rank))

    def holdings(self) -> list[Holding]:
        """Return what each team holds of each of its guarantees, in policy's order of teams."""
        return [
            Holding(held.guarantee, held.amounts, held.within) for t in self._teams.values() for held in t.guarantees
        ]

    def is_borrowed(self, gang: RunningGang) -> bool:
        """Whether a gang holds more than its team is guaranteed."""
        return (gang.key, gang.rank) not in self._within

    def covers(self, namespace: str, gang: GangRequest) -> bool:
        """Whether the team's guarantee covers this gang in addition to everything that the team holds already."""
        return any(held.covers(_smallest_amounts(gang)) for held in self._applying_to(namespace, gang))

    def take(self, namespace: str, gang: GangRequest) -> None:
        """Count a gang that is about to get its nodes."""
        for held in self._applying_to(namespace, gang):
            held.amounts = _add_amounts(held.amounts, _smallest_amounts(gang))

    def _applying_to(self, namespace: str, gang: GangRequest) -> Iterator[_GuaranteeUse]:
        """Yield the team's guarantees that apply to this gang."""
        team = self._teams.get(namespace)
        if team is None:
            return
        gpu_type: str | None = None
        for held in team.guarantees:
            if not self._applies_to_members(held.guarantee, gang.member):
                continue
            if held.guarantee.gpu_type is not None and gpu_type is None:
                gpu_type = self._type_of(gang)
            if held.guarantee.gpu_type in (None, gpu_type):
                yield held

    def _type_of(self, gang: GangRequest) -> str:
        """Return the GPU type that the gang asks for, or the only one that it could get; empty if there are several."""
        if gang.member.gpu_type:
            return gang.member.gpu_type
        rows = np.flatnonzero(eligible_nodes(self._table, gang.member))
        types = {self._table.nodes[row].gpu_type for row in rows.tolist()}
        return types.pop() if len(types) == 1 else ""

    def _applies_to_members(self, guarantee: Guarantee, member: MemberRequest) -> bool:
        """Whether a guarantee applies to such members. A guarantee that names no GPU type applies to whole GPUs."""
        if member.gpus and member.gpu_type in self._table.gpu_columns and guarantee.gpu_type != member.gpu_type:
            return False
        return guarantee.covers(gpus=member.gpus, alone=member.alone)

    def _held_by(self, gang: RunningGang, guarantee: Guarantee) -> Amounts:
        """Return what a gang holds of the resources of a guarantee; if it names a GPU type, on nodes of that type."""
        if not self._applies_to_members(guarantee, gang.member):
            return _NOTHING
        rows = gang.rows
        if guarantee.gpu_type is not None and guarantee.gpu_type not in self._table.gpu_columns:
            rows = rows[self._table.type_mask(guarantee.gpu_type)[rows]]
        nodes = len(set(rows.tolist())) if gang.member.alone else 0
        return _amounts(gang.member, int(rows.size), nodes)


def faults_of_guarantees(
    guarantees: Sequence[Guarantee], table: NodeTable, cpu_runs_on_gpu_nodes: CpuRunsOnGpuNodes
) -> list[str]:
    """Return texts about guarantees that exceed the present cluster if all teams claim them at once. That may be
    intended."""
    found = []
    for gpu_type in sorted({guarantee.gpu_type for guarantee in guarantees if guarantee.gpu_type is not None}):
        gpus = sum(guarantee.gpus or 0 for guarantee in guarantees if guarantee.gpu_type == gpu_type)
        of_type = int(table.total[table.type_mask(gpu_type), table.gpu_column(gpu_type)].sum())
        if gpus > of_type:
            found.append(f"{gpus} {gpu_type} are guaranteed, and the cluster has {of_type}")
    too_much = _exceeded_resources(guarantees, table, np.ones(len(table), dtype=bool))
    found += [
        f"{promised} are guaranteed in all, and the cluster has {capacity}" for promised, capacity in too_much.values()
    ]
    tolerates_all = (Toleration(operator="Exists"),)
    without_gpus = MemberRequest(0, 0, tolerations=tolerates_all, cpu_runs_on_gpu_nodes=cpu_runs_on_gpu_nodes)
    of_cpu_runs = [guarantee for guarantee in guarantees if guarantee.gpus is None]
    cpu_nodes = eligible_nodes(table, without_gpus)
    for kind, (promised, capacity) in _exceeded_resources(of_cpu_runs, table, cpu_nodes).items():
        if kind not in too_much:
            found.append(f"{promised} are guaranteed to runs without GPUs, and nodes for these have {capacity}")
    return found


def _exceeded_resources(guarantees: Sequence[Guarantee], table: NodeTable, nodes: Mask) -> dict[str, tuple[str, str]]:
    """Return, by resource, the guaranteed sum and the capacity of these nodes as texts, if the capacity is less."""
    cpu, memory, gpus = (int(total) for total in table.total[nodes].sum(axis=0)[:PODS])
    capacity = (cpu, memory, gpus, int(nodes.sum()))
    promised = _NOTHING
    for guarantee in guarantees:
        if guarantee.gpu_type in table.gpu_columns:  # partial GPUs do not count as whole ones
            continue
        promised = _add_amounts(promised, tuple(amount or 0 for amount in guarantee.amounts))
    words: dict[str, Callable[[int], str]] = {
        "cores": _cores,
        "of memory": round_memory,
        "GPUs": str,
        "whole nodes": str,
    }
    return {
        kind: (f"{written(wanted)} {kind}", written(has))
        for (kind, written), wanted, has in zip(words.items(), promised, capacity, strict=True)
        if wanted > has
    }


def _cores(cpu_millis: int) -> str:
    return f"{cpu_millis / 1000:.1f}".removesuffix(".0")


def _is_within(amounts: Amounts, guarantee: Guarantee) -> bool:
    return all(most is None or amount <= most for amount, most in zip(amounts, guarantee.amounts, strict=True))


def _amounts(member: MemberRequest, members: int, nodes: int) -> Amounts:
    return member.cpu_millis * members, member.memory_bytes * members, member.gpus * members, nodes


def _smallest_amounts(gang: GangRequest) -> Amounts:
    """Return the smallest amounts that a gang asks for. It is not known yet how many members without a memory limit
    will share a node, so each counts as a node.
    """
    return _amounts(gang.member, gang.least, gang.least if gang.member.alone else 0)


def _add_amounts(one: Amounts, other: Amounts) -> Amounts:
    return tuple(map(add, one, other))


def _guarantee_order(gang: RunningGang) -> tuple[float, float, str, float, int]:
    """Return a sort key: priority, running time, and among members of one sweep the largest loss first."""
    return -gang.priority, -gang.ran_seconds, gang.key, -gang.unsaved_seconds, gang.rank or 0
