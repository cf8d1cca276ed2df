"""Evidence about nodes from runs: runs that failed on a node and worked elsewhere, and runs that a node slowed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache

from kajitori.core.formats.node_lists import expand
from kajitori.core.formats.times import parse_time
from kajitori.core.nodes.health import Failure
from kajitori.core.policy.nodes.health import NodeHealth
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import Notable
from kajitori.core.telemetry.stragglers import HARDWARE

_MAY_BE_THE_NODE = frozenset(
    {
        Reason.PROGRAM_FAILED.value,
        Reason.STUCK.value,
        Reason.CONTAINER_CONFIG.value,
        Reason.VOLUME.value,
        Reason.KUBELET_REFUSED.value,
        Reason.FIRST_STEP_FAILED.value,
    }
)
"""Reasons with which a member ends on a broken node.

Lost nodes are counted separately: a node that restarts takes many runs with it.
"""


_SHARE_OF_FAILURES, _SHARE_OF_FAILED_STARTS = 0.5, 0.6
"""Share of a run's failures that must be on one node to blame it. Starts fail for many reasons, so they need more."""

OUTAGE = timedelta(minutes=15)
"""Failed starts on many nodes within this time have one common cause, which is not the nodes."""


def failures_of(
    run: str, owner: str, status: RunStatus, health: NodeHealth, now: datetime
) -> Iterator[tuple[str, Failure]]:
    """Yield the nodes that a run's last failures blame, each with the failure.

    A node is blamed for a failed run if the run then worked elsewhere, and for a failed start if the run then
    started elsewhere. Only the member that caused the end of an attempt counts, not the members that ended with it.
    A run that fails on many nodes blames none of them.
    """
    attempt = status.attempt
    if not status.avoid_nodes or attempt is None or not health.failed_runs:
        return
    owner_text = f" ({owner})" if owner else ""
    failures, succeeded_on = sum(status.avoid_nodes.values()), set(expand(attempt.nodes))

    def blamed_at(note: Notable, share: float) -> datetime | None:
        """Return the time of the failure if it blames its node, else None."""
        is_blamed = status.avoid_nodes.get(note.node, 0) >= share * failures
        is_past = note.attempt < attempt.number and note.node not in succeeded_on
        return parse_time(note.since) if is_blamed and is_past else None

    for note in status.unstarted if not status.failed_starts else ():
        if (at := blamed_at(note, _SHARE_OF_FAILED_STARTS)) is not None:
            what = f"could not start at {note.since}: {note.message or 'it was not ready in time'}"
            text = f"run {run}{owner_text}: member {note.rank} of attempt {note.attempt} {what}"
            yield note.node, Failure(run, owner, at, text, at_start=True)
    proven = proven_at(status, health)
    if status.phase is not Phase.SUCCEEDED and (proven is None or proven > now):
        return
    for note in status.notable:
        if note.reason in _MAY_BE_THE_NODE and (at := blamed_at(note, _SHARE_OF_FAILURES)) is not None:
            why = f": {note.message}" if note.message else ""
            text = f"run {run}{owner_text}: member {note.rank} of attempt {note.attempt} failed at {note.since}{why}"
            yield note.node, Failure(run, owner, at, text)


def slow_on(run: str, owner: str, status: RunStatus) -> Iterator[tuple[str, Failure]]:
    """Yield the nodes on which members of a run were slower than their peers, each with the evidence.

    A run that was slow on several nodes, one attempt after another, blames none of them: its work is uneven. A lower
    clock, or a slower link, is the fault of its node all the same.
    """
    owner_text = f" ({owner})" if owner else ""
    nodes_of_ranks: dict[str, set[str]] = defaultdict(set)
    for place in status.slow:
        nodes_of_ranks[place.ranks].add(place.node)
    for place in status.slow:
        at, is_hardware = parse_time(place.at), place.sign in HARDWARE
        if at is None or not place.node or (len(nodes_of_ranks[place.ranks]) > 1 and not is_hardware):
            continue
        text = f"run {run}{owner_text}: {place.message}"
        yield place.node, Failure(run, owner, at, text, slow=run if is_hardware else f"rank {place.ranks}")


def without_outages(
    failures: Mapping[str, Sequence[Failure]], unstarted: Iterable[tuple[str, datetime]], nodes: int
) -> dict[str, list[Failure]]:
    """Return the failures of each node without failed starts that are part of an outage.

    Failed starts are an outage if they happened on several nodes, and on more than one node in a hundred, at about
    the same time. `unstarted` has the node and time of every failed start of any run; `nodes` is the number of
    nodes.
    """
    at_once: dict[int, set[str]] = defaultdict(set)
    for node, at in unstarted:
        at_once[_outage_window(at)].add(node)

    @cache
    def nodes_near(span: int) -> int:
        return len(set().union(*(at_once.get(span + offset, ()) for offset in (-1, 0, 1))))

    max_nodes = max(1, nodes // 100)
    kept = {
        node: [f for f in of_node if not f.at_start or nodes_near(_outage_window(f.at)) <= max_nodes]
        for node, of_node in failures.items()
    }
    return {node: of_node for node, of_node in kept.items() if of_node}


def unstarted_on(status: RunStatus) -> Iterator[tuple[str, datetime]]:
    """Yield the nodes on which a run could not start, with the time, whatever happened to the run since."""
    for note in status.unstarted:
        at = parse_time(note.since)
        if at is not None:
            yield note.node, at


def _outage_window(at: datetime) -> int:
    return int(at.timestamp() // OUTAGE.total_seconds())


def proven_at(status: RunStatus, health: NodeHealth) -> datetime | None:
    """Return when a running run will have proven its present nodes; None if it does not run, or never failed."""
    attempt: Attempt | None = status.attempt
    if not status.avoid_nodes or status.phase is not Phase.RUNNING or attempt is None:
        return None
    started = parse_time(attempt.started_at)
    return started + timedelta(seconds=health.proven_after_seconds) if started is not None else None
