"""The amounts that members of an attempt hold, for the usage ledger."""

from __future__ import annotations

from datetime import datetime

from kajitori.cluster.runs.stored_runs import member_of_template
from kajitori.cluster.view import ClusterView
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.usage import Amounts
from kajitori.core.usage.ledger import open_attempt
from kajitori.core.usage.lost_time.slices import NO_CHECKPOINT, NOT_DECLARED, NOTHING_TO_LOSE


def saves_every(spec: RunSpec) -> int:
    """Return the interval between a run's checkpoints, as the usage ledger stores it (see `core.usage.lost_time`)."""
    if spec.type != "batch":
        return NOTHING_TO_LOSE
    if spec.checkpoint is None:
        return NO_CHECKPOINT
    return spec.checkpoint.every_seconds or NOT_DECLARED


def begin_usage(
    status: RunStatus, cluster: ClusterView, now: datetime, *, saves_every: int = NOT_DECLARED
) -> RunStatus:
    """Return the status of an attempt that was just planned, with its members in the usage ledger."""
    attempt = status.attempt
    if attempt is None:
        return status
    table = cluster.table()
    member = member_of_template(attempt, cluster.policy.gpu.resource)
    amounts = Amounts(gpus=member.gpus, cpu_millis=member.cpu_millis, memory_bytes=member.memory_bytes)

    def type_of(node: str) -> str:
        if member.gpu_type:
            return member.gpu_type
        row = table.index.get(node)
        return table.nodes[row].gpu_type if row is not None else ""

    return open_attempt(status, amounts, type_of, now, saves_every=saves_every)


def adopt_usage(status: RunStatus, cluster: ClusterView, now: datetime) -> RunStatus:
    """Return the status with a usage ledger if it has an attempt but no ledger, since an earlier version of Kajitori
    planned the attempt. Any other status is returned unchanged."""
    attempt = status.attempt
    if attempt is None or status.usage is not None or status.phase.is_final or not attempt.template:
        return status
    return begin_usage(status, cluster, now)
