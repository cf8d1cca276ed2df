"""Attempts and ranks that count as members of a run."""

from __future__ import annotations

import pytest

from kajitori.core.gang.membership import coverage
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import SweepState


def status(number: int, *, nodes: str = "n[0-2]", members: int = 0, sweep: bool = False, ranks: str = "") -> RunStatus:
    """Return a status, by default with a third attempt."""
    attempt = Attempt(number=number, nodes=nodes, ranks=ranks, world_size=members)
    state = SweepState() if sweep else None
    return RunStatus(phase=Phase.RUNNING, attempts=number, attempt=attempt, sweep=state)


def covered(subject: RunStatus | None, kind: str = "batch", indices: frozenset[int] | None = None) -> list[str]:
    """Return the members that count, of the first attempts and ranks, as `attempt-rank`."""
    found = coverage(subject, "service" if kind == "service" else "batch", indices)
    return [f"{attempt}-{rank}" for attempt in range(5) for rank in range(8) if found.covers(attempt, rank)]


@pytest.mark.parametrize("members", [0, 3])
def test_the_ranks_of_a_gangs_last_attempt_count(members: int) -> None:
    """Whatever size the spec gives the next one."""
    assert covered(status(2, members=members)) == ["2-0", "2-1", "2-2"]


def test_members_of_a_service_outlive_their_attempt() -> None:
    """An attempt that replaced one member has the ranks of all in its number of members."""
    replaced = status(2, nodes="n1", ranks="1", members=2)
    assert covered(replaced, "service") == ["1-0", "1-1", "2-0", "2-1"]


def test_a_sweeps_indices_count_in_every_attempt() -> None:
    begun = status(2, nodes="n1", ranks="4", members=1, sweep=True)
    assert covered(begun, indices=frozenset({4, 6})) == ["1-4", "1-6", "2-4", "2-6"]


def test_any_index_counts_for_a_sweep_with_an_edited_spec() -> None:
    """Its original indices are no longer known."""
    assert len(covered(status(1, sweep=True))) == 8


@pytest.mark.parametrize("waits", [None, RunStatus()])
def test_a_run_without_an_attempt_has_no_members(waits: RunStatus | None) -> None:
    assert covered(waits) == []


def test_a_damaged_status_covers_every_attempt_so_far() -> None:
    """Its members must still be found and ended."""
    assert covered(RunStatus(phase=Phase.FAILED, attempts=1)) == [f"1-{rank}" for rank in range(8)]
