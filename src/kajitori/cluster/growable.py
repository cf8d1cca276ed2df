"""Elastic gangs that run with fewer members than they may have, as the mirror shows them: for whoever asks."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kajitori.cluster.view import ClusterView
from kajitori.core import gang
from kajitori.core.placement.planner import GangRequest
from kajitori.core.queue.elastic import Growable
from kajitori.core.spec.reasons import Phase
from kajitori.core.words.times import parse_time
from kajitori.errors import InvalidInput
from kajitori.kube.objects import RunObject


class Size(msgspec.Struct, rename="camel"):
    """What of a stored spec says how many members it may have."""

    replicas: int = 1
    min_replicas: int | None = None
    stopped: bool = False

    @property
    def is_elastic(self) -> bool:
        """It may have fewer members than it asks for."""
        return 0 < (self.min_replicas or 0) < self.replicas


def size_of(run: RunObject) -> Size:
    """The size of a stored Run; one member where its spec can't be read."""
    try:
        return msgspec.json.decode(run.spec, type=Size)
    except msgspec.DecodeError:
        return Size()


def may_grow(run: RunObject, size: Size) -> bool:
    """Whether all of its members run, fewer than it asks for, and nobody wants anything else of it."""
    status = run.status
    if status is None or status.phase is not Phase.RUNNING or status.reason or run.metadata.deletion_timestamp:
        return False
    if status.attempt is None or status.resize is not None or status.gives_way is not None:
        return False
    if size.stopped or not size.is_elastic:
        return False
    return status.members.running == status.attempt.world_size < size.replicas


def growable(cluster: ClusterView, run: RunObject, now: datetime) -> Growable | None:
    """A gang that may grow, as the planner takes it; None where policy refuses it now: then it goes on as it is."""
    status = run.status
    started = parse_time(status.attempt.started_at) if status is not None and status.attempt is not None else None
    try:
        spec, decision = cluster.decide(run)
    except InvalidInput:
        return None
    if status is None or status.attempt is None or spec.fewest is None or started is None:
        return None
    nodes = gang.node_by_rank(status.attempt)
    request = GangRequest(
        key=f"{run.metadata.namespace}/{run.metadata.name}",
        member=decision.request,
        ranks=tuple(range(spec.replicas)),
        priority=decision.priority,
        queued_at=status.queued_at,
        fewest=spec.fewest,
    )
    where = tuple(nodes[rank] for rank in sorted(nodes))
    return Growable(cluster.barred()(request), where, (now - started).total_seconds())
