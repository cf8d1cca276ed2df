"""What runs tell about nodes: who failed where, and did well elsewhere afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from kajitori.core.health import Failure
from kajitori.core.node_policy import NodeHealth
from kajitori.core.nodelist import expand
from kajitori.core.reasons import Phase, Reason
from kajitori.core.status import Attempt, RunStatus
from kajitori.core.times import parse_time

_TELLS = frozenset(
    {
        Reason.PROGRAM_FAILED.value,
        Reason.CONTAINER_CONFIG.value,
        Reason.VOLUME.value,
        Reason.KUBELET_REFUSED.value,
        Reason.FIRST_STEP_FAILED.value,
    }
)
"""How a member ends on a broken node. Lost nodes are counted by themselves: one that restarts takes many runs along."""


def failures_of(
    run: str, owner: str, status: RunStatus, health: NodeHealth, now: datetime
) -> Iterator[tuple[str, Failure]]:
    """The nodes on which a run failed last, each with what is known of it, where it then did well elsewhere.

    Only who was blamed for the end of an attempt counts, not the members that fell with him; and a run that fails on
    many nodes tells nothing about any of them.
    """
    attempt = status.attempt
    if not status.avoid_nodes or attempt is None or not health.failed_runs:
        return
    if status.phase is not Phase.SUCCEEDED:
        proven = proven_at(status, health)
        if proven is None or proven > now:
            return
    did_well_on = set(expand(attempt.nodes))
    failures = sum(status.avoid_nodes.values())
    for note in status.notable:
        at = parse_time(note.since)
        often = status.avoid_nodes.get(note.node, 0)
        blamed = 2 * often >= failures and note.node not in did_well_on
        if blamed and at is not None and note.reason in _TELLS and note.attempt < attempt.number:
            whose = f" ({owner})" if owner else ""
            said = f": {note.message}" if note.message else ""
            told = f"run {run}{whose}: member {note.rank} of attempt {note.attempt} failed at {note.since}{said}"
            yield note.node, Failure(run, owner, at, told)


def proven_at(status: RunStatus, health: NodeHealth) -> datetime | None:
    """When a run that goes on will have done well where it is now; None where it does not run, or never failed."""
    attempt: Attempt | None = status.attempt
    if not status.avoid_nodes or status.phase is not Phase.RUNNING or attempt is None:
        return None
    started = parse_time(attempt.started_at)
    return started + timedelta(seconds=health.proven_after_seconds) if started is not None else None
