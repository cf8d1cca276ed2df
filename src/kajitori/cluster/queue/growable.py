"""Elastic gangs that run with fewer members than they may have, as the mirror shows them."""

from __future__ import annotations

from datetime import datetime

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.core import gang
from kajitori.core.formats.times import parse_time
from kajitori.core.placement.planner import GangRequest
from kajitori.core.queue.elastic import Growable
from kajitori.core.spec.reading.stored import StoredSpec
from kajitori.core.spec.reasons import Phase
from kajitori.errors import InvalidInput


def may_grow(run: RunObject, spec: StoredSpec) -> bool:
    """Whether an elastic gang runs with fewer members than it asks for, all of them run, and nothing else is to happen
    to it."""
    status = run.status
    if status is None or status.phase is not Phase.RUNNING or status.reason or run.metadata.deletion_timestamp:
        return False
    if status.attempt is None or status.resize is not None or status.preemption is not None:
        return False
    if spec.stopped or not spec.is_elastic:
        return False
    return status.members.running == status.attempt.world_size < spec.replicas


def growable(cluster: ClusterView, run: RunObject, now: datetime) -> Growable | None:
    """Return a gang that may grow as the planner takes it; None if policy refuses it now: then it keeps its size."""
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
