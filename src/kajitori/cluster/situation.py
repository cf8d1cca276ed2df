"""The cluster with everybody who is on it, as `core.queue.freeing` and `core.queue.what_if` take it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kajitori.cluster.view import ClusterView, Promise
from kajitori.core.placement.planner import MemberRequest, occupy
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.backfill import Queued
from kajitori.core.queue.freeing import Occupant, Situation, StepKind
from kajitori.core.words import names
from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.mirror.usage import is_alone, pod_usage
from kajitori.kube.objects import Pod

_COME_BACK = ("DaemonSet", "Node")
"""Pods of these are made again at once where they were."""


@dataclass(slots=True)
class _Parts:
    """What one run or Pod takes, Pod by Pod."""

    kind: StepKind
    sweep: str = ""
    rows: list[int] = field(default_factory=list)
    amounts: list[tuple[int, int, int, int]] = field(default_factory=list)
    alone: list[bool] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything that the mirror shows at one moment; it may change while this is looked at."""

    snapshot: Snapshot
    """What is used, and what is promised to runs that start."""
    pods: Sequence[tuple[Pod, str]]
    """With their nodes, also those that the scheduler makes room for."""
    members: Collection[Key]
    """Which of these are members of runs."""
    promises: Sequence[Promise]
    endings: Sequence[tuple[str, Ending]]
    """By `namespace/name` of the run."""
    sweeps: Collection[str]
    """`namespace/name` of those that have members: these end each for itself."""
    gpu_resource: str
    reserve: bool
    likely: float
    now: float

    async def situation(self, queue: Sequence[Queued], *, asked: str = "", used: Snapshot | None = None) -> Situation:
        """What the next cycle will decide by. queue: all that wait, in order; asked: the run that is asked about: of
        its own members only a sweep's make room by their end; used: what is used and kept, where that is more."""
        there = await asyncio.to_thread(_occupants, self, asked)  # Pod by Pod: of a large cluster it takes a second
        return Situation(used or self.snapshot, queue, there, self.now, self.reserve, self.likely)


def this_moment(mirror: Mirror, cluster: ClusterView, endings: Iterable[tuple[str, Ending]], now: float) -> Moment:
    """Everybody who is on the cluster now."""
    snapshot, promises = cluster.snapshot(), tuple(cluster.promises())
    for promise in promises:
        occupy(snapshot, promise.member, promise.nodes)
    policy, index = cluster.policy, snapshot.table.index
    bound = [(pod, pod.spec.node_name) for pod in mirror.pods.values() if pod.spec.node_name in index]
    nominated = [(pod, pod.status.nominated_node_name) for pod in mirror.nominated()]
    return Moment(
        snapshot,
        [*bound, *nominated],
        mirror.members(),
        promises,
        list(endings),
        {
            f"{run.metadata.namespace}/{run.metadata.name}"
            for run in cluster.begun.all()
            if run.status is not None and run.status.sweep is not None
        },
        policy.gpu.resource,
        policy.queue.reservations,
        policy.queue.likely,
        now,
    )


def _occupants(there: Moment, asked: str) -> list[Occupant]:
    """Everybody whose going would free something."""
    index = there.snapshot.table.index
    found: dict[str, _Parts] = {}
    apart: dict[tuple[str, int], list[str]] = {}
    """Members of sweeps, by their run and row."""
    for pod, node in there.pods:
        controller, row = pod.metadata.controller, index.get(node)
        if row is None or pod.is_finished or (controller is not None and controller.kind in _COME_BACK):
            continue
        meta = pod.metadata
        member = pod.member if (meta.namespace, meta.name) in there.members else None
        name = f"{meta.namespace}/{meta.name}"
        key = f"{meta.namespace}/{member.run}" if member is not None else name
        usage = pod_usage(pod.spec)
        if key in there.sweeps:
            parts = found[name] = _Parts(StepKind.MEMBER, key)
            apart.setdefault((key, row), []).append(name)
        elif key == asked:
            continue
        else:
            parts = found.setdefault(key, _Parts(StepKind.RUN if member is not None else StepKind.POD))
        parts.rows.append(row)
        parts.amounts.append((usage.cpu_millis, usage.memory_bytes, usage.other(there.gpu_resource), 1))
        parts.alone.append(member is not None and is_alone(pod))
    for promise in there.promises:
        rows = [index[node] for node in promise.nodes]
        if promise.run not in there.sweeps:
            if promise.run != asked:
                _add_promise(found.setdefault(promise.run, _Parts(StepKind.RUN)), promise.member, rows)
            continue
        namespace, _, run = promise.run.partition("/")
        for rank, row in zip(promise.ranks, rows, strict=True):
            name = f"{namespace}/{names.pod_name(run, promise.attempt, rank)}"
            _add_promise(found.setdefault(name, _Parts(StepKind.MEMBER, promise.run)), promise.member, [row])
            apart.setdefault((promise.run, row), []).append(name)
    for key, ending in there.endings:
        if key in there.sweeps:
            _divide(key, ending, apart, found)
        elif key in found:
            found[key].endings.append(ending)
    return [
        Occupant(
            key,
            np.array(parts.rows, dtype=np.int64),
            np.array(parts.amounts, dtype=np.int64).reshape(-1, 4),
            np.array(parts.alone, dtype=bool),
            parts.kind,
            tuple(parts.endings),
            parts.sweep,
        )
        for key, parts in found.items()
    ]


def _divide(sweep: str, ending: Ending, apart: dict[tuple[str, int], list[str]], found: dict[str, _Parts]) -> None:
    """Each member of a sweep has its part of an ending of all."""
    for row in ending.rows.tolist():
        if there := apart.get((sweep, row)):
            found[there.pop()].endings.append(Ending(ending.member, np.array([row], dtype=np.int64), ending.ends_at))


def _add_promise(parts: _Parts, member: MemberRequest, rows: Sequence[int]) -> None:
    parts.rows += rows
    parts.amounts += [(member.cpu_millis, member.memory_bytes, member.gpus, 1)] * len(rows)
    parts.alone += [member.alone] * len(rows)
