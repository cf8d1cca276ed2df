"""What runs tell about nodes: who failed where, and did well elsewhere afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache

from kajitori.core.nodes.health import Failure
from kajitori.core.policy.nodes import NodeHealth
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import Attempt, Notable, RunStatus
from kajitori.core.words.node_lists import expand
from kajitori.core.words.times import parse_time

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


_HALF, _MOST = 0.5, 0.6
"""The part of a run's failures that a node must have had: that a run did not start is soon said, and needs more."""

OUTAGE = timedelta(minutes=15)
"""Starts that fail on many nodes within so long of each other have one cause, and it is none of these nodes."""


def failures_of(
    run: str, owner: str, status: RunStatus, health: NodeHealth, now: datetime
) -> Iterator[tuple[str, Failure]]:
    """The nodes on which a run failed last, each with what is known of it, where it then did well elsewhere; and those
    on which it could not start, where it then started elsewhere.

    Only who was blamed for the end of an attempt counts, not the members that fell with him; and a run that fails on
    many nodes tells nothing about any of them.
    """
    attempt = status.attempt
    if not status.avoid_nodes or attempt is None or not health.failed_runs:
        return
    whose = f" ({owner})" if owner else ""
    failures, did_well_on = sum(status.avoid_nodes.values()), set(expand(attempt.nodes))

    def tells(note: Notable, share: float) -> datetime | None:
        """When it happened, if it tells something about its node."""
        blamed = status.avoid_nodes.get(note.node, 0) >= share * failures
        is_past = note.attempt < attempt.number and note.node not in did_well_on
        return parse_time(note.since) if blamed and is_past else None

    for note in status.unstarted if not status.failed_starts else ():
        if (at := tells(note, _MOST)) is not None:
            what = f"could not start at {note.since}: {note.message or 'it was not ready in time'}"
            told = f"run {run}{whose}: member {note.rank} of attempt {note.attempt} {what}"
            yield note.node, Failure(run, owner, at, told, at_start=True)
    proven = proven_at(status, health)
    if status.phase is not Phase.SUCCEEDED and (proven is None or proven > now):
        return
    for note in status.notable:
        if note.reason in _TELLS and (at := tells(note, _HALF)) is not None:
            said = f": {note.message}" if note.message else ""
            told = f"run {run}{whose}: member {note.rank} of attempt {note.attempt} failed at {note.since}{said}"
            yield note.node, Failure(run, owner, at, told)


def without_outages(
    failures: Mapping[str, Sequence[Failure]], unstarted: Iterable[tuple[str, datetime]], nodes: int
) -> dict[str, list[Failure]]:
    """What is told of each node, without starts that failed while they did on several, and on more than one in a
    hundred: something else broke then. unstarted: the nodes on which any run could not start, and when. nodes: how
    many there are."""
    at_once: dict[int, set[str]] = defaultdict(set)
    for node, at in unstarted:
        at_once[_span(at)].add(node)

    @cache
    def nodes_near(span: int) -> int:
        return len(set().union(*(at_once.get(span + offset, ()) for offset in (-1, 0, 1))))

    most = max(1, nodes // 100)
    kept = {
        node: [each for each in theirs if not each.at_start or nodes_near(_span(each.at)) <= most]
        for node, theirs in failures.items()
    }
    return {node: theirs for node, theirs in kept.items() if theirs}


def unstarted_on(status: RunStatus) -> Iterator[tuple[str, datetime]]:
    """The nodes on which a run could not start, and when; whatever became of it since."""
    for note in status.unstarted:
        at = parse_time(note.since)
        if at is not None:
            yield note.node, at


def _span(at: datetime) -> int:
    return int(at.timestamp() // OUTAGE.total_seconds())


def proven_at(status: RunStatus, health: NodeHealth) -> datetime | None:
    """When a run that goes on will have done well where it is now; None where it does not run, or never failed."""
    attempt: Attempt | None = status.attempt
    if not status.avoid_nodes or status.phase is not Phase.RUNNING or attempt is None:
        return None
    started = parse_time(attempt.started_at)
    return started + timedelta(seconds=health.proven_after_seconds) if started is not None else None
