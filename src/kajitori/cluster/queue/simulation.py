"""Everything that runs on the cluster at one moment, as the input of `core.queue.freeing` and `core.queue.what_if`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kajitori.cluster.mirror.usage import is_alone, pod_usage
from kajitori.cluster.objects import Pod
from kajitori.cluster.occupancy.entries import Promise, RunOccupancy
from kajitori.cluster.occupancy.usage import requested_gpus
from kajitori.cluster.view import ClusterView
from kajitori.core.naming import names
from kajitori.core.placement.planner import MemberRequest, occupy
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import NodeTable, Snapshot
from kajitori.core.queue.freeing import Occupant, Simulation, StepKind
from kajitori.core.queue.waiting import WaitingRun

_MADE_AGAIN = ("DaemonSet", "Node")
"""Kinds of controllers that make their Pods again at once on the same node."""


@dataclass(slots=True)
class _Parts:
    """The Pods of one run or one foreign Pod, as lists."""

    kind: StepKind
    sweep: str = ""
    rows: list[int] = field(default_factory=list)
    amounts: list[list[int]] = field(default_factory=list)
    alone: list[bool] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FrozenCluster:
    """A copy of the facts in the mirror at one moment. It stays the same while the mirror changes."""

    snapshot: Snapshot
    """Usage by Pods and by runs that start."""
    runs: Sequence[RunOccupancy]
    foreign_pods: Sequence[tuple[Pod, str]]
    """Pods that belong to no run, with their nodes."""
    promises: Sequence[Promise]
    endings: Sequence[tuple[str, Ending]]
    """Expected ends, by `namespace/name` of the run."""
    gpu_resource: str
    gpus_by_devices: Mapping[str, Mapping[str, int]]
    """GPUs by type, by the Pod's UID; only of Pods with devices of dynamic resource allocation."""
    reserve: bool
    likely: float
    now: float

    async def simulation(
        self, queue: Sequence[WaitingRun], *, asked: str = "", used: Snapshot | None = None
    ) -> Simulation:
        """Return the input of the next cycle.

        queue: all waiting runs, in order. asked: the run that is asked about; its own members make no room for it,
        unless it is a sweep. used: the usage and the kept nodes, if they are more than the moment's snapshot has.
        """
        # Pod by Pod: on a large cluster it takes a second.
        occupants = await asyncio.to_thread(_occupants_of, self, asked)
        return Simulation(used or self.snapshot, queue, occupants, self.now, self.reserve, self.likely)


def frozen_cluster(cluster: ClusterView, endings: Iterable[tuple[str, Ending]], now: float) -> FrozenCluster:
    """Return the present facts of the mirror."""
    occupancy, policy = cluster.occupancy, cluster.policy
    snapshot, promises = occupancy.used(), tuple(occupancy.promises())
    for promise in promises:
        occupy(snapshot, promise.member, promise.nodes)
    return FrozenCluster(
        snapshot,
        tuple(occupancy.runs()),
        occupancy.foreign_pods(),
        promises,
        list(endings),
        policy.gpu.resource,
        occupancy.gpus_by_devices(),
        policy.queue.reservations,
        policy.queue.likely,
        now,
    )


def _occupants_of(frozen: FrozenCluster, asked: str) -> list[Occupant]:
    """Return every run, sweep member and foreign Pod with resources that its end would free. The run `asked` is not
    among them, unless it is a sweep."""
    collected = _Collected(frozen, asked)
    collected.add_foreign_pods()
    collected.add_bound_members()
    collected.add_promises()
    collected.add_endings()
    return collected.occupants()


