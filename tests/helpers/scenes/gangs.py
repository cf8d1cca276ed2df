"""Runs and members for tests of a run's life, and the times at which it is called."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from kajitori.core.gang import Limits, Member, MemberState, Run, Step, next_step
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PENDING, RUNNING, SUCCEEDED, FAILED = MemberState


def run(
    *,
    type: Literal["batch", "service"] = "batch",
    replicas: int = 2,
    phase: Phase = Phase.RUNNING,
    created: bool = True,
    restarts: int = 3,
    **status: Any,
) -> Run:
    """Return a run with a first attempt that was placed at noon."""
    attempt = Attempt(number=1, nodes=f"n[0-{replicas - 1}]", planned_at="2026-11-21T12:00:00Z", created=created)
    fresh = RunStatus(phase=phase, attempt=attempt, attempts=1, queued_at="2026-11-21T11:59:00Z")
    return Run(type, replicas, Limits(restarts=restarts), msgspec.structs.replace(fresh, **status))


def with_attempt(status: RunStatus, **changes: Any) -> RunStatus:
    """Return the status with other values in its attempt."""
    assert status.attempt is not None
    return msgspec.structs.replace(status, attempt=msgspec.structs.replace(status.attempt, **changes))


def member(rank: int, state: MemberState = RUNNING, *, attempt: int = 1, **more: Any) -> Member:
    """Return a member of the run bert on a node of its own, created at noon."""
    plain = Member(rank, attempt, f"bert-{attempt}-{rank}", f"uid-{attempt}-{rank}", state, f"n{rank}")
    return replace(plain, **({"created_at": "2026-11-21T12:00:00Z"} | more))


def failed(rank: int, reason: Reason = Reason.PROGRAM_FAILED, code: int | None = 1, **more: Any) -> Member:
    """Return a failed member with this exit code."""
    return member(rank, FAILED, reason=reason, exit_code=code, message=f"exit code {code}", **more)


def step(subject: Run, *members: Member, at: timedelta = timedelta()) -> Step:
    """Return the next step at noon or later, with these members."""
    return next_step(subject, members, NOW + at)


def after(subject: Run, answer: Step) -> Run:
    """Return the run once the step's status is stored."""
    return replace(subject, status=answer.status)


def kinds(answer: Step) -> list[type]:
    """Return the types of the actions."""
    return [type(action) for action in answer.actions]
