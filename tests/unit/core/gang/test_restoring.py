"""The status of a run that is made again from a backup."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kajitori.core.gang.restoring import restored
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import MemberCounts, SweepState
from kajitori.core.spec.status_parts.usage import Holding, Usage

TAKEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HELD = Usage(first=10, open=[Holding(attempt=2, ranks="0-3")])
ATTEMPT = Attempt(number=2, nodes="n[1-4]", template="{}", created=True)


def status(phase: Phase, **changes: object) -> RunStatus:
    fields = {"queued_at": "2026-11-20T12:00:00Z", "attempts": 2, "attempt": ATTEMPT, "usage": HELD} | changes
    return RunStatus(phase=phase, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING, Phase.RESTARTING])
def test_a_run_with_members_is_queued_and_continues_with_its_next_attempt(phase: Phase) -> None:
    """It costs no restart, and the run says why it starts again. Its time limit begins anew with its next start."""
    before = status(phase, restarts=1, started_at="2026-11-20T13:00:00Z", members=MemberCounts(total=4, running=4))
    found = restored(before, TAKEN, NOW)
    assert (found.phase, found.reason, found.attempt, found.attempts) == (Phase.QUEUED, Reason.RESTORED, None, 2)
    assert found.message == "restored from the backup of 2026-11-21T12:00:00Z; it continues from its checkpoint"
    assert (found.restarts, found.interruptions, found.started_at) == (1, 1, "")
    assert found.setback is not None
    assert (found.setback.reason, found.setback.attempt) == ("Restored", 2)
    assert found.members == MemberCounts(total=4)


def test_a_waiting_run_keeps_its_place_in_the_queue() -> None:
    found = restored(status(Phase.QUEUED, attempt=None, attempts=0, usage=None), TAKEN, NOW)
    assert (found.phase, found.queued_at, found.interruptions) == (Phase.QUEUED, "2026-11-20T12:00:00Z", 0)


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED])
def test_an_ended_run_stays_as_it_ended(phase: Phase) -> None:
    """Only what belongs to the old cluster goes: what it held is in history."""
    before = status(phase, exit_code=3, finished_at="2026-11-21T11:00:00Z", message="exit code 3")
    found = restored(before, TAKEN, NOW)
    assert (found.phase, found.exit_code, found.finished_at, found.message) == (
        phase,
        3,
        before.finished_at,
        before.message,
    )
    assert found.usage is None
    assert found.attempt is not None
    assert (found.attempt.nodes, found.attempt.template) == ("n[1-4]", "")


def test_a_sweep_keeps_the_ends_of_its_members() -> None:
    """Members that ran start again, the others do not."""
    state = SweepState(succeeded="0-7", failed="9")
    found = restored(status(Phase.RUNNING, sweep=state), TAKEN, NOW)
    assert (found.sweep, found.attempt, found.attempts) == (state, None, 2)
