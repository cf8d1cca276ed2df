"""The health of a run's members, from what their kubelets report about the Pods' readiness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.types import HealthPace, Member, MemberState, Run
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.health import RunHealth
from kajitori.core.spec.status_parts.members import NOTABLE_LIMIT


class HealthStatus(StrEnum):
    """Docker's words for the health of a container."""

    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


class MemberHealth(NamedTuple):
    """The health of one member, the time since which it holds, and the time at which it changes by itself."""

    status: HealthStatus
    since: datetime | None = None
    changes_at: datetime | None = None


def member_health(pace: HealthPace, member: Member, now: datetime) -> MemberHealth | None:
    """Return the health of a member; None if its program does not run.

    Kubelets report neither failures before the first success, nor why a member is not ready. A member that became
    unready after its program was started, and not sooner than the retries take, was healthy before. One that never was
    healthy is unhealthy once its patience is over.
    """
    started = parse_time(member.started_at)
    if member.state is not MemberState.RUNNING or member.terminating or started is None:
        return None
    changed = parse_time(member.ready_since)
    if member.ready:
        return MemberHealth(HealthStatus.HEALTHY, changed or started)
    if changed is not None and changed >= started + timedelta(seconds=pace.failing_seconds):
        return MemberHealth(HealthStatus.UNHEALTHY, changed)
    late = started + timedelta(seconds=pace.patience_seconds)
    if now >= late:
        return MemberHealth(HealthStatus.UNHEALTHY, late)
    return MemberHealth(HealthStatus.STARTING, changes_at=late)


def note_health(
    run: Run, status: RunStatus, members: Sequence[Member], now: datetime
) -> tuple[RunStatus, datetime | None]:
    """Return the status with the members' health, and the time at which that changes if no Pod does."""
    if run.health is None:
        return msgspec.structs.replace(status, health=None) if status.health is not None else status, None
    newest: dict[int, Member] = {}
    for member in members:
        if member.rank not in newest or member.attempt > newest[member.rank].attempt:
            newest[member.rank] = member
    found = {
        rank: known
        for rank, member in sorted(newest.items())
        if (known := member_health(run.health, member, now)) is not None
    }
    if status.phase.is_final or not found:
        return msgspec.structs.replace(status, health=None), None
    wanted = len(found) if run.sweep is not None else run.replicas if run.fewest is None else len(newest)
    health = _summary(found, wanted, run.status.health)
    changes = [one.changes_at for one in found.values() if one.changes_at is not None]
    return with_health(status, health), min(changes, default=None)


def with_health(status: RunStatus, health: RunHealth) -> RunStatus:
    """Return the status with this health. A run that runs and is unhealthy says so in its message."""
    says_so = health.unhealthy and status.phase is Phase.RUNNING and status.reason is Reason.NONE
    message = health.describe(status.members.total) if says_so else status.message
    return msgspec.structs.replace(status, health=health, message=message)


def _summary(found: Mapping[int, MemberHealth], wanted: int, before: RunHealth | None) -> RunHealth:
    """Return the health of all members together; `wanted` is the number of members that should run."""
    unhealthy = [rank for rank, one in found.items() if one.status is HealthStatus.UNHEALTHY]
    healthy = sum(one.status is HealthStatus.HEALTHY for one in found.values())
    since: datetime | None = None
    if unhealthy:
        status, since = HealthStatus.UNHEALTHY, min(_times(found[rank] for rank in unhealthy), default=None)
    elif healthy >= wanted:
        status, since = HealthStatus.HEALTHY, max(_times(found.values()), default=None)
    else:
        status = HealthStatus.STARTING
    ranks = compress_ranks(unhealthy[:NOTABLE_LIMIT]) if unhealthy else ""
    is_same = before is not None and before.ranks == ranks
    return RunHealth(
        status=status.value,
        since=format_time(since) if since is not None else "",
        healthy=healthy,
        starting=len(found) - healthy - len(unhealthy),
        unhealthy=len(unhealthy),
        ranks=ranks,
        output=before.output if before is not None and is_same else "",
    )


def _times(healths: Iterable[MemberHealth]) -> list[datetime]:
    return [one.since for one in healths if one.since is not None]
