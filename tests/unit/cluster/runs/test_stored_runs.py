"""What a stored Run asks for beside its program."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.cluster.runs.stored_runs import with_wishes
from kajitori.core import gang
from kajitori.core.gang import Limits
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.suspicions import IdleState


def wishes(phase: Phase = Phase.RUNNING, *, deleting: bool = False, parked_at: str = "", **spec: Any) -> gang.Run:
    idle = IdleState(since=parked_at, attempt=1, gpus=8, fewest=8, most=8, parked_at=parked_at) if parked_at else None
    status = RunStatus(phase=phase, resumes=1, idle=idle)
    life = gang.Run("batch", 1, Limits(stop_grace_seconds=0), status, deleting=deleting)
    return with_wishes(life, RunSpec(image="x", **{"resumes": 1, **spec}))


@pytest.mark.parametrize(
    ("run", "stopped", "restarting", "parked"),
    [
        (wishes(), False, False, False),
        (wishes(stopped=True), True, False, False),
        (wishes(resumes=2), True, True, False),
        (wishes(Phase.QUEUED, resumes=2), True, True, False),
        (wishes(Phase.STOPPED, resumes=2), False, False, False),
        (wishes(stopped=True, resumes=2), True, False, False),
        (wishes(stopped=True, parked=True), True, False, True),
        (wishes(parked_at="2026-11-21T12:00:00Z"), True, False, True),
        (wishes(parked_at="2026-11-21T12:00:00Z", resumes=2), True, True, False),
    ],
)
def test_a_run_with_a_start_to_come_is_stopped_first(
    run: gang.Run, stopped: bool, restarting: bool, parked: bool
) -> None:
    """Once it has ended, it is not: the counter then leads to its next start."""
    assert (run.stopped, run.restarting, run.parked) == (stopped, restarting, parked)


def test_the_grace_of_an_earlier_restart_is_not_that_of_policy_that_parks_the_run() -> None:
    """Otherwise a run that was killed and started again would be parked without time for a checkpoint."""
    own = Limits().last_grace_seconds
    assert wishes(parked_at="2026-11-21T12:00:00Z").limits.last_grace_seconds == own
    assert [wishes(resumes=2).limits.last_grace_seconds, wishes(deleting=True).limits.last_grace_seconds] == [1, 1]
