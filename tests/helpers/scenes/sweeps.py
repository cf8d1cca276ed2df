"""Sweeps for tests of a run's life, and the requests of their steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from tests.helpers.scenes.gangs import step as step_at

from kajitori.core.gang import DeleteMember, Limits, Member, NeedsNodes, Run, Step, Sweep
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import SweepState

LATER = timedelta(seconds=2)


def sweep(count: int = 4, *, at_once: int = 0, stop_at: Any = "", restarts: int = 1, **status: Any) -> Run:
    """Return a sweep in its first attempt, with `at_once` members that were placed at noon."""
    at_once = at_once or count
    attempt = Attempt(
        number=1,
        nodes=f"n[0-{at_once - 1}]",
        ranks=f"0-{at_once - 1}",
        world_size=1,
        created=True,
        planned_at="2026-11-21T12:00:00Z",
    )
    fresh = RunStatus(
        phase=Phase.RUNNING,
        attempt=attempt,
        attempts=1,
        queued_at="2026-11-21T11:59:00Z",
        started_at="2026-11-21T12:00:00Z",
        sweep=SweepState(),
    )
    indices = Sweep(tuple(range(count)), at_once, stop_at)
    return Run("batch", count, Limits(restarts=restarts), msgspec.structs.replace(fresh, **status), sweep=indices)


def step(subject: Run, *members: Member, at: timedelta = LATER) -> Step:
    """Return the next step two seconds after noon, or at another time, with these members."""
    return step_at(subject, *members, at=at)


def asked_of(answer: Step) -> tuple[int, ...]:
    """Return the ranks that the step asks nodes for."""
    return next((action.ranks for action in answer.actions if isinstance(action, NeedsNodes)), ())


def taken_away(answer: Step) -> list[str]:
    """Return the Pods that the step deletes one by one."""
    return [action.pod for action in answer.actions if isinstance(action, DeleteMember)]
