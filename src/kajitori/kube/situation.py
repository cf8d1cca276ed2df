"""The cluster with everybody who is on it, as `core.freeing` and `core.what_if` take it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kajitori.core.backfill import Ending, Queued
from kajitori.core.freeing import Occupant, Situation, StepKind
from kajitori.core.planner import MemberRequest, occupy
from kajitori.kube.cluster import ClusterView
from kajitori.kube.mirror import Mirror
from kajitori.kube.objects import Pod
from kajitori.kube.usage import is_alone

_COME_BACK = ("DaemonSet", "Node")
"""Pods of these are made again at once where they were."""


@dataclass(slots=True)
class _Parts:
    """What one run or Pod takes, Pod by Pod."""

    kind: StepKind
    rows: list[int] = field(default_factory=list)
    amounts: list[tuple[int, int, int, int]] = field(default_factory=list)
    alone: list[bool] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)


def situation(
    mirror: Mirror,
    cluster: ClusterView,
    queue: Sequence[Queued],
    endings: Iterable[tuple[str, Ending]],
    now: float,
    *,
    asked: str = "",
) -> Situation:
    """What the next cycle will decide by. queue: all that wait, in order; endings: by `namespace/name` of the run;
    asked: the run that is asked about, whose members are each by itself."""
    snapshot = cluster.snapshot()
    for promise in cluster.promises():
        occupy(snapshot, promise.member, promise.nodes)
    policy = cluster.policy.queue
    return Situation(
        snapshot,
        queue,
        occupants(mirror, cluster, endings, asked=asked),
        now,
        reserve=policy.reservations,
        likely=policy.likely,
    )


def occupants(
    mirror: Mirror, cluster: ClusterView, endings: Iterable[tuple[str, Ending]] = (), *, asked: str = ""
) -> list[Occupant]:
    """Everybody who takes something of a node and whose going would free it, by rows of the cluster's table."""
    index, resource = cluster.table().index, cluster.policy.gpu.resource
    found: dict[str, _Parts] = {}
    own: dict[int, list[str]] = {}
    """Members of the run that is asked about, by row."""

    def note(pod: Pod, row: int) -> None:
        usage, member = mirror.usage_of_pod(pod), pod.member if pod.run_uid else None
        key = f"{pod.metadata.namespace}/{member.run if member is not None else pod.metadata.name}"
        kind = StepKind.RUN if member is not None else StepKind.POD
        if key == asked:
            key, kind = f"{pod.metadata.namespace}/{pod.metadata.name}", StepKind.MEMBER
            own.setdefault(row, []).append(key)
        parts = found.setdefault(key, _Parts(kind))
        parts.rows.append(row)
        parts.amounts.append((usage.cpu_millis, usage.memory_bytes, usage.other(resource), 1))
        parts.alone.append(member is not None and is_alone(pod))

    for pod in mirror.pods.values():
        row = index.get(pod.spec.node_name)
        if row is None or pod.is_finished:
            continue
        controller = pod.metadata.controller
        if controller is None or controller.kind not in _COME_BACK:
            note(pod, row)
    for pod in mirror.nominated():
        row = index.get(pod.status.nominated_node_name)
        if row is not None:
            note(pod, row)
    for promise in cluster.promises():
        _add_promise(
            found.setdefault(promise.run, _Parts(StepKind.RUN)), promise.member, [index[n] for n in promise.nodes]
        )
    for key, ending in endings:
        if key == asked:
            _divide(ending, own, found)
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
        )
        for key, parts in found.items()
    ]


def _divide(ending: Ending, own: dict[int, list[str]], found: dict[str, _Parts]) -> None:
    """Each member has its part of an ending of all."""
    for row in ending.rows.tolist():
        if own.get(row):
            found[own[row].pop()].endings.append(Ending(ending.member, np.array([row], dtype=np.int64), ending.ends_at))


def _add_promise(parts: _Parts, member: MemberRequest, rows: Sequence[int]) -> None:
    parts.rows += rows
    parts.amounts += [(member.cpu_millis, member.memory_bytes, member.gpus, 1)] * len(rows)
    parts.alone += [member.alone] * len(rows)