class _Collected:
    """Occupants, collected step by step. A member of a sweep is an occupant of its own, every other run is one."""

    def __init__(self, frozen: FrozenCluster, asked: str) -> None:
        self._frozen = frozen
        self._asked = asked
        self._table = frozen.snapshot.table
        self._sweeps = {held.key for held in frozen.runs if held.is_sweep and held.is_begun}
        self._found: dict[str, _Parts] = {}
        """By the name of a run, a member or a Pod, with its namespace."""
        self._members_of_sweeps: dict[tuple[str, int], list[str]] = {}
        """Names of members, by their run and row."""

    def add_foreign_pods(self) -> None:
        """Add Pods of no run, unless their controller makes them again at once."""
        for pod, node in self._frozen.foreign_pods:
            controller, meta = pod.metadata.controller, pod.metadata
            if controller is None or controller.kind not in _MADE_AGAIN:
                parts = self._found.setdefault(f"{meta.namespace}/{meta.name}", _Parts(StepKind.POD))
                self._add_pod(parts, pod, self._table.index[node], alone=False)

    def add_bound_members(self) -> None:
        """Add the Pods of runs that are bound to a node."""
        for held in self._frozen.runs:
            for pod in held.bound:
                row = self._table.index.get(pod.spec.node_name)
                if row is None:
                    continue
                if held.key in self._sweeps:
                    parts = self._sweep_member(held.key, f"{pod.metadata.namespace}/{pod.metadata.name}", row)
                elif held.key == self._asked:
                    continue
                else:
                    parts = self._found.setdefault(held.key, _Parts(StepKind.RUN))
                self._add_pod(parts, pod, row, alone=is_alone(pod))

    def add_promises(self) -> None:
        """Add the nodes that runs were promised, for members without a bound Pod."""
        for promise in self._frozen.promises:
            rows = [self._table.index[node] for node in promise.nodes]
            if promise.run not in self._sweeps:
                if promise.run != self._asked:
                    parts = self._found.setdefault(promise.run, _Parts(StepKind.RUN))
                    _add_promise(parts, promise.member, rows, self._table)
                continue
            namespace, _, run = promise.run.partition("/")
            for rank, row in zip(promise.ranks, rows, strict=True):
                name = f"{namespace}/{names.pod_name(run, promise.attempt, rank)}"
                _add_promise(self._sweep_member(promise.run, name, row), promise.member, [row], self._table)

    def add_endings(self) -> None:
        """Add the expected ends. Each member of a sweep gets its part of the sweep's."""
        for key, ending in self._frozen.endings:
            if key in self._sweeps:
                for row in ending.rows.tolist():
                    if members := self._members_of_sweeps.get((key, row)):
                        part = Ending(ending.member, np.array([row], dtype=np.int64), ending.ends_at)
                        self._found[members.pop()].endings.append(part)
            elif key in self._found:
                self._found[key].endings.append(ending)

    def occupants(self) -> list[Occupant]:
        """Return what was collected."""
        return [
            Occupant(
                key,
                np.array(parts.rows, dtype=np.int64),
                np.array(parts.amounts, dtype=np.int64).reshape(-1, self._table.width),
                np.array(parts.alone, dtype=bool),
                parts.kind,
                tuple(parts.endings),
                parts.sweep,
            )
            for key, parts in self._found.items()
        ]

    def _sweep_member(self, sweep: str, name: str, row: int) -> _Parts:
        self._members_of_sweeps.setdefault((sweep, row), []).append(name)
        return self._found.setdefault(name, _Parts(StepKind.MEMBER, sweep))

    def _add_pod(self, parts: _Parts, pod: Pod, row: int, *, alone: bool) -> None:
        usage, table = pod_usage(pod.spec), self._table
        amounts = [usage.cpu_millis, usage.memory_bytes, 0, 1, *([0] * len(table.gpu_columns))]
        by_devices = self._frozen.gpus_by_devices.get(pod.metadata.uid)
        if by_devices is None:
            for column, count in requested_gpus(usage, table.nodes[row], table, self._frozen.gpu_resource):
                amounts[column] = count
        else:
            for gpu_type, count in by_devices.items():
                amounts[table.gpu_column(gpu_type)] = count
        parts.rows.append(row)
        parts.amounts.append(amounts)
        parts.alone.append(alone)


def _add_promise(parts: _Parts, member: MemberRequest, rows: Sequence[int], table: NodeTable) -> None:
    parts.rows += rows
    parts.amounts += [member.amounts(table).tolist()] * len(rows)
    parts.alone += [member.alone] * len(rows)
