"""The health of a run's members: what follows from readiness, as kubelets report it, and from time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.helpers.scenes.gangs import NOW, PENDING, after, member, run, step

from kajitori.core.formats.times import format_time
from kajitori.core.gang import HealthPace, Member, Run
from kajitori.core.gang.status.health import member_health
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.health import RunHealth

PACE = HealthPace(failing_seconds=30, patience_seconds=100)


def at(seconds: int) -> str:
    return format_time(NOW + timedelta(seconds=seconds))


def checked(rank: int = 0, *, ready: bool = False, since: int = -5, started: int = 0, **more: Any) -> Member:
    """Return a running member whose readiness changed last this many seconds after noon."""
    return member(rank, ready=ready, ready_since=at(since), started_at=at(started), **more)


def a_run(**more: Any) -> Run:
    return replace(run(**more), health=PACE)


@pytest.mark.parametrize(
    ("subject", "after_seconds", "status", "since"),
    [
        (checked(), 99, "starting", None),
        (checked(), 100, "unhealthy", 100),
        (checked(ready=True, since=7), 500, "healthy", 7),
        (checked(since=30), 40, "unhealthy", 30),  # it was ready, and its retries are over
        (checked(since=2), 40, "starting", None),  # the first report of its kubelet came late
        (checked(since=200, started=200), 210, "starting", None),  # its program was just started again
    ],
)
def test_health_follows_from_readiness_and_time(
    subject: Member, after_seconds: int, status: str, since: int | None
) -> None:
    """Kubelets report no failure before the first success, so only time tells that none has come."""
    found = member_health(PACE, subject, NOW + timedelta(seconds=after_seconds))
    assert found is not None
    assert found.status == status
    assert found.since == (NOW + timedelta(seconds=since) if since is not None else None)


def test_what_does_not_run_has_no_health() -> None:
    """Members that are pending or ending, and runs without a check or without a member that runs."""
    assert member_health(PACE, member(0, PENDING), NOW) is None
    assert member_health(PACE, checked(terminating=True), NOW) is None
    assert step(run(), checked(0), checked(1)).status.health is None
    assert step(a_run(phase=Phase.STARTING), member(0, PENDING), member(1, PENDING)).status.health is None


def test_a_run_is_as_healthy_as_its_members() -> None:
    """One that is unhealthy counts before one that is starting."""
    gang = a_run(replicas=3)
    both = step(gang, checked(0, ready=True, since=1), checked(1, ready=True, since=4), checked(2))
    assert both.status.health == RunHealth(status="starting", healthy=2, starting=1)
    assert both.wake_at == NOW + timedelta(seconds=100)
    whole = step(gang, *(checked(rank, ready=True, since=rank) for rank in range(3)))
    assert whole.status.health == RunHealth(status="healthy", since=at(2), healthy=3)
    failing = step(gang, checked(0, since=31), checked(1, since=30), checked(2))
    assert failing.status.health == RunHealth(status="unhealthy", since=at(30), starting=1, unhealthy=2, ranks="0-1")
    assert failing.status.message == "its health check fails in 2 of 3 members (ranks 0-1)"
    late = step(gang, *(checked(rank) for rank in range(3)), at=timedelta(seconds=100))
    assert late.status.health is not None and late.status.health.unhealthy == 3 and late.wake_at is None
    assert late.status.phase is Phase.RUNNING, "health ends and restarts nothing"


def test_a_service_is_healthy_once_all_members_run() -> None:
    """While one is replaced, the run is starting; once it has ended it has no health."""
    service = a_run(type="service", replicas=2)
    missing = step(service, checked(0, ready=True, since=1)).status.health
    assert missing == RunHealth(status="starting", healthy=1)
    ended = step(replace(service, stopped=True), *())
    assert ended.status.phase is Phase.STOPPED and ended.status.health is None


def test_the_output_is_kept_until_other_members_are_unhealthy() -> None:
    subject = a_run(replicas=2)
    first = step(subject, checked(0, since=40), checked(1, ready=True, since=1))
    assert first.status.health is not None
    told = RunHealth(status="unhealthy", since=at(40), healthy=1, unhealthy=1, ranks="0", output="refused")
    subject = replace(subject, status=RunStatus(**(_fields(first.status) | {"health": told})))
    again = step(subject, checked(0, since=40), checked(1, ready=True, since=1))
    assert again.status.health == told
    assert again.status.message == "its health check fails in 1 of 2 members (rank 0): refused"
    other = step(after(subject, again), checked(0, ready=True, since=60), checked(1, since=70))
    assert other.status.health is not None and (other.status.health.ranks, other.status.health.output) == ("1", "")


def _fields(status: RunStatus) -> dict[str, Any]:
    return {name: getattr(status, name) for name in RunStatus.__struct_fields__}
